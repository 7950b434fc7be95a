"""Topics and clients as small numbers, so that events and subscribers are joined and sorted by integers.

Both tables are small, one row for each topic or incarnation of a run; they go through the driver once and are then
broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from inorder.traces.schema import DROPPED_VERDICTS
from inorder_analytics.clocks import EVER, clocks
from inorder_analytics.copies import KEY
from inorder_analytics.spark.arrays import collected, over_arrays

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NOTIFIED: Final = ("in_order", "late")
"""Verdicts of notifications of numbered events."""

ARRIVALS: Final = (*NOTIFIED, *DROPPED_VERDICTS)
"""Verdicts of arrivals of numbered events; of the others TNO promises nothing."""


_NEVER: Final = (1 << 63) - 1
_SESSION: Final = ("run", "client", "incarnation")
_CLIENTS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("client", pa.string()),
        ("incarnation", pa.int64()),
        ("who", pa.int32()),
        ("incarnation_rank", pa.int64()),
        ("since_us", pa.int64()),
        ("until_us", pa.int64()),
        ("offset_us", pa.int64()),
        ("error_us", pa.int64()),
    ]
)
_TOPICS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("domain", pa.int64()),
        ("topic_id", pa.int64()),
        ("topic", pa.int32()),
        ("label", pa.string()),
        ("has_subscribed", pa.bool_()),
    ]
)


def is_numbered() -> Column:
    """Return the condition that a row names an event."""
    return F.col("domain").isNotNull() & F.col("topic_id").isNotNull() & F.col("number").isNotNull()


def is_heard() -> Column:
    """Return the condition that a row is an arrival or a notification of a numbered event."""
    return (F.col("kind") == "notified") & F.col("verdict").isin(*ARRIVALS) & is_numbered()


def is_raw() -> Column:
    """... and came from the broker, in a known place of the raw stream."""
    return ~F.coalesce("repaired", F.lit(False)) & F.col("arrival_index").isNotNull()


def is_delivered() -> Column:
    """... and was notified in order, in a known place of the delivered stream."""
    return (F.col("verdict") == "in_order") & F.col("delivery_index").isNotNull()


def without_copies(rows: DataFrame) -> DataFrame:
    """Return each row once, however often it is there; only for few rows, as all are moved."""
    return rows.dropDuplicates(list(KEY))


def incarnations(rows: DataFrame) -> DataFrame:
    """Return one row for each incarnation of each client of each run.

    Columns: run, client, incarnation; first_at (us, its first row's); publishes, subscribes and streams (it published,
    it subscribed or was told of something, it has a stream).
    """
    is_told = (F.col("kind") == "notified") & ~F.coalesce(F.col("verdict").isin(*DROPPED_VERDICTS), F.lit(False))
    return rows.groupBy(*_SESSION).agg(
        F.min(F.coalesce("recorded_at", F.lit(0))).alias("first_at"),
        F.max(F.col("kind") == "published").alias("publishes"),
        F.max((F.col("kind") == "subscribed") | is_told).alias("subscribes"),
        F.max(F.coalesce(is_heard() & (is_raw() | is_delivered()), F.lit(False))).alias("streams"),
    )


def measured_clocks(rows: DataFrame) -> DataFrame:
    """Return by run, client and incarnation ``clocks``: the offsets of its clock by time
    (:func:`inorder_analytics.clocks.clocks`)."""

    def of_one(when: pa.Array, offset: pa.Array, error: pa.Array) -> Any:
        measured = zip(when.to_pylist(), offset.to_pylist(), error.to_pylist(), strict=True)
        return [each._asdict() for each in clocks(measured)]

    found = over_arrays(of_one, "array<struct<since long, offset long, error long>>")
    told = rows.where("kind = 'clock' and offset_us is not null and error_us is not null")
    times = F.coalesce("recorded_at", F.lit(0)).alias("at")
    return (
        told.select(*_SESSION, times, "offset_us", "error_us")
        .groupBy(*_SESSION)
        .agg(found("at", "offset_us", "error_us").alias("clocks"))
    )


def dropped(rows: DataFrame) -> DataFrame:
    """Return by run, client and incarnation ``dropped``: the number of rows that it could not record."""
    told = without_copies(rows.where("kind = 'dropped'"))
    return told.groupBy(*_SESSION).agg(F.sum("count").alias("dropped"))


def topics(rows: DataFrame) -> DataFrame:
    """Return one row for each topic of each run: run, domain, topic_id, label, has_subscribed.

    The label is space and name with a colon between; the least of them where rows differ.
    """
    topic = ("run", "domain", "topic_id")
    is_told = (F.col("kind") == "subscribed") & F.col("number").isNotNull()
    each_name = (
        rows.where(F.col("domain").isNotNull() & F.col("topic_id").isNotNull())
        .groupBy(*topic, "space", "topic")
        .agg(F.max(is_told).alias("has_subscribed"))
    )
    name = F.concat(F.coalesce("space", F.lit("")), F.lit(":"), "topic")
    return (
        each_name.groupBy(*topic)
        .agg(F.min(name).alias("label"), F.max("has_subscribed").alias("has_subscribed"))
        .withColumn("label", F.coalesce("label", F.concat(F.lit("topic "), F.col("topic_id").cast("string"))))
    )


@dataclass(frozen=True)
class Names:
    """Topics and clients with their numbers, which are valid within one analysis only.

    Attributes:
        clients: (run, client) by number.
        clients_table: run, client, incarnation, who (the client's number), incarnation_rank; from since_us on, below
            until_us, offset_us and error_us.
        topics_table: run, domain, topic_id, topic (its number), label, has_subscribed.
        incarnations: the rows of :func:`incarnations`, with what was dropped.
        all_subscribed: each topic has rows that tell who subscribed to it.
    """

    clients: list[tuple[str, str]]
    clients_table: DataFrame
    topics_table: DataFrame
    incarnations: list[dict[str, Any]]
    all_subscribed: bool

    def with_client(self, rows: DataFrame) -> DataFrame:
        """Add who, incarnation_rank, and the clock's offset_us and error_us at their time to rows."""
        table, when = F.broadcast(self.clients_table), F.coalesce("recorded_at", F.lit(0))
        joined = rows.drop("offset_us", "error_us").join(table, [*_SESSION])
        return joined.where((when >= F.col("since_us")) & (when < F.col("until_us"))).drop("since_us", "until_us")

    def with_topic(self, rows: DataFrame, *columns: str) -> DataFrame:
        """Replace the topic's name in rows of numbered events by its number, and add further columns of the table."""
        table = F.broadcast(self.topics_table.select("run", "domain", "topic_id", F.col("topic"), *columns))
        return rows.drop("topic", *columns).join(table, ["run", "domain", "topic_id"])


def named(session: SparkSession, rows: DataFrame) -> Names:
    """Number the topics and clients of rows: by run, then by id; incarnations by their first row, then by number."""
    told, known, lost, measured = collected(incarnations(rows), topics(rows), dropped(rows), measured_clocks(rows))
    dropped_of = {_session(each): each["dropped"] for each in lost}
    clocks_of = {_session(each): each["clocks"] for each in measured}
    told.sort(key=lambda each: (each["run"], each["client"], each["first_at"] or 0, each["incarnation"]))
    clients = sorted({(each["run"], each["client"]) for each in told})
    numbers = {client: at for at, client in enumerate(clients)}
    ranks: dict[int, int] = {}
    for each in told:
        each["dropped"] = dropped_of.get(_session(each), 0)
        each["who"] = numbers[each["run"], each["client"]]
        each["incarnation_rank"] = ranks[each["who"]] = ranks.get(each["who"], -1) + 1
    known.sort(key=lambda each: (each["run"], each["domain"], each["topic_id"]))
    table = [{**each, "topic": at} for at, each in enumerate(known)]
    by_time = [row for each in told for row in _by_time(each, clocks_of.get(_session(each), ()))]
    return Names(
        clients,
        session.createDataFrame(pa.Table.from_pylist(by_time, _CLIENTS)),
        session.createDataFrame(pa.Table.from_pylist(table, _TOPICS)),
        told,
        all(each["has_subscribed"] for each in known),
    )


def _session(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SESSION)


def _by_time(row: dict[str, Any], known: Sequence[dict[str, int]]) -> Iterator[dict[str, Any]]:
    """Return a row for each offset of an incarnation's clock, or one row without an offset."""
    if not known:
        yield {**row, "since_us": EVER, "until_us": _NEVER, "offset_us": None, "error_us": None}
    for at, each in enumerate(known):
        until = known[at + 1]["since"] if at + 1 < len(known) else _NEVER
        times = {"since_us": each["since"], "until_us": until}
        yield {**row, **times, "offset_us": each["offset"], "error_us": each["error"]}
