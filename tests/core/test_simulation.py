"""Random runs of the whole core (see :mod:`tests.core.simulation`); each seed replays exactly."""

from __future__ import annotations

import random

import pytest
from tests.core.history import History, Notified, Stamped, SubscriberHistory, violations
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
            reasons |= {reason for *_, reason in subscriber.gaps}
    assert verdicts["in_order"] > 1000
    assert verdicts["late"] > 10
    assert reasons >= {"abandoned", "skipped"}


def _history(*sequences: list[tuple[int, int]]) -> History:
    history = History(linger=20.0)
    for at, sequence in enumerate(sequences):
        notified = []
        for topic, number in sequence:
            event = f"p{topic}", 1, number
            history.places[topic, number] = event
            history.stamped[event] = Stamped(event, (topic, number), {}, 0, 1.0)
            notified.append(Notified(event, (topic, number), "in_order", 1.0))
        history.subscribers[f"s{at}"] = SubscriberHistory(f"s{at}", "strict", notified)
    return history


def test_the_checks_see_two_orders() -> None:
    found = violations(_history([(1, 1), (2, 1)], [(2, 1), (1, 1)]))
    assert found == [
        "TNO s0 (strict) was notified of (1, 1) ('p1', 1, 1) before (2, 1) ('p2', 1, 1), s1 (strict) after it"
    ]


def test_the_checks_see_repetition_and_regression() -> None:
    found = violations(_history([(1, 2), (1, 1), (1, 1)]))
    assert [each[:2] for each in found] == ["R4", "R5", "R4", "R1"]
