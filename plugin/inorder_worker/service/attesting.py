"""Positions of the journals that clients witness, by which an older copy of the store is detected.

A store that was put back as a file copy, a disk image or a dump looks like any other one: nothing in it tells that
numbers were given since, and they would be given again. Its clients know, but a client may lie, and must not be able to
stop anybody by that. So what a worker tells of its journals has a code that only workers of the same store can make, as
the key for it lies in the store. Clients keep what they were told last, and show it with each hello. A worker believes
what it, or another worker of this store, has said itself, and nothing else: what it is shown with a right code, and
cannot be true of its own journal, is the proof that this is an older copy.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from inorder.protocol.wire import Position

CODE_BYTES: Final = 16


class Standing(NamedTuple):
    """The position of a stage's journal.

    Attributes:
        epoch: the present one.
        began: the last row that was there when it began.
        row: the last durable one.
    """

    epoch: int
    began: int
    row: int


class Attestor:
    """Makes and reads positions, for one process of a worker.

    Args:
        domain, key: of the store.
    """

    def __init__(self, domain: int, key: bytes) -> None:
        self._domain, self._key = domain, key
        self._life = secrets.randbits(63)  # tells two owners of one epoch apart, in two copies of a store

    def positions(self, standings: Mapping[int, Standing]) -> list[Position]:
        """Return what clients are to be told of these stages."""
        return [
            Position(stage, each.epoch, each.row, self._life, self._code(stage, each.epoch, each.row, self._life))
            for stage, each in standings.items()
            if each.row
        ]

    def contradiction(self, shown: Iterable[Position], standings: Mapping[int, Standing]) -> str:
        """Return what a worker of this store has told and is not true of this copy of it; nothing if all may be."""
        for each in shown:
            here = standings.get(each.stage)
            if here is not None and self._is_ahead(each, here) and self._is_ours(each):
                ours = f"here it has row {here.row}, in epoch {here.epoch} since row {here.began}"
                return f"clients were told of row {each.row} of stage {each.stage} in epoch {each.epoch}, and {ours}"
        return ""

    def _is_ahead(self, shown: Position, here: Standing) -> bool:
        if shown.epoch == here.epoch:
            return shown.life != self._life or shown.row > here.row
        return shown.epoch > here.epoch or shown.row > here.began

    def _is_ours(self, shown: Position) -> bool:
        return hmac.compare_digest(shown.code, self._code(shown.stage, shown.epoch, shown.row, shown.life))

    def _code(self, stage: int, epoch: int, row: int, life: int) -> bytes:
        told = f"{self._domain} {stage} {epoch} {row} {life}".encode()
        return blake2b(told, key=self._key, digest_size=CODE_BYTES).digest()
