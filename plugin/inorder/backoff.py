"""The rule by which everybody rests before trying again to reach a peer that was lost."""

from __future__ import annotations

import random
from typing import Final

MOST_DOUBLINGS: Final = 64
"""Failures after which a pause is the longest one in any case."""

_chance = random.SystemRandom()
"""Is no application's to seed, and is not copied by a fork: then all would draw the same pauses."""


def pause(first: float, most: float, failures: int) -> float:
    """Return how long to rest before the next attempt, s: at random, up to a bound that doubles with each failure.

    Whoever lost one peer at the same moment would without chance be back at the same moment, every time, and keep the
    others out. So the whole pause is drawn (full jitter), the first one, too.

    Args:
        first: the bound of the first pause, s.
        most: the highest bound, s.
        failures: the attempts that failed since the peer was last there.
    """
    return _chance.random() * min(most, first * 2.0 ** min(failures, MOST_DOUBLINGS))
