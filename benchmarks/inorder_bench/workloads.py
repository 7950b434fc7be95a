"""All workloads, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inorder_bench import latency, ordering, stage, throughput
from inorder_bench.match import Size
from inorder_bench.rows import Result, Say

QUICK = Size(events=1_000, repeats=1, warm_up=100)
"""To see whether all is well; its figures say little."""


@dataclass(frozen=True, slots=True)
class Workload:
    """``measure`` raises InorderError: RunFailed where events did not come, or not in one order; MissingBinary."""

    title: str
    measure: Callable[[Size, Say], Result]


WORKLOADS = {
    "W1": Workload("two publishers, two subscribers, two topics, as fast as possible", throughput.two_and_two),
    "W2": Workload("latency at 200 events/s", latency.paced),
    "W5": Workload("one stage alone, durable timestamps", stage.alone),
    "W6": Workload("the ordering module alone, per second of processor time", ordering.alone),
}
