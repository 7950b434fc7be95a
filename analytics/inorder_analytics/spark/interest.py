"""Who was to be notified of which numbers: what the traces tell of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from inorder_analytics.spark.names import NOTIFIED, Names, is_heard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOREVER: Final = (1 << 63) - 1
"""The end of a subscription that nobody ended."""
ALWAYS: Final = -1
"""The start of one whose start is not known; numbers begin at 1."""

_KEY: Final = ("run", "client", "incarnation", "domain", "topic_id")


def intervals(rows: DataFrame, names: Names) -> DataFrame:
    """Return the numbers that each subscriber was interested in: who, topic, start, end.

    A subscription covers the numbers above its start, up to the number at which the same incarnation next ended it
    (nothing, where the row of its end has no number), else all. Of a topic that no row tells a subscription of, whoever
    was notified of anything in it counts as interested in all. The intervals of one subscriber and topic are disjoint.
    """
    told = rows.where(F.col("kind").isin("subscribed", "unsubscribed") & F.col("domain").isNotNull())
    began = told.where(F.col("kind") == "subscribed").select(
        *_KEY, F.col("recorded_at").alias("began"), F.coalesce("number", F.lit(0)).alias("start")
    )
    ended = told.where(F.col("kind") == "unsubscribed").select(
        *_KEY, F.col("recorded_at").alias("ended"), F.col("number").alias("last")
    )
    matched = began.join(F.broadcast(ended), [*_KEY], "left").withColumn(
        "until", F.when(F.col("ended") >= F.col("began"), F.struct("ended", "last"))
    )
    spans = matched.groupBy(*_KEY, "began", "start").agg(F.min("until").alias("until"))
    end = F.when(F.col("until").isNull(), F.lit(FOREVER)).otherwise(F.coalesce("until.last", "start"))
    found = names.with_topic(names.with_client(spans.withColumn("end", end))).select("who", "topic", "start", "end")
    if not names.all_subscribed:
        found = found.unionByName(_presumed(rows, names))
    return _merged(found.where("end > start"))


def _presumed(rows: DataFrame, names: Names) -> DataFrame:
    heard = rows.where(is_heard() & F.col("verdict").isin(*NOTIFIED)).select("run", "client", "incarnation", *_KEY[3:])
    known = names.with_topic(names.with_client(heard), "has_subscribed").where(~F.col("has_subscribed"))
    ends = {"start": F.lit(ALWAYS).cast("long"), "end": F.lit(FOREVER)}
    return known.select("who", "topic").distinct().withColumns(ends)


def _merged(spans: DataFrame) -> DataFrame:
    """Join spans that touch: one begins a new interval where it starts above the ends of all before it."""
    by_start = Window.partitionBy("who", "topic").orderBy("start", "end")
    before = F.max("end").over(by_start.rowsBetween(Window.unboundedPreceding, -1))
    is_new = F.when(before.isNull() | (F.col("start") > before), 1).otherwise(0)
    return (
        spans.withColumn("is_new", is_new)
        .withColumn("island", F.sum("is_new").over(by_start))
        .groupBy("who", "topic", "island")
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
        .drop("island")
    )


def segments(found: DataFrame) -> DataFrame:
    """Return how many subscribers were interested in which numbers: topic, above, up_to, interested.

    Each number of a topic lies in one segment at most; numbers that nobody was interested in in none.
    """
    steps = found.select("topic", F.col("start").alias("at"), F.lit(1).alias("step")).unionByName(
        found.select("topic", F.col("end").alias("at"), F.lit(-1).alias("step"))
    )
    by_number = Window.partitionBy("topic").orderBy("at")
    return (
        steps.groupBy("topic", "at")
        .agg(F.sum("step").alias("step"))
        .select(
            "topic",
            F.col("at").alias("above"),
            F.lead("at").over(by_number).alias("up_to"),
            F.sum("step").over(by_number).alias("interested"),
        )
        .where("interested > 0")
    )
