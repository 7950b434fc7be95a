"""Limits on logins: failed ones of an address, which bounds guessing and its cost, and those of one token."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Final

WINDOW_S: Final = 60.0
MAX_KEYS: Final = 10_000
"""Of more, the limit forgets those that were noted longest ago."""


class LoginLimit:
    """Counts the logins of the last minute by a key: an address, or a token's id.

    Args:
        rate: logins of a key after which further ones are refused.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._noted: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, key: str, now: float) -> int:
        """Return for how many whole seconds a key is refused; 0 if it may try. ``now``: monotonic, s."""
        times = self._noted.get(key)
        if times is None:
            return 0
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        if not times:
            del self._noted[key]
            return 0
        return math.ceil(times[0] + WINDOW_S - now) if len(times) >= self._rate else 0

    def note(self, key: str, now: float) -> None:
        """Note a login."""
        self._noted.setdefault(key, deque(maxlen=self._rate)).append(now)
        self._noted.move_to_end(key)
        while len(self._noted) > MAX_KEYS:
            self._noted.popitem(last=False)
