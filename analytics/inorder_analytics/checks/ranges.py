"""Sets of numbers as ranges, as gaps may cover too many numbers to count them one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """A set of numbers from ranges (first, last) that may overlap; building it sorts, a query takes O(log n)."""

    def __init__(self, given: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(given):
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
            elif first <= last:
                self._firsts.append(first)
                self._lasts.append(last)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    @property
    def highest(self) -> int:
        """The highest number, or 0."""
        return self._lasts[-1] if self._lasts else 0

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of ``first`` to ``last`` outside of the set."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        while first <= last and at < len(self._firsts) and self._firsts[at] <= last:
            if first < self._firsts[at]:
                yield first, self._firsts[at] - 1
            first = max(first, self._lasts[at] + 1)
            at += 1
        if first <= last:
            yield first, last

    def common(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the lowest range of ``first`` to ``last`` inside the set."""
        at = bisect_right(self._firsts, first) - 1
        if at < 0 or self._lasts[at] < first:
            at += 1
        if at >= len(self._firsts) or self._firsts[at] > last:
            return None
        return max(first, self._firsts[at]), min(last, self._lasts[at])


def by_topic(ranges: Iterable[tuple[int, int, int]]) -> dict[int, Ranges]:
    """Return each topic's numbers from ranges (topic, first, last)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for topic, first, last in ranges:
        found.setdefault(topic, []).append((first, last))
    return {topic: Ranges(each) for topic, each in found.items()}
