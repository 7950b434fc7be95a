"""The journal in SQL (DESIGN section 3, "Journal in SQL" and "Fence").

On PostgreSQL an append is one statement that commits by itself and locks the rows of its stages: a new owner's
update of the epoch waits for it, and after that update the statement finds no row of its epoch and writes nothing.
On SQLite it is one transaction that has the write lock before it reads the epochs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa

from inorder.errors import StoreCorrupt, StoreUnreachable
from inorder.worker.journal import (
    EMPTY_TAIL,
    NO_HASH,
    Batch,
    Holder,
    Row,
    Snapshot,
    StoreInfo,
    Tail,
    Tails,
    TopicOrder,
    checked,
    fenced,
    snapshot_hash,
)
from inorder.worker.schema import journal, snapshots, stages
from inorder.worker.store import Conflict, Store, chunks

CHUNK_ROWS: Final = 64
KEPT_SNAPSHOTS: Final = 2

_EPOCH = sa.select(stages.c.epoch, stages.c.owner).where(stages.c.stage == sa.bindparam("of"))
_MAP = sa.select(*(stages.c[name] for name in Holder._fields)).order_by(stages.c.stage)
_RELEASE = (
    stages.update().where(stages.c.stage == sa.bindparam("of"), stages.c.epoch == sa.bindparam("ours")).values(owner="")
)
_EPOCHS = sa.select(stages.c.stage, stages.c.epoch, stages.c.owner).where(
    stages.c.stage.in_(sa.bindparam("of", expanding=True))
)
_CLAIM = (
    stages.update()
    .where(stages.c.stage == sa.bindparam("of"), stages.c.epoch == sa.bindparam("seen"))
    .values(epoch=stages.c.epoch + 1, owner=sa.bindparam("by"), address=sa.bindparam("at"))
)
_BEAT = (
    stages.update()
    .where(stages.c.stage == sa.bindparam("of"), stages.c.epoch == sa.bindparam("ours"))
    .values(beat=stages.c.beat + 1)
)
_INSERT = journal.insert()
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
_SNAPSHOTS = (
    sa.select(snapshots.c.seq, snapshots.c.hash, snapshots.c.state_hash, snapshots.c.state)
    .where(snapshots.c.stage == sa.bindparam("of"))
    .order_by(snapshots.c.seq.desc())
)
_SNAPSHOT_SEQS = (
    sa.select(snapshots.c.seq, snapshots.c.hash)
    .where(snapshots.c.stage == sa.bindparam("of"))
    .order_by(snapshots.c.seq.desc())
)


class SqlJournal:
    """A Journal over a Store. See Journal for the calls."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self._store = Store(url, timeout=timeout)
        self._timeout = timeout
        self._tails = Tails()
        self.url = self._store.url

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """See Journal."""
        return self._store.open(stages, topic_order)

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "") -> int:
        """See Journal. The tail is read after the epoch is raised, when no older append can follow any more."""
        while True:
            epoch, holder = self._epoch(stage)
            if seen is not None and epoch != seen and holder != owner:
                raise fenced(self.url, stage, seen, epoch, holder)
            if self._raise_epoch(stage, epoch, owner, address):
                break
        self._tails[stage] = self._tail(stage)
        return epoch + 1

    def holders(self) -> list[Holder]:
        """See Journal. An SQLite file is used from one machine, so a process that is gone is known to be."""
        owned = [each for each in self.read_map() if each.owner]
        return [each for each in owned if not (self._store.is_sqlite and _is_gone(each.owner))]

    def read_map(self) -> list[Holder]:
        """See Journal."""
        return [Holder(*row) for row in self._store.run(lambda connection: connection.execute(_MAP).all())]

    def release(self, owned: Sequence[tuple[int, int]]) -> None:
        """See Journal."""

        def write(connection: sa.Connection) -> None:
            for stage, epoch in owned:
                connection.execute(_RELEASE, {"of": stage, "ours": epoch})

        self._store.write(write)

    def append(self, batches: Sequence[Batch]) -> None:
        """See Journal. When the connection is lost after the commit was sent, the rows are looked for, and written
        again only as the very same rows, so that a late commit of the first attempt cannot double them."""
        rows = self._tails.make_rows(batches)
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._insert(rows)
                break
            except Conflict:
                self._check_are_ours(rows)
                break
            except StoreUnreachable:
                if self._store.is_sqlite or self._store.is_interrupted or time.monotonic() > deadline:
                    raise
            if self._found_after_all(rows):
                break
        self._tails.advance(rows)

    def replay(self, stage: int, after_seq: int) -> Iterator[Row]:
        """See Journal."""
        start = Tail(after_seq, self._hash_at(stage, after_seq))
        rows = chunks(lambda after: self._rows(stage, after), lambda row: row.seq, after_seq)
        return checked(rows, self.url, stage, start)

    def save_snapshot(self, stage: int, epoch: int, seq: int, state: bytes) -> None:
        """See Journal."""
        covered = self._hash_at(stage, seq)
        values = {
            "stage": stage, "seq": seq, "hash": covered, "state": state,
            "state_hash": snapshot_hash(stage, seq, covered, state),
        }  # fmt: skip

        def save(connection: sa.Connection) -> None:
            self._lock_epochs(connection, [(stage, epoch)])
            connection.execute(snapshots.insert(), values)
            seqs = connection.execute(_SNAPSHOT_SEQS, {"of": stage}).scalars().all()
            if len(seqs) >= KEPT_SNAPSHOTS:
                oldest = seqs[KEPT_SNAPSHOTS - 1]
                connection.execute(snapshots.delete().where(snapshots.c.stage == stage, snapshots.c.seq < oldest))
                connection.execute(journal.delete().where(journal.c.stage == stage, journal.c.seq <= oldest))

        with contextlib.suppress(Conflict):  # saved by an attempt whose answer was lost
            self._store.write(save)

    def load_snapshot(self, stage: int) -> Snapshot | None:
        """See Journal. A damaged newest one is passed over for the one before, whose rows are still there."""
        damaged = []
        for found in self._store.run(lambda connection: connection.execute(_SNAPSHOTS, {"of": stage}).all()):
            if found.state_hash == snapshot_hash(stage, found.seq, found.hash, found.state):
                return Snapshot(stage, found.seq, found.hash, found.state)
            damaged.append(found.seq)
        if damaged and next((row.seq for row in self._rows(stage, 0)), None) != 1:
            raise StoreCorrupt(self.url, f"snapshots of stage {stage} at rows {damaged} are damaged")
        return None

    def beat(self, owned: Sequence[tuple[int, int]]) -> None:
        """See Journal."""

        def write(connection: sa.Connection) -> None:
            for stage, epoch in owned:
                if connection.execute(_BEAT, {"of": stage, "ours": epoch}).rowcount != 1:
                    raise fenced(self.url, stage, epoch, *self._epoch_in(connection, stage))

        self._store.write(write)

    def close(self) -> None:
        """See Journal."""
        self._store.close()

    def interrupt(self) -> None:
        """See Journal."""
        self._store.interrupt()

    # -- append ------------------------------------------------------------------------------------------------

    def _insert(self, rows: list[Row]) -> None:
        if self._store.is_sqlite:
            self._store.write(lambda connection: self._insert_locked(connection, rows))
            return
        parameters: dict[str, Any] = {}
        for index, row in enumerate(rows):
            parameters.update((f"{name}{index}", value) for name, value in zip(Row._fields, row, strict=True))
        statement = fenced_insert(len(rows))
        written = self._store.run(lambda connection: connection.execute(statement, parameters).rowcount)
        if written != len(rows):
            self._raise_fenced(rows)

    def _insert_locked(self, connection: sa.Connection, rows: list[Row]) -> None:
        self._lock_epochs(connection, [(row.stage, row.epoch) for row in rows])
        connection.execute(_INSERT, [row._asdict() for row in rows])

    def _found_after_all(self, rows: list[Row]) -> bool:
        """After a lost connection: tell whether the rows were written. False also if the store is still away."""
        try:
            first = self._hash_of(rows[0].stage, rows[0].seq)
        except StoreUnreachable:
            time.sleep(0.05)
            return False
        if first is None:
            return False
        self._check_are_ours(rows)
        return True

    def _check_are_ours(self, rows: list[Row]) -> None:
        """Raises Fenced or StoreCorrupt if other rows have these numbers."""
        for row in rows:
            if self._hash_of(row.stage, row.seq) != row.hash:
                self._raise_fenced(rows)

    def _raise_fenced(self, rows: list[Row]) -> None:
        for row in rows:
            epoch, holder = self._epoch(row.stage)
            if epoch != row.epoch:
                raise fenced(self.url, row.stage, row.epoch, epoch, holder)
        raise StoreCorrupt(self.url, f"journal of stage {rows[0].stage}: row {rows[0].seq} is not what was written")

    def _lock_epochs(self, connection: sa.Connection, owned: Sequence[tuple[int, int]]) -> None:
        """Inside a transaction: make sure that these epochs hold until its end. Raises Fenced."""
        statement = _EPOCHS if self._store.is_sqlite else _EPOCHS.with_for_update()
        rows = connection.execute(statement, {"of": [one for one, _ in owned]})
        found = {row.stage: (row.epoch, row.owner) for row in rows}
        for stage, epoch in owned:
            there, holder = found.get(stage, (0, ""))
            if there != epoch:
                raise fenced(self.url, stage, epoch, there, holder)

    # -- reading -----------------------------------------------------------------------------------------------

    def _epoch(self, stage: int) -> tuple[int, str]:
        return self._store.run(lambda connection: self._epoch_in(connection, stage))

    def _epoch_in(self, connection: sa.Connection, stage: int) -> tuple[int, str]:
        row = connection.execute(_EPOCH, {"of": stage}).one_or_none()
        if row is None:
            raise StoreCorrupt(self.url, f"there is no stage {stage}")
        return row.epoch, row.owner

    def _raise_epoch(self, stage: int, seen: int, owner: str, address: str) -> bool:
        values = {"of": stage, "seen": seen, "by": owner, "at": address}
        # Not retried here when the connection is lost: the caller reads the epoch again and finds itself its owner.
        return self._store.run(lambda connection: connection.execute(_CLAIM, values).rowcount) == 1

    def _tail(self, stage: int) -> Tail:
        def last(connection: sa.Connection) -> Tail:
            for statement in (_LAST_ROW, _SNAPSHOT_SEQS):
                if row := connection.execute(statement, {"of": stage}).first():
                    return Tail(row.seq, row.hash)
            return EMPTY_TAIL

        return self._store.run(last)

    def _rows(self, stage: int, after: int) -> list[Row]:
        found = self._store.run(lambda connection: connection.execute(_ROWS, {"of": stage, "after": after}).all())
        return [Row(*row) for row in found]

    def _hash_of(self, stage: int, seq: int) -> bytes | None:
        """Return the hash of a journal row, ``None`` if it is not there."""
        return self._store.run(lambda connection: connection.execute(_ROW_HASH, {"of": stage, "at": seq}).scalar())

    def _hash_at(self, stage: int, seq: int) -> bytes:
        """Return the hash that the chain has after ``seq``: of the row, and of a snapshot that covers it."""
        if seq == 0:
            return NO_HASH
        by_row = self._hash_of(stage, seq)
        kept = self._store.run(lambda connection: connection.execute(_SNAPSHOT_SEQS, {"of": stage}).all())
        by_snapshot = next((row.hash for row in kept if row.seq == seq), None)
        if by_row is not None and by_snapshot is not None and by_row != by_snapshot:
            raise StoreCorrupt(self.url, f"journal of stage {stage}: row {seq} is not the one its snapshot covers")
        found = by_row if by_row is not None else by_snapshot
        if found is None:
            raise StoreCorrupt(self.url, f"journal of stage {stage}: row {seq} is missing")
        return found


