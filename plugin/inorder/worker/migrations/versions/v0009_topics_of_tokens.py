"""How many topics a token may make."""

import sqlalchemy as sa
from alembic import op

from inorder.worker.chain import seal

revision = "0009"
down_revision = "0008"

_OLD = (
    "id", "name", "role", "hash", "publish", "subscribe", "max_unconfirmed", "created_ms", "expires_ms", "revoked_ms",
    "internal", "by",
)  # fmt: skip
_NEW = (*_OLD[:7], "max_topics", *_OLD[7:])


def upgrade() -> None:
    """Add the column; rows get the seal that it needs, but for those that were damaged."""
    op.add_column("tokens", sa.Column("max_topics", sa.BigInteger, nullable=True))
    types = {"internal": sa.Boolean}
    tokens = sa.table("tokens", *(sa.column(name, types.get(name)) for name in (*_NEW, "seal")))
    for row in op.get_bind().execute(sa.select(tokens)).mappings().all():
        if row["seal"] == seal("tokens", *(row[name] for name in _OLD)):
            sealed = seal("tokens", *(row[name] for name in _NEW))
            op.execute(tokens.update().where(tokens.c.id == row["id"]).values(seal=sealed))
