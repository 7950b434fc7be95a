"""The topics of a reader class that have a number, by its last rise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter
from typing import Final

from inorder_worker.sequencer.topic_manager import TopicManager

SPARE: Final = 64
"""Places in the heap that do not count any more, beyond as many as do, before they are cleared out."""

_by_tick = attrgetter("tick")


class Risen:
    """Topics in the order in which their numbers rose, the latest first. What comes from another class costs what it is
    itself, and the logarithm of what is there; so does what leaves.

    Attributes:
        last: the one that rose last, ``None`` where there is none.
    """

    __slots__ = ("_came", "_heap", "_rose", "last")

    def __init__(self) -> None:
        self.last: TopicManager | None = None
        # Those that rose here, in that order.
        self._rose: dict[int, TopicManager] = {}
        # Those that came to others, with a number that rose elsewhere. Their places are a heap, of (-tick, topic); a
        # place counts while it is of its topic's last rise.
        self._came: dict[int, TopicManager] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._rose) + len(self._came)

    def __iter__(self) -> Iterator[TopicManager]:
        rose = reversed(self._rose.values())
        return merge(rose, self._came_latest_first(), key=_by_tick, reverse=True) if self._came else rose

    def rose(self, manager: TopicManager) -> None:
        """A number of this topic is the most recent one now."""
        topic, rose = manager.id, self._rose
        if self._came:
            self._came.pop(topic, None)
        rose.pop(topic, None)
        rose[topic] = self.last = manager

    def take(self, topics: Iterable[TopicManager]) -> None:
        """Take topics from another class."""
        last = self.last
        if last is None:
            self._rose, self._heap = {each.id: each for each in sorted(topics, key=_by_tick)}, []
            self.last = next(reversed(self._rose.values()), None)
            return
        for each in topics:
            self._came[each.id] = each
            heappush(self._heap, (-each.tick, each.id))
            last = each if each.tick > last.tick else last
        self.last = last
        self._tidy()

    def let_go(self, topics: Iterable[int]) -> list[TopicManager]:
        """Let go of topics, and return those that have a number."""
        rose, came = self._rose, self._came
        gone = [each for topic in topics if (each := rose.pop(topic, None) or came.pop(topic, None)) is not None]
        last = self.last
        if last is not None and last.id not in rose and last.id not in came:
            self.last = next(iter(self), None)
        return gone

    def _tidy(self) -> None:
        """Clear the heap of what does not count, once that is the majority."""
        if len(self._heap) > SPARE + 2 * len(self._came):
            self._heap = [(-each.tick, each.id) for each in self._came.values()]
            heapify(self._heap)

    def _came_latest_first(self) -> Iterator[TopicManager]:
        """Yield those that came: walk the heap from its top, and no deeper than is asked for."""
        self._tidy()
        came, heap, last = self._came, self._heap, 0
        branches = [(heap[0], 0)]
        while branches:
            (tick, topic), at = heappop(branches)
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heappush(branches, (heap[child], child))
            manager = came.get(topic)
            if manager is not None and manager.tick == -tick != last:  # it may have left and come again
                last = manager.tick
                yield manager