def _is_gone(owner: str) -> bool:
    """Tell whether an owner (``name/pid/...``) is known to have ended; where that is not certain, it has not."""
    pid = owner.rpartition("/")[0].rpartition("/")[2]
    if os.name != "posix" or not (pid.isascii() and pid.isdigit()) or int(pid) == 0:
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


@lru_cache(maxsize=64)
def fenced_insert(count: int) -> sa.TextClause:
    """Return PostgreSQL's append of ``count`` rows: all of them if every stage still has its row's epoch, else
    none. The lock is on the stages' rows, which a claim updates."""
    types = {"stage": "integer", "seq": "bigint", "epoch": "bigint", "prev_hash": "bytea", "hash": "bytea",
             "entries": "bytea"}  # fmt: skip
    values = ", ".join(
        "(" + ", ".join(f"CAST(:{name}{index} AS {types[name]})" for name in Row._fields) + ")"
        for index in range(count)
    )
    owned = ", ".join(f"(CAST(:stage{index} AS integer), CAST(:epoch{index} AS bigint))" for index in range(count))
    columns = ", ".join(Row._fields)
    return sa.text(
        f"WITH owned AS MATERIALIZED (SELECT stage FROM stages WHERE (stage, epoch) IN ({owned}) "
        "ORDER BY stage FOR UPDATE) "
        f"INSERT INTO journal ({columns}) SELECT {columns} FROM (VALUES {values}) AS given ({columns}) "
        f"WHERE (SELECT count(*) FROM owned) = {count}"
    )
