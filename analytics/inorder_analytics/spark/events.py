"""One row for each event, from which the figures of runs, topics and windows are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from inorder_analytics.spark.names import Names
from inorder_analytics.spark.reception import EVENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def events(told: DataFrame, accepted: DataFrame, covered: DataFrame, names: Names) -> DataFrame:
    """Return one row for each event that was accepted or reached any subscriber.

    Columns: run, label (the topic's), topic_id, number; is_accepted; late, in_order (notifications); of accepted events
    published_at, is_asked (somebody was interested), is_whole (all of them were notified within a second), latency_us,
    timestamp_us, ens_us, waiting_us (see :class:`inorder_analytics.results.Summary`), clock_error_us, stage,
    entry_stage, top_stage, entries and stamp_bytes.

    Args:
        told: of :func:`~.reception.with_latency`.
        accepted: of :func:`~.reception.published`.
        covered: of :func:`~.interest.segments`.
    """
    last = F.struct(
        "notified.delivered_us", (-F.col("who")).alias("before"), "notified.arrived_us", "notified.subscriber_error_us"
    )
    by_event = told.groupBy(*EVENT).agg(
        F.sum("late").alias("late"),
        F.sum("in_order").alias("in_order"),
        F.sum(F.col("in_time").cast("int")).alias("in_time"),
        # Of several that were notified last, the one that sorts first.
        F.max(F.when(F.col("latency_us").isNotNull(), last)).alias("last"),
    )
    joined = by_event.join(accepted.withColumn("is_accepted", F.lit(True)), [*EVENT], "full")
    is_timed = F.col("latency_us").isNotNull()
    table = F.broadcast(names.topics_table.select("topic", "run", "topic_id", "label"))
    return (
        _asked(joined, covered)
        .withColumns(
            {
                "is_accepted": F.coalesce("is_accepted", F.lit(False)),
                "late": F.coalesce("late", F.lit(0)),
                "in_order": F.coalesce("in_order", F.lit(0)),
                "is_asked": F.col("is_accepted").isNotNull() & F.col("interested").isNotNull(),
                "latency_us": F.col("last.delivered_us") - F.col("published_us"),
            }
        )
        .withColumns(
            {
                "timestamp_us": F.when(is_timed, F.col("stamped_us") - F.col("published_us")),
                "is_whole": F.col("is_asked") & (F.coalesce("in_time", F.lit(0)) == F.col("interested")),
                "ens_us": F.when(is_timed, F.col("last.arrived_us") - F.col("stamped_us")),
                "waiting_us": F.when(is_timed, F.col("last.delivered_us") - F.col("last.arrived_us")),
                "clock_error_us": F.when(is_timed, F.col("publisher_error_us") + F.col("last.subscriber_error_us")),
            }
        )
        .join(table, ["topic"])
        .select(
            *("run", "label", "topic_id", "number", "is_accepted", "late", "in_order", "published_at"),
            *("is_asked", "is_whole", "latency_us", "timestamp_us", "ens_us", "waiting_us", "clock_error_us"),
            *("stage", "entry_stage", "top_stage", "entries", "stamp_bytes"),
        )
    )


def _asked(joined: DataFrame, covered: DataFrame) -> DataFrame:
    """Add the number of subscribers interested in an event, null for none."""
    table = F.broadcast(covered.withColumnRenamed("topic", "its_topic"))
    is_in = (
        (F.col("topic") == F.col("its_topic"))
        & (F.col("number") > F.col("above"))
        & (F.col("number") <= F.col("up_to"))
    )
    return joined.join(table, is_in, "left").drop("its_topic", "above", "up_to")
