"""Measures of how differently two subscribers saw the same events: pure functions over two sequences.

A sequence is the events in the order in which one subscriber was notified of them; an event is any hashable value.
Only events that both subscribers saw can be compared, and of a repeated event only the first sight counts: what is
missing or repeated is counted on its own, never hidden in these figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The differences between two subscribers of the same events.

    Attributes:
        common: events that both saw.
        adjacent: pairs that follow each other directly at the first subscriber, seen the other way round by the
            second. At most ``common - 1``.
        pairs: pairs of any distance seen the other way round; adjacent ones understate a block that overtook
            another block.
    """

    common: int
    adjacent: int
    pairs: int

    @property
    def adjacent_share(self) -> float:
        """The share of adjacent pairs seen in the opposite order, 0 to 1."""
        return self.adjacent / (self.common - 1) if self.common > 1 else 0.0


def compare(first: Sequence[Hashable], second: Sequence[Hashable]) -> Disagreement:
    """Compare the sequences of two subscribers. O(n log n)."""
    place = {event: index for index, event in enumerate(dict.fromkeys(second))}
    places = [place[event] for event in dict.fromkeys(first) if event in place]
    adjacent = sum(left > right for left, right in pairwise(places))
    return Disagreement(common=len(places), adjacent=adjacent, pairs=count_inversions(places))


def count_inversions(numbers: Sequence[int]) -> int:
    """Count the pairs ``i < j`` with ``numbers[i] > numbers[j]``, by bottom-up merge sort."""
    work, inversions, width = list(numbers), 0, 1
    while width < len(work):
        merged: list[int] = []
        for start in range(0, len(work), 2 * width):
            middle = start + width
            run, crossed = _merge(work[start:middle], work[middle : middle + width])
            merged += run
            inversions += crossed
        work, width = merged, 2 * width
    return inversions


def _merge(left: list[int], right: list[int]) -> tuple[list[int], int]:
    """Merge two sorted runs; count how often one of the right run passes one still waiting in the left run."""
    if not right or left[-1] <= right[0]:  # the common case in a nearly ordered sequence
        return left + right, 0
    merged: list[int] = []
    crossed = taken = 0
    for number in right:
        while taken < len(left) and left[taken] <= number:
            merged.append(left[taken])
            taken += 1
        crossed += len(left) - taken
        merged.append(number)
    return merged + left[taken:], crossed


def repeated(sequence: Iterable[Hashable]) -> int:
    """Count the repeated observations of events."""
    return sum(times - 1 for times in Counter(sequence).values())


def missing(sequence: Iterable[Hashable], expected: Iterable[Hashable]) -> int:
    """Count the expected events that were never seen."""
    return len(set(expected).difference(sequence))


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile (``share`` 0 to 1), or ``None`` without values."""
    if not values:
        return None
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
