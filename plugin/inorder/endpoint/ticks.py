"""Ticks: how a reader that takes events out of turn knows which of two events comes first (R23).

Such a reader moves its clocks past numbers that have not come, so they no longer tell whether an event has its place in
the one order. The ticks of timestamps do: those of two events at a stage that both passed are in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import islice, zip_longest
from typing import Any

Ticks = tuple[int, ...]
"""``(order epoch, 2 * home + is_grouped, tick, tick, ...)``: stages are told by their height above the bottom one, and
each has one tick, the lowest first. Below ``home`` they are announced, from there on the event's own. Empty where the
timestamp has none."""


class Reached:
    """The point of the order that a reader has reached: the order epoch and, by height, the highest ticks of what was
    notified of in order."""

    __slots__ = ("epoch", "ticks")

    def __init__(self) -> None:
        self.epoch = 0
        self.ticks: list[int] = []

    def __repr__(self) -> str:
        return f"<Reached {self.saved()}>"

    def is_behind(self, ticks: Ticks) -> bool:
        """Tell whether an event is behind that point: of a later order, or later at each stage that both know. Without
        ticks (a stage of an older release has made its timestamp) it is while no ticks have come."""
        if not ticks:
            return not self.epoch
        if ticks[0] != self.epoch:
            return ticks[0] > self.epoch
        home = ticks[1] >> 1
        return all(own > known for own, known in zip(ticks[2 + home :], self.ticks[home:], strict=False))

    def take(self, ticks: Ticks) -> bool:
        """Tell whether an event is in order; if so, go on to it. One that shares its topic with no other one, for all
        subscribers, does not count: nobody can tell in which order that comes."""
        if not self.is_behind(ticks):
            return False
        if ticks and ticks[1] & 1:
            self.rise(ticks[0], ticks[2:])
        return True

    def rise(self, epoch: int, ticks: Ticks) -> None:
        """Go on to these ticks."""
        if epoch > self.epoch:
            self.epoch, self.ticks = epoch, list(ticks)
        elif epoch == self.epoch:
            mine = self.ticks
            mine += ticks[len(mine) :]
            for height, tick in enumerate(ticks):
                if mine[height] < tick:
                    mine[height] = tick

    def is_beyond(self, other: Reached) -> bool:
        """Tell whether this point is beyond another one, at any stage."""
        if self.epoch != other.epoch:
            return self.epoch > other.epoch
        return any(mine > its for mine, its in zip_longest(self.ticks, other.ticks, fillvalue=-1))

    def saved(self) -> list[int]:
        """Return the epoch and the ticks as one list, empty where nothing was reached."""
        return [self.epoch, *self.ticks] if self.epoch else []

    def resume(self, saved: list[int]) -> None:
        """Go on to what :meth:`saved` gave."""
        if saved:
            self.rise(saved[0], tuple(saved[1:]))


class Waiting:
    """The events that wait, by their ticks: whether one of them comes before another event costs a look at each stage,
    however many wait."""

    __slots__ = ("_count", "_heaps")

    def __init__(self) -> None:
        self._heaps: list[list[tuple[int, int, int, Any]]] = []
        self._count = 0

    def put(self, entry: Any) -> None:
        """An event waits, until it is done."""
        for height, tick in _own(entry.ticks):
            while len(self._heaps) <= height:
                self._heaps.append([])
            self._count += 1
            heappush(self._heaps[height], (entry.ticks[0], tick, self._count, entry))

    def before(self, ticks: Ticks, *, announced: bool = False) -> Any:
        """Return an event that waits and comes before one with these ticks, ``None`` where none does. ``announced``:
        also where only the announced ones say so."""
        if not ticks:
            return None
        own = dict(_own(ticks))
        if announced:  # these are ticks of what passed before, and not of the subscription that tells
            own |= {height: tick + 1 for height, tick in enumerate(ticks[2 : 2 + (ticks[1] >> 1)])}
        for height, heap in enumerate(self._heaps):
            while heap and heap[0][3].done:
                heappop(heap)
            if heap and heap[0][:2] < (ticks[0], own.get(height, 0)):
                return heap[0][3]
        return None

    def tidy(self, room: int) -> None:
        """Drop the places of events that have left where there are more than ``room``."""
        for heap in self._heaps:
            if len(heap) > room:
                heap[:] = [each for each in heap if not each[3].done]
                heapify(heap)


def _own(ticks: Ticks) -> Iterator[tuple[int, int]]:
    """Yield the height of each stage that an event passed, with its tick there."""
    if ticks:
        home = ticks[1] >> 1
        yield from enumerate(islice(ticks, 2 + home, None), start=home)
