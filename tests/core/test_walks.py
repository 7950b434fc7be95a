"""A stage looks at the smaller of two sets; which one it is must not show in what it answers."""

from __future__ import annotations

import random

import pytest
from tests.core.cluster import Cluster
from tests.costs import steps

from inorder.protocol.names import exact
from inorder.protocol.wire import SpaceFilter, StampedEvent
from inorder_bench.costs.stages import Sequencer
from inorder_worker.sequencer import filling, following
from inorder_worker.sequencer.commands import ChangeSubscription, Tick

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


def _with_changes(seed: int) -> list[StampedEvent]:
    """Timestamps of six topics whose readers, and whose order, change all the time."""
    chance, names = random.Random(seed), "abcdef"
    stages = chance.choice((1, 2, 3))
    cluster = Cluster({name: chance.randrange(stages) for name in names}, stages=stages)
    for client in ("p", "q", "A", "B", "C", "D"):
        cluster.open(client)
    made: list[StampedEvent] = []
    for _ in range(80):
        what = chance.random()
        if what < 0.2:
            topics = chance.choice(("ab", "abc", "abcde", "f", "abcdef", chance.sample(names, 3)))
            client = chance.choice("ABCD")
            cluster.subscribe(client, *topics, durable=client == "D")
        elif what < 0.23:
            cluster.now += 60_000
            cluster.step(stages - 1, Tick())
            cluster.run()
        elif what < 0.26:
            homes = {name: chance.randrange(stages) for name in names}
            cluster.reorder(*(" ".join(each for each in names if homes[each] == at) for at in range(stages)))
            cluster.run()
        else:
            made.append(cluster.stamp(chance.choice("pq"), chance.choice(names)))
    return made


@pytest.mark.parametrize("seed", [0, 20, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(40, 200, 20))])
def test_the_event_that_covers_all_others_is_found_without_a_walk(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R22: the same one as with it, whatever the readers are that came, went, have other topics, or are durable."""
    at_once = [_with_changes(each) for each in range(seed, seed + 20)]
    monkeypatch.setattr(filling.Filling, "_fill_latest", lambda *_: False)
    assert [_with_changes(each) for each in range(seed, seed + 20)] == at_once
    assert sum(len(event.deps) for made in at_once for event in made) > 500


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


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_both_walks_follow_the_same_events_while_readers_come_and_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R19: also what a publisher has used before a subscription, on members of a group and on neighbours."""
    monkeypatch.setattr(following, "MEMBER_STEPS", 10**9)  # only what was used last
    by_use = [_with_changes(each) for each in range(seed, seed + 20)]
    monkeypatch.setattr(following, "MEMBER_STEPS", 0)  # only neighbours, members, strangers
    assert [_with_changes(each) for each in range(seed, seed + 20)] == by_use


def _first_event_since_a_reader_came(topics: int) -> int:
    """Return what an event costs: a second reader of everything, who had a topic before, has come; the publisher has
    used half of the topics before that alone, and the others, in another order, since then, too."""
    sequencer = Sequencer(1, topics, [range(1, topics + 1), [1]])
    every = random.Random(1).sample(range(2, topics + 1), topics - 1)
    sequencer.publish([1, *every])
    filters = [SpaceFilter("s", exact(f"t{topic}")) for topic in range(1, topics + 1)]
    sequencer.step(0, ChangeSubscription("subscriber-1", 1, 2, filters, bounded=False))
    every.sort()
    for some in (every[::2], every[3:4]):
        sequencer.publish(some)
    return steps(lambda: sequencer.publish(every[1:2]))


def test_the_first_event_since_a_reader_came_is_not_the_dearer_for_what_its_publisher_used() -> None:
    """R19: nor for what it has used since."""
    assert _first_event_since_a_reader_came(400) < 1.1 * _first_event_since_a_reader_came(20)
