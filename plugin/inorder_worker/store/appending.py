"""Appends to the journal: rows are written if their stages are still ours and no row before them is missing, else none.

On PostgreSQL an append is one statement that commits by itself and locks the rows of its stages: a new owner's
update of the epoch waits for it, and after that update the statement finds no row of its epoch and writes nothing.
On SQLite it is one statement, too, which has the write lock before it reads the epoch; for several stages, or with
changes of event logs, it is one transaction of which the same is true.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

import sqlalchemy as sa

from inorder.backoff import pause
from inorder.errors import StoreCorrupt, StoreFull, StoreUnreachable
from inorder.logs import logger
from inorder_worker.store import log_rows
from inorder_worker.store.chain import Row
from inorder_worker.store.failpoints import reach
from inorder_worker.store.journal import fenced, require_tail
from inorder_worker.store.journal_table import JournalTable
from inorder_worker.store.log_rows import LogRow, LogWrite
from inorder_worker.store.sqlite_file import ROW_PAGES
from inorder_worker.store.stage_table import StageTable
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Conflict

log = logger("inorder.worker")

FIRST_PAUSE: Final = 0.05
"""Seconds before the third attempt at most (see ``backoff``): each makes connections, two where it fails at once."""
LAST_PAUSE: Final = 0.5
"""Seconds between two attempts at most."""
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


class _NotWritten(Exception):
    """A stage's epoch differs, or the row before is missing, so the transaction is undone."""


class Appender:
    """Writes rows of one process into the journal of one store.

    Args:
        store: where it is.
        stages, rows: its tables.
        timeout: seconds for which an append is tried again on a server whose connection is lost.
    """

    def __init__(self, store: Store, stages: StageTable, rows: JournalTable, timeout: float) -> None:
        self._store, self._stages, self._rows, self._timeout = store, stages, rows, timeout

    def append(self, rows: list[Row], log: Sequence[LogWrite]) -> None:
        """Write these rows and changes of event logs, all or none. Raises Fenced, StoreOutdated and other StoreErrors.

        When the answer to a commit is lost, or is an error, the rows are looked for by stage, number and hash. Where
        they are not there a server gets them again, as the very same rows, so that a late commit of the first attempt
        cannot double them; a file does not, and no full disk: what failed there fails again. Why a server gets them
        once more is logged: this worker may be taken for dead before it gives up, and has nothing to tell then."""
        deadline = time.monotonic() + self._timeout
        for failures in count():
            try:
                self._insert(rows, log)
                return
            except Conflict:
                self._confirm(rows)
                return
            except StoreUnreachable as error:
                is_over = isinstance(error, StoreFull) or self._store.is_interrupted or time.monotonic() > deadline
                if is_over and not self._store.is_sqlite:
                    raise  # who recovers finds the rows, or does not
                if self._found_after_all(rows):
                    return
                if self._store.is_sqlite:
                    raise
                if failures:  # the first time the connection was cut, and the next one is good
                    _rest(failures, error)

    def _insert(self, rows: list[Row], log: Sequence[LogWrite]) -> None:
        try:
            self._write(rows, log)
        except _NotWritten:
            self._raise_fenced(rows)

    def _write(self, rows: list[Row], log: Sequence[LogWrite]) -> None:
        size = sum(len(row.entries) for row in rows)
        if log:
            size += sum(len(each.content or b"") for each in log if isinstance(each, LogRow)) + len(log) * ROW_PAGES
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
        """Tell whether the rows were written before the connection was lost. False also if the store is still away."""
        try:
            first = self._rows.hash_of(rows[0].stage, rows[0].seq)
        except StoreUnreachable:
            return False
        if first is None:
            return False
        self._confirm(rows)
        return True

    def _confirm(self, rows: list[Row]) -> None:
        """Wait until rows that were found, if they are ours, are where a commit of ours would have to be: on a server
        somebody, or its restart, may have ended the wait for its synchronous standby. A later commit of a changed row
        waits for all before it. Raises Fenced and other StoreErrors."""
        self._check_are_ours(rows)
        if not self._store.is_sqlite:
            owned = [(row.stage, row.epoch) for row in rows]
            self._store.write(lambda connection: self._stages.lock_epochs(connection, owned))

    def _check_are_ours(self, rows: list[Row]) -> None:
        """Raise Fenced or StoreCorrupt if other rows have these numbers."""
        for row in rows:
            if self._rows.hash_of(row.stage, row.seq) != row.hash:
                self._raise_fenced(rows)

    def _raise_fenced(self, rows: list[Row]) -> None:
        for row in rows:
            found = self._stages.find(row.stage)
            if found["epoch"] != row.epoch:
                raise fenced(self._store.url, row.stage, row.epoch, found["epoch"], found["owner"])
        for row in rows:
            require_tail(self._store.url, row, self._rows.tail(row.stage))
        raise StoreCorrupt(
            self._store.url, f"journal of stage {rows[0].stage}: row {rows[0].seq} is not what was written"
        )


def _rest(failures: int, error: StoreUnreachable) -> None:
    """Wait before the next attempt of an append, and say once what is wrong."""
    if failures == 1:
        log.warning("event=append_repeated error=%s", error)
    time.sleep(pause(FIRST_PAUSE, LAST_PAUSE, failures))


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
