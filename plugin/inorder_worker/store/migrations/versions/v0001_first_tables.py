"""The tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    _make_stages()
    _make_journal()
    _make_tokens()
    _make_history()
    _make_analyses()


def _make_stages() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("domain", sa.BigInteger, nullable=False),
        sa.Column("stages", sa.Integer, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("topic_order", sa.Text, nullable=False),
        sa.Column("witness_key", sa.Text, nullable=False),
        sa.Column("outdated", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "stages",
        sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "workers",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("pins", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
    )


def _make_journal() -> None:
    op.create_table(
        "journal",
        sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("prev_hash", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("entries", sa.LargeBinary, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("state_hash", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
    )
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


def _make_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("publish", sa.Text, nullable=True),
        sa.Column("subscribe", sa.Text, nullable=True),
        sa.Column("max_unconfirmed", sa.BigInteger, nullable=True),
        sa.Column("max_topics", sa.BigInteger, nullable=True),
        sa.Column("max_subscriptions", sa.BigInteger, nullable=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=True),
        sa.Column("revoked_ms", sa.BigInteger, nullable=True),
        sa.Column("internal", sa.Boolean, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
        sa.UniqueConstraint("hash", name="tokens_hash"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("csrf", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    )


def _make_history() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("via", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "order_history",
        sa.Column("order_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("stages", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "takeovers",
        sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )


def _make_analyses() -> None:
    op.create_table(
        "analytics_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=True),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("queued_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=True),
        sa.Column("ended_ms", sa.BigInteger, nullable=True),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("cancelled_by", sa.Text, nullable=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.Text, nullable=True),
        sa.Column("summary", sa.Text, nullable=True),
        sa.Column("result", sa.Text, nullable=True),
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("is_on", sa.Boolean, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("after_ms", sa.BigInteger, nullable=False),
        sa.Column("fired_ms", sa.BigInteger, nullable=True),
        sa.Column("seal", sa.Text, nullable=False),
        sa.UniqueConstraint("name", name="schedules_name"),
    )
