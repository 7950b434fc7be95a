"""Reads of the journal's rows and of the snapshots that replace some of them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from inorder.errors import StoreCorrupt
from inorder_worker.store.chain import EMPTY_TAIL, NO_HASH, Row, Tail
from inorder_worker.store.schema import journal, snapshots
from inorder_worker.store.store import Store

CHUNK_ROWS: Final = 64

_LAST_ROW = (
    sa.select(journal.c.seq, journal.c.hash)
    .where(journal.c.stage == sa.bindparam("of"))
    .order_by(journal.c.seq.desc())
    .limit(1)
)
_ROW_HASH = sa.select(journal.c.hash).where(journal.c.stage == sa.bindparam("of"), journal.c.seq == sa.bindparam("at"))
_ROWS = (
    sa.select(*(journal.c[name] for name in Row._fields))
    .where(journal.c.stage == sa.bindparam("of"), journal.c.seq > sa.bindparam("after"))
    .order_by(journal.c.seq)
    .limit(CHUNK_ROWS)
)
_SNAPSHOT_SEQS = (
    sa.select(snapshots.c.seq, snapshots.c.hash)
    .where(snapshots.c.stage == sa.bindparam("of"))
    .order_by(snapshots.c.seq.desc())
)


class JournalTable:
    """Reads the rows of all stages' journals in one store, unchecked (see ``chain.checked``).

    Args:
        store: where they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def tail(self, stage: int) -> Tail:
        """Return the last row of a stage, or the end of its newest snapshot if no row follows."""

        def last(connection: sa.Connection) -> Tail:
            for statement in (_LAST_ROW, _SNAPSHOT_SEQS):
                if row := connection.execute(statement, {"of": stage}).first():
                    return Tail(row.seq, row.hash)
            return EMPTY_TAIL

        return self._store.run(last)

    def rows(self, stage: int, after: int) -> list[Row]:
        """Return a stage's next rows behind ``after``, ``CHUNK_ROWS`` of them at most."""
        found = self._store.run(lambda connection: connection.execute(_ROWS, {"of": stage, "after": after}).all())
        return [Row(*row) for row in found]

    def hash_of(self, stage: int, seq: int) -> bytes | None:
        """Return the hash of a journal row, or ``None`` if it is missing."""
        return self._store.run(lambda connection: connection.execute(_ROW_HASH, {"of": stage, "at": seq}).scalar())

    def hash_at(self, stage: int, seq: int) -> bytes:
        """Return the chain's hash after ``seq``: the hash of the row, or of a snapshot up to it."""
        if seq == 0:
            return NO_HASH
        by_row = self.hash_of(stage, seq)
        kept = self._store.run(lambda connection: connection.execute(_SNAPSHOT_SEQS, {"of": stage}).all())
        by_snapshot = next((row.hash for row in kept if row.seq == seq), None)
        if by_row is not None and by_snapshot is not None and by_row != by_snapshot:
            raise StoreCorrupt(
                self._store.url, f"journal of stage {stage}: row {seq} is not the one its snapshot covers"
            )
        found = by_row if by_row is not None else by_snapshot
        if found is None:
            raise StoreCorrupt(self._store.url, f"journal of stage {stage}: row {seq} is missing")
        return found


def read_last_rows(connection: sa.Connection) -> dict[int, int]:
    """Return the last row of each stage's journal; stages without rows are missing."""
    last = sa.select(journal.c.stage, sa.func.max(journal.c.seq)).group_by(journal.c.stage)
    return {found[0]: found[1] for found in connection.execute(last).all()}
