"""Frames of a bounded size: names and filters are as long as brokers allow, so a bound on their number bounds nothing,
and a frame over the limit ends its receiver's connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

PORTION_BYTES: Final = 2 * 1024 * 1024
"""Of what one frame lists, at most; less than a frame may have, because one thing more may be in it, and what else it
says."""
_encoder = msgspec.msgpack.Encoder()

T = TypeVar("T", bound=msgspec.Struct)


def size_of(item: msgspec.Struct) -> int:
    """Return the bytes that a value takes in a frame."""
    return len(_encoder.encode(item))


def portions(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield items in portions of at most so many that fit a frame each; without items, one empty portion."""
    part: list[T] = []
    room = PORTION_BYTES
    for item in items:
        room -= size_of(item)
        if part and (room < 0 or len(part) == most):
            yield part
            part, room = [], PORTION_BYTES - size_of(item)
        part.append(item)
    yield part


def fitting(items: Iterable[T]) -> list[T]:
    """Return the first items, as many as fit one portion."""
    found: list[T] = []
    room = PORTION_BYTES
    for item in items:
        room -= size_of(item)
        if room < 0:
            break
        found.append(item)
    return found
