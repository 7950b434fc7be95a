"""Two subscribers' common stream: how far their orders are apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Common(Generic[E]):
    """What two subscribers both have.

    Attributes:
        length: S.
        displaced: the sum over all events of D, how many places an event stands apart at the two.
        furthest: the greatest D.
        inversions: pairs of events that stand in opposite orders.
        descents: neighbours in the one's order that stand the other way round in the other's.
        first_descent: the first such neighbours.
        triples_both, triples_either: sequences of three neighbours that both have, and that one of them has.
    """

    length: int = 0
    displaced: int = 0
    furthest: int = 0
    inversions: int = 0
    descents: int = 0
    first_descent: tuple[E, E] | None = None
    triples_both: int = 0
    triples_either: int = 0

    @property
    def ordering_degree(self) -> float | None:
        """The sum of (S - D) / S^2."""
        return None if self.length == 0 else 1 - self.displaced / self.length**2


def compare(one: Sequence[E], two: Sequence[E]) -> Common[E]:
    """Compare two streams, each without repetition, in O(n log n)."""
    places = {event: at for at, event in enumerate(two)}
    first = [event for event in one if event in places]
    ranks = {event: rank for rank, event in enumerate(sorted(first, key=places.__getitem__))}
    order = [ranks[event] for event in first]
    distances = [abs(rank - at) for at, rank in enumerate(order)]
    descents = [at for at in range(1, len(order)) if order[at - 1] > order[at]]
    triples = set(zip(order, order[1:], order[2:], strict=False))
    both = sum(two - one == 1 and three - two == 1 for one, two, three in triples)
    each = max(len(order) - 2, 0)
    return Common(
        len(order),
        sum(distances),
        max(distances, default=0),
        inversions(order),
        len(descents),
        (first[descents[0] - 1], first[descents[0]]) if descents else None,
        both,
        2 * each - both,
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
