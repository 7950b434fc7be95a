"""What the benchmarks measure by is right: paths that do what they say, a guard that sees what became dearer."""

from __future__ import annotations

import pytest
from benchmarks import check
from benchmarks.hot_paths import FRAME, HOT_PATHS

from inorder_bench.ordering import arrivals, ordering_module


@pytest.mark.parametrize("name", HOT_PATHS)
def test_a_hot_path_runs_to_its_end(name: str) -> None:
    HOT_PATHS[name](2 * FRAME)


def test_disorder_makes_most_events_wait_and_none_is_lost() -> None:
    events = arrivals(1_000, disorder=0.1)
    module = ordering_module(2)
    notified, waited = 0, 0
    for event in events:
        notified += len(module.receive(*event, b"", 0, 0.0))
        waited += module.waiting > 0
    assert (notified, module.waiting) == (1_000, 0)
    assert waited > 500


def test_the_guard_names_what_became_dearer_and_what_is_new() -> None:
    baseline = {"same": 1_000, "noise": 1_000, "dearer": 1_000, "cheaper": 1_000}
    costs = {"same": 1_000, "noise": 1_049, "dearer": 1_051, "cheaper": 500, "fresh": 7}
    assert check.compare(costs, baseline) == [
        "dearer: 1,051 instructions an event instead of 1,000, +5.1%",
        "fresh: 7 instructions an event, not in the baseline",
    ]
