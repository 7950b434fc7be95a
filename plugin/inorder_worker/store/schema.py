"""The tables of the store, and the schema version of this release.

``Table`` definitions are the truth for new stores; a store of an older version is brought up by the steps in
``migrations``, which tests prove to end at these same tables, and one of a newer version is refused. Only plain types,
so that SQLite and PostgreSQL hold the same bytes.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = 1
"""As a number; as Alembic's revision it has four digits."""

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False, comment="always 1"),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("domain", sa.BigInteger, nullable=False, comment="32 random bits, made with the store"),
    sa.Column("stages", sa.Integer, nullable=False, comment="number of stages, fixed when the store is made"),
    sa.Column("created", sa.Text, nullable=False, comment="ISO 8601, UTC; for people only"),
    sa.Column("topic_order", sa.Text, nullable=False, comment="JSON: topics of each stage"),
    sa.Column("witness_key", sa.Text, nullable=False, comment="hexadecimal; see attesting"),
    sa.Column("outdated", sa.Text, nullable=False, comment="how it was found an older copy, if so"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns but id"),
)

stages = sa.Table(
    "stages",
    metadata,
    sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False, comment="0 is the top"),
    sa.Column("epoch", sa.BigInteger, nullable=False, comment="rises at each take-over"),
    sa.Column("owner", sa.Text, nullable=False, comment="the process that claimed it last; empty: it let it go"),
    sa.Column("address", sa.Text, nullable=False, comment="host:port that the owner advertises"),
    sa.Column("beat", sa.BigInteger, nullable=False, comment="rises while the owner lives"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)

journal = sa.Table(
    "journal",
    metadata,
    sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False, comment="1, 2, 3, ... per stage"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("prev_hash", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False, comment="SHA-256 over prev_hash and the other columns"),
    sa.Column("entries", sa.LargeBinary, nullable=False, comment="one group commit of commands"),
    sa.Column("format", sa.Integer, nullable=False, comment="of the entries; see chain.ROW_FORMAT"),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False, comment="the last journal row it covers"),
    sa.Column("hash", sa.LargeBinary, nullable=False, comment="hash of that journal row"),
    sa.Column("state_hash", sa.LargeBinary, nullable=False, comment="SHA-256 over the other columns"),
    sa.Column("state", sa.LargeBinary, nullable=False),
    sa.Column("format", sa.Integer, nullable=False, comment="of the state"),
)

event_log = sa.Table(
    "event_log",
    metadata,
    sa.Column("topic", sa.BigInteger, primary_key=True, autoincrement=False, comment="its id"),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("stored_ms", sa.BigInteger, nullable=False, comment="ms since 1970, by the clock of the worker"),
    sa.Column(
        "deps",
        sa.LargeBinary,
        nullable=True,
        comment="MessagePack, with the ticks, if any; null while the timestamp rides up",
    ),
    sa.Column("content", sa.LargeBinary, nullable=True, comment="null: the publisher did not send it"),
    sa.Column("size", sa.BigInteger, nullable=False, comment="bytes of the content"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True, comment="one process start of a worker, as in stages.owner"),
    sa.Column("address", sa.Text, nullable=False, comment="host:port that it advertises"),
    sa.Column("beat", sa.BigInteger, nullable=False, comment="rises while it lives"),
    sa.Column("pins", sa.Text, nullable=False, comment="JSON: the stages that it may have; empty: all"),
    sa.Column("rows", sa.Text, nullable=False, comment="JSON: stage -> last row it follows; for people and hand-overs"),
)
"""Who is there, standbys too. Only hints: nothing that must survive, so it is neither sealed nor in backups."""

# -- the control plane -------------------------------------------------------------------------------------------------
# Rows of these are written by ``records``, which seals them.

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, comment="for people"),
    sa.Column("role", sa.Text, nullable=False, comment="viewer, operator, admin or client"),
    sa.Column("hash", sa.Text, nullable=False, comment="SHA-256 of the secret, in hexadecimal; the secret is nowhere"),
    sa.Column("publish", sa.Text, nullable=True, comment="JSON: list of space:filter; null: all topics"),
    sa.Column("subscribe", sa.Text, nullable=True, comment="JSON: list of space:filter; null: all topics"),
    sa.Column("max_unconfirmed", sa.BigInteger, nullable=True, comment="open numbers of a session; null: no bound"),
    sa.Column("max_topics", sa.BigInteger, nullable=True, comment="that it may make; 0: any; null: as workers are set"),
    sa.Column("max_subscriptions", sa.BigInteger, nullable=True, comment="durable ones, at a time; 0 and null alike"),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_ms", sa.BigInteger, nullable=True, comment="null: never"),
    sa.Column("revoked_ms", sa.BigInteger, nullable=True),
    sa.Column("internal", sa.Boolean, nullable=False, comment="of a control plane, which keeps the audit log itself"),
    sa.Column("by", sa.Text, nullable=False, comment="who made it"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
    sa.UniqueConstraint("hash", name="tokens_hash"),
)

