"""A format for each journal row and snapshot, and seals for the rows that have no hash (set by ``upgrading``)."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add them; format 0 says that the row is from before."""
    for table in ("journal", "snapshots"):
        op.add_column(table, sa.Column("format", sa.Integer, nullable=False, server_default="0"))
    for table in ("meta", "stages"):
        op.add_column(table, sa.Column("seal", sa.Text, nullable=False, server_default=""))
