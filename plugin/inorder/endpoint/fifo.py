"""Publisher order without topic managers: a counter per stream, the first one seen is the start.

DESIGN, "Without total order". A stream is one publisher incarnation on one topic or, for events with a timestamp on a
``fifo`` subscription, the topic itself (its numbers keep every publisher's order).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from inorder.endpoint.gaps import NumberSet

MAX_STREAMS = 10_000
"""Streams that are remembered."""
MAX_PASSED = 100
"""Ranges of counters in one stream that were passed over and may still come late; beyond, the lowest are forgotten."""


class _Stream:
    __slots__ = ("last", "passed", "since", "waiting")

    def __init__(self, last: int) -> None:
        self.last = last
        self.waiting: dict[int, Any] = {}
        self.since = 0.0
        self.passed: NumberSet | None = None


class FifoSequencer:
    """Puts each stream into the order of its counters; a missing one is passed over after ``gap_timeout`` (s).

    Attributes:
        duplicates: arrivals at or below the last counter, dropped by :meth:`receive`.
        limit: contents that may wait in one stream before a missing counter is passed over at once.
    """

    def __init__(self, gap_timeout: float, limit: int = 10_000) -> None:
        self._gap_timeout, self.limit = gap_timeout, limit
        self._streams: dict[Hashable, _Stream] = {}
        self._late: set[Hashable] = set()
        self.duplicates = 0

    @property
    def is_idle(self) -> bool:
        """Nothing waits."""
        return not self._late

    def is_next(self, stream: Hashable, counter: int) -> bool:
        """Tell whether a counter is beyond what has arrived of a stream that is known."""
        known = self._streams.get(stream)
        return known is not None and counter > known.last and counter not in known.waiting

    def take_late(self, stream: Hashable, counter: int) -> bool:
        """Tell whether a counter was passed over and has not come; from now on it has (R5)."""
        known = self._streams.get(stream)
        return known is not None and known.passed is not None and known.passed.discard(counter)

    def receive(self, stream: Hashable, counter: int, content: Any, now: float) -> list[Any]:
        """Return the contents whose turn has come, in order."""
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
            return [content, *self._advance(stream, known)] if known.waiting else [content]
        if not known.waiting:
            known.since = now
            self._late.add(stream)
        known.waiting[counter] = content
        return self._pass_over(stream, known, now) if len(known.waiting) > self.limit else []

    def _forget_one(self) -> None:
        """Make room for a stream: each restart of a publisher begins new ones, and nobody says when one has ended.
        The oldest goes; if it goes on after all, what is seen next is its start."""
        if len(self._streams) >= MAX_STREAMS:
            oldest = next(iter(self._streams))
            if oldest not in self._late:
                del self._streams[oldest]

    def tick(self, now: float) -> list[Any]:
        """Return what is let go because a counter is missing for too long."""
        out: list[Any] = []
        for stream in list(self._late):
            known = self._streams[stream]
            if known.since + self._gap_timeout <= now:
                out += self._pass_over(stream, known, now)
        return out

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` is due (s), or ``None``."""
        return min((self._streams[each].since + self._gap_timeout for each in self._late), default=None)

    def _pass_over(self, stream: Hashable, known: _Stream, now: float) -> list[Any]:
        lowest = min(known.waiting)
        known.passed = known.passed or NumberSet()
        known.passed.add(known.last + 1, lowest - 1)
        known.passed.keep(MAX_PASSED)
        known.last, known.since = lowest - 1, now
        return self._advance(stream, known)

    def _advance(self, stream: Hashable, known: _Stream) -> list[Any]:
        out: list[Any] = []
        while (content := known.waiting.pop(known.last + 1, None)) is not None:
            known.last += 1
            out.append(content)
        if not known.waiting:
            self._late.discard(stream)
        return out
