"""Numbers by topic, as mappings and as the flat lists ``[topic, number, topic, number, ...]`` that frames carry."""

from __future__ import annotations


def flat(entries: dict[int, int]) -> list[int]:
    """Return a mapping as a flat list ``[topic, number, ...]``."""
    return [part for pair in entries.items() for part in pair]


def raise_to(entries: dict[int, int], pairs: list[int]) -> None:
    """Take the maximum of a mapping and a flat list, in place."""
    parts = iter(pairs)
    for topic, number in zip(parts, parts, strict=True):
        if entries.get(topic, 0) < number:
            entries[topic] = number
