"""Random runs of the whole core (see :mod:`tests.core.simulation`); each seed replays exactly."""

from __future__ import annotations

import random

import pytest
from tests.core.simulation import World, simulate

RUNS_PER_CASE = 50


@pytest.mark.parametrize("first", range(1, 501, RUNS_PER_CASE))
def test_random_runs_keep_every_promise(first: int) -> None:
    found = {seed: broken for seed in range(first, first + RUNS_PER_CASE) if (broken := simulate(seed))}
    assert not found, "\n".join(f"seed {seed}: {sentence}" for seed, all_ in found.items() for sentence in all_[:3])


@pytest.mark.long
@pytest.mark.parametrize("first", range(100_000, 110_000, 500))
def test_many_random_runs(first: int) -> None:
    test_random_runs_keep_every_promise(first)


def test_a_seed_replays_exactly() -> None:
    histories = [World(7).run(300) for _ in range(2)]
    assert histories[0] == histories[1]


def test_runs_are_not_idle() -> None:
    """The checks would be content with a core that does nothing."""
    verdicts: dict[str, int] = {}
    reasons: set[str] = set()
    for seed in range(1, 60):
        for subscriber in World(seed).run(random.Random(seed).randint(200, 800)).subscribers.values():
            for each in subscriber.notified:
                verdicts[each.verdict] = verdicts.get(each.verdict, 0) + 1
            reasons |= {each.reason for each in subscriber.gaps}
    assert verdicts["in_order"] > 1000
    assert verdicts["late"] > 10
    assert reasons >= {"abandoned", "skipped"}
