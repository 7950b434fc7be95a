"""Numbers that a worker keeps about itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inorder.core.wire import Frame, Timestamps

REMEMBERED_COMMITS = 1000


class HostMetrics:
    """Counters since start, and the durations of the last commits."""

    def __init__(self) -> None:
        self.commits = self.commands = self.timestamps = self.snapshots = 0
        self._durations: deque[float] = deque(maxlen=REMEMBERED_COMMITS)

    def committed(self, seconds: float, commands: int) -> None:
        """A commit took so long and held so many commands."""
        self.commits += 1
        self.commands += commands
        self._durations.append(seconds)

    def answered(self, frames: Iterable[Frame]) -> None:
        """These frames left; timestamps in them are counted (a repeated answer counts again)."""
        for frame in frames:
            if isinstance(frame, Timestamps):
                self.timestamps += len(frame.events)

    def describe(self) -> dict[str, object]:
        """Return all numbers; durations in milliseconds."""
        ordered = sorted(self._durations)
        return {
            "commits": self.commits,
            "commands": self.commands,
            "timestamps": self.timestamps,
            "snapshots": self.snapshots,
            "commit_ms_p50": _percentile(ordered, 0.50),
            "commit_ms_p99": _percentile(ordered, 0.99),
        }


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3)
