"""Which workers there are, standbys too."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table; workers enter themselves."""
    op.create_table(
        "workers",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("pins", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
    )
