"""The clock of the lease (R12): seconds since some point, the time that the machine slept included.

The event loop's clock stands still on a suspended machine, while the workers' sessions go on to run out.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux has its own; on macOS the monotonic clock goes on during sleep, and so does Python's on Windows."""


def waking_or_sleeping() -> float:
    """Return the time, s."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
