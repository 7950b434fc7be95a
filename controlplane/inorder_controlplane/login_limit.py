"""A limit on failed logins, which bounds guessing and its cost."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Final

WINDOW_S: Final = 60.0
MAX_ADDRESSES: Final = 10_000
"""Of more, those that failed longest ago are forgotten."""


class LoginLimit:
    """Counts the failed logins of the last minute by address.

    Args:
        rate: failures of an address after which it is refused.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, address: str, now: float) -> int:
        """Return for how many whole seconds an address is refused; 0 if it may try. ``now``: monotonic, s."""
        times = self._failures.get(address)
        if times is None:
            return 0
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        if not times:
            del self._failures[address]
            return 0
        return math.ceil(times[0] + WINDOW_S - now) if len(times) >= self._rate else 0

    def failed(self, address: str, now: float) -> None:
        """Note a failure."""
        self._failures.setdefault(address, deque(maxlen=self._rate)).append(now)
        self._failures.move_to_end(address)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
