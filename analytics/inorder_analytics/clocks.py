"""The offsets of a client's clock from its worker's, over time, as clocks drift and are stepped.

Between two measurements the offset is one that either of them allows, or one in between: the bound of its error says
so. A clock that is set by hours between two measurements is hours uncertain there, and elsewhere as good as it was
measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

EVER: Final = -(2**63)
"""Before all times."""
MOST: Final = 64
"""Offsets of one client, at most: where there would be more, they are known less exactly."""
_GRAIN_US: Final = 1000


class Clock(NamedTuple):
    """The offset of one client's clock from one time on.

    Attributes:
        since: the time, by that very clock, in microseconds since 1970; the first offset counts from :data:`EVER` on.
        offset: to add to times of the client for the worker's, in microseconds.
        error: the bound of its error, likewise.
    """

    since: int
    offset: int
    error: int


def clocks(measured: Iterable[tuple[int, int, int]]) -> list[Clock]:
    """Return the offsets of one client, by time.

    Args:
        measured: time, offset, and bound of the error of each measurement, in any order.
    """
    every = _spans(measured)
    found, grain = _joined(every, _GRAIN_US), _GRAIN_US
    while len(found) > MOST:
        grain *= 4
        found = _joined(every, grain)
    return [Clock(each.since, each.offset, each.error) for each in found]


def clock_at(found: Sequence[Clock], when: int) -> Clock | None:
    """Return the offset that holds at a time; ``None`` without any."""
    at = bisect_right(found, when, key=lambda each: each.since)
    return found[max(0, at - 1)] if found else None


class _Span(NamedTuple):
    """The offset from a time on, with the bounds of the true one."""

    since: int
    offset: int
    lowest: int
    highest: int

    @property
    def error(self) -> int:
        return max(self.offset - self.lowest, self.highest - self.offset)


def _spans(measured: Iterable[tuple[int, int, int]]) -> list[_Span]:
    """Return a span for each measurement: it holds for the times nearest to it, and the truth lies within its own and
    its neighbour's bounds. Beyond the ends it does, too: a clock that was set back was there before."""
    points: list[_Span] = []
    for when, offset, error in sorted(measured, key=lambda each: (each[0], each[2], each[1])):
        if points and points[-1].since == when:  # the clock was there twice; what was measured best is taken
            lowest, highest = min(points[-1].lowest, offset - error), max(points[-1].highest, offset + error)
            points[-1] = points[-1]._replace(lowest=lowest, highest=highest)
        else:
            points.append(_Span(when, offset, offset - error, offset + error))
    found = [each._replace(since=EVER) for each in points[:1]] if len(points) == 1 else []
    for one, two in pairwise(points):
        truth = min(one.lowest, two.lowest), max(one.highest, two.highest)
        found.append(_Span(one.since if found else EVER, one.offset, *truth))
        found.append(_Span((one.since + two.since + 1) // 2, two.offset, *truth))
    return found


def _joined(every: list[_Span], grain: int) -> list[_Span]:
    """Join successive spans within a grain of each other, while the error neither doubles nor exceeds the grain."""
    found: list[_Span] = []
    least = 0
    for each in every:
        if found and abs(found[-1].offset - each.offset) <= grain:
            one = found[-1]
            better = min(one, each, key=lambda span: span.error)
            lowest, highest = min(one.lowest, each.lowest), max(one.highest, each.highest)
            joined = _Span(one.since, better.offset, lowest, highest)
            if joined.error <= max(grain, 2 * min(least, each.error)):
                found[-1], least = joined, min(least, each.error)
                continue
        found.append(each)
        least = each.error
    return found
