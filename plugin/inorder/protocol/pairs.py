"""Flat lists: frames carry numbers by topic as ``[topic, number, topic, number, ...]``.

So they do with other pairs, as ranges, and with triples, as runs of a topic's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def pairs(parts: Iterable[int], *, strict: bool = True) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a flat list. One part too many raises ValueError at the end; not ``strict``: is left out."""
    each = iter(parts)
    return zip(each, each, strict=strict)


def triples(parts: Iterable[int], *, strict: bool = True) -> Iterator[tuple[int, int, int]]:
    """Yield the triples of a flat list; for parts too many, see :func:`pairs`."""
    each = iter(parts)
    return zip(each, each, each, strict=strict)


def flat(entries: Mapping[int, int]) -> list[int]:
    """Return a mapping as a flat list ``[topic, number, ...]``."""
    return joined(entries.items())


def joined(entries: Iterable[Iterable[int]]) -> list[int]:
    """Return pairs, or triples, as a flat list."""
    return [part for entry in entries for part in entry]


def firsts(parts: list[int], size: int = 2) -> list[int]:
    """Return the topics of a flat list of pairs, or whatever comes first in each ``size`` parts."""
    return parts[::size]


def name_once(parts: list[int]) -> None:
    """Leave of a flat list the highest number of each topic, in place."""
    entries: dict[int, int] = {}
    raise_to(entries, parts)
    if 2 * len(entries) < len(parts):
        parts[:] = flat(entries)


def raise_to(entries: dict[int, int], parts: Iterable[int]) -> None:
    """Take the maximum of a mapping and a flat list, in place."""
    raise_all(entries, pairs(parts))


def raise_all(entries: dict[int, int], numbers: Iterable[tuple[int, int]]) -> None:
    """Take the maximum of a mapping and pairs, in place."""
    for topic, number in numbers:
        if entries.get(topic, 0) < number:
            entries[topic] = number
