"""The journal in SQL: a Journal over the tables of a store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa

from inorder.errors import StoreCorrupt, StoreVersionMismatch
from inorder_worker.store.appending import Appender
from inorder_worker.store.chain import (
    SNAPSHOT_FORMAT,
    Problem,
    Row,
    Tail,
    checked,
    snapshot_hash,
    snapshot_problem,
)
from inorder_worker.store.failpoints import reach
from inorder_worker.store.identity import kill_stopped, process_of
from inorder_worker.store.journal import (
    Batch,
    Holder,
    Journal,
    Member,
    Snapshot,
    Tails,
    alive,
    fenced,
    require_same,
)
from inorder_worker.store.journal_table import JournalTable
from inorder_worker.store.log_rows import LogReader, LogWrite, SqlLogReader
from inorder_worker.store.schema import SCHEMA_VERSION, journal, meta, snapshots, workers
from inorder_worker.store.sql_connection import chunks
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.stage_table import StageTable, read_holders
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Busy, Conflict
from inorder_worker.store.store_info import StoreInfo, TopicOrder

T = TypeVar("T")

CHUNK_ROWS: Final = 64
KEPT_SNAPSHOTS: Final = 2

_META = sa.select(meta.c.domain, meta.c.schema_version, meta.c.outdated)
_SNAPSHOTS = sa.select(snapshots).where(snapshots.c.stage == sa.bindparam("of")).order_by(snapshots.c.seq.desc())
_KEPT_SNAPSHOTS = _SNAPSHOTS.limit(KEPT_SNAPSHOTS)


class SqlJournal:
    """A Journal over a Store. See Journal for the calls."""

    def __init__(
        self, url: str, *, timeout: float = 10.0, pause: float | None = None, driver: ModuleType | None = None
    ) -> None:
        self._store = Store(url, timeout=timeout, pause=pause, driver=driver)
        self._make_sibling = partial(SqlJournal, url, timeout=timeout, pause=pause, driver=driver)
        self._open_again: Callable[[], Store] = lambda: Store(url, timeout=timeout, pause=pause, driver=driver)
        self._stages, self._rows = StageTable(self._store), JournalTable(self._store)
        self._appender = Appender(self._store, self._stages, self._rows, timeout)
        self._tails = Tails()
        """Of the stages that this journal has claimed."""
        self._domain = 0
        """Of the store when it was opened; 0 before that."""
        self._told = 0
        """What its file told then: the one before, while a new one is in the log only."""
        self.url = self._store.url

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """See Journal."""
        info = self._store.open(stages, topic_order)
        self._store.make_room()
        self._domain, self._told = info.domain, self._store.told_domain
        return info

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        """See Journal. The tail is read after the epoch is raised, when no older append can follow any more."""
        reach("claim.before")
        while True:
            found = self._stages.find(stage)
            self._check_store()  # after that: a restore from then on raises the epoch that was found
            epoch: int = found["epoch"]
            if seen is not None and epoch != seen and found["owner"] != owner:
                raise fenced(self.url, stage, seen, epoch, found["owner"])
            if beat is not None and found["beat"] != beat and found["owner"] not in ("", owner):
                raise alive(self.url, stage, found["owner"])
            if self._stages.raise_epoch(found, owner, address):
                break
        reach("claim.after")
        self._tails[stage] = self._rows.tail(stage)
        return epoch + 1

    def read_map(self) -> list[Holder]:
        """See Journal."""
        holders = self._store.run(read_holders)
        self._check_store()
        return holders

    def release(self, owned: Sequence[tuple[int, int]]) -> None:
        """See Journal."""

        def write(connection: sa.Connection) -> None:
            for stage, epoch in owned:
                found = self._stages.row(connection, stage, for_update=True)
                if found["epoch"] == epoch:
                    self._stages.change(connection, found, {"owner": ""})

        self._store.write(write)

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        """See Journal; Appender describes the loss of a commit's answer."""
        rows = self._tails.make_rows(batches)
        reach("append.before")
        self._appender.append(rows, log)
        self._tails.advance(rows)
        reach("append.after")

    def log_reader(self) -> LogReader:
        """See Journal. It has a connection of its own."""
        store = self._open_again()
        return SqlLogReader(store.read, store.close)

    def replay(self, stage: int, after_seq: int) -> Iterator[Row]:
        """See Journal."""
        return self.read_on(stage, Tail(after_seq, self._rows.hash_at(stage, after_seq)))

    def read_on(self, stage: int, tail: Tail) -> Iterator[Row]:
        """See Journal."""
        rows = chunks(lambda after: self._rows.rows(stage, after), lambda row: row.seq, tail.seq)
        return checked(rows, self.url, stage, tail)

    def save_snapshot(self, stage: int, epoch: int, seq: int, state: bytes) -> None:
        """See Journal. Two transactions: a crash between them leaves rows that the next one forgets."""
        covered = self._rows.hash_at(stage, seq)
        values = {
            "stage": stage, "seq": seq, "hash": covered, "state": state, "format": SNAPSHOT_FORMAT,
            "state_hash": snapshot_hash(stage, seq, covered, state),
        }  # fmt: skip

        def save(connection: sa.Connection) -> None:
            self._stages.lock_epochs(connection, [(stage, epoch)])
            connection.execute(snapshots.insert(), values)

        reach("snapshot.before")
        with contextlib.suppress(Conflict):  # saved by an attempt whose answer was lost
            self._store.write(save, len(state))
        reach("snapshot.after")
        self._compact(stage, epoch)

    def _compact(self, stage: int, epoch: int) -> None:
        """Delete what the two newest snapshots replace: older ones, and rows that the older of the two covers. Nothing
        is forgotten unless both read back whole."""
        kept = self._store.run(lambda connection: connection.execute(_KEPT_SNAPSHOTS, {"of": stage}).mappings().all())
        if len(kept) < KEPT_SNAPSHOTS:
            return
        for found in kept:
            if problem := _snapshot_problem(found):
                raise problem.error(self.url)
        oldest = kept[-1]["seq"]

        def forget(connection: sa.Connection) -> None:
            self._stages.lock_epochs(connection, [(stage, epoch)])
            connection.execute(snapshots.delete().where(snapshots.c.stage == stage, snapshots.c.seq < oldest))
            connection.execute(journal.delete().where(journal.c.stage == stage, journal.c.seq <= oldest))

        reach("compaction.before")
        self._store.write(forget)
        reach("compaction.after")

    def load_snapshot(self, stage: int) -> Snapshot | None:
        """See Journal. A damaged newest one is passed over for the one before, whose rows are still there."""
        damaged = []
        for found in self._store.run(lambda connection: connection.execute(_SNAPSHOTS, {"of": stage}).mappings().all()):
            problem = _snapshot_problem(found)
            if problem is None:
                return Snapshot(stage, found["seq"], found["hash"], found["state"])
            if problem.is_newer:
                raise problem.error(self.url)
            damaged.append(found["seq"])
        if damaged and next((row.seq for row in self._rows.rows(stage, 0)), None) != 1:
            raise StoreCorrupt(self.url, f"snapshots of stage {stage} at rows {damaged} are damaged")
        return None

    def last_row(self, stage: int) -> int:
        """See Journal."""
        return self._rows.tail(stage).seq

    def mark_outdated(self, reason: str) -> None:
        """See Journal. What was found first stays."""

        def write(connection: sa.Connection) -> None:
            found = connection.execute(_META.with_for_update()).one()
            require_same(self.url, self._domain, found.domain, "")
            self._store.mark_outdated(connection, reason)

        self._store.write(write)

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        """See Journal."""

        def write(connection: sa.Connection) -> None:
            for stage, epoch in owned:
                found = self._stages.row(connection, stage, for_update=True)
                if found["epoch"] != epoch:
                    raise fenced(self.url, stage, epoch, found["epoch"], found["owner"])
                self._stages.change(connection, found, {"beat": found["beat"] + 1})
            if member is not None:
                _show(connection, member)

        self._store.write(write)
        self._check_store()

    def read_members(self) -> list[Member]:
        """See Journal."""
        return self._store.run(read_workers)

    def forget_members(self, owners: Collection[str], *, are_silent: bool = False) -> bool:
        """See Journal."""
        if are_silent:
            found = self._store.run(lambda connection: connection.execute(_META).one())
            require_same(self.url, found.domain, found.domain, found.outdated or self._store.mark(found.domain))
        theirs = sa.select(workers.c.owner).where(workers.c.owner.in_(owners)).with_for_update(skip_locked=are_silent)

        def forget(connection: sa.Connection) -> bool:
            found = connection.execute(theirs).scalars().all()
            connection.execute(workers.delete().where(workers.c.owner.in_(found)))
            return len(found) == len(owners)

        if not are_silent:
            return self._store.write(forget)
        try:
            return self._store.write_at_once(forget)
        except Busy:
            return False

    def unblock(self, owner: str) -> bool:
        """See Journal. On SQLite whoever stands still between BEGIN and COMMIT keeps the lock; on PostgreSQL the server
        ends such a transaction (see Store)."""
        process = process_of(owner)
        if process is None or not self._store.has_write_lock(process):
            return False
        return kill_stopped(process)

    def sibling(self) -> Journal:
        """See Journal."""
        return self._make_sibling()

    def room(self) -> Room | None:
        """See Journal."""
        return self._store.room

    def records(self) -> Store | None:
        """See Journal."""
        return self._open_again()

    def close(self) -> None:
        """See Journal."""
        self._store.close()

    def interrupt(self) -> None:
        """See Journal."""
        self._store.interrupt()

    def _check_store(self) -> None:
        if self._domain:
            found = self._store.run(lambda connection: connection.execute(_META).one())
            outdated = found.outdated or self._store.mark(found.domain)
            require_same(self.url, self._domain, found.domain, outdated)
            told = self._store.told_domain
            require_same(self.url, self._domain, self._domain if told in (0, self._told) else told, "")
            if found.schema_version != SCHEMA_VERSION:
                reason = f"its schema has version {found.schema_version} now, this release knows {SCHEMA_VERSION}"
                raise StoreVersionMismatch(self.url, f"{reason}: a newer one has brought it up to date")


