"""The journal in SQL (DESIGN, "The journal and its fence").

On PostgreSQL an append is one statement that commits by itself and locks the rows of its stages: a new owner's
update of the epoch waits for it, and after that update the statement finds no row of its epoch and writes nothing.
On SQLite it is one statement, too, which has the write lock before it reads the epoch; for several stages, or with
changes of event logs, it is one transaction of which the same is true.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final

import sqlalchemy as sa

from inorder.errors import StoreCorrupt, StoreOutdated, StoreUnreachable, StoreVersionMismatch
from inorder_worker.store import log_rows
from inorder_worker.store.chain import (
    EMPTY_TAIL,
    NO_HASH,
    SNAPSHOT_FORMAT,
    Problem,
    Row,
    Tail,
    checked,
    snapshot_hash,
    snapshot_problem,
)
from inorder_worker.store.failpoints import reach
from inorder_worker.store.history import keep_claim
from inorder_worker.store.identity import kill_stopped, process_of
from inorder_worker.store.journal import (
    Batch,
    Holder,
    Journal,
    Member,
    Snapshot,
    StoreInfo,
    Tails,
    TopicOrder,
    alive,
    fenced,
    require_same,
    require_tail,
)
from inorder_worker.store.log_rows import LogReader, LogRow, LogWrite, SqlLogReader
from inorder_worker.store.schema import SCHEMA_VERSION, journal, meta, snapshots, stages, workers
from inorder_worker.store.seals import meta_seal, stage_problem, stage_seal
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.store import Store, chunks
from inorder_worker.store.store_errors import Conflict

CHUNK_ROWS: Final = 64
KEPT_SNAPSHOTS: Final = 2

_STAGE = sa.select(stages).where(stages.c.stage == sa.bindparam("of"))
_MAP = sa.select(*(stages.c[name] for name in Holder._fields)).order_by(stages.c.stage)
_META = sa.select(meta.c.domain, meta.c.schema_version, meta.c.outdated)
_EPOCHS = sa.select(stages.c.stage, stages.c.epoch, stages.c.owner).where(
    stages.c.stage.in_(sa.bindparam("of", expanding=True))
)
_CHANGE = stages.update().where(
    stages.c.stage == sa.bindparam("of"), stages.c.epoch == sa.bindparam("ours"), stages.c.beat == sa.bindparam("seen")
)
_FOLLOWS: Final = " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} AS its WHERE its.stage = %(stage)s AND its.seq = %(seq)s - 1 "
    "AND its.hash = %(prev_hash)s)"
    for table in ("journal", "snapshots")
)
"""The row before is there, or a snapshot that covers it. Else this is an older copy of the store, put back under us."""
_INSERT_IF_OURS: Final = (
    f"INSERT INTO journal ({', '.join(Row._fields)}) "
    f"SELECT {', '.join(f'?{at}' for at in range(1, len(Row._fields) + 1))} FROM stages "
    f"WHERE stage = ?1 AND epoch = ?3 AND (?2 = 1 OR {_FOLLOWS % {'stage': '?1', 'seq': '?2', 'prev_hash': '?4'}})"
)
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
_SNAPSHOTS = sa.select(snapshots).where(snapshots.c.stage == sa.bindparam("of")).order_by(snapshots.c.seq.desc())
_KEPT_SNAPSHOTS = _SNAPSHOTS.limit(KEPT_SNAPSHOTS)
_SNAPSHOT_SEQS = (
    sa.select(snapshots.c.seq, snapshots.c.hash)
    .where(snapshots.c.stage == sa.bindparam("of"))
    .order_by(snapshots.c.seq.desc())
)


class _NotWritten(Exception):
    """A stage's epoch is another one, or the row before is not there: the transaction is undone."""


