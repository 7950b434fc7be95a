"""The common stream of two subscribers, and the distance between their orders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

from inorder_analytics.parts import Compared


def compare(one: Sequence[Hashable], two: Sequence[Hashable]) -> Compared:
    """Compare two streams, each without repetition, in O(n log n)."""
    places = {event: at for at, event in enumerate(two)}
    first = [at for at, event in enumerate(one) if event in places]
    ranks = {at: rank for rank, at in enumerate(sorted(first, key=lambda at: places[one[at]]))}
    order = [ranks[at] for at in first]
    distances = [abs(rank - at) for at, rank in enumerate(order)]
    descents = [at for at in range(1, len(order)) if order[at - 1] > order[at]]
    triples = zip(order, order[1:], order[2:], strict=False)
    return Compared(
        length=len(order),
        displaced=sum(distances),
        farthest=max(distances, default=0),
        opposite=inversions(order),
        descents=len(descents),
        detected=sum(two - one == 1 and three - two == 1 for one, two, three in triples),
        before=first[descents[0] - 1] if descents else None,
        after=first[descents[0]] if descents else None,
    )


def inversions(order: Sequence[int]) -> int:
    """Return how many pairs of a permutation stand in falling order, by merging."""
    count = 0
    runs = [[each] for each in order]
    while len(runs) > 1:
        merged = []
        for at in range(0, len(runs) - 1, 2):
            low, high = runs[at], runs[at + 1]
            count += sum(len(low) - bisect_right(low, each) for each in high)
            merged.append(sorted(low + high))  # two rising runs: linear
        runs = merged + runs[len(runs) - len(runs) % 2 :]
    return count
