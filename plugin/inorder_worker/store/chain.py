"""Proofs for stored rows: formats, hashes and seals, and the checks that recovery and ``verify`` share.

Each row of a stage's journal holds the hash of the row before it, a snapshot that of the row it covers; a row of the
other tables is sealed with a hash of its own. The checks are pure: recovery stops at the first problem, ``verify``
lists them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec

from inorder.errors import StoreCorrupt, StoreError, StoreVersionMismatch

ROW_FORMAT: Final = 1
"""How the entries of new journal rows are encoded (see ``hosted``). Raised by whatever makes older releases misread
them."""
SNAPSHOT_FORMAT: Final = 1
"""The same for the state in new snapshots."""

NO_HASH: Final = bytes(32)
"""What the first row of a stage has as its ``prev_hash``."""

Table = Literal[
    "file", "meta", "stages", "journal", "snapshots", "event_log",
    "tokens", "audit", "order_history", "takeovers", "analytics_runs", "schedules",
]  # fmt: skip


class Row(NamedTuple):
    """One stored row of the journal."""

    stage: int
    seq: int
    epoch: int
    prev_hash: bytes
    hash: bytes
    entries: bytes
    format: int = ROW_FORMAT


class Tail(NamedTuple):
    """The last row of a stage's journal: number and hash; number 0 while it is empty."""

    seq: int
    hash: bytes


EMPTY_TAIL: Final = Tail(0, NO_HASH)


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in the stored data.

    Attributes:
        what: the table; ``file``: what lies below the tables.
        stage, seq: the row, where the table has stages and numbers.
        detail: in words, the row included.
        is_newer: nothing is damaged, but a newer release wrote it.
    """

    what: Table
    stage: int | None
    seq: int | None
    detail: str
    is_newer: bool = False

    def error(self, url: str) -> StoreError:
        """Return the error that stops a recovery."""
        return (StoreVersionMismatch if self.is_newer else StoreCorrupt)(url, self.detail)


# -- hashes ------------------------------------------------------------------------------------------------------


def row_hash(stage: int, seq: int, epoch: int, prev_hash: bytes, entries: bytes, form: int = ROW_FORMAT) -> bytes:
    """Return a row's hash: SHA-256 over the hash before it and all its fields, each of fixed length or last."""
    digest = hashlib.sha256(prev_hash)
    digest.update(b"%020d%020d%020d" % (stage, seq, epoch))
    digest.update(b"%020d" % form)
    digest.update(entries)
    return digest.digest()


def _right_hash(*fields: Any) -> bytes | None:
    """Return ``row_hash``, or ``None`` where a stored field is not even of its type: in SQLite each row says the types
    of its fields, and damage can be there, too."""
    try:
        return row_hash(*fields)
    except TypeError:
        return None


def snapshot_hash(stage: int, seq: int, covered: bytes, state: bytes, form: int = SNAPSHOT_FORMAT) -> bytes:
    """Return a snapshot's hash over all its fields."""
    return row_hash(stage, seq, 0, covered, state, form)


def seal(table: str, *values: object) -> str:
    """Return the seal of a row outside of the chains: SHA-256, in hexadecimal, over all its other columns."""
    return hashlib.sha256(msgspec.msgpack.encode([table, *values])).hexdigest()


# -- checks ------------------------------------------------------------------------------------------------------


def walk(rows: Iterable[Row], stage: int, start: Tail) -> Iterator[tuple[Row, Problem | None]]:
    """Yield the rows after ``start``, each with its first fault.

    The walk goes on behind a bad row, and does not blame the next one for it: that one may follow either the hash
    that is stored or the one that should be.
    """
    seq, epoch = start.seq, 0
    previous: set[bytes | None] = {start.hash}
    for row in rows:
        right = _right_hash(stage, row.seq, row.epoch, row.prev_hash, row.entries, row.format)
        problem = _problem(row, stage, seq + 1, right, previous, epoch)
        yield row, problem
        seq, previous = row.seq, {row.hash, right}
        epoch = epoch if problem else row.epoch


def _problem(
    row: Row, stage: int, seq: int, right: bytes | None, previous: set[bytes | None], epoch: int
) -> Problem | None:
    name = f"journal of stage {stage}: row {row.seq}"
    if row.hash != right:
        return Problem("journal", stage, row.seq, f"{name} is damaged (its hash does not fit)")
    if row.seq != seq:
        detail = f"journal of stage {stage}: row {seq} is missing (the next one is {row.seq})"
        return Problem("journal", stage, seq, detail)
    if row.prev_hash not in previous:
        return Problem("journal", stage, row.seq, f"{name} is damaged (its hash does not fit the row before it)")
    if row.epoch < epoch:
        return Problem("journal", stage, row.seq, f"{name} is of epoch {row.epoch} after {epoch}")
    if not 1 <= row.format <= ROW_FORMAT:
        return Problem("journal", stage, row.seq, f"{name} {_unknown(row.format, ROW_FORMAT)}", is_newer=True)
    return None


def checked(rows: Iterable[Row], url: str, stage: int, start: Tail) -> Iterator[Row]:
    """Yield right rows (number, chain, format) after ``start``. Raises StoreCorrupt and StoreVersionMismatch."""
    for row, problem in walk(rows, stage, start):
        if problem is not None:
            raise problem.error(url)
        yield row


def snapshot_problem(
    stage: int, seq: int, covered: bytes, state_hash: bytes, state: bytes, form: int
) -> Problem | None:
    """Return the fault of a stored snapshot, or ``None``."""
    name = f"snapshot of stage {stage} at row {seq}"
    if state_hash != _right_hash(stage, seq, 0, covered, state, form):
        return Problem("snapshots", stage, seq, f"{name} is damaged (its hash does not fit)")
    if not 1 <= form <= SNAPSHOT_FORMAT:
        return Problem("snapshots", stage, seq, f"{name} {_unknown(form, SNAPSHOT_FORMAT)}", is_newer=True)
    return None


def _unknown(form: int, highest: int) -> str:
    return f"has format {form}, this release knows {highest}; use the release that wrote it, or a newer one"
