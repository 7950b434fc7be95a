"""All workloads, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inorder_bench import failing, growing, latency, ordering, shaped, stage, throughput
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
    "W3": Workload("16 topics that all overlap, as fast as possible", shaped.overlapping),
    "W4": Workload("1,000 topics, 100 subscribers, power law, as fast as possible", shaped.many_topics),
    "W5": Workload("one stage alone, durable timestamps", stage.alone),
    "W6": Workload("the ordering module alone, per second of processor time", ordering.alone),
    "W7": Workload("three stages on three workers, as fast as possible", shaped.several_workers),
    "W8": Workload("take-over under load: the longest way of an event at 200 events/s", failing.taken_over),
    "W9": Workload("10 to 10,000 topics under one and two wildcards, as fast as possible", growing.more_topics),
}