class SqlJournal:
    """A Journal over a Store. See Journal for the calls."""

    def __init__(
        self, url: str, *, timeout: float = 10.0, pause: float | None = None, driver: ModuleType | None = None
    ) -> None:
        self._store = Store(url, timeout=timeout, pause=pause, driver=driver)
        self._make_sibling = partial(SqlJournal, url, timeout=timeout, pause=pause, driver=driver)
        self._open_again: Callable[[], Store] = lambda: Store(url, timeout=timeout, pause=pause, driver=driver)
        self._timeout = timeout
        self._tails = Tails()
        self._domain = 0
        self.url = self._store.url

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """See Journal."""
        info = self._store.open(stages, topic_order)
        self._store.make_room()
        self._domain = info.domain
        return info

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        """See Journal. The tail is read after the epoch is raised, when no older append can follow any more."""
        reach("claim.before")
        while True:
            found = self._find_stage(stage)
            self._check_store()  # after that: a restore from then on raises the epoch that was found
            epoch: int = found["epoch"]
            if seen is not None and epoch != seen and found["owner"] != owner:
                raise fenced(self.url, stage, seen, epoch, found["owner"])
            if beat is not None and found["beat"] != beat and found["owner"] not in ("", owner):
                raise alive(self.url, stage, found["owner"])
            if self._raise_epoch(found, owner, address):
                break
        reach("claim.after")
        self._tails[stage] = self._tail(stage)
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
                found = self._stage(connection, stage, for_update=True)
                if found["epoch"] == epoch:
                    self._change(connection, found, {"owner": ""})

        self._store.write(write)

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        """See Journal. When the answer to a commit is lost, or is an error, the rows are looked for by stage, number
        and hash. Where they are not there a server gets them again, as the very same rows, so that a late commit of
        the first attempt cannot double them; a file does not: what failed there (a full disk) fails again."""
        rows = self._tails.make_rows(batches)
        deadline = time.monotonic() + self._timeout
        reach("append.before")
        while True:
            try:
                self._insert(rows, log)
                break
            except Conflict:
                self._check_are_ours(rows)
                break
            except StoreUnreachable:
                is_over = self._store.is_interrupted or time.monotonic() > deadline
                if is_over and not self._store.is_sqlite:
                    raise  # who recovers finds the rows, or does not
                if self._found_after_all(rows):
                    break
                if self._store.is_sqlite:
                    raise
        self._tails.advance(rows)
        reach("append.after")

    def log_reader(self) -> LogReader:
        """See Journal. It has a connection of its own."""
        store = self._open_again()
        return SqlLogReader(store.read, store.close)

    def replay(self, stage: int, after_seq: int) -> Iterator[Row]:
        """See Journal."""
        return self.read_on(stage, Tail(after_seq, self._hash_at(stage, after_seq)))

    def read_on(self, stage: int, tail: Tail) -> Iterator[Row]:
        """See Journal."""
        rows = chunks(lambda after: self._rows(stage, after), lambda row: row.seq, tail.seq)
        return checked(rows, self.url, stage, tail)

    def save_snapshot(self, stage: int, epoch: int, seq: int, state: bytes) -> None:
        """See Journal. Two transactions: a crash between them leaves rows that the next one forgets."""
        covered = self._hash_at(stage, seq)
        values = {
            "stage": stage, "seq": seq, "hash": covered, "state": state, "format": SNAPSHOT_FORMAT,
            "state_hash": snapshot_hash(stage, seq, covered, state),
        }  # fmt: skip

        def save(connection: sa.Connection) -> None:
            self._lock_epochs(connection, [(stage, epoch)])
            connection.execute(snapshots.insert(), values)

        reach("snapshot.before")
        with contextlib.suppress(Conflict):  # saved by an attempt whose answer was lost
            self._store.write(save, len(state))
        reach("snapshot.after")
        self._compact(stage, epoch)

    def _compact(self, stage: int, epoch: int) -> None:
        """Forget what the two newest snapshots make needless: older ones, and rows that the older of the two covers.
        Nothing is forgotten unless both read back whole."""
        kept = self._store.run(lambda connection: connection.execute(_KEPT_SNAPSHOTS, {"of": stage}).mappings().all())
        if len(kept) < KEPT_SNAPSHOTS:
            return
        for found in kept:
            if problem := _snapshot_problem(found):
                raise problem.error(self.url)
        oldest = kept[-1]["seq"]

        def forget(connection: sa.Connection) -> None:
            self._lock_epochs(connection, [(stage, epoch)])
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
        if damaged and next((row.seq for row in self._rows(stage, 0)), None) != 1:
            raise StoreCorrupt(self.url, f"snapshots of stage {stage} at rows {damaged} are damaged")
        return None

    def last_row(self, stage: int) -> int:
        """See Journal."""
        return self._tail(stage).seq

    def mark_outdated(self, reason: str) -> None:
        """See Journal. What was found first stays."""

        def write(connection: sa.Connection) -> None:
            found = connection.execute(sa.select(meta).with_for_update()).mappings().one()
            require_same(self.url, self._domain, found["domain"], "")
            if not found["outdated"]:
                seal = meta_seal({**found, "outdated": reason})
                connection.execute(meta.update().values(outdated=reason, seal=seal))

        self._store.write(write)

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        """See Journal."""

        def write(connection: sa.Connection) -> None:
            for stage, epoch in owned:
                found = self._stage(connection, stage, for_update=True)
                if found["epoch"] != epoch:
                    raise fenced(self.url, stage, epoch, found["epoch"], found["owner"])
                self._change(connection, found, {"beat": found["beat"] + 1})
            if member is not None:
                _show(connection, member)

        self._store.write(write)
        self._check_store()

    def read_members(self) -> list[Member]:
        """See Journal."""
        return self._store.run(read_workers)

    def forget_members(self, owners: Collection[str], *, are_silent: bool = False) -> None:
        """See Journal."""
        if are_silent and (reason := self._store.run(lambda connection: connection.execute(_META).one()).outdated):
            raise StoreOutdated(self.url, reason)
        self._store.write(lambda connection: connection.execute(workers.delete().where(workers.c.owner.in_(owners))))

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

    # -- append ------------------------------------------------------------------------------------------------

    def _insert(self, rows: list[Row], log: Sequence[LogWrite]) -> None:
        try:
            self._write(rows, log)
        except _NotWritten:
            self._raise_fenced(rows)

    def _write(self, rows: list[Row], log: Sequence[LogWrite]) -> None:
        size = sum(len(row.entries) for row in rows)
        if log:
            size += sum(len(each.content or b"") for each in log if isinstance(each, LogRow))
            self._store.write(lambda connection: self._insert_logged(connection, rows, log), size)
        elif not self._store.is_sqlite:
            reach("commit.before")
            self._store.run(lambda connection: self._insert_on_server(connection, rows))
            reach("commit.after")
        elif len(rows) > 1:
            self._store.write_by_driver(lambda cursor: self._insert_in_file(cursor, rows), size)
        elif not self._store.run_by_driver(_INSERT_IF_OURS, rows[0], size):
            raise _NotWritten

    def _insert_logged(self, connection: sa.Connection, rows: list[Row], log: Sequence[LogWrite]) -> None:
        if self._store.is_sqlite:
            self._insert_in_file(connection.connection.cursor(), rows)
        else:
            self._insert_on_server(connection, rows)
        log_rows.write(connection, log)

    def _insert_on_server(self, connection: sa.Connection, rows: list[Row]) -> None:
        parameters: dict[str, Any] = {}
        for index, row in enumerate(rows):
            parameters.update((f"{name}{index}", value) for name, value in zip(Row._fields, row, strict=True))
        statement = fenced_insert(len(rows), self._store.settings)
        if connection.execute(statement, parameters).rowcount != len(rows):
            raise _NotWritten

    @staticmethod
    def _insert_in_file(cursor: Any, rows: list[Row]) -> None:
        for row in rows:
            cursor.execute(_INSERT_IF_OURS, row)
            if not cursor.rowcount:
                raise _NotWritten

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
            found = self._find_stage(row.stage)
            if found["epoch"] != row.epoch:
                raise fenced(self.url, row.stage, row.epoch, found["epoch"], found["owner"])
        for row in rows:
            require_tail(self.url, row, self._tail(row.stage))
        raise StoreCorrupt(self.url, f"journal of stage {rows[0].stage}: row {rows[0].seq} is not what was written")

    def _lock_epochs(self, connection: sa.Connection, owned: Sequence[tuple[int, int]]) -> None:
        """Inside a transaction: make sure that these epochs hold until its end. Raises Fenced."""
        statement = _EPOCHS if self._store.is_sqlite else _EPOCHS.with_for_update()
        rows = connection.execute(statement, {"of": [one for one, _ in owned]})
        found = {row.stage: (row.epoch, row.owner) for row in rows}
        for stage, epoch in owned:
            self._check_epoch(stage, epoch, found.get(stage))

    def _check_epoch(self, stage: int, epoch: int, found: tuple[int, str] | None) -> None:
        """Raise Fenced unless the store has this epoch; ``found``: what it has, with the owner."""
        there, holder = found or (0, "")
        if there != epoch:
            raise fenced(self.url, stage, epoch, there, holder)

    # -- reading -----------------------------------------------------------------------------------------------

    def _check_store(self) -> None:
        if self._domain:
            found = self._store.run(lambda connection: connection.execute(_META).one())
            require_same(self.url, self._domain, found.domain, found.outdated)
            if found.schema_version != SCHEMA_VERSION:
                reason = f"its schema has version {found.schema_version} now, this release knows {SCHEMA_VERSION}"
                raise StoreVersionMismatch(self.url, f"{reason}: a newer one has brought it up to date")

    def _find_stage(self, stage: int) -> sa.RowMapping:
        return self._store.run(lambda connection: self._stage(connection, stage))

    def _raise_epoch(self, found: sa.RowMapping, owner: str, address: str) -> bool:
        values = {"epoch": found["epoch"] + 1, "owner": owner, "address": address}

        # Not retried here when the connection is lost: the caller reads the epoch again and finds itself its owner.
        def write(connection: sa.Connection) -> bool:
            is_ours = self._change(connection, found, values)
            if is_ours:
                keep_claim(connection, found["stage"], values["epoch"], found["owner"], owner, address)
            return is_ours

        return self._store.write(write)

    def _stage(self, connection: sa.Connection, stage: int, *, for_update: bool = False) -> sa.RowMapping:
        """Return a stage's row, checked; ``for_update``: it stays as it is until our transaction ends."""
        statement = _STAGE.with_for_update() if for_update and not self._store.is_sqlite else _STAGE
        row = connection.execute(statement, {"of": stage}).mappings().one_or_none()
        if row is None:
            raise StoreCorrupt(self.url, f"there is no stage {stage}")
        if problem := stage_problem(row):
            raise problem.error(self.url)
        return row

    @staticmethod
    def _change(connection: sa.Connection, found: sa.RowMapping, values: dict[str, Any]) -> bool:
        """Change a stage's row and seal it again; false if it is not any more what was found."""
        changed = {**found, **values}
        seen = {"of": found["stage"], "ours": found["epoch"], "seen": found["beat"]}
        done = connection.execute(_CHANGE.values(**values, seal=stage_seal(changed)), seen)
        return done.rowcount == 1

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


