"""Random runs of the whole core; each seed replays exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.simulation.profiles import PROFILES
from tests.simulation.runner import Case, Result, exercised, run, run_all
from tests.simulation.world import Bounds, World

from inorder_analytics.checks import violations

RUNS_PER_CASE = 50


@cache
def _runs_from(first: int) -> tuple[list[Result], Counter[str]]:
    return run_all(Case.of(seed) for seed in range(first, first + RUNS_PER_CASE))


@pytest.mark.parametrize("first", range(1, 401, RUNS_PER_CASE))
def test_random_runs_keep_every_promise(first: int) -> None:
    failed, _ = _runs_from(first)
    assert not failed, "\n".join(
        f"seed {each.case.seed} ({each.case.profile.name}): {sentence}"
        for each in failed
        for sentence in each.violations[:3]
    )


def test_what_operators_release_breaks_no_order() -> None:
    """R16, R17: whatever became of the events, whose publishers may have handed them over."""
    failed, counts = run_all(Case.of(seed, "released") for seed in range(1, 31))
    assert not failed, [(each.case.seed, each.violations[0].sentence) for each in failed]
    assert counts["releases"] > 80
    assert counts["released"] > 20


def test_a_request_is_answered_however_few_answers_a_stage_keeps() -> None:
    """R1: that it is forgotten may be the answer, when one behind it was let go; no answer may not."""
    profile, let_go = replace(PROFILES["released"], answers_kept=8), 0
    for seed in (2, 35):
        found = run(Case(seed, profile))
        assert not found.violations, found.violations[0].sentence
        let_go += found.exercised["let_go"]
    assert let_go


@pytest.mark.long
@pytest.mark.parametrize("first", range(100_000, 200_000, 500))
def test_many_random_runs(first: int) -> None:
    for at in range(first, first + 500, RUNS_PER_CASE):
        test_random_runs_keep_every_promise(at)


def test_the_checks_know_whose_numbers_were_that_stages_have_forgotten() -> None:
    """Else a bounded subscriber that went past one of them (R20) seems to break its publisher's order."""
    forgotten = 0
    for seed in range(1, 21):
        case = Case.of(seed, "outlived")
        world = World(case.seed, case.profile, case.bounds)
        if world.retention < 100:
            history = world.run(case.length())
            topics = [each for host in world.hosts for each in host.stage._state.topics.values()]
            kept = {(topic.id, number) for topic in topics for number in topic.records}
            assert {each.place for each in history.stamps} <= history.owners.keys()
            forgotten += len(history.owners.keys() - kept)
    assert forgotten > 50


def test_the_checks_know_what_became_of_numbers_that_a_stage_forgets_at_once() -> None:
    """R17: a number is confirmed, for the log has its event, and forgotten in the same step; then the log is trimmed.
    Who has asked the log too late is told that it is lost."""
    case = Case.of(10010, "resumed")
    world = World(case.seed, case.profile, Bounds(stages=1, topics=4, clients=2))
    history = world.run(436)
    assert not list(violations(history))
    assert [(each.topic, each.first) for each in history.subscribers["c1"].gaps if each.reason == "lost"] == [(1, 1)]
    assert history.states[1, 1] == "CONFIRMED"


def test_a_seed_replays_exactly() -> None:
    worlds = []
    for _ in range(2):
        case = Case.of(7)
        world = World(case.seed, case.profile, case.bounds)
        world.run(case.length())
        worlds.append(world)
    assert worlds[0].history == worlds[1].history
    assert exercised(worlds[0]) == exercised(worlds[1])


def test_a_seed_replays_exactly_in_another_process() -> None:
    """Sets of text have another order in each process: nothing may depend on it."""
    script = (
        "from tests.simulation.runner import Case\n"
        "from tests.simulation.world import World\n"
        "for seed in range(1, 20):\n"
        "    case = Case.of(seed)\n"
        "    print(World(case.seed, case.profile, case.bounds).run(case.length()))\n"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join(each for each in (str(root), *sys.path) if each)
    traces = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(traces[0]) > 10_000
    assert traces[0] == traces[1]


def test_runs_are_not_idle() -> None:
    """The checks would be content with a core that does nothing."""
    counts = _runs_from(1)[1] + _runs_from(1 + RUNS_PER_CASE)[1]
    low = {name: least for name, least in LEAST.items() if counts[name] < least}
    assert not low, {name: counts[name] for name in low}


LEAST = {
    "events": 3000,
    "deliveries": 6000,
    "extensions": 60,
    "unsubscribes": 80,
    "lingers_ended": 60,
    "crashes": 50,
    "partitions": 45,
    "disconnects": 45,
    "clock_jumps": 40,
    "restarts": 20,
    "resends": 20,
    "voids": 5,
    "abandoned": 15,
    "late": 100,
    "reorders": 12,
    "crashes_while_sealed": 10,
    "gaps": 10,
    "expiries": 6,
}
"""What a hundred runs exercise at least; each is about half of what they do."""


def test_the_command_reports_as_data() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "1", "--runs", "4", "--profile", "belt", "--json"]
    root = Path(__file__).parents[2]
    path = os.pathsep.join(each for each in (str(root), *sys.path) if each)
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False, text=True, cwd=root
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["runs"], report["violations"], report["seeds"]) == (0, 4, 0, [])
    assert report["exercised"]["deliveries"] > 0


def test_an_error_of_the_core_is_a_violation() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "converge", lambda self: 1 / 0)
        result = run(Case.of(1))
    assert [each.rule for each in result.violations] == ["no error"]
    assert "ZeroDivisionError" in result.violations[0].sentence
