"""Clocks that differ and leap, and partitions: faults that last for a while."""

from __future__ import annotations

from collections.abc import Iterable

Process = str | int
"""A client by its name, or a stage by its index."""


class Clock:
    """What one process reads, s. The world's time is nobody's: clocks begin anywhere, and each has its own pace."""

    __slots__ = ("_reads", "_since", "pace")

    def __init__(self, reads: float, since: float, pace: float = 1.0) -> None:
        self._reads, self._since, self.pace = reads, since, pace

    def at(self, now: float) -> float:
        """Return what it shows at a time of the world."""
        return self._reads + max(0.0, now - self._since) * self.pace

    def show(self, reads: float, since: float) -> None:
        """Stand still at a reading up to ``since`` (it may be to come), and go on from there."""
        self._reads, self._since = reads, since

    def keep_pace(self, now: float) -> None:
        """Go on from now as fast as the world's time."""
        self.show(self.at(now), now)
        self.pace = 1.0

    def when(self, reads: float) -> float:
        """Return the world's time of a reading."""
        return self._since + (reads - self._reads) / self.pace


class Partitions:
    """From whom to whom nothing passes, and until when."""

    def __init__(self) -> None:
        self._cuts: dict[tuple[Process, Process], float] = {}

    def cut(self, senders: Iterable[Process], receivers: Iterable[Process], until: float) -> None:
        """Nothing passes from any of these to any of those, up to a time of the world."""
        for sender in senders:
            for receiver in receivers:
                self._cuts[sender, receiver] = max(until, self._cuts.get((sender, receiver), 0.0))

    def is_cut(self, sender: Process, receiver: Process, now: float) -> bool:
        """Tell whether what one sends now has to wait until the partition heals."""
        return bool(self._cuts) and self._cuts.get((sender, receiver), 0.0) > now

    def heal(self) -> None:
        """Everything passes again."""
        self._cuts.clear()
