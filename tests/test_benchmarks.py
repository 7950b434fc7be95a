"""What the benchmarks measure by is right: paths that do what they say, a guard that sees what became dearer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from inorder_bench.costs import __main__ as command
from inorder_bench.costs import check, growth, standstill
from inorder_bench.costs.hot_paths import FRAME, HOT_PATHS
from inorder_bench.ordering import arrivals, ordering_module
from inorder_bench.rows import Row, spread
from inorder_cli.entry import version


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


def test_a_baseline_of_one_path_leaves_the_others_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts = {"stamps": 100, "frames": 200}
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(check, "HOT_PATHS", counts)
    monkeypatch.setattr(check, "look", lambda: None)
    monkeypatch.setattr(check, "measure", lambda name: counts[name])

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["check", *arguments])
        check.main()

    run("--update")
    counts["stamps"] = 106
    with pytest.raises(SystemExit, match=r"stamps: 106 instructions an event instead of 100, \+6\.0%"):
        run()
    run("frames")
    run("stamps", "--update")
    run()
    assert json.loads((tmp_path / "baseline.json").read_text()) == {check.interpreter(): {"frames": 200, "stamps": 106}}
    with pytest.raises(SystemExit) as left:
        run("nothing")
    assert left.value.code == 2


@pytest.mark.parametrize("name", growth.KINDS)
def test_growth_has_a_figure_for_each_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = growth.KINDS[name].sizes[0]
    sizes = (first, first + 1)
    monkeypatch.setitem(growth.KINDS, name, growth.KINDS[name]._replace(sizes=sizes))
    monkeypatch.setattr(growth, "KINDS", {name: growth.KINDS[name]})
    said: list[str] = []
    rows = growth.measure(128, 2, said.append)
    assert [(row.workload, row.name) for row in rows] == [(f"growth: {name}", f"{size:,}") for size in sizes]
    assert all(row.value.low > 0 for row in rows)
    assert len(said) == 2


def test_the_first_event_of_a_topic_names_the_latest_one_that_two_subscribers_have_with_it() -> None:
    done = growth.KINDS["a new topic and its event, of topics under two wildcards"].make(10)(1)
    assert done.things == growth.FEW
    assert done.entries == 1  # which implies those of all other topics (R22)


@pytest.mark.parametrize("make", standstill.STEPS)
def test_standing_still_has_a_figure_for_each_change_and_size(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[int], standstill.Step]
) -> None:
    monkeypatch.setattr(standstill, "STEPS", (make,))
    said: list[str] = []
    rows = standstill.measure((2, 30), 2, said.append)
    changes = list(dict.fromkeys(row.workload for row in rows))
    assert [(row.workload, row.name) for row in rows] == [(each, size) for each in changes for size in ("2", "30")]
    assert len(said) == 2 * len(rows)
    assert all(row.value.low > 0 for row in rows)


def test_a_stage_stands_still_for_its_longest_step_or_for_as_long_as_it_is_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers, new, order = (make(30) for make in standstill.STEPS)
    monkeypatch.setattr(time, "process_time", count().__next__)
    assert {name: stall.seconds for name, stall in {**readers(), **new()}.items()} == {
        "a second reader of # joins": 1,
        "a second reader of # leaves": 1,
        "a second reader's linger ends": 1,
        "a second reader of # expires": 1,
        "a topic is made": 1,
    }
    assert all(stall.seconds > 4 for stall in order().values())  # two stages, each sealed and handed over to


def test_no_change_makes_a_timestamp_long() -> None:
    """R10, R22: also where the topics change their stages, or a reader has left all of them but one."""
    found = {name: stall.stamps for make in standstill.STEPS for name, stall in make(60)().items()}
    assert {len(stamps) for name, stamps in found.items() if name != "a topic is made"} == {standstill.FIRST}
    assert len(found["a topic is made"]) == standstill.FIRST + 1
    assert {name: max(stamps) for name, stamps in found.items() if max(stamps) > 60} == {}
    assert set(found) == {
        "a second reader of # joins",
        "a second reader of # leaves",
        "a second reader's linger ends",
        "a second reader of # expires",
        "a topic is made",
        "one topic changes its stage",
        "all topics change their stages",
    }


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["costs", *map(str, arguments)])
    command.main()


def test_a_history_gets_a_line_for_each_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = Row(workload="w", name="n", unit="us", value=spread([2.0]))
    monkeypatch.setitem(command.BENCHMARKS, "growth", lambda options, say: [row])
    history = tmp_path / "runs.jsonl"
    for at in (1, 2):
        _run(monkeypatch, "growth", "--events", 10, "--repeats", 3, "--history", history)
        lines = [json.loads(line) for line in history.read_text().splitlines()]
        assert len(lines) == at
        assert (lines[-1]["version"], lines[-1]["events"], lines[-1]["repeats"]) == (version(), 10, 3)
        value = {"median": 2.0, "low": 2.0, "high": 2.0}
        assert lines[-1]["rows"] == [{"workload": "w", "name": "n", "unit": "us", "value": value}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--history", "/no/such/folder"], "invalid --history '/no/such/folder': allowed is a file that can be"),
        (["--rows", "1000,x"], "allowed are different numbers"),
        (["--rows", "1000,1000"], "allowed are different numbers"),
        (["--events", "9"], "at least 10 events"),
        (["shrinking"], "unknown: shrinking"),
    ],
)
def test_wrong_usage_is_named_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    for name in command.BENCHMARKS:
        monkeypatch.setitem(command.BENCHMARKS, name, lambda options, say: pytest.fail("it was measured"))
    with pytest.raises(SystemExit) as left:
        _run(monkeypatch, *arguments)
    assert left.value.code == 2
    assert said in capsys.readouterr().err
