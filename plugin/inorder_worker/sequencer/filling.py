"""A stage fills a timestamp with the numbers that its topic's sequencing group has reached (R1, R21)."""

from __future__ import annotations

from inorder_worker.sequencer.sequencing import Group, bit_set, members
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import TopicManager

LONG_WALK = 32
"""More steps than this through what rose last are worth preparing."""
MEMBER_STEPS = 4
"""A member of a bit set costs as much to look at as so many of the topics that rose last."""


class Filling:
    """The part of stamping that fills in what has risen in a group."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    def fill(self, manager: TopicManager, group: Group, deps: list[int]) -> None:
        """Add an entry for each risen member of the group that this stage fills in. The topic's previous timestamp
        implies the others (R21)."""
        state, fills = self._state, group.fills
        if fills:
            since, base = manager.filled, manager.base
            steps = state.tick - since
            if steps > MEMBER_STEPS and fills.bit_count() * MEMBER_STEPS < steps:  # else one member is too many
                self._fill_from_members(manager, fills, deps)
            elif steps > LONG_WALK:
                self._fill_from_many(manager, fills, deps)
            else:
                for other, its in reversed(state.recent.items()):
                    if its.tick <= since:
                        break
                    if fills >> other & 1:
                        base[other] = reached = its.number
                        deps += (other, reached)
            if group.gained and since:  # before its first timestamp, all that have a number have risen
                still = bit_set([each for each in members(group.gained) if state.topics[each].tick <= since])
                self._carry(manager, still, deps)
        group.gained = 0
        if manager.removed:
            left = int.from_bytes(manager.removed, "little") & sum(state.on_stage[state.index :])
            self._carry(manager, left & ~fills, deps)
            manager.removed = bytearray()
        manager.filled = state.tick

    def _fill_from_many(self, manager: TopicManager, fills: int, deps: list[int]) -> None:
        """Add the same entries in the same order, where much has risen since: a bit of a long number costs as much as
        the number is long, a character of a long text does not."""
        since, base = manager.filled, manager.base
        is_filled = f"{fills:b}"[::-1]
        end = len(is_filled)
        for other, its in reversed(self._state.recent.items()):
            if its.tick <= since:
                break
            if other < end and is_filled[other] == "1":
                base[other] = reached = its.number
                deps += (other, reached)

    def _fill_from_members(self, manager: TopicManager, fills: int, deps: list[int]) -> None:
        """Add the same entries in the same order, where the group is smaller than what has risen since."""
        topics, since, base = self._state.topics, manager.filled, manager.base
        risen = [its for each in members(fills) if (its := topics[each]).tick > since]
        risen.sort(key=lambda its: its.tick, reverse=True)
        for its in risen:
            base[its.id] = its.number
            deps += (its.id, its.number)

    def _carry(self, manager: TopicManager, others: int, deps: list[int]) -> None:
        """Add an entry for each of these topics."""
        topics, base = self._state.topics, manager.base
        for other in members(others):
            if reached := topics[other].number:
                base[other] = reached
                deps += (other, reached)
