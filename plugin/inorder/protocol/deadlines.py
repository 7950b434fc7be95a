"""Deadlines of many sessions, or topics: the earliest is found without a look at each of them. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", int, tuple[str, int])
TimeT = TypeVar("TimeT", int, float)

SPARE = 64
"""Times that are noted and do not count any more, beyond as many as there are keys, before they are cleared out."""


class Deadlines(Generic[K, TimeT]):
    """Finds the session, or topic, that is due first. It is no state: all of it follows from what ``due`` tells.

    A time that is noted may be too early, and is put right when its turn comes; it is never too late: whatever may make
    a key due earlier than before notes it again.

    Args:
        due: tells when one is due; ``None``: it is not.

    Attributes:
        noted: the keys of which a time is noted, with that time. Do not change it.
    """

    def __init__(self, due: Callable[[K], TimeT | None]) -> None:
        self._due: Callable[[K], TimeT | None] = due
        self._heap: list[tuple[TimeT, K]] = []
        self.noted: dict[K, TimeT] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, key: K) -> bool:
        """Tell whether a time of this one is noted."""
        return key in self.noted

    def begin(self, keys: Iterable[K]) -> None:
        """Forget all, and note these."""
        self._heap.clear()
        self.noted.clear()
        for key in keys:
            self.note(key)

    def forget(self, key: K) -> None:
        """Pass one over until it is noted again."""
        self.noted.pop(key, None)

    def note(self, key: K) -> None:
        """One may be due earlier than it was."""
        when = self._due(key)
        noted = self.noted.get(key)
        if when is None or (noted is not None and noted <= when):
            return
        self.noted[key] = when
        heappush(self._heap, (when, key))
        if len(self._heap) > SPARE + 2 * len(self.noted):
            self._heap = [(when, key) for key, when in self.noted.items()]
            heapify(self._heap)

    def first(self) -> tuple[TimeT, K] | None:
        """Return when the first one is due, and which one it is; ``None``: none is."""
        heap = self._heap
        while heap:
            noted, key = heap[0]
            if self.noted.get(key) != noted:
                heappop(heap)
            elif (when := self._due(key)) == noted:
                return noted, key
            elif when is None:
                del self.noted[key]
                heappop(heap)
            else:
                self.noted[key] = when
                heapreplace(heap, (when, key))
        return None

    @property
    def next(self) -> TimeT | None:
        """The time at which the first one is due; ``None``: none is."""
        first = self.first()
        return None if first is None else first[0]

    def take(self, now: TimeT) -> list[K]:
        """Return the keys that are due by now, the earliest first, and pass over them until noted again."""
        taken = list[K]()
        while (first := self.first()) is not None and first[0] <= now:
            self.forget(first[1])
            taken.append(first[1])
        return taken
