"""Generated traces: what is said to be true of them is what the plain metrics and the audit find."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inorder.errors import InvalidOption
from inorder_analytics.audit import audit, to_plain
from inorder_analytics.generating import SHUFFLES, Plan, made_runs
from inorder_analytics.making import generate
from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces

PLANS = {
    "as asked for": Plan(400, 3, 5, 0.2, seed=1),
    "one of each": Plan(40, 1, 1, 0.0, seed=2),
    "all displaced": Plan(400, 3, 7, 1.0, seed=3),
    "in order": Plan(400, 4, 3, 0.0, seed=4),
    "lost": Plan(403, 3, 5, 0.3, seed=5, loss=0.1),
    "late": Plan(400, 3, 5, 0.3, seed=6, late=0.05),
    "wrong": Plan(400, 4, 5, 0.3, seed=7, violations=5),
    "runs with everything": Plan(601, 4, 9, 0.3, seed=8, runs=2, loss=0.02, late=0.03, violations=5),
}
FIGURES = (
    "events", "subscribers", "publishers", "topics", "ordering_degree_raw", "ordering_degree_delivered",
    "ordering_degree_raw_min", "ordering_degree_delivered_min", "tno_violations_raw", "tno_violations_delivered",
    "conflict_rate_raw", "conflict_rate_delivered", "displacement_raw", "displacement_delivered", "late_percent",
    "notified_1s_percent", "negative_latencies", "uncorrected", "bytes_per_event", "bytes_per_event_24",
    "entries_per_event", "stages_per_event", "gaps", "dropped_rows",
)  # fmt: skip


def same(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return one == two if one is None or two is None else bool(one == pytest.approx(two))


@dataclass(frozen=True)
class Made:
    plan: Plan
    path: Path
    truth: dict[str, Any]


@pytest.fixture(scope="module", params=PLANS.values(), ids=list(PLANS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("made")
    return Made(request.param, path, generate(path, request.param, rows_per_file=300))


def test_the_truth_is_what_the_plain_metrics_find(made: Made) -> None:
    truth = made.truth
    assert json.loads((made.path / "_truth.json").read_text()) == truth
    result = msgspec.to_builtins(measure(Traces(made.path)))
    assert {name: (result[name], truth[name]) for name in FIGURES if not same(result[name], truth[name])} == {}
    counts: Counter[str] = Counter()
    for each in result["by_topic"]:
        counts[each["topic"]] += each["events"]
    assert counts == truth["popularity"]
    for of_run, true in zip(result["by_run"], truth["runs"], strict=True):
        names = true.keys() & set(FIGURES)
        assert {name: (of_run[name], true[name]) for name in names if not same(of_run[name], true[name])} == {}
    error = result["clock_error_ms"]["max"]
    for name, latency in truth["latency_ms"].items():
        assert abs(result["latency_ms"][name] - latency) <= error
    assert (result["rows"], result["files"]["read"]) == (truth["rows"], truth["files"])


def test_the_audit_finds_what_was_planted_and_nothing_else(made: Made) -> None:
    plan, truth = made.plan, made.truth
    found = to_plain(audit(Traces(made.path)))
    assert found["ok"] is (plan.violations == 0)
    assert found["not_judged"] == []
    planted = {
        (each["run"], each["subscriber"], frozenset((event["topic"], event["number"]) for event in each["events"]))
        for each in truth["violations"]
    }
    pairs = set()
    for each in found["violations"]:
        events = frozenset((event["topic"], event["number"]) for event in each["events"])
        assert any((each["run"], subscriber, events) in planted for subscriber in each["subscribers"])
        if each["rule"] == "TNO":
            pairs.add((each["run"], *each["subscribers"]))
    # every pair with one that was notified in the wrong order is named once
    names = [f"subscriber-{at + 1:05}" for at in range(plan.subscribers)]
    bad = {(run, subscriber) for run, subscriber, _ in planted}
    assert pairs == {
        (run["run"], one, two)
        for run in truth["runs"]
        for at, one in enumerate(names)
        for two in names[at + 1 :]
        if {(run["run"], one), (run["run"], two)} & bad
    }


def test_the_disorder_is_the_share_of_displaced_arrivals() -> None:
    for disorder in (0.0, 0.2, 1.0):
        (run,) = made_runs(Plan(4000, 2, 3, disorder))
        displaced = [sum(at != event for at, event in enumerate(seen.arrivals(4000).tolist())) for seen in run.seen]
        assert displaced == [4000 * disorder] * 2


def test_each_shuffle_displaces_all_four() -> None:
    assert len(set(SHUFFLES)) == 1 + 9  # the derangements of four
    assert all(at != place for shuffle in SHUFFLES[1:] for at, place in enumerate(shuffle))


def test_a_seed_makes_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, Plan(100, 2, 3, seed=seed))
    files = {
        name: {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in "abc"
    }
    assert files["a"] == files["b"]
    assert files["a"].keys() != files["c"].keys()


def test_files_look_like_a_recorders(tmp_path: Path) -> None:
    generate(tmp_path, Plan(100, 2, 3), rows_per_file=64)
    survey = Traces(tmp_path).survey()
    assert all(each.is_exact and each.rows <= 64 for each in survey.files)
    assert {each.schema_version for each in survey.files} == {1}
    assert survey.damaged == []
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["_truth.json"]


def test_a_folder_with_traces_is_left_alone(tmp_path: Path) -> None:
    generate(tmp_path, Plan(10))
    with pytest.raises(InvalidOption, match="without traces"):
        generate(tmp_path, Plan(10))


def test_another_place(tmp_path: Path) -> None:
    truth = generate("memory://generated-by-a-test", Plan(50))
    assert Traces("memory://generated-by-a-test").table().num_rows == truth["rows"]


@pytest.mark.parametrize(
    ("how", "option"),
    [
        ({"events": 2, "runs": 3}, "--runs"),
        ({"events": 100, "subscribers": 1, "violations": 1}, "--violations"),
        ({"events": 100, "violations": 26}, "--violations"),
        ({"events": 100, "loss": 0.6}, "--loss"),
        ({"events": 100, "disorder": 1.0, "violations": 1}, "--disorder"),
        ({"events": 100, "late": 0.3}, "--late"),
    ],
)
def test_what_does_not_fit_is_refused(how: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption, match=option):
        Plan(**how)
