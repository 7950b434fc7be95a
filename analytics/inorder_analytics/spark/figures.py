"""Sums and percentiles over events and over subscribers' receptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from inorder_analytics.spark.names import Names, without_copies

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTS: Final = (50, 90, 99)
_PARTS: Final = ("latency", "timestamp", "ens", "waiting", "clock_error")


def percentiles(values: DataFrame, *key: str) -> DataFrame:
    """Return ``ranked`` by key, where there are values: the 50th, 90th and 99th percentile by nearest rank and the
    maximum.

    Equal values are counted first, which can be put together from any parts; the counts are then summed in the order of
    the values. So no task holds a group: it is counted and sorted as any table of Spark's is, on the disk where it is
    large.

    Args:
        values: the key's columns and ``value``, a number; nulls do not count.
    """
    counts = values.where("value is not null").groupBy(*key, "value").agg(F.count(F.lit(1)).alias("times"))
    group = Window.partitionBy(*key)
    up_to = group.orderBy("value").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = counts.withColumns({"place": F.sum("times").over(up_to), "size": F.sum("times").over(group)})
    ranks = [F.min(F.when(F.col("place") * 100 >= F.col("size") * percent, F.col("value"))) for percent in PERCENTS]
    return placed.groupBy(*key).agg(F.array(*ranks, F.max("value")).alias("ranked"))


def _count(condition: Column) -> Column:
    return F.sum(F.coalesce(condition.cast("long"), F.lit(0)))


def by_topic(facts: DataFrame) -> DataFrame:
    """Return the sums for each run and topic, and the topic's last home stage.

    Args:
        facts: of :func:`~.events.events`.
    """
    negative = [
        F.coalesce(F.col(f"{name}_us") < 0, F.lit(False)) for name in ("latency", "timestamp", "ens", "waiting")
    ]
    no_bound = F.col("latency_us").isNotNull() & F.col("clock_error_us").isNull()
    latest = F.struct(F.coalesce("published_at", F.lit(0)), "number", "stage")
    sums = {
        "events": F.count(F.lit(1)),
        "late": F.sum("late"),
        "in_order": F.sum("in_order"),
        "asked": _count(F.col("is_asked")),
        "whole": _count(F.col("is_whole")),
        "negative": _count(negative[0] | negative[1] | negative[2] | negative[3]),
        "uncorrected": _count(no_bound),
        "stamp_bytes": F.sum("stamp_bytes"),
        "stamped": F.count("stamp_bytes"),
        "entries": F.sum("entries"),
        "with_entries": F.count("entries"),
        "stages": F.sum(F.col("entry_stage") - F.col("top_stage") + 1),
        "with_stages": F.count(F.col("entry_stage") - F.col("top_stage")),
        "topic_id": F.min("topic_id"),
        "home": F.max(F.when(F.col("stage").isNotNull(), latest)).getField("stage"),
    }
    return facts.groupBy("run", "label").agg(*(column.alias(name) for name, column in sums.items()))


def ranks(facts: DataFrame) -> DataFrame:
    """Return ``part``, for each part of the latency and for its error, and ``ranked``: its percentiles over all events,
    in microseconds."""
    return percentiles(facts.select(F.inline(F.array(*map(_part, _PARTS)))), "part")


def ranks_by(facts: DataFrame, window_us: int) -> DataFrame:
    """Return run, part, label, start_us, and ``ranked``, in microseconds. These are the percentiles of a run for each
    part of the latency and for its error; those of the latency by topic, then with a label, and by window, then with
    its start."""
    latency = F.col("latency_us").alias("value")
    none = {"label": F.lit(None).cast("string"), "start_us": F.lit(None).cast("long")}
    every = [_part(name, **none) for name in _PARTS]
    every.append(F.struct(F.lit("topic").alias("part"), F.col("label"), none["start_us"].alias("start_us"), latency))
    start = F.when(F.col("is_accepted"), _start(window_us)).alias("start_us")
    every.append(F.struct(F.lit("window").alias("part"), none["label"].alias("label"), start, latency))
    return percentiles(facts.select("run", F.inline(F.array(*every))), "run", "part", "label", "start_us")


def _part(name: str, **more: Column) -> Column:
    others = [column.alias(other) for other, column in more.items()]
    return F.struct(F.lit(name).alias("part"), *others, F.col(f"{name}_us").alias("value"))


def _start(window_us: int) -> Column:
    return F.col("published_at") - F.pmod("published_at", F.lit(window_us))


def by_window(facts: DataFrame, window_us: int) -> DataFrame:
    """Return for each run and window of the publish calls of accepted events: start_us, and sums."""
    known = facts.where(F.col("published_at").isNotNull() & F.col("is_accepted"))
    return known.groupBy("run", _start(window_us).alias("start_us")).agg(
        F.count(F.lit(1)).alias("events"),
        F.sum("late").alias("late"),
        F.sum("in_order").alias("in_order"),
        _count(F.col("is_asked")).alias("asked"),
        _count(F.col("is_whole")).alias("whole"),
    )


def paths(facts: DataFrame) -> DataFrame:
    """Return how many accepted events of a run took each way: home stage, entry and top stage (both or none)."""
    is_known = F.col("entry_stage").isNotNull() & F.col("top_stage").isNotNull()
    ends = {name: F.when(is_known, F.col(name)) for name in ("entry_stage", "top_stage")}
    return (
        facts.where("is_accepted and stage is not null")
        .withColumns(ends)
        .groupBy("run", "stage", "entry_stage", "top_stage")
        .agg(F.count(F.lit(1)).alias("events"))
    )


def by_subscriber(told: DataFrame) -> DataFrame:
    """Return by who: its notified, late, in_order and in_time events.

    Args:
        told: of :func:`~.reception.with_latency`.
    """
    return told.groupBy("who").agg(
        _count((F.col("late") + F.col("in_order")) > 0).alias("events"),
        F.sum("late").alias("late"),
        F.sum("in_order").alias("in_order"),
        _count(F.col("in_time")).alias("in_time"),
    )


def ranks_of_subscribers(told: DataFrame) -> DataFrame:
    """Return by who the percentiles of its latency as ``ranked``, in microseconds."""
    return percentiles(told.select("who", F.col("latency_us").alias("value")), "who")


def asked_of(accepted: DataFrame, found: DataFrame) -> DataFrame:
    """Return by who the number of accepted events within its interest.

    Many subscribers have the same interval of a topic: each is counted once.

    Args:
        accepted: of :func:`~.reception.published`.
        found: of :func:`~.interest.intervals`.
    """
    span = ["topic", "start", "end"]
    known = accepted.select(F.col("topic").alias("its_topic"), "number")
    is_in = (
        (F.col("topic") == F.col("its_topic")) & (F.col("number") > F.col("start")) & (F.col("number") <= F.col("end"))
    )
    counts = known.join(F.broadcast(found.select(*span).distinct()), is_in).groupBy(*span).count()
    return found.join(counts, span).groupBy("who").agg(F.sum("count").alias("asked"))


def gaps(rows: DataFrame) -> DataFrame:
    """Return by run and reason the numbers reported to subscribers as missing."""
    numbers = F.coalesce(F.col("last_number") - F.col("number") + 1, F.lit(1))
    return (
        without_copies(rows.where("kind = 'gap' and number is not null"))
        .groupBy("run", F.coalesce("detail", F.lit("")).alias("reason"))
        .agg(F.sum(numbers).alias("numbers"))
    )


def named_events(told: DataFrame, table: DataFrame, names: Names) -> DataFrame:
    """Return the events at places of delivered streams: who, delivered_place, label, number.

    Args:
        table: who and delivered_place, few rows.
    """
    labels = F.broadcast(names.topics_table.select("topic", "label"))
    return (
        told.join(F.broadcast(table), ["who", "delivered_place"])
        .join(labels, "topic")
        .select("who", "delivered_place", "label", "number")
    )
