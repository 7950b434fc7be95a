"""How many durable subscriptions a token may have."""

from inorder_worker.store.migrations.adding import add_to_tokens

revision = "0010"
down_revision = "0009"

_OLD = (
    "id", "name", "role", "hash", "publish", "subscribe", "max_unconfirmed", "max_topics", "created_ms", "expires_ms",
    "revoked_ms", "internal", "by",
)  # fmt: skip


def upgrade() -> None:
    """Add the column."""
    add_to_tokens("max_subscriptions", _OLD, at=8)
