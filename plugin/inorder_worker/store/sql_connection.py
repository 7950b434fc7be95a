"""One SQL connection that is kept open and safe, and never lets an exception of SQLAlchemy out.

One thread at a time uses it, and a forked process makes a connection of its own. Durability is checked, not assumed:
SQLite runs in WAL mode with ``synchronous=FULL``, PostgreSQL never with ``synchronous_commit=off``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import NullPool

from inorder.errors import MissingExtra, StoreError, StoreFull, StoreOutdated, StoreUnreachable
from inorder.masking import masked_url
from inorder_worker.store import sqlite_count
from inorder_worker.store.failpoints import reach
from inorder_worker.store.identity import Process, locks_of
from inorder_worker.store.sqlite_file import Room, StoreFile
from inorder_worker.store.sqlite_place import cannot_open, check_kind, is_at_rest
from inorder_worker.store.store_errors import Busy, Conflict, is_not_opened, reason_of, translate
from inorder_worker.store.store_url import parsed_url, sqlite_path, url_of_file

if TYPE_CHECKING:
    from inorder_worker.store.postgresql import Primary

T = TypeVar("T")

_BUSY_WAIT_MS: Final = 250
ROOM_TO_SPARE: Final = 20
"""How often the log must fit into what is free of the disk, to be written ahead."""
_LOG_KEPT: Final = 16 * 1024 * 1024
"""Bytes of a log that was held up, and is longer than it gets by itself, that are kept when it is begun anew."""
IDLE: Final = 2.0
"""Seconds after which a connection to a server is tried before it is used."""
_LOG_LENGTH: Final = ("wal_autocheckpoint", "page_size")
_WAL_WRITE_LOCK: Final = 120
"""Byte of the WAL's index that a writer has locked (see SQLite's wal.c)."""


class SqlConnection:
    """A connection to an SQL database, opened at its first use and again after it broke.

    Args:
        url: SQLAlchemy URL. Raises InvalidOption or MissingExtra where it cannot be used.
        timeout: seconds that a lock may be waited for.
        pause: on a server, seconds for which we may stand still inside a transaction before it is undone; else the
            rows that we have locked would keep others out for as long as we do.
        is_read_only: nothing can be written, and no file is made.
        is_there: no file is made; where there is none yet, that is an error.
        driver: for SQLite, a DB-API module instead of Python's own; for tests that bring a file system.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        pause: float | None = None,
        is_read_only: bool = False,
        is_there: bool = False,
        driver: ModuleType | None = None,
    ) -> None:
        self.url = masked_url(url)
        self._timeout, self._pause, self._is_read_only = timeout, pause, is_read_only
        self._is_there = is_read_only or is_there
        self._interrupted = threading.Event()
        self._lock = threading.RLock()
        self._connection: sa.Connection | None = None
        self._used_at = 0.0
        parsed = parsed_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.settings = "" if self.is_sqlite else _postgresql().settings_of_writes(timeout, pause)
        """Expressions that each transaction that writes must evaluate, on a server."""
        self._primary: Primary | None = None
        """The server that was used last, of a URL with several hosts."""
        self._file: StoreFile | None = None
        if self.is_sqlite:
            path = sqlite_path(parsed)
            self._file = StoreFile(path, self.url, is_read_only=is_read_only)
            if self._is_there:
                is_fixed = is_read_only and is_at_rest(self._file.real)
                parsed = url_of_file(parsed, path, "ro" if is_read_only else "rw", is_fixed=is_fixed)
        self._make_engine: Callable[[], sa.Engine] = lambda: _engine(parsed, timeout, self._interrupted, driver)
        self._engine, self._pid = self._make_engine(), os.getpid()
        self._errors: tuple[type[Exception], ...] = (exc.SQLAlchemyError, _driver_error(self._engine))

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run reads, or one self-committing statement, which evaluates ``settings`` on a server. Repeated while the
        store is locked."""
        return self._patiently(lambda: self._attempt(work))

    def write(self, work: Callable[[sa.Connection], T], size: int = 0) -> T:
        """Run work in one transaction with the write lock from its start; ``size``: bytes that it writes, if these are
        many. Repeated while the store is locked. Raises StoreMoved after a commit that does not count."""
        return self._patiently(lambda: self.write_at_once(work, size))

    def write_at_once(self, work: Callable[[sa.Connection], T], size: int = 0) -> T:
        """Run work as ``write`` does, but once: raise Busy if an SQLite store is locked for more than a moment."""
        begin = "BEGIN IMMEDIATE" if self.is_sqlite else _postgresql().begin(self.settings)
        return self._attempt(lambda connection: self._in_transaction(connection, begin, work, writes=True), size)

    def write_by_driver(self, work: Callable[[Any], T], size: int = 0) -> T:
        """Run work on SQLite as ``write`` does, with a cursor of the driver (DB-API). For what every event waits for:
        what SQLAlchemy does around four short statements took as long as a fast disk takes to sync."""

        def attempt(connection: sa.Connection) -> T:
            cursor = connection.connection.cursor()  # not closed: that fails where the connection was dropped
            return self._between(cursor, "BEGIN IMMEDIATE", lambda: work(cursor), writes=True)

        return self._patiently(lambda: self._attempt(attempt, size))

    def run_by_driver(self, statement: str, parameters: Sequence[Any], size: int = 0) -> int:
        """Run one self-committing statement as ``write_by_driver`` does; return how many rows it wrote. SQLite has the
        write lock before it reads anything for it. Where the event loop is busy, each further statement would wait for
        the interpreter, several times."""

        def attempt(connection: sa.Connection) -> int:
            cursor = connection.connection.cursor()  # see write_by_driver
            if self._file is not None and self._file.is_count_due:
                return self._between(cursor, "BEGIN IMMEDIATE", lambda: run(cursor), writes=True)
            reach("commit.before")
            written = run(cursor)
            reach("commit.after")
            return written

        def run(cursor: Any) -> int:
            cursor.execute(statement, parameters)
            written: int = cursor.rowcount
            return written

        return self._patiently(lambda: self._attempt(attempt, size))

    def make_room(self) -> None:
        """Write the log of an SQLite file to its full length, with pages of no transaction, so that commits find its
        blocks there: a commit that makes the file longer takes a disk half as long again. Not where the disk is nearly
        full; no error where it fails."""
        if self._file is None:
            return
        with contextlib.suppress(StoreError, OSError):
            wanted: int = self.run(_log_bytes)
            log = self._file.log
            is_long = log.exists() and log.stat().st_size >= wanted
            if is_long or shutil.disk_usage(log.parent).free < ROOM_TO_SPARE * wanted:
                return
            try:
                self._attempt(lambda connection: _write_and_take_back(connection, wanted))
            finally:
                self._attempt(self._prepare_sqlite)

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run reads that all see the store as it was at the first one. Nobody waits for them."""
        begin = "BEGIN" if self.is_sqlite else _postgresql().BEGIN_READING
        return self._patiently(lambda: self._attempt(lambda connection: self._in_transaction(connection, begin, work)))

    @property
    def is_interrupted(self) -> bool:
        """Tell whether no more attempts are made."""
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """Stop, from another thread, waits for locks and for a silent server."""
        self._interrupted.set()

    def has_write_lock(self, process: Process) -> bool:
        """Tell whether a process of this machine keeps everybody else from writing to the SQLite file."""
        if self._file is None:
            return False
        return any(first <= _WAL_WRITE_LOCK <= last for first, last in locks_of(process, self._file.index))

    def tell_domain(self, connection: sa.Connection, domain: int) -> None:
        """Have an SQLite file tell its domain (see ``told_domain``), inside a transaction."""
        if self._file is not None:
            sqlite_count.tell_domain(connection.connection.cursor(), domain)

    @property
    def told_domain(self) -> int:
        """The domain in an SQLite file at the last look, whatever SQLite's memory and log have; 0 if there is none."""
        return self._file.domain if self._file is not None else 0

    def mark(self, domain: int) -> str:
        """Return why an SQLite file is marked as an older copy; see StoreFile."""
        return self._file.mark(domain) if self._file is not None else ""

    def unmark(self) -> None:
        """Remove the mark of an SQLite file."""
        if self._file is not None:
            self._file.unmark()

    def settle(self) -> None:
        """Have a new domain written to the SQLite file, from the log, where others have the store open. The mark
        of the one before is removed."""
        self._attempt(lambda _: self._file is not None and self._take_up())
        self.unmark()

    @property
    def room(self) -> Room | None:
        """The present and the needed room of an SQLite store's log, as last measured; ``None`` for other stores."""
        return self._file.room if self._file is not None else None

    def measure_room(self) -> Room | None:
        """Measure that room now."""
        return self._file.measure() if self._file is not None else None

    def close(self) -> None:
        """Close the connection. No error."""
        with self._lock:
            self._leave_to_parent()
            self.drop()
            self._engine.dispose()
            if self._file is not None:
                self._file.closed()

    def drop(self) -> None:
        """Forget a connection that may be broken; the store rolls uncommitted work back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.invalidate()
            with contextlib.suppress(Exception):
                connection.close()
            if self._file is not None:
                self._file.dropped()

    # -- one attempt -------------------------------------------------------------------------------------------

    def _patiently(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return attempt()
            except Busy:
                if time.monotonic() > deadline or self._interrupted.wait(0.005):
                    reason = f"another process has kept it locked for {self._timeout:g} s"
                    raise StoreUnreachable(self.url, reason) from None

    def _leave_to_parent(self) -> None:
        """Leave the connection to the parent process after a fork, as closing it here would end it there."""
        if self._pid != os.getpid():
            _of_parents.append((self._engine, self._connection))
            self._connection = None
            self._engine, self._pid = self._make_engine(), os.getpid()

    def _attempt(self, work: Callable[[sa.Connection], T], size: int | None = None) -> T:
        """Make one attempt; ``size``: bytes written, ``None`` if there are none that must be kept."""
        with self._lock:
            self._leave_to_parent()
            return self._attempt_here(work, size)

    def _attempt_here(self, work: Callable[[sa.Connection], T], size: int | None) -> T:
        try:
            if not self.is_sqlite and time.monotonic() - self._used_at > IDLE:
                self._drop_if_cut()
            if self._connection is None:
                if self.is_interrupted:
                    raise StoreUnreachable(self.url, "it is being closed")
                self._connection = self._connect()
            if self._file is not None:
                self._file.before(self._take_up, size)
            result = work(self._connection)
            if self._file is not None and size is not None:
                self._file.after(self._take_up)
            self._used_at = time.monotonic()
            return result
        except self._errors as error:
            _let_go(error)
            translated = translate(error, self.url)
            if self._file is not None and isinstance(translated, StoreFull):
                translated = StoreFull(self.url, f"{reason_of(error)}: {self._file.shortage()}")
            if self._file is not None and is_not_opened(error):
                translated = cannot_open(self._file.real, self.url, self._is_read_only, self._is_there)
            if not isinstance(translated, Busy | Conflict):
                self.drop()
            raise translated from None

    def _drop_if_cut(self) -> None:
        """Drop the connection if server, pooler or firewall have cut it while it was idle: the store has not failed."""
        if self._connection is not None:
            try:
                self._connection.exec_driver_sql("SELECT 1")
            except self._errors:
                self.drop()

    def _in_transaction(
        self, connection: sa.Connection, begin: str, work: Callable[[sa.Connection], T], *, writes: bool = False
    ) -> T:
        # By the driver's cursor: it takes several statements in one message where there are no parameters.
        return self._between(connection.connection.cursor(), begin, lambda: work(connection), writes=writes)

    def _between(self, cursor: Any, begin: str, work: Callable[[], T], *, writes: bool) -> T:
        cursor.execute(begin)
        try:
            result = work()
            if writes and self._file is not None:
                self._file.count_on(cursor)
            reach("commit.before")
            cursor.execute("COMMIT")
            reach("commit.after")
        except BaseException:
            try:
                cursor.execute("ROLLBACK")
            except self._errors:
                self.drop()
            raise
        return result

    def _connect(self) -> sa.Connection:
        if self._file is not None:
            check_kind(self._file.real, self.url)
            self._file.opening()
        connection: sa.Connection | None = None
        try:
            connection = self._engine.connect()
            if self._file is not None:
                self._prepare_sqlite(connection)
                self._file.opened()
            else:
                self._require_newest(connection)
        except BaseException:
            if connection is not None:
                connection.close()
            if self._file is not None:
                self._file.dropped()
            raise
        return connection

    def _require_newest(self, connection: sa.Connection) -> None:
        """Raise StoreOutdated for a server that was replaced by one that this connection was to before. It takes writes
        that will be lost, so it is marked, too: whoever starts on it has no memory of the other one."""
        driver: Any = connection.connection.driver_connection
        found, before = driver.primary, self._primary
        if found is None:
            return
        if before is not None and found.is_behind(before):
            what = f"its server takes writes on timeline {found.timeline}"
            reason = f"{what}, and was replaced: this process has used one on timeline {before.timeline}"
            if not self._is_read_only:
                with contextlib.suppress(StoreError, *self._errors):
                    mark = partial(self.mark_outdated, connection, reason)
                    begin = _postgresql().begin(self.settings)
                    self._between(connection.connection.cursor(), begin, mark, writes=True)
            raise StoreOutdated(self.url, reason)
        self._primary = found

    def mark_outdated(self, connection: sa.Connection, reason: str) -> None:
        """Mark what the connection leads to as an older copy, inside a transaction; see Store."""

    def _prepare_sqlite(self, connection: sa.Connection) -> None:
        for pragma in (
            f"busy_timeout={_BUSY_WAIT_MS}", "synchronous=FULL", "cache_size=-8192", f"journal_size_limit={_LOG_KEPT}",
            "secure_delete=OFF",  # Debian's SQLite would write all that is deleted to the log, as zeros
            "schema_version",  # reads: from here on the log and its index are those that we have open
        ):  # fmt: skip
            connection.exec_driver_sql(f"PRAGMA {pragma}")

    def _take_up(self) -> bool:
        """Make SQLite write its whole log into the file and empty it; tell whether that was done. Others may keep it
        from it: who reads, and who writes."""
        try:
            assert self._connection is not None, "the caller has one"
            busy, *_ = self._connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        except self._errors:
            return False
        return not busy


_of_parents: Final[list[object]] = []
"""Connections of the process that forked this one: never used here, and never closed."""


def _engine(url: sa.URL, timeout: float, ended: threading.Event, driver: ModuleType | None) -> sa.Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite:
        options: dict[str, Any] = {"timeout": _BUSY_WAIT_MS / 1000, "check_same_thread": False}
    else:
        options = _postgresql().engine_options(timeout)
    options = {name: value for name, value in options.items() if name not in url.query}
    engine = sa.create_engine(
        url, connect_args=options, poolclass=NullPool, isolation_level="AUTOCOMMIT", module=driver
    )
    if is_sqlite:
        event.listen(engine, "connect", _plain_sqlite)
    else:
        _postgresql().listen(engine, timeout, url.query, ended)
    return engine


def _postgresql() -> ModuleType:
    """Return the module for PostgreSQL, whose driver is not loaded for a file."""
    try:
        from inorder_worker.store import postgresql
    except ImportError:
        raise MissingExtra("a PostgreSQL store", "worker") from None
    return postgresql


def _driver_error(engine: sa.Engine) -> type[Exception]:
    """Return the base class of all errors of the engine's driver."""
    driver: Any = engine.dialect.dbapi
    error: type[Exception] = driver.Error
    return error


