"""The clock of the lease (R12): seconds since some point, with the time that the machine slept.

The event loop's clock stands still on a suspended machine, while the workers' sessions go on to run out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux has its own; on macOS the monotonic clock goes on during sleep, and so does Python's on Windows."""


def waking_or_sleeping() -> float:
    """Return the time in seconds, with the time that the machine slept."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class LoopClock:
    """The clock of a client's endpoint.

    Attributes:
        now: returns the time by which missing events are waited for, s: the event loop's, or another one.
        uptime: returns the time with that which the machine slept, s.
    """

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.monotonic
        self.uptime: Callable[[], float] = waking_or_sleeping


class ReadingTime:
    """A clock that runs only while the application reads: unread messages cannot arrive, and so are not missing (R17).

    The time goes on while it waits for something to read and for ``PATIENCE`` after that, for those that look again
    and again; then it stands still until the application reads again. Reading and time may be of different threads.
    """

    PATIENCE = 1.0

    def __init__(self) -> None:
        self._state = time.monotonic(), 0.0, False  # when it was read last, how long time stood still, is it read now

    def begin(self) -> None:
        """Start the clock, as the application looks for something to read."""
        now = time.monotonic()
        last, lost, is_read = self._state
        if not is_read:
            lost += max(0.0, now - last - self.PATIENCE)
        self._state = now, lost, True

    def end(self) -> None:
        """Stop the clock, as the application does something else."""
        self._state = time.monotonic(), self._state[1], False

    def __call__(self) -> float:
        """Return the time, s."""
        last, lost, is_read = self._state
        now = time.monotonic()
        return (now if is_read else min(now, last + self.PATIENCE)) - lost
