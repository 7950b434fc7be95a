"""Subscribers' interest in numbers, from the recorded subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from inorder_analytics.spark.names import NOTIFIED, Names, is_heard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOREVER: Final = (1 << 63) - 1
"""The end of a subscription that nobody ended."""
NOTHING: Final = -1
"""Below all numbers: the start of a subscription whose start is not known, and the end of one whose end is not."""

_KEY: Final = ("who", "topic")


def intervals(rows: DataFrame, names: Names) -> DataFrame:
    """Return the numbers that each subscriber was interested in: who, topic, start, end.

    A subscription covers the numbers above its start, up to the least number at which the client ended one of the
    topic later (none at all, where the row of an end has no number), else all. Of a topic that no row tells a
    subscription of, whoever was notified of anything in it counts as interested in all. The intervals of one subscriber
    and topic are disjoint.
    """
    is_topic = F.col("domain").isNotNull() & F.col("topic_id").isNotNull()
    told = rows.where(F.col("kind").isin("subscribed", "unsubscribed") & is_topic)
    at = F.struct("incarnation_rank", F.coalesce("recorded_at", F.lit(0)).alias("recorded_at"))
    known = names.with_topic(names.with_client(told)).withColumn("at", at)
    began = known.where("kind = 'subscribed' and number is not null").select(
        *_KEY, F.col("at").alias("began"), F.col("number").alias("start")
    )
    ended = known.where("kind = 'unsubscribed'").select(
        *_KEY, F.col("at").alias("ended"), F.coalesce("number", F.lit(NOTHING)).alias("last")
    )
    last = F.min(F.when(F.col("ended") > F.col("began"), F.col("last")))
    spans = began.join(ended, [*_KEY], "left").groupBy(*_KEY, "began", "start").agg(last.alias("end"))
    found = spans.select(*_KEY, "start", F.coalesce("end", F.lit(FOREVER)).alias("end"))
    if not names.all_subscribed:
        found = found.unionByName(_presumed(rows, names))
    return _merged(found.where("end > start"))


def _presumed(rows: DataFrame, names: Names) -> DataFrame:
    heard = rows.where(is_heard() & F.col("verdict").isin(*NOTIFIED))
    known = names.with_topic(names.with_client(heard), "has_subscribed").where(~F.col("has_subscribed"))
    ends = {"start": F.lit(NOTHING).cast("long"), "end": F.lit(FOREVER)}
    return known.select(*_KEY).distinct().withColumns(ends)


def _merged(spans: DataFrame) -> DataFrame:
    """Join spans that touch: a new interval begins at a start above the ends of all spans before."""
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
