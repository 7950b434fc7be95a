"""Stages tell each other where the last events of topics passed, so that timestamps stay small (R22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.cluster import Cluster, wild

from inorder.protocol.wire import SpaceFilter
from inorder_bench.costs.stages import Sequencer
from inorder_worker.sequencer import rides
from inorder_worker.sequencer.commands import AnyCommand, ChangeSubscription, Deliver, Effect, OpenSession, Reorder
from inorder_worker.sequencer.reader_changes import CHANGES_KEPT, ReaderChanges
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.telling import hear

TOPICS, STAGES = 60, 3
MOST = 2 * STAGES + 1
"""Entries: each stage that a timestamp passes adds one of each stage that events there have passed, or fewer; and one
may be of the publisher's own last event (R19)."""
IDS = range(1, TOPICS + 1)
ALL = [SpaceFilter("s", wild("#"))]
Stages = Sequence[Sequence[int]]


class System:
    """Topics on three stages, each of which has had an event; readers of everything."""

    def __init__(self, readers: int, make: Callable[[int, int], Stage] = Stage) -> None:
        self.sequencer = Sequencer(STAGES, TOPICS, [], make=make)
        self._epochs, self._numbers = count(2), count(1)
        for _ in range(readers):
            self.join()
        self.sequencer.publish(IDS)

    def join(self, *, bounded: bool = False) -> None:
        """One more client takes everything."""
        client = f"reader-{next(self._numbers)}"
        self.sequencer.step(STAGES - 1, OpenSession(client, 1))
        self.sequencer.step(STAGES - 1, ChangeSubscription(client, 1, 1, ALL, bounded=bounded))

    def place(self, stages: Stages) -> None:
        """The operator changes the topic order."""
        epoch = next(self._epochs)
        self.sequencer.reorder(Reorder("operator", 1, epoch, epoch, [list(each) for each in stages]))

    def most_entries(self, *, highest_first: bool) -> int:
        """Publish to each topic once; return how many entries the longest timestamp has."""
        home = self.sequencer.home
        self.sequencer.publish(sorted(IDS, key=lambda each: home[each] if highest_first else -home[each]))
        return max(len(each.deps) for each in self.sequencer.timestamps) // 2


ONE_RISES: Stages = [[TOPICS], [], []]
ALL_MOVE: Stages = [IDS[40:], IDS[:20], IDS[20:40]]
BACK: Stages = [IDS[:20], IDS[20:40], IDS[40:]]
MIXED: Stages = [IDS[::3], IDS[1::3], IDS[2::3]]
DOWN: Stages = [[], [], IDS]


@pytest.mark.parametrize("highest_first", [True, False])
@pytest.mark.parametrize("readers", ["one", "two", "two and one that tags"])
@pytest.mark.parametrize("orders", [(ONE_RISES,), (ALL_MOVE,), (MIXED, ALL_MOVE, BACK), (MIXED, DOWN), (DOWN, MIXED)])
def test_the_first_timestamps_behind_a_change_of_the_order_stay_small(
    orders: Sequence[Stages], readers: str, highest_first: bool
) -> None:
    """Also where topics were idle over several changes. (R19 for one reader: nothing is of a group.)"""
    system = System(1 if readers == "one" else 2)
    if "tags" in readers:
        system.join(bounded=True)
    for stages in orders:
        system.place(stages)
    assert system.most_entries(highest_first=highest_first) <= MOST


def test_a_stage_that_is_back_knows_what_it_was_told() -> None:
    system = System(2)
    system.place(ALL_MOVE)
    stages = system.sequencer._stages
    stages[:] = [Stage.restore(each.snapshot()) for each in stages]
    assert system.most_entries(highest_first=True) <= MOST


def test_the_first_timestamps_behind_a_second_reader_of_everything_are_small() -> None:
    """R7: the subscription announces numbers of topics below that had nobody's group until then."""
    system = System(1)
    system.join()
    assert system.most_entries(highest_first=True) <= MOST


class Older(Stage):
    """A stage that has not been told of places: a worker of an earlier release did not tell them."""

    def step(self, command: AnyCommand, now: int) -> list[Effect]:
        if isinstance(command, Deliver) and isinstance(command.ride, rides.SubscriptionRide | rides.SwitchRide):
            ride = replace(command.ride, passed=[])
            command = replace(command, ride=ride)
        return super().step(command, now)


def test_what_is_told_without_its_place_stands_for_nothing() -> None:
    system = System(2, Older)
    system.place(ALL_MOVE)
    assert system.most_entries(highest_first=True) >= 20


_notes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=2 * CHANGES_KEPT)
"""Events that pass one stage and another one before each change."""


@given(_notes, st.integers(0, 2 * CHANGES_KEPT))
def test_two_stages_count_the_same_changes_behind_an_event(notes: list[tuple[int, int]], place: int) -> None:
    here, there = ReaderChanges(), ReaderChanges()
    tick_here = tick_there = passed = 1
    behind = 0
    for at, (more_here, more_there) in enumerate(notes):
        tick_here, tick_there = tick_here + more_here, tick_there + more_there
        if at == place:
            tick_here += 1
            passed, behind = tick_here, 0
        here.note(tick_here, 1, 1 << at)
        there.note(tick_there, 1, 1 << at)
        behind += 1
    since = there.begin_of(here.count_since(passed))
    assert since is not None
    found = 0
    for each in there.since(since):
        found |= each.changed
    assert [at for at in range(len(notes) - behind, len(notes)) if not found >> at & 1] == []


def test_changes_that_a_stage_does_not_know_are_none_that_it_regards() -> None:
    """It has counted them for a shorter time than the stage that tells."""
    changes = ReaderChanges()
    changes.note(5, 1, 2)
    assert [changes.begin_of(each) for each in (0, 1, 2)] == [6, 5, None]
    assert [changes.count_since(each) for each in (4, 5, 6)] == [1, 1, 0]


def test_a_number_that_nobody_knows_the_place_of_has_none() -> None:
    """That of the number before it must not stand for it: it would be taken to have passed there, and be covered."""
    state = Cluster({"a": 1}).stages[0]._state
    hear(state, [(1, 5)], [1, 1, 7, 0])
    assert state.topics[1].told[:2] == (1, 7)
    hear(state, [(1, 6)], [])
    assert (state.topics[1].number, state.topics[1].told) == (6, ())