browser_sessions = sa.Table(
    "browser_sessions",
    metadata,
    sa.Column("hash", sa.Text, primary_key=True, comment="SHA-256 of the cookie, in hexadecimal"),
    sa.Column("token_id", sa.Text, nullable=False),
    sa.Column("csrf", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_ms", sa.BigInteger, nullable=False),
)
"""Who is logged in. Nothing that must survive: neither sealed nor in backups."""

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("who", sa.Text, nullable=False, comment="name of the token; the client's id where there is none"),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("via", sa.Text, nullable=False, comment="rest or worker"),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False, comment="JSON"),
    sa.Column("outcome", sa.Text, nullable=False, comment="started, done, refused or unknown"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)

order_history = sa.Table(
    "order_history",
    metadata,
    sa.Column("order_epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, comment="start, manual or automatic"),
    sa.Column("who", sa.Text, nullable=False, comment="who asked for it; empty: nobody"),
    sa.Column("stages", sa.Text, nullable=False, comment="JSON: ids of the topics of each stage, from the top"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)
"""The topic orders that there were (R14), written in the commit of the bottom stage's switch."""

takeovers = sa.Table(
    "takeovers",
    metadata,
    sa.Column("stage", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False, comment="the one that began with it"),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, comment="claim, takeover or handover"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)
"""Who has had which stage since when, written in the transaction of the claim."""

analytics_runs = sa.Table(
    "analytics_runs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False, comment="analyze"),
    sa.Column("source", sa.Text, nullable=False, comment="where the traces are"),
    sa.Column("job", sa.Text, nullable=False, comment="JSON: what is to be done"),
    sa.Column("schedule", sa.Text, nullable=True, comment="id of the schedule that was due; null: somebody asked"),
    sa.Column("by", sa.Text, nullable=False, comment="who asked for it, or made the schedule"),
    sa.Column("queued_ms", sa.BigInteger, nullable=False),
    sa.Column("started_ms", sa.BigInteger, nullable=True),
    sa.Column("ended_ms", sa.BigInteger, nullable=True),
    sa.Column("outcome", sa.Text, nullable=False, comment="queued, running, done, failed or cancelled"),
    sa.Column("reason", sa.Text, nullable=False, comment="why it failed or was cancelled, else empty"),
    sa.Column("cancelled_by", sa.Text, nullable=True, comment="who wants it to end; null: nobody"),
    sa.Column("owner", sa.Text, nullable=False, comment="the process that runs it (see identity); empty: none yet"),
    sa.Column("beat", sa.BigInteger, nullable=False, comment="rises while the owner lives"),
    sa.Column("progress", sa.Text, nullable=True, comment="JSON: step, of, what"),
    sa.Column("summary", sa.Text, nullable=True, comment="JSON: the figures of the result that lists show"),
    sa.Column("result", sa.Text, nullable=True, comment="JSON: the result, of a bounded size"),
    sa.Column("log", sa.Text, nullable=False, comment="the last lines that the job said"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
)

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, comment="for people"),
    sa.Column("cron", sa.Text, nullable=False, comment="five fields"),
    sa.Column("timezone", sa.Text, nullable=False, comment="in which cron is meant, as the IANA names it"),
    sa.Column("job", sa.Text, nullable=False, comment="JSON: what is to be done"),
    sa.Column("is_on", sa.Boolean, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("by", sa.Text, nullable=False, comment="who made it"),
    sa.Column("after_ms", sa.BigInteger, nullable=False, comment="it is due at the first time of cron after this one"),
    sa.Column("fired_ms", sa.BigInteger, nullable=True, comment="when it last made a run; null: never"),
    sa.Column("seal", sa.Text, nullable=False, comment="SHA-256 over the other columns"),
    sa.UniqueConstraint("name", name="schedules_name"),
)

RECORDS: Final = (tokens, audit, order_history, takeovers, analytics_runs, schedules)
"""Tables whose rows are sealed one by one by ``records``."""
FLEETING: Final = (workers, browser_sessions)
"""Tables that keep nothing: they are not sealed, and in no backup."""

alembic_version = sa.Table(
    "alembic_version",
    metadata,
    sa.Column("version_num", sa.String(32), primary_key=True, comment="SCHEMA_VERSION in four digits"),
)


def revision(version: int) -> str:
    """Return a schema version as Alembic's revision."""
    return f"{version:04d}"
