"""The topic order of a new store, and where each stage's owner is reached."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add them; the defaults are what older stores have."""
    op.add_column("meta", sa.Column("topic_order", sa.Text, nullable=False, server_default="[]"))
    op.add_column("stages", sa.Column("address", sa.Text, nullable=False, server_default=""))
