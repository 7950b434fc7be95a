"""Comparison of subscribers in pairs: ordering degree, violations, conflicts, displacement, detected sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from inorder_analytics.results import Pairs
from inorder_analytics.sampling import pairs_of
from inorder_analytics.spark.arrays import over_arrays
from inorder_analytics.spark.names import Names
from inorder_analytics.spark.ranks import NOWHERE, compared
from inorder_analytics.spark.reception import EVENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STREAM: Final = (
    "struct<length long, displaced long, farthest long, descents long, opposite long, detected long, before long, "
    "after long>"
)
_TABLE: Final = pa.schema([("pair", pa.int32()), ("a", pa.int32()), ("b", pa.int32())])


@dataclass(frozen=True)
class Sample:
    """The pairs to compare: their numbers with those of their subscribers, and the number of pairs by run."""

    pairs: list[tuple[int, int]]
    by_run: dict[str, Pairs]

    def table(self, session: SparkSession) -> DataFrame:
        """Return pair, a, b."""
        rows = [{"pair": at, "a": a, "b": b} for at, (a, b) in enumerate(self.pairs)]
        return session.createDataFrame(pa.Table.from_pylist(rows, _TABLE))


def sample(names: Names, limit: int, seed: int) -> Sample:
    """Choose the pairs of each run, among the clients that have a stream (:mod:`inorder_analytics.sampling`)."""
    streaming: dict[str, set[str]] = {run: set() for run, _ in names.clients}
    for each in names.incarnations:
        if each["streams"]:
            streaming[each["run"]].add(each["client"])
    numbers = {client: at for at, client in enumerate(names.clients)}
    chosen: list[tuple[int, int]] = []
    by_run = {}
    for run, clients in streaming.items():
        total, used = pairs_of(run, clients, limit, seed)
        by_run[run] = Pairs(total=total, used=len(used), limit=limit, seed=seed)
        chosen += ((numbers[run, a], numbers[run, b]) for a, b in used)
    return Sample(chosen, by_run)


def joined(told: DataFrame, table: DataFrame) -> DataFrame:
    """Return one row for each pair and common event: pair, and for a and b the places in both streams.

    What was heard lies together by event already, so nothing is moved for this: the rows of a are looked up under the
    event and b. A subscriber in many pairs costs many rows here, and an event costs as many as pairs heard of it; no
    task gets more than its share of events.
    """
    places = [F.coalesce(name, F.lit(NOWHERE)).alias(name) for name in ("raw_place", "delivered_place")]
    in_streams = told.where("raw_place is not null or delivered_place is not null").select(*EVENT, "who", *places)
    one = in_streams.withColumnsRenamed({"who": "a", "raw_place": "raw_a", "delivered_place": "delivered_a"})
    two = in_streams.withColumnsRenamed({"who": "b", "raw_place": "raw_b", "delivered_place": "delivered_b"})
    return (
        one.join(F.broadcast(table), "a")
        .join(two.hint("shuffle_hash"), [*EVENT, "b"])
        .select("pair", "raw_a", "raw_b", "delivered_a", "delivered_b")
    )


def compare(both: DataFrame) -> DataFrame:
    """Return the figures of each pair's two streams, raw and delivered (:func:`~.ranks.compared`).

    Args:
        both: of :func:`joined`.
    """

    def figures(raw_a: pa.Array, raw_b: pa.Array, delivered_a: pa.Array, delivered_b: pa.Array) -> dict[str, Any]:
        one, two, three, four = (each.to_numpy() for each in (raw_a, raw_b, delivered_a, delivered_b))
        return {"raw": compared(one, two), "delivered": compared(three, four)}

    aggregate = over_arrays(figures, f"struct<raw {_STREAM}, delivered {_STREAM}>")
    return (
        both.groupBy("pair")
        .agg(aggregate("raw_a", "raw_b", "delivered_a", "delivered_b").alias("figures"))
        .select("pair", "figures.*")
    )
