"""How many topics a token may make."""

from inorder_worker.store.migrations.adding import add_to_tokens

revision = "0009"
down_revision = "0008"

_OLD = (
    "id", "name", "role", "hash", "publish", "subscribe", "max_unconfirmed", "created_ms", "expires_ms", "revoked_ms",
    "internal", "by",
)  # fmt: skip


def upgrade() -> None:
    """Add the column."""
    add_to_tokens("max_topics", _OLD, at=7)
