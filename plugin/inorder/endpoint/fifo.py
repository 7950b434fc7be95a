"""Publisher order without topic managers: a counter per stream, the first one seen is the start.

DESIGN, "Without total order". A stream is one publisher incarnation on one topic or, for events with a timestamp on a
``fifo`` subscription, the topic itself (its numbers keep every publisher's order).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Any

from inorder.endpoint.gaps import NumberSet

MAX_STREAMS = 10_000
"""Streams that are remembered."""
LOOKED_AT = 8
"""Streams that are looked at for one that may be forgotten; those in which something waits may not."""
MAX_PASSED = 100
"""Ranges of counters in one stream that were passed over and may still come late; beyond, the lowest are forgotten."""
MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Contents that may wait in all streams, and their bytes: anybody may begin streams, and leave counters out."""


class _Stream:
    __slots__ = ("last", "order", "passed", "waiting")

    def __init__(self, last: int) -> None:
        self.last = last
        self.waiting: dict[int, tuple[Any, int]] = {}  # contents by counter, with their bytes
        self.order: list[int] = []  # a heap of these counters
        self.passed: NumberSet | None = None


class FifoSequencer:
    """The sequencer puts the events of each stream into the order of their counters. It passes over a missing counter
    ``gap_timeout`` (s) after a later one came, or as soon as there is no room for the events that wait.

    Attributes:
        duplicates: arrivals at or below the last counter, dropped by :meth:`receive`.
        limit, max_bytes: contents that may wait in all streams; the oldest go beyond.
    """

    def __init__(self, gap_timeout: float, limit: int = MAX_WAITING, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._gap_timeout, self.limit, self.max_bytes = gap_timeout, limit, max_bytes
        self._streams: dict[Hashable, _Stream] = {}
        # When what waits arrived, in that order, with its stream and counter; some have left.
        self._arrived: deque[tuple[float, Hashable, int]] = deque()
        self._count = self._size = 0
        self.duplicates = 0

    @property
    def is_idle(self) -> bool:
        """Tell whether no event waits."""
        return not self._count

    def is_next(self, stream: Hashable, counter: int) -> bool:
        """Tell whether a counter is beyond what has arrived of a stream that is known."""
        known = self._streams.get(stream)
        return known is not None and counter > known.last and counter not in known.waiting

    def take_late(self, stream: Hashable, counter: int) -> bool:
        """Tell whether a counter was passed over and has not come; from now on it has (R5)."""
        known = self._streams.get(stream)
        return known is not None and known.passed is not None and known.passed.discard(counter)

    def receive(self, stream: Hashable, counter: int, content: Any, now: float, size: int = 0) -> list[Any]:
        """Return the contents whose turn has come, in order. ``size``: bytes of this one."""
        known = self._streams.get(stream)
        if known is None:
            self._forget_one()
            self._streams[stream] = _Stream(counter)
            return [content]
        if counter <= known.last or counter in known.waiting:
            self.duplicates += 1
            return []
        if counter == known.last + 1:
            known.last = counter
            return [content, *self._advance(known)] if known.waiting else [content]
        if not self._count:
            self._arrived.clear()
        known.waiting[counter] = content, size
        heappush(known.order, counter)
        self._arrived.append((now, stream, counter))
        self._count += 1
        self._size += size
        out: list[Any] = []
        while self._count > self.limit or self._size > self.max_bytes:
            out += self._let_go()
        return out

    def _forget_one(self) -> None:
        """Make room for a stream: each restart of a publisher begins new ones, and nobody says when one has ended.
        The oldest in which nothing waits goes; if it goes on after all, what is seen next is its start."""
        if len(self._streams) < MAX_STREAMS:
            return
        for _ in range(LOOKED_AT):
            oldest = next(iter(self._streams))
            known = self._streams.pop(oldest)
            if not known.waiting:
                return
            self._streams[oldest] = known

    def tick(self, now: float) -> list[Any]:
        """Return what is let go because a counter is missing for too long."""
        out: list[Any] = []
        while (due := self.next_deadline()) is not None and due <= now:
            out += self._let_go()
        return out

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` is due (s), or ``None``."""
        arrived = self._arrived
        while arrived and not self._waits(*arrived[0][1:]):
            arrived.popleft()
        return arrived[0][0] + self._gap_timeout if arrived else None

    def _waits(self, stream: Hashable, counter: int) -> bool:
        known = self._streams.get(stream)
        return known is not None and counter in known.waiting

    def _let_go(self) -> list[Any]:
        """Pass over missing counters up to the event that has waited longest; return the events up to there."""
        out: list[Any] = []
        _, stream, counter = self._arrived.popleft()
        known = self._streams.get(stream)
        while known is not None and known.last < counter and known.waiting:
            lowest = heappop(known.order)
            if lowest > known.last + 1:
                known.passed = known.passed or NumberSet()
                known.passed.add(known.last + 1, lowest - 1)
                known.passed.keep(MAX_PASSED)
            known.last = lowest
            out.append(self._leave(known, lowest))
            out += self._advance(known)
        return out

    def _advance(self, known: _Stream) -> list[Any]:
        out: list[Any] = []
        while known.last + 1 in known.waiting:
            known.last += 1
            heappop(known.order)
            out.append(self._leave(known, known.last))
        return out

    def _leave(self, known: _Stream, counter: int) -> Any:
        content, size = known.waiting.pop(counter)
        self._count -= 1
        self._size -= size
        return content
