"""Dropped topics that still count (R10), at the bottom stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

LINGER_WORK: Final = 20_000
"""What one tick may do to end lingers, in subscriptions that it looks at: some milliseconds."""


class Linger(msgspec.Struct):
    """Topics that one change has dropped still count (R10), at the bottom stage: when their end goes up the belt."""

    due: int
    client_id: str
    incarnation: int
    version: int


class Lingers:
    """Lingers in the order of their beginnings; due ones are found without a look at the others.

    Args:
        lingers: to begin with, in their order.
    """

    def __init__(self, lingers: Iterable[Linger] = ()) -> None:
        self._heap = [(each.due, at, each) for at, each in enumerate(lingers)]
        self._next = len(self._heap)
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Linger]:
        return (linger for _, _, linger in sorted(self._heap, key=lambda each: each[1]))

    def add(self, linger: Linger) -> None:
        """One begins."""
        heappush(self._heap, (linger.due, self._next, linger))
        self._next += 1

    def take_due(self, now: int) -> Linger | None:
        """Remove and return the linger that is due first, if one is."""
        return heappop(self._heap)[2] if self._heap and self._heap[0][0] <= now else None

    def next_deadline(self) -> int | None:
        """Return the stage time at which the next one ends."""
        return self._heap[0][0] if self._heap else None
