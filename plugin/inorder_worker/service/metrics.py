"""Numbers that a worker keeps about itself."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import Final

from inorder.protocol.wire import Frame, Timestamps

REMEMBERED_COMMITS = 1000
COMMIT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the commits' histogram, in seconds."""


class HostMetrics:
    """Counters since start, and the durations of the last commits.

    Attributes:
        commits, commands: durable ones. commit_counts: commits by bucket, those above the last bound at the end.
        commit_seconds: all durations together.
        requests: for timestamps, as they arrived (a repeated one counts again); ``timestamps``: answers to them.
        questions: what subscribers asked about missing numbers.
        snapshots: taken. failures: of the store.
        takeovers: stages taken from other workers that had not let them go; takeover: seconds that the last one took.
    """

    def __init__(self) -> None:
        self.commits = self.commands = self.timestamps = self.snapshots = 0
        self.requests = self.questions = self.failures = self.fences = self.takeovers = 0
        self.commit_counts = [0] * (len(COMMIT_BUCKETS) + 1)
        self.commit_seconds = 0.0
        self.takeover: float | None = None
        self._durations: deque[float] = deque(maxlen=REMEMBERED_COMMITS)

    def committed(self, seconds: float, commands: int) -> None:
        """A commit took so long and held so many commands."""
        self.commits += 1
        self.commands += commands
        self.commit_counts[bisect_left(COMMIT_BUCKETS, seconds)] += 1
        self.commit_seconds += seconds
        self._durations.append(seconds)

    def answered(self, frames: Iterable[Frame]) -> None:
        """Count sent frames and the timestamps in them (a repeated answer counts again)."""
        for frame in frames:
            if isinstance(frame, Timestamps):
                self.timestamps += len(frame.events)

    def took_over(self, seconds: float) -> None:
        """A stage was taken over from another worker, which took so long from the decision on."""
        self.takeovers += 1
        self.takeover = seconds

    def describe(self) -> dict[str, object]:
        """Return all numbers; durations in milliseconds."""
        ordered = sorted(self._durations)
        return {
            "commits": self.commits,
            "commands": self.commands,
            "requests": self.requests,
            "timestamps": self.timestamps,
            "questions": self.questions,
            "snapshots": self.snapshots,
            "store_failures": self.failures,
            "fences": self.fences,
            "takeovers": self.takeovers,
            "takeover_ms": None if self.takeover is None else round(self.takeover * 1000, 3),
            "commit_ms_p50": _percentile(ordered, 0.50),
            "commit_ms_p99": _percentile(ordered, 0.99),
        }


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3)
