"""A stage looks at the smaller of two sets; which one it is must not show in what it answers."""

from __future__ import annotations

import random

import pytest

from inorder.protocol.wire import StampedEvent
from inorder_bench.costs.stages import Sequencer
from inorder_worker.sequencer import filling, following

TOPICS = 60


def _timestamps(stages: int, seed: int, subscriptions: list[list[int]] | None = None) -> list[StampedEvent]:
    chance = random.Random(seed)
    subscriptions = subscriptions or [chance.sample(range(1, TOPICS + 1), chance.randint(2, 12)) for _ in range(12)]
    sequencer = Sequencer(stages, TOPICS, subscriptions, publishers=2)
    made: list[StampedEvent] = []
    for _ in range(60):
        sequencer.publish([chance.randint(1, TOPICS) for _ in range(chance.randint(1, 12))])
        made += sequencer.timestamps
    return made


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_both_walks_fill_the_same_entries_in_the_same_order(
    stages: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "MEMBER_STEPS", 10**9)  # only classes
    by_class = _timestamps(stages, seed)
    monkeypatch.setattr(filling, "MEMBER_STEPS", 0)  # only members
    assert _timestamps(stages, seed) == by_class
    assert sum(len(event.deps) for event in by_class) > 200


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_both_walks_follow_the_same_events_of_a_publisher(
    stages: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R19: topics that one subscription alone holds together, so that no entry is of a group."""
    chance = random.Random(seed)
    alone = [chance.sample(range(first, first + 20), 12) for first in range(1, TOPICS, 20)]
    monkeypatch.setattr(following, "MEMBER_STEPS", 10**9)  # only what was used last
    by_use = _timestamps(stages, seed, alone)
    monkeypatch.setattr(following, "MEMBER_STEPS", 0)  # only neighbours
    assert _timestamps(stages, seed, alone) == by_use
    assert sum(len(event.deps) for event in by_use) > 200
