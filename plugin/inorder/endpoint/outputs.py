"""The inputs of the ordering module beside arrivals, and its outputs."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from inorder.endpoint.notifications import Bounded, GapReason
from inorder.endpoint.ticks import Ticks
from inorder.endpoint.waiting import Sequenced

Mode = Literal["strict", "tag"] | Bounded


class OrderingTimes(msgspec.Struct, frozen=True):
    """Timers (s) and bounds of an ordering module.

    Attributes:
        gap_timeout: how long a missing number is waited for before its stage is asked (R17).
        loss_timeout: how long, from the same start, before a confirmed number counts as lost: only time counts in
            which the client was caught up with its broker (R24). Numbers that follow one another, and are overdue
            within 1.25 s, are reported as one gap when the last one is.
        max_waiting, max_waiting_bytes: in strict mode, what may wait; arrivals beyond are given up and their
            numbers reported as ``overflow`` when their turn comes. Never silently.
    """

    gap_timeout: float = 1.0
    loss_timeout: float = 5.0
    max_waiting: int = 200_000
    max_waiting_bytes: int = 256 * 1024 * 1024

    @property
    def barrier_interval(self) -> float:
        """The pause (s) between two barriers at a broker while something is missing."""
        return min(1.0, self.loss_timeout / 5)


class GapFound(msgspec.Struct, frozen=True):
    """A run of numbers was skipped (the client makes a ``Gap`` of it)."""

    topic: int
    first: int
    last: int
    reason: GapReason


class Question(msgspec.Struct, frozen=True):
    """Ask the topic's stage about these numbers (flat pairs) and pass the answer to ``answered``."""

    topic: int
    ranges: list[int]


class Fetch(msgspec.Struct, frozen=True):
    """Ask the topic's event log for these numbers (flat pairs) and pass the answer to ``fetched`` (R18)."""

    topic: int
    ranges: list[int]


class Found(msgspec.Struct, frozen=True):
    """A number's entry in the log: its dependencies, the content, or ``None`` for one that was never stored, and its
    ticks."""

    number: int
    deps: list[int]
    content: Any
    size: int
    ticks: Ticks = ()


class OrderingCounts(msgspec.Struct):
    """Counters. ``duplicates`` (dropped), ``before`` (older than the subscription, dropped), ``overflow`` (given up at
    a limit), ``voids`` (skipped without report), ``forced`` (let go by a limit), ``repaired`` (from an event log),
    ``after_gap`` (late, after their gap)."""

    duplicates: int = 0
    before: int = 0
    overflow: int = 0
    voids: int = 0
    forced: int = 0
    repaired: int = 0
    after_gap: int = 0


class Left(msgspec.Struct, frozen=True):
    """A topic that was left is read as far as other events may rely on it (R22)."""

    topic: int


Output = Sequenced | GapFound | Left


class Watcher(Protocol):
    """An observer, for traces, of what no output of the ordering module shows. It must not call the module."""

    def began(self, topic: int, number: int) -> None:
        """A topic's clock was taken: it begins behind this number."""

    def ended(self, topic: int, number: int) -> None:
        """A topic's clock is dropped; this was the last number notified of or skipped."""

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """An arrival was dropped, and counted."""
