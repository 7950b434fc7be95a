"""A walk through everything in a store, which lists all faults. Changes nothing, and keeps nobody waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import sqlalchemy as sa

from inorder.errors import StoreCorrupt, StoreOutdated, StoreRefused
from inorder_worker.store import schema
from inorder_worker.store.chain import EMPTY_TAIL, Problem, Row, Tail, snapshot_problem, walk
from inorder_worker.store.log_rows import row_problem
from inorder_worker.store.records import record_problem
from inorder_worker.store.seals import meta_problem, stage_problem
from inorder_worker.store.sql_connection import chunks
from inorder_worker.store.store import Store

CHUNK_ROWS: Final = 256
MAX_FILE_PROBLEMS: Final = 20

LOG_CHUNK_ROWS: Final = 16
_snapshots, _journal, _log = schema.snapshots.c, schema.journal.c, schema.event_log.c


@dataclass(frozen=True, slots=True)
class StageReport:
    """The stored data of one stage.

    Attributes:
        first, last: numbers of its first and last journal row; 0 while there is none.
        snapshots: the rows after which there are snapshots, oldest first.
    """

    stage: int
    epoch: int
    first: int
    last: int
    snapshots: list[int]


@dataclass(slots=True)
class Report:
    """The contents of a store, with all faults. ``url`` has its password masked; ``logs``: how many events the log of
    each topic has, by the topic's id."""

    url: str
    domain: int = 0
    stages: list[StageReport] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    logs: dict[int, int] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Tell whether there is no fault."""
        return not self.problems


def verify(url: str, *, timeout: float = 10.0) -> Report:
    """Check every row of a store in its present state while workers go on.

    What cannot be found this way: rows missing at the very end of a journal, as after an older copy was put back.
    Workers find that out by what clients show them (see ``attesting``); then it is told here, too.

    Raises InvalidOption, StoreUnreachable (also if there is no store yet), and StoreVersionMismatch for a schema that
    is not this release's.
    """
    store = Store(url, timeout=timeout, is_read_only=True)
    report = Report(store.url)
    try:
        store.read(lambda connection: _Walk(store, connection, report, store.mark).run())
    except StoreCorrupt as error:  # so bad that the database could not read on
        report.problems.append(Problem("file", None, None, f"{error.reason}; {error.HINT}"))
    finally:
        store.close()
    return report


def check(store: Store, connection: sa.Connection) -> Report:
    """Walk through a store inside the caller's transaction and return the report. Raises as :func:`verify` does."""
    report = Report(store.url)
    _Walk(store, connection, report).run()
    return report


class _Kept(NamedTuple):
    """A snapshot's last covered row, that row's hash, and whether the snapshot is undamaged."""

    seq: int
    hash: bytes
    is_whole: bool


