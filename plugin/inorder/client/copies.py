"""Further copies of one event, which brokers send for overlapping filters. One rule for all clients:

a copy comes directly behind its twin, or not at all; further behind it would be out of order. ``inorder.Client`` gives
an event once. Where it is known which copies there are (Redis), all are given when the event has its turn, and those
that arrive later are not needed. Where only the broker knows (MQTT), :class:`Copies` says which of those that arrive
are given.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

CopyT = TypeVar("CopyT")

MAX_KEPT = 4096
"""Copies that are kept at a time until their twins have their turn."""


class Copies(Generic[CopyT]):
    """Copies of events that wait for their turn, and the event that was given last.

    Args:
        most: copies that are kept at a time; of more, the ones kept longest are not given.
    """

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._kept = OrderedDict[tuple[str, int], list[CopyT]]()
        self._count = 0
        self._last: tuple[str, int] | None = None
        self._given = 0  # copies of the last event

    def __len__(self) -> int:
        return self._count

    def keep(self, topic: str, number: int, copy: CopyT, allowed: int) -> list[CopyT]:
        """Keep a copy until its waiting twin has its turn.

        Args:
            allowed: how many copies the event may have, its twin not counted.

        Returns:
            Copies that are not given: this one where there are enough, or older ones that it takes the place of.
        """
        copies = self._kept.setdefault((topic, number), [])
        if len(copies) >= allowed:
            if not copies:
                del self._kept[topic, number]
            return [copy]
        copies.append(copy)
        self._count += 1
        dropped: list[CopyT] = []
        while self._count > self._most:
            dropped += self._take(next(iter(self._kept)))
        return dropped

    def turn(self, topic: str, number: int | None) -> list[CopyT]:
        """Note that an event is given now (``None``: one without a number); return the copies to give behind it."""
        self._last = None if number is None else (topic, number)
        copies = [] if self._last is None or not self._kept else self._take(self._last)
        self._given = len(copies)
        return copies

    def interrupted(self) -> None:
        """Note that something else was given (a gap), so that no later copy would be beside its twin."""
        self._last = None

    def follows(self, topic: str, number: int, allowed: int) -> bool:
        """Tell whether a late copy may be given directly behind its twin, and count it."""
        if self._last != (topic, number) or self._given >= allowed:
            return False
        self._given += 1
        return True

    def skipped(self, topic: str, first: int, last: int) -> list[CopyT]:
        """Return the copies kept for numbers that will not come (R17), which are not given."""
        gone = [key for key in self._kept if key[0] == topic and first <= key[1] <= last]
        return [copy for key in gone for copy in self._take(key)]

    def clear(self) -> list[CopyT]:
        """Return and forget all copies, as nothing that waited will be given (another session)."""
        gone = [copy for copies in self._kept.values() for copy in copies]
        self._kept.clear()
        self._count, self._last = 0, None
        return gone

    def _take(self, key: tuple[str, int]) -> list[CopyT]:
        copies = self._kept.pop(key, [])
        self._count -= len(copies)
        return copies
