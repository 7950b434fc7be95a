"""What it takes to find out that a store is an older copy: a key for what clients are shown, and what was found."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add both columns; a store that is there gets its key."""
    for name in ("witness_key", "outdated"):
        op.add_column("meta", sa.Column(name, sa.Text, nullable=False, server_default=""))
    meta = sa.table("meta", sa.column("witness_key"))
    op.execute(meta.update().values(witness_key=secrets.token_hex(32)))
