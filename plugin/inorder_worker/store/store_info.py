"""The facts of a store that are fixed when it is made."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

TopicOrder = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """The facts that are fixed when a store is made.

    Attributes:
        domain: 32 random bits.
        stages: how many.
        topic_order: ``space:name`` of the topics that each stage began with; all its workers see the same.
        key: with which workers prove to each other what they have told clients (see ``attesting``).
        outdated: how it was found to be an older copy of itself; empty if it was not.
    """

    domain: int
    stages: int
    topic_order: tuple[tuple[str, ...], ...] = ()
    key: bytes = field(default=b"", repr=False)
    outdated: str = ""


def new_domain() -> int:
    """Return a fresh domain id: 32 random bits, never 0."""
    return secrets.randbelow(2**32 - 1) + 1


def new_key() -> bytes:
    """Return a fresh key for clients' witness marks."""
    return secrets.token_bytes(32)


def frozen_order(order: TopicOrder) -> tuple[tuple[str, ...], ...]:
    """Return a topic order in the form of StoreInfo."""
    return tuple(map(tuple, order))
