"""A stage forgets the oldest settled numbers of its topics, in blocks: beyond so many of a topic, beyond so many of all
topics together, and beyond an age.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import TopicManager

BLOCK_SHIFT: Final = 5
"""A topic forgets its numbers in blocks of 1/32 of the retention."""
AGE_SHIFT: Final = 3
"""A block spans no more than 1/8 of the age, and is forgotten when all of it is that old."""
AT_ONCE: Final = 16
"""Blocks that a tick forgets at most, or looks at in vain, because a number in them is open."""
PAUSE_MS: Final = 50
"""Between two ticks that forget, so that commands of clients come between them."""
NEVER: Final = 1 << 62


class Forgetting:
    """The department of a stage that forgets numbers."""

    def __init__(self, state: StageState) -> None:
        self._state = state
        self._resume_at = 0  # no part of the state, as a tick does what it finds

    def begin_block(self, manager: TopicManager, number: int) -> None:
        """Let the next number of a topic begin a block, and forget the oldest blocks beyond the topic's retention."""
        state, marks = self._state, manager.marks
        settings = state.settings
        self._end_block(manager)
        manager.mark_at = number + max(1, settings.number_retention >> BLOCK_SHIFT)
        age = settings.number_age_ms
        manager.mark_by = state.now + (age >> AGE_SHIFT) if age else NEVER
        while marks and number - marks[0] >= settings.number_retention and self._forget_block(manager):
            pass

    @staticmethod
    def _end_block(manager: TopicManager) -> None:
        """Let the topic's last number end a block, if it does not."""
        marks = manager.marks
        if manager.number > max(manager.expired, marks[-1] if marks else 0):
            marks.append(manager.number)
        manager.mark_at = 0  # the next number begins one

    def added(self, manager: TopicManager) -> None:
        """Take note of a number that is its topic's only one, or one too many in all."""
        state = self._state
        state.ages.note(manager.id)
        if 0 < state.settings.numbers_kept < state.kept:
            self._forget_oldest(lambda _: state.kept > state.settings.numbers_kept, most=2)

    def forget_due(self) -> None:
        """Forget what is too old, as much as one tick may."""
        state, span = self._state, self._span
        self._resume_at = 0
        if span and self._forget_oldest(lambda created: created + span <= state.now, most=AT_ONCE):
            self._resume_at = state.now + PAUSE_MS

    def next_deadline(self) -> int | None:
        """Return the stage time at which a number is too old."""
        first = self._state.ages.first() if self._span else None
        return None if first is None else max(first[0] + self._span, self._resume_at)

    @property
    def _span(self) -> int:
        """The age of a block's first number at which its last one is old enough, too; 0: never."""
        age = self._state.settings.number_age_ms
        return age + (age >> AGE_SHIFT)

    def _forget_oldest(self, is_too_much: Callable[[int], bool], most: int) -> bool:
        """Forget the oldest blocks while the time of the oldest number says so; return whether it still does. A topic
        with an open number among its oldest is passed over."""
        open_ones: list[int] = []
        for _ in range(most):
            first = self._state.ages.first()
            if first is None or not is_too_much(first[0]):
                break
            manager = self._state.topics[first[1]]
            if not self._forget_block(manager):
                self._state.ages.forget(manager.id)
                open_ones.append(manager.id)
        first = self._state.ages.first()
        for topic in open_ones:
            self._state.ages.note(topic)
        return bool(open_ones) or (first is not None and is_too_much(first[0]))

    def _forget_block(self, manager: TopicManager) -> bool:
        """Forget the oldest block of a topic. Return whether all of it was settled."""
        records = manager.records
        if not manager.marks:
            self._end_block(manager)
        last = manager.marks[0]
        numbers = range(manager.expired + 1, last + 1)
        if any(records[number].is_open for number in numbers):
            return False
        del manager.marks[0]
        for number in numbers:
            del records[number]
        self._state.kept -= len(numbers)
        manager.expired = last
        return True
