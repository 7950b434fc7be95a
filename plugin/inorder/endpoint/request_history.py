"""The history of a client's requests to the stages, for its hellos (R1). No I/O; the caller's clock counts the time
that the machine sleeps."""

from __future__ import annotations

from collections import deque
from typing import Final

from inorder.protocol.pairs import flat

RECENT_S: Final = 600.0
"""How long a counter is recent after it was asked for first, s. So much less than ``ENDED_KEPT_MS`` that clocks may run
at other paces, and hellos may be long on their way."""
STEPS = 10


class RequestHistory:
    """The counters that a session has asked for.

    Args:
        recent: for how long a counter is recent, s.
    """

    def __init__(self, recent: float = RECENT_S) -> None:
        self._recent = recent
        self._highest: dict[int, int] = {}
        self._steps: deque[tuple[float, int]] = deque()  # when the first counter of a step was asked for, and the last
        self._old = 0

    def note(self, stage: int, counter: int, now: float) -> None:
        """A request leaves for a stage, and no other one for it had a higher counter; or it leaves once more."""
        self._highest[stage] = max(counter, self._highest.get(stage, 0))
        if counter <= (self._steps[-1][1] if self._steps else self._old):
            return
        since = now
        if self._steps and now < self._steps[-1][0] + self._recent / STEPS:
            since, _ = self._steps.pop()
        self._steps.append((since, counter))

    def of(self, stage: int) -> int:
        """Return the highest counter that a stage was asked for; 0: none."""
        return self._highest.get(stage, 0)

    def pairs(self) -> list[int]:
        """Return the highest counter that each stage was asked for, flat."""
        return flat(self._highest)

    def recent(self, now: float) -> int:
        """Return the lowest counter that no stage was asked for before it became recent."""
        while self._steps and self._steps[0][0] <= now - self._recent:
            _, self._old = self._steps.popleft()
        return self._old + 1

    def clear(self) -> None:
        """Begin anew, as another session."""
        self._highest.clear()
        self._steps.clear()
        self._old = 0
