"""The columns of a trace as data, for writers, readers and jobs.

A column keeps its name and its type for ever; new ones are added at the end and may be missing in older files, where
they read as null. All integers are signed and have 64 bits, all times are instants in UTC with microseconds. What
stands in no column is not recorded: payloads and tokens are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SCHEMA_VERSION: Final = 1
"""Stands in every row; it rises when a column is added, or when the meaning of one changes."""

Type = Literal["integer", "text", "boolean", "instant", "integers"]
"""``integers`` is a list; ``instant`` is a time in UTC with microseconds."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        since: the first schema version that has it.
        about: what stands in it; null wherever that says nothing about the row's kind.
    """

    name: str
    type: Type
    about: str
    since: int = 1


KINDS: Final = ("opened", "published", "notified", "gap", "subscribed", "unsubscribed", "clock", "dropped")
"""What a row tells of: a client began; a publish ended; a notification, or an arrival that was dropped; a gap; a
topic's subscription began or ended; the clock's offset; rows that could not be recorded."""

OUTCOMES: Final = ("accepted", "cancelled", "refused", "forgotten", "abandoned", "failed", "unknown")
"""How a publish ended: the broker took it; its caller gave up; the worker or the broker refused it; the worker does not
know its session any more; its number was abandoned; it failed otherwise; nobody knows whether the broker took it."""

DROPPED_VERDICTS: Final = ("duplicate", "before")
"""Beside the verdicts of notifications: arrivals that were dropped, as repetitions or as older than the subscription's
start."""

COLUMNS: Final = (
    Column("schema_version", "integer", "version of this table"),
    Column("run", "text", "which run the row belongs to"),
    Column("client", "text", "client id"),
    Column("incarnation", "integer", "of the client: each start has another"),
    Column("kind", "text", "what the row tells of: " + ", ".join(KINDS)),
    Column("recorded_at", "instant", "when the row was made, or its clock compared, by the client's clock"),
    Column("space", "text", "the topic's space"),
    Column("topic", "text", "the topic's name"),
    Column("domain", "integer", "the domain whose numbers these are"),
    Column("topic_id", "integer", "the topic's id in its domain"),
    Column("number", "integer", "the event's number in its topic; the first of a gap; where a subscription began"),
    Column("last_number", "integer", "the last number of a gap"),
    Column("counter", "integer", "published: the event's counter within its publisher"),
    Column("ordering", "text", "published: total, fifo or none"),
    Column("outcome", "text", "published: " + ", ".join(OUTCOMES)),
    Column("verdict", "text", "notified: the notification's verdict, or why the arrival was dropped"),
    Column("detail", "text", "gap: its reason; opened: the mode, strict, bounded or tag"),
    Column("published_at", "instant", "published: when publish was called"),
    Column("stamped_at", "instant", "published: when the timestamp came"),
    Column("accepted_at", "instant", "published: when the broker had accepted the event"),
    Column("arrived_at", "instant", "notified: when the broker notified this client"),
    Column("delivered_at", "instant", "notified: when the application was notified"),
    Column("arrival_index", "integer", "notified: which arrival it was, from 1, over all topics of the incarnation"),
    Column("delivery_index", "integer", "notified, gap: which notification it was, from 1, likewise"),
    Column("waited_us", "integer", "notified: how long it waited for its turn, in microseconds"),
    Column("waited_topic_id", "integer", "notified: the topic of the number that it waited for last"),
    Column("waited_number", "integer", "notified: that number"),
    Column("retained", "boolean", "notified: the broker sent it from its store"),
    Column("redelivered", "boolean", "notified: it may have been notified before"),
    Column("repaired", "boolean", "notified: it came from the topic's event log"),
    Column("payload_size", "integer", "bytes of the payload"),
    Column("dependencies", "integers", "of the timestamp: topic id, number, topic id, number, ..."),
    Column("entries", "integer", "published: entries of the timestamp, its own number included"),
    Column("stamp_bytes", "integer", "published: bytes of the timestamp as it travelled with the event"),
    Column("stage", "integer", "published: the stage of the event's topic, 0 is the top"),
    Column("entry_stage", "integer", "published: the stage that the request entered"),
    Column("top_stage", "integer", "published: the highest stage that the timestamp visited"),
    Column("offset_us", "integer", "clock: the worker's clock minus this one, in microseconds"),
    Column("error_us", "integer", "clock: the bound of that value's error, in microseconds"),
    Column("count", "integer", "dropped: rows that were not recorded since the last such row"),
)
"""The order of the columns in new files."""

NAMES: Final = tuple(column.name for column in COLUMNS)