def _let_go(error: BaseException | None) -> None:
    """Empty the frames where an error came from: who keeps the error would keep cursors, and their statements keep an
    SQLite connection that was closed."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__


def _log_bytes(connection: sa.Connection) -> int:
    """Return the approximate length of SQLite's log before it is begun anew."""
    pages, size = (int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in _LOG_LENGTH)
    return pages * size


def _write_and_take_back(connection: sa.Connection, size: int) -> None:
    """Make SQLite write pages to its log before their transaction ends, as under memory pressure, and roll back."""
    connection.exec_driver_sql("PRAGMA cache_size=10")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        connection.exec_driver_sql("CREATE TABLE room (content BLOB)")
        connection.exec_driver_sql("INSERT INTO room VALUES (zeroblob(?))", (size,))
    finally:
        connection.exec_driver_sql("ROLLBACK")


def _plain_sqlite(connection: Any, record: object) -> None:
    """Turn the Python driver's own transactions off, as this module begins them."""
    connection.isolation_level = None


def chunks(rows: Callable[[int], Sequence[T]], key: Callable[[T], int], after: int) -> Iterator[T]:
    """Yield the rows of ``rows(after)``, which is called again behind the last row until none are left."""
    while found := rows(after):
        yield from found
        after = key(found[-1])
