"""Comparison of two streams of the same events, on arrays: how far, how often and how much they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]

NOWHERE = -1
"""The place of an event that is not in a stream."""

NEAR = 32
"""Ranks no further than this from their places are compared with their neighbours, which is quicker than merging."""


def compared(one: Places, two: Places) -> dict[str, Any]:
    """Compare the streams of two subscribers.

    Args:
        one, two: for each event its place in the first and in the second stream, :data:`NOWHERE` where it is not.

    Returns: the fields of :class:`inorder_analytics.parts.Compared`.
    """
    common = (one != NOWHERE) & (two != NOWHERE)
    first, second = one[common], two[common]
    by_first = np.argsort(first)
    ranks = _ranks(second[by_first])
    length = len(ranks)
    distances = np.abs(ranks - np.arange(length))
    steps = np.diff(ranks)
    descents = np.flatnonzero(steps < 0)
    found = None if len(descents) == 0 else first[by_first[descents[0] : descents[0] + 2]]
    return {
        "length": length,
        "displaced": int(distances.sum()),
        "farthest": int(distances.max(initial=0)),
        "descents": len(descents),
        "opposite": 0 if found is None else inversions(ranks),
        "detected": int(((steps[:-1] == 1) & (steps[1:] == 1)).sum()),
        "before": None if found is None else int(found[0]),
        "after": None if found is None else int(found[1]),
    }


def _ranks(places: Places) -> Places:
    ranks = np.empty(len(places), np.int64)
    # Stable: what is nearly in order, as two streams of the same events mostly are, is sorted in nearly one pass.
    ranks[np.argsort(places, kind="stable")] = np.arange(len(places))
    return ranks


def inversions(ranks: Places) -> int:
    """Return how many pairs of a permutation of 0, 1, ..., n - 1 stand in the wrong order.

    O(n log n) time, O(n) memory; O(n d) time where no rank stands further than a small d from its place.
    """
    farthest = int(np.abs(ranks - np.arange(len(ranks))).max(initial=0))
    if farthest <= NEAR:
        # Of a pair in the wrong order neither is more than d away, so they are less than 2 d apart.
        return sum(int(np.count_nonzero(ranks[:-apart] > ranks[apart:])) for apart in range(1, 2 * farthest))
    return _merged(ranks)


def _merged(ranks: Places) -> int:
    """Count inversions by a merge sort on whole arrays, from the top bit down. Before a level the ranks stand in blocks
    of 2^(bit + 1); inside a block those with the bit ahead of those without it are pairs in the wrong order."""
    count = 0
    size = len(ranks)
    for bit in reversed(range(max(size - 1, 0).bit_length())):
        starts = ranks >> (bit + 1) << (bit + 1)
        has_bit = (ranks >> bit) & 1
        ones = np.concatenate(([0], np.cumsum(has_bit)))
        ones_before = ones[:-1] - ones[starts]
        zeros = has_bit == 0
        count += int(ones_before[zeros].sum())
        # Stable: those without the bit first, 2^bit of them, or as many as there are in the last block.
        middles = np.minimum(starts + (1 << bit), size)
        at = np.where(zeros, np.arange(size) - ones_before, middles + ones_before)
        moved = np.empty_like(ranks)
        moved[at] = ranks
        ranks = moved
    return count
