"""Sets of topics as integers.

A set of topics is an ``int`` whose bit *t* stands for topic id *t*. Ids are dense, so a set of ten thousand topics is
1,250 bytes, and what two sets share is one operation.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence

_FEW = 8
"""Up to so many topics, arithmetic with the whole set is quicker than going through its words."""
_WORD = 64


def bit_set(topics: Collection[int]) -> int:
    """Return the bit set of these topics."""
    if len(topics) <= _FEW:
        bits = 0
        for topic in topics:
            bits |= 1 << topic
        return bits
    # each step of the above costs as much as the set is wide
    parts = bytearray((max(topics) >> 3) + 1)
    for topic in topics:
        parts[topic >> 3] |= 1 << (topic & 7)
    return int.from_bytes(parts, "little")


def members(bits: int) -> Iterator[int]:
    """Yield the topics of a bit set, lowest id first."""
    start = 0
    for word in _words(bits):
        while word:
            lowest = word & -word
            yield start + lowest.bit_length() - 1
            word ^= lowest
        start += _WORD


def _words(bits: int) -> Sequence[int]:
    """Return what to take the members from, ``_WORD`` bits each: all at once where they are few."""
    if bits.bit_count() <= _FEW:
        return (bits,)
    count = -(-bits.bit_length() // _WORD)
    return struct.unpack(f"<{count}Q", bits.to_bytes(count * _WORD // 8, "little"))


def shared_twice(masks: Iterable[int]) -> tuple[int, int]:
    """Return (the topics in any of the masks, the topics in at least two of them)."""
    once = twice = 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return once, twice


def packed(bits: int) -> bytes:
    """Return a bit set as bytes, for MessagePack has no long integers."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def unpacked(parts: bytes) -> int:
    """Return the bit set of such bytes."""
    return int.from_bytes(parts, "little")
