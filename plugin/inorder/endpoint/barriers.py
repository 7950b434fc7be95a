"""Up to when a broker's notifications are known to be read (R24).

A *barrier* is a question to the broker whose answer comes behind everything that the broker had for the client when it
was asked. Nothing counts as lost before a barrier has come back that began after its number was known to be confirmed;
and nobody waits by the clock on the wall, but by the time for which the client was caught up.
"""

from __future__ import annotations

from math import inf
from typing import Any

PRECISION = 1e-6
"""Sums of times may be that wrong, s."""


class CaughtUp:
    """The barriers at one broker, and the time for which its client was caught up with it.

    That time goes on from the beginning of one barrier to that of the next, and is proven when the latter has come
    back. Between two of them it goes on for so long at most: a process, machine or broker that stands still, and a
    backlog, let barriers come late. So whatever was lost, brokers and bridges had time enough for it.

    Args:
        space: the broker's.
        interval: s from one barrier to the next while something is missing.
        patience: s for which a number may be missing before anybody asks whether it is confirmed.

    Attributes:
        proven: what was there up to this time, of :meth:`at`, has been read.
    """

    def __init__(self, space: str, interval: float, patience: float) -> None:
        self.space = space
        self.proven = -inf
        self._interval, self._most = interval, interval + max(interval, patience)
        self._time = 0.0
        self._since = -inf
        self._not_before = -inf
        self._begun: float | None = None
        self._gone = -inf

    def has_read(self, time: float) -> bool:
        """Tell whether all has been read that was there at this time, or a connection is gone with what was not."""
        return time <= max(self.proven, self._gone)

    def at(self, now: float) -> float:
        """Return the caught-up time at a moment (s): later barriers prove that everything known by then is read, or
        missing."""
        if self._begun is None:
            self._go_on_late(now)
        return self._time + min(max(now - self._since, 0.0), self._most)

    def due(self, time: float) -> float | None:
        """Return when the next barrier is to begin (s) if something waits for that time to be proven; ``None``: one is
        on its way."""
        if self._begun is not None:
            return None
        left = max(0.0, time - self._time + PRECISION)
        return max(self._since + min(self._interval, left), self._not_before)

    def begin(self, now: float) -> None:
        """A barrier begins."""
        self._go_on(now)
        self._begun = self._time

    def passed(self, now: float) -> None:
        """The barrier has come back."""
        if self._begun is not None:
            self.proven, self._begun = self._begun, None
            self._go_on_late(now)

    def failed(self, now: float) -> None:
        """The barrier will not come back: its connection is gone."""
        self._gone = self.at(now)
        self._begun = None
        self._not_before = now + self._interval

    def describe(self) -> dict[str, Any]:
        """Return how far the client has read, and how that was found."""
        return {
            "proven": self.proven,
            "gone": self._gone,
            "time": self._time,
            "since": self._since,
            "begun": self._begun,
            "not_before": self._not_before,
        }

    def _go_on_late(self, now: float) -> None:
        """Resume the clock after so long a pause that no more of the pause counts."""
        if now - self._since > self._most:
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        self._time += min(max(now - self._since, 0.0), self._most)
        self._since = now


class Sparing:
    """A limit on questions about numbers that may merely not be read yet, as each answer is one thing more to read.

    Args:
        most: so many within an interval.
        interval: s.

    Attributes:
        until: when more may be asked, s.
    """

    def __init__(self, most: int, interval: float) -> None:
        self._most, self._interval = most, interval
        self._left, self.until = most, -inf

    def left(self, now: float) -> int:
        """Return how many more may be asked now."""
        if now >= self.until:
            self._left, self.until = self._most, now + self._interval
        return self._left

    def spend(self, count: int) -> None:
        """Count so many questions."""
        self._left -= count

    def describe(self) -> tuple[int, float]:
        """Return how many were left, and until when that counts (s)."""
        return self._left, self.until


class Brokers:
    """All brokers of a client, by space.

    Args:
        interval, patience: see :class:`CaughtUp`.
    """

    def __init__(self, interval: float, patience: float) -> None:
        self._interval, self._patience = interval, patience
        self._by_space: dict[str, CaughtUp] = {}

    def of(self, space: str) -> CaughtUp:
        """Return a space's broker."""
        broker = self._by_space.get(space)
        if broker is None:
            broker = self._by_space[space] = CaughtUp(space, self._interval, self._patience)
        return broker

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return each broker's own description, by space."""
        return {space: broker.describe() for space, broker in self._by_space.items()}
