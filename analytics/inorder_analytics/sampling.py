"""The choice of compared pairs of subscribers: all, or a sample that its seed determines."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from math import isqrt


def pairs_of(run: str, clients: Collection[str], limit: int, seed: int) -> tuple[int, list[tuple[str, str]]]:
    """Return how many pairs the subscribers of one run make, and those to compare, sorted.

    The sample depends on the arguments alone: not on the order of the clients, other runs, the machine, or the release
    of Python. Costs O(n + used), however many pairs there are.

    Args:
        clients: ids of the clients of which a raw or a delivered stream has anything.
        limit: the most pairs to compare; all of them where there are no more.
    """
    names = sorted(set(clients))
    total = len(names) * (len(names) - 1) // 2
    numbers = range(total) if total <= limit else sorted(_draw(run, total, limit, seed))
    return total, sorted(_pair(names, number) for number in numbers)


def _draw(run: str, total: int, limit: int, seed: int) -> set[int]:
    """Draw indices by hashing a counter: `random` promises the same numbers in every release for one method only."""
    drawn: set[int] = set()
    count = 0
    key = f"{seed}\0{run}\0".encode("utf-8", "surrogatepass")
    while len(drawn) < limit:
        digest = blake2b(key + str(count).encode(), digest_size=16).digest()
        drawn.add(int.from_bytes(digest) % total)
        count += 1
    return drawn


def _pair(names: list[str], number: int) -> tuple[str, str]:
    """Return a pair by its index: (0, 1), (0, 2), (1, 2), ... Those whose second is `at` begin at `at` (at - 1) / 2."""
    at = (1 + isqrt(1 + 8 * number)) // 2
    return names[number - at * (at - 1) // 2], names[at]