def read_workers(connection: sa.Connection) -> list[Member]:
    """Return all workers that have shown themselves."""
    return [
        Member(each["owner"], each["address"], each["beat"],
               _read(each["pins"], _pins, ()), _read(each["rows"], _rows, {}))
        for each in connection.execute(sa.select(workers)).mappings().all()
    ]  # fmt: skip


_pins: Final = msgspec.json.Decoder(tuple[int, ...])
_rows: Final[msgspec.json.Decoder[Mapping[int, int]]] = msgspec.json.Decoder(dict[int, int])


def _read(text: Any, decoder: msgspec.json.Decoder[T], instead: T) -> T:
    """Return what a column of a worker's row says. It is a hint, without a seal, and written anew with the next beat: a
    damaged one must stop nobody."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, TypeError):
        return instead


def _show(connection: sa.Connection, member: Member) -> None:
    values = {
        "address": member.address, "pins": json.dumps(member.pins), "rows": json.dumps(dict(member.rows)),
    }  # fmt: skip
    here = workers.update().where(workers.c.owner == member.owner)
    if connection.execute(here.values(**values, beat=workers.c.beat + 1)).rowcount == 0:
        connection.execute(workers.insert(), {**values, "owner": member.owner, "beat": 1})


def _snapshot_problem(found: sa.RowMapping) -> Problem | None:
    return snapshot_problem(
        found["stage"], found["seq"], found["hash"], found["state_hash"], found["state"], found["format"]
    )