class _Walk:
    """One walk, inside one transaction. ``mark``: returns what is marked beside the store of a domain."""

    def __init__(
        self, store: Store, connection: sa.Connection, report: Report, mark: Callable[[int], str] = lambda _: ""
    ) -> None:
        self._mark = mark
        self._store, self._connection, self._report = store, connection, report
        report.stages.clear()  # of an attempt that was repeated
        report.problems.clear()
        report.logs.clear()

    def run(self) -> None:
        self._store.require_current(self._connection)
        if not self._has_tables():
            return
        if self._store.is_sqlite:
            self._check_file()
        count = self._check_meta()
        stages = self._check_stages(count)
        for stage in stages:
            self._check_stage(stage["stage"], stage["epoch"])
        self._check_logs()
        self._check_records()
        known = [stage["stage"] for stage in stages]
        for what, column in (("journal", _journal.stage), ("snapshots", _snapshots.stage)):
            for stage in self._connection.execute(sa.select(column).distinct().where(column.not_in(known))).scalars():
                self._add(Problem(what, stage, None, f"{what}: rows of a stage {stage} that does not exist"))  # type: ignore[arg-type]

    def _add(self, problem: Problem | None) -> None:
        if problem is not None:
            self._report.problems.append(problem)

    def _has_tables(self) -> bool:
        """Check tables, columns and primary keys, also of tables without seals; tell whether all rows can be read.
        Without a table, or a column, no worker goes on; without a primary key a row could be there twice."""
        inspector, is_whole = sa.inspect(self._connection), True
        there = set(inspector.get_table_names())
        for name, table in schema.metadata.tables.items():
            has = [column["name"] for column in inspector.get_columns(name)] if name in there else []
            if missing := [column.name for column in table.columns if column.name not in has]:
                what = f"the table {name} has no column {', '.join(missing)}" if has else f"there is no table {name}"
                self._add(Problem("file", None, None, f"{what}; {StoreRefused.HINT}"))
                is_whole = False
            elif set(inspector.get_pk_constraint(name)["constrained_columns"]) != set(table.primary_key.columns.keys()):
                self._add(Problem("file", None, None, f"the table {name} has lost its primary key; add it again"))
        return is_whole

    def _check_file(self) -> None:
        """Run SQLite's own check, which finds damage that no row shows: in pages and indexes."""
        for (line,) in self._connection.exec_driver_sql(f"PRAGMA integrity_check({MAX_FILE_PROBLEMS})"):
            if line != "ok":
                self._add(Problem("file", None, None, f"SQLite: {line}"))

    def _check_meta(self) -> int:
        found = self._connection.execute(sa.select(schema.meta)).mappings().one()
        self._add(meta_problem(found))
        if outdated := found["outdated"] or self._mark(found["domain"]):
            self._add(Problem("meta", None, None, StoreOutdated(self._store.url, outdated).reason))
        self._report.domain = found["domain"]
        count: int = found["stages"]
        return count

    def _check_stages(self, count: int) -> Sequence[sa.RowMapping]:
        found = self._connection.execute(sa.select(schema.stages).order_by(schema.stages.c.stage)).mappings().all()
        numbers = [row["stage"] for row in found]
        if len(numbers) != count or numbers != list(range(len(numbers))):
            self._add(Problem("stages", None, None, f"stages: there are {numbers}, meta says {count} of them"))
        for row in found:
            self._add(stage_problem(row))
        return found

    def _check_logs(self) -> None:
        """Check each row of the event logs by its seal (R18), and that no number is missing between two others."""
        totals = sa.select(_log.topic, sa.func.count()).group_by(_log.topic).order_by(_log.topic)
        for topic, count in self._connection.execute(totals).all():
            self._report.logs[topic] = count
            self._check_log(topic)

    def _check_log(self, topic: int) -> None:
        before: int | None = None
        for row in chunks(lambda after: self._log_rows(topic, after), lambda row: int(row["number"]), -1):
            self._add(row_problem(row))
            if before is not None and row["number"] != before + 1:
                missing = f"numbers {before + 1} to {row['number'] - 1} are missing"
                self._add(Problem("event_log", None, before + 1, f"event log of topic {topic}: {missing}"))
            before = row["number"]

    def _check_records(self) -> None:
        """Check each row of the control plane's tables by its seal."""
        for table in schema.RECORDS:
            rows = sa.select(table).order_by(*table.primary_key).execution_options(yield_per=CHUNK_ROWS)
            for row in self._connection.execute(rows).mappings():
                self._add(record_problem(table, row))

    def _log_rows(self, topic: int, after: int) -> Sequence[sa.RowMapping]:
        """Yield the rows of logs a few at a time, as each may be as large as a frame."""
        rows = sa.select(schema.event_log).where(_log.topic == topic, _log.number > after).order_by(_log.number)
        return self._connection.execute(rows.limit(LOG_CHUNK_ROWS)).mappings().all()

    # -- one stage ---------------------------------------------------------------------------------------------

    def _check_stage(self, stage: int, epoch: int) -> None:
        kept = self._check_snapshots(stage)
        rows = chunks(lambda after: self._rows(stage, after), lambda row: row.seq, 0)
        first = next(rows, None)
        covered = {each.seq: each.hash for each in kept if each.is_whole}
        tail, highest = EMPTY_TAIL, 0
        start = self._start(kept, first)
        for row, problem in walk(_again(first, rows), stage, start):
            self._add(problem)
            tail = Tail(row.seq, row.hash)
            highest = highest if problem else row.epoch
            if covered.get(row.seq, row.hash) != row.hash and problem is None:
                detail = f"journal of stage {stage}: row {row.seq} is not the one its snapshot covers"
                self._add(Problem("journal", stage, row.seq, detail))
        newest = max((each.seq for each in kept if each.is_whole), default=0)
        if tail.seq < newest:
            detail = f"journal of stage {stage}: rows {tail.seq + 1} to {newest} are missing"
            self._add(Problem("journal", stage, tail.seq + 1, detail))
        if isinstance(epoch, int) and highest > epoch:  # else its row is damaged, as was said
            detail = f"row of stage {stage} has epoch {epoch}, its journal is of epoch {highest}"
            self._add(Problem("stages", stage, None, detail))
        seqs = [each.seq for each in kept]
        self._report.stages.append(StageReport(stage, epoch, first.seq if first else 0, tail.seq, seqs))

    @staticmethod
    def _start(kept: list[_Kept], first: Row | None) -> Tail:
        """Return the beginning of the chain: nothing, or the newest snapshot that needs no row before it. One that is
        damaged itself says nothing about the row's hash."""
        found = next((each for each in reversed(kept) if first is not None and each.seq < first.seq), None)
        if first is None or found is None:
            return EMPTY_TAIL
        return Tail(found.seq, found.hash if found.is_whole else first.prev_hash)

    def _check_snapshots(self, stage: int) -> list[_Kept]:
        """Check the snapshots one by one, for they may be large; return the covered rows, the oldest first."""
        numbers = sa.select(_snapshots.seq).where(_snapshots.stage == stage).order_by(_snapshots.seq)
        kept = []
        for seq in self._connection.execute(numbers).scalars().all():
            one = sa.select(schema.snapshots).where(_snapshots.stage == stage, _snapshots.seq == seq)
            row = self._connection.execute(one).one()
            problem = snapshot_problem(stage, seq, row.hash, row.state_hash, row.state, row.format)
            self._add(problem)
            kept.append(_Kept(seq, row.hash, problem is None or problem.is_newer))
        return kept

    def _rows(self, stage: int, after: int) -> list[Row]:
        found = self._connection.execute(
            sa.select(*(_journal[name] for name in Row._fields))
            .where(_journal.stage == stage, _journal.seq > after)
            .order_by(_journal.seq)
            .limit(CHUNK_ROWS)
        )
        return [Row(*row) for row in found]


def _again(first: Row | None, rest: Iterator[Row]) -> Iterator[Row]:
    if first is not None:
        yield first
        yield from rest
