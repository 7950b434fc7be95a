"""Sums and percentiles over events and over what subscribers heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from inorder_analytics.spark.arrays import over_arrays
from inorder_analytics.spark.names import Names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTS: Final = (50, 90, 99)


def percentiles(values: Column) -> Column:
    """Return the 50th, 90th and 99th percentile by nearest rank and the maximum, of the values that are not null, as a
    list; empty where there are none.

    On arrays in Python: of two million values 3 s on two busy processors, where Spark's own ``percentile_disc`` took
    12 s, as did ranks by a window. A group must fit into a task's memory, at 8 bytes a value.
    """

    def ranked(values: pa.Array) -> list[int]:
        known = values.drop_null().to_numpy()
        size = len(known)
        if size == 0:
            return []
        at = [-(-size * percent // 100) - 1 for percent in PERCENTS] + [size - 1]
        return [int(each) for each in np.partition(known, sorted(set(at)))[at]]

    return over_arrays(ranked, "array<long>")(values)


def _count(condition: Column) -> Column:
    return F.sum(F.coalesce(condition.cast("long"), F.lit(0)))


def by_topic(facts: DataFrame) -> DataFrame:
    """Return for each run and topic what can be added up, and the stage where the topic was at home last.

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


def latencies(facts: DataFrame, *key: str) -> DataFrame:
    """Return by key the percentiles of the end-to-end latency, in microseconds."""
    return facts.groupBy(*key).agg(percentiles(F.col("latency_us")).alias("latency"))


def all_latencies(facts: DataFrame, *key: str) -> DataFrame:
    """Return by key (without one, over all) the percentiles of each part of the latency, and of its error."""
    names = ("latency", "timestamp", "ens", "waiting", "clock_error")
    return facts.groupBy(*(key or (F.lit(0).alias("all"),))).agg(
        *(percentiles(F.col(f"{name}_us")).alias(name) for name in names)
    )


def by_window(facts: DataFrame, window_us: int) -> DataFrame:
    """Return for each run and window of the publish calls of accepted events: start_us, sums and percentiles."""
    start = F.col("published_at") - F.pmod("published_at", F.lit(window_us))
    known = facts.where(F.col("published_at").isNotNull() & F.col("is_accepted")).withColumn("start_us", start)
    sums = known.groupBy("run", "start_us").agg(
        F.count(F.lit(1)).alias("events"),
        F.sum("late").alias("late"),
        F.sum("in_order").alias("in_order"),
        _count(F.col("is_asked")).alias("asked"),
        _count(F.col("is_whole")).alias("whole"),
    )
    return sums.join(latencies(known, "run", "start_us"), ["run", "start_us"])


def paths(facts: DataFrame) -> DataFrame:
    """Return how many accepted events of a run went which way: home stage, and entry and top stage (both or none)."""
    is_known = F.col("entry_stage").isNotNull() & F.col("top_stage").isNotNull()
    ends = {name: F.when(is_known, F.col(name)) for name in ("entry_stage", "top_stage")}
    return (
        facts.where("is_accepted and stage is not null")
        .withColumns(ends)
        .groupBy("run", "stage", "entry_stage", "top_stage")
        .agg(F.count(F.lit(1)).alias("events"))
    )


def by_subscriber(told: DataFrame) -> DataFrame:
    """Return by who: events that it was notified of, late, in_order, in_time, and percentiles of its latency.

    Args:
        told: of :func:`~.heard.with_latency`.
    """
    return (
        told.groupBy("who")
        .agg(
            _count((F.col("late") + F.col("in_order")) > 0).alias("events"),
            F.sum("late").alias("late"),
            F.sum("in_order").alias("in_order"),
            _count(F.col("in_time")).alias("in_time"),
        )
        .join(told.groupBy("who").agg(percentiles(F.col("latency_us")).alias("latency")), "who")
    )


def asked_of(accepted: DataFrame, found: DataFrame) -> DataFrame:
    """Return by who in how many accepted events it was interested.

    Many subscribers have the same interval of a topic: each is counted once.

    Args:
        accepted: of :func:`~.heard.published`.
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
    """Return by run and reason the numbers that subscribers were told to be missing."""
    numbers = F.coalesce(F.col("last_number") - F.col("number") + 1, F.lit(1))
    return (
        rows.where("kind = 'gap' and number is not null")
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
