"""The reception of each event by each subscriber: one row for both, however often the event came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from inorder_analytics.spark.names import NOTIFIED, Names, is_delivered, is_heard, is_raw

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENT: Final = ("topic", "number")
"""What an event is known by: its topic's number (with its run and domain in it) and its own."""

INDEX_BITS: Final = 40
"""A place in a stream is the incarnation's rank and below it the index that the client counted, in so many bits."""

SECOND_US: Final = 1_000_000
_NEVER: Final = (1 << 63) - 1


def published(rows: DataFrame, names: Names) -> DataFrame:
    """Return one row for each event that the broker accepted, by its first publish. Columns: topic, number, and
    published_us and stamped_us (corrected), published_at (by the publisher's clock), publisher_error_us, stage,
    entry_stage, top_stage, entries and stamp_bytes."""
    entries = F.coalesce("entries", (1 + F.size("dependencies") / 2).cast("long"))
    accepted = rows.where(
        (F.col("kind") == "published")
        & (F.col("outcome") == "accepted")
        & (F.coalesce("ordering", F.lit("total")) == "total")
        & F.col("domain").isNotNull()
        & F.col("topic_id").isNotNull()
        & F.col("number").isNotNull()
    )
    told = names.with_topic(names.with_client(accepted)).select(
        *EVENT,
        F.struct(
            F.coalesce("published_at", F.lit(_NEVER)).alias("called_at"),
            "who",
            "incarnation",
            "counter",
            _corrected("published_at").alias("published_us"),
            _corrected("stamped_at").alias("stamped_us"),
            "published_at",
            F.col("error_us").alias("publisher_error_us"),
            "stage",
            "entry_stage",
            "top_stage",
            entries.alias("entries"),
            "stamp_bytes",
        ).alias("told"),
    )
    return (
        told.groupBy(*EVENT)
        .agg(F.min("told").alias("told"))
        .select(*EVENT, "told.*")
        .drop("called_at", "who", "incarnation", "counter")
    )


def receptions(rows: DataFrame, names: Names) -> DataFrame:
    """Return one row for each event and subscriber that it reached.

    Columns: topic, number, who; raw_place and delivered_place (where it stands in the two streams, ``None`` where it
    does not); late and in_order (notifications so marked); notified: (place, delivered_us, arrived_us,
    subscriber_error_us) of the first notification, corrected by the client's clock.
    """
    place = F.col("incarnation_rank") * (1 << INDEX_BITS)
    notified = F.struct(
        (place + F.coalesce("delivery_index", F.lit(0))).alias("place"),
        _corrected("delivered_at").alias("delivered_us"),
        _corrected("arrived_at").alias("arrived_us"),
        F.col("error_us").alias("subscriber_error_us"),
    )
    told = names.with_topic(names.with_client(rows.where(is_heard()))).select(
        *EVENT,
        "who",
        "recorded_at",
        F.when(is_raw(), place + F.col("arrival_index")).alias("raw_place"),
        F.when(is_delivered(), place + F.col("delivery_index")).alias("delivered_place"),
        (F.col("verdict") == "late").cast("int").alias("late"),
        (F.col("verdict") == "in_order").cast("int").alias("in_order"),
        F.when(F.col("verdict").isin(*NOTIFIED), notified).alias("notified"),
    )
    # By event alone: whatever is done by event later finds its rows together, and sorted. Copies of a row do, too.
    return (
        told.repartition(*EVENT)
        .distinct()
        .groupBy(*EVENT, "who")
        .agg(
            F.min("raw_place").alias("raw_place"),
            F.min("delivered_place").alias("delivered_place"),
            F.sum("late").alias("late"),
            F.sum("in_order").alias("in_order"),
            F.min("notified").alias("notified"),
        )
    )


def with_latency(told: DataFrame, accepted: DataFrame, found: DataFrame) -> DataFrame:
    """Add to receptions: interested (the subscriber was, in this number), and for accepted events of interest
    latency_us (from the publish call to the notification) and in_time (that took a second at most).

    Args:
        told, accepted, found: of :func:`receptions`, :func:`published` and :func:`~.interest.intervals`.
    """
    spans = F.broadcast(found.withColumnsRenamed({"who": "its_who", "topic": "its_topic"}))
    is_covered = (
        (F.col("who") == F.col("its_who"))
        & (F.col("topic") == F.col("its_topic"))
        & (F.col("number") > F.col("start"))
        & (F.col("number") <= F.col("end"))
    )
    latency = F.when(F.col("interested"), F.col("notified.delivered_us") - F.col("published_us"))
    return (
        told.join(spans, is_covered, "left")
        .withColumn("interested", F.col("its_who").isNotNull())
        .drop("its_who", "its_topic", "start", "end")
        .join(accepted.select(*EVENT, "published_us"), [*EVENT], "left")
        .withColumn("latency_us", latency)
        .withColumn("in_time", F.coalesce(F.col("latency_us") <= SECOND_US, F.lit(False)))
        .drop("published_us")
    )


def _corrected(name: str) -> Column:
    """Return an instant by the worker's clock; an unknown offset counts as none."""
    return F.col(name) + F.coalesce("offset_us", F.lit(0))
