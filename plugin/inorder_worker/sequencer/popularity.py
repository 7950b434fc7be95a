"""The choice of topics that change places, by their rates of events (R15; TR, sections 5 and 6).

A timestamp visits the stages above its topic's, so topics with many events belong higher.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp

MIN_EVENTS = 100
"""A window with fewer events says nothing about popularity: one event alone would be 1,000 of 1,000."""


def worth(events: float, alpha: float) -> float:
    """Return the papers' f(x) = exp(-1 / (alpha (x + 1))): it rises with x towards 1, so that among topics with many
    events none is worth a swap any more.

    Args:
        events: x, a topic's events per 1,000 of all events in the window.
        alpha: the greater, the fewer events bring f close to 1.
    """
    return exp(-1 / (alpha * (events + 1)))


def swaps(
    stages: Sequence[Collection[int]], counts: Mapping[int, int], pinned: Collection[int], alpha: float, beta: float
) -> list[tuple[int, int]]:
    """Return the pairs ``(T, T')`` to swap, one after the other: T is on a higher stage than T', and
    f(x') > f(x) + beta.

    For each stage from the top, its least popular topic meets the most popular one of all stages below, until no pair
    is worth it. Order inside a stage matters to nobody (R3). Ties go to the lower topic id.

    Args:
        stages: the topics of each stage, from the top.
        counts: events of each topic in the window; topics without any may be missing.
        pinned: topics that stay where they are.
        alpha, beta: see :func:`worth`, and the threshold.
    """
    total = sum(counts.values())
    if total < MIN_EVENTS:
        return []

    def f(topic: int) -> float:
        return worth(1000 * counts.get(topic, 0) / total, alpha)

    free = [[topic for topic in stage if topic not in pinned] for stage in stages]
    pairs: list[tuple[int, int]] = []
    for at, stage in enumerate(free):
        high = sorted(stage, key=lambda topic: (f(topic), topic))
        below = [(topic, lower) for lower in range(at + 1, len(free)) for topic in free[lower] if counts.get(topic)]
        low = sorted(below, key=lambda each: (-f(each[0]), each[0]))
        for one, (other, lower) in zip(high, low, strict=False):
            if not f(other) > f(one) + beta:
                break
            pairs.append((one, other))
            free[lower][free[lower].index(other)] = one
    return pairs