def read_holders(connection: sa.Connection) -> list[Holder]:
    """Return who has which stage."""
    return [Holder(*row) for row in connection.execute(_MAP).all()]


def read_workers(connection: sa.Connection) -> list[Member]:
    """Return all workers that have shown themselves."""
    return [
        Member(each["owner"], each["address"], each["beat"], tuple(json.loads(each["pins"])),
               {int(stage): row for stage, row in json.loads(each["rows"]).items()})
        for each in connection.execute(sa.select(workers)).mappings().all()
    ]  # fmt: skip


def read_last_rows(connection: sa.Connection) -> dict[int, int]:
    """Return the last row of each stage's journal; stages without rows are missing."""
    last = sa.select(journal.c.stage, sa.func.max(journal.c.seq)).group_by(journal.c.stage)
    return {found[0]: found[1] for found in connection.execute(last).all()}


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


@lru_cache(maxsize=64)
def fenced_insert(count: int, settings: str) -> sa.TextClause:
    """Return PostgreSQL's append of ``count`` rows: all of them if every stage still has its row's epoch and the row
    before it, else none. The lock is on the stages' rows, which a claim updates. ``settings``: see Store; they are
    evaluated first."""
    types = {"stage": "integer", "seq": "bigint", "epoch": "bigint", "prev_hash": "bytea", "hash": "bytea",
             "entries": "bytea", "format": "integer"}  # fmt: skip
    values = ", ".join(
        "(" + ", ".join(f"CAST(:{name}{index} AS {types[name]})" for name in Row._fields) + ")"
        for index in range(count)
    )
    owned = ", ".join(f"(CAST(:stage{index} AS integer), CAST(:epoch{index} AS bigint))" for index in range(count))
    columns = ", ".join(Row._fields)
    follows = _FOLLOWS % {name: f"one.{name}" for name in Row._fields}
    return sa.text(
        f"WITH settings AS MATERIALIZED (SELECT {settings}), "
        "owned AS MATERIALIZED (SELECT stage FROM stages, (SELECT count(*) FROM settings) AS done "
        f"WHERE (stage, epoch) IN ({owned}) ORDER BY stage FOR UPDATE OF stages), "
        f"given ({columns}) AS (VALUES {values}) "
        f"INSERT INTO journal ({columns}) SELECT {columns} FROM given WHERE (SELECT count(*) FROM owned) = {count} "
        f"AND NOT EXISTS (SELECT 1 FROM given AS one WHERE one.seq > 1 AND NOT ({follows}))"
    )
