"""The property form of the envelope: one user property that carries the stamp; the payload stays untouched."""

from __future__ import annotations

from collections.abc import Iterable

STAMP_PROPERTY = "inorder"


def take_stamp(properties: Iterable[tuple[str, str]]) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
    """Return the stamp and the user's own properties, in order, repeated keys kept.

    The first property of our name is the stamp, whatever its value: whether it can be read is its reader's to say.
    """
    stamp: bytes | None = None
    own: list[tuple[str, str]] = []
    for key, value in properties:
        if stamp is None and key == STAMP_PROPERTY:
            stamp = value.encode()
        else:
            own.append((key, value))
    return stamp, tuple(own)
