"""A table for what is published on topics with an event log (R18)."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add it, empty."""
    op.create_table(
        "event_log",
        sa.Column("topic", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stored_ms", sa.BigInteger, nullable=False),
        sa.Column("deps", sa.LargeBinary, nullable=True),
        sa.Column("content", sa.LargeBinary, nullable=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
