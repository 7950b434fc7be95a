"""The store's settings for PostgreSQL, and its patience with a silent server.

Nothing is set for a session. Behind a pooler that gives each transaction another connection (PgBouncer's
``pool_mode = transaction``) a setting would be somebody else's from the next transaction on, and not ours. What matters
is set inside of each transaction that writes; nothing is prepared there, either.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

from inorder.errors import InvalidOption
from inorder.logs import logger

log = logger("inorder.worker")

T = TypeVar("T")

SPARE: Final = 1.0
"""Seconds after which a server is given up later than it should have given up waiting for a lock by itself."""
CLOSING: Final = "it is being closed"
"""Why nothing is waited for any more."""
REST_PATIENCE: Final = 1.0
"""Seconds that the other hosts of a URL have for their answers, once one that takes writes has answered."""
_STANDBY_WAIT: Final = "SyncRepWaitForLSN"
"""Function of the server whose warnings say that it has ended the wait for its synchronous standby."""
_ALONE: Final = "the wait for its synchronous standby was ended: what was committed may be on this server alone"
_LOOK_INTERVAL: Final = 0.1
"""Seconds between two looks whether we are to go on connecting."""
_PREPARED: Final = "prepare_threshold"
_LONGEST_MS: Final = 2**31 - 1
_OF_HOSTS: Final = ("host", "hostaddr", "port")
"""Options that have a value for each host, between commas."""
_CHOICE: Final = "target_session_attrs"
_WRITABLE: Final = ("any", "read-write", "primary")
"""Choices of a URL that we may narrow to a primary; the others want a replica."""
_ASK: Final = """
SELECT system_identifier, pg_postmaster_start_time()::text,
    CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_walfile_name(pg_current_wal_lsn()) END
FROM pg_control_system()
"""
"""Any role may ask that. The name of a WAL file begins with its timeline, which each promotion raises."""


class Primary(NamedTuple):
    """A server that takes writes. Copies of one cluster have the same ``system``, each start of a server its own
    ``start``."""

    system: int
    timeline: int
    start: str

    def is_behind(self, other: Primary) -> bool:
        """Tell whether the other one was promoted since this one was a primary of the same cluster."""
        return self.system == other.system and self.timeline < other.timeline


class PatientConnection(psycopg.Connection[Any]):
    """A connection that waits for an answer for at most ``patience`` seconds, or until ``ended`` is set, and is closed
    then.

    The driver waits for ever: the system's keepalives are answered for a server that stands still, and for one that
    itself waits for a standby. Where somebody ends that wait (``pg_cancel_backend``) the server answers as if all were
    well, with a warning: that is an error here.
    """

    patience: float = math.inf
    ended: threading.Event | None = None
    primary: Primary | None = None
    """Its server, if that takes writes; looked up only where the URL names several hosts."""
    is_alone: bool = False
    """The server has committed something that its synchronous standby may not have."""

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Take note of a warning of the server."""
        self.is_alone = self.is_alone or notice.source_function == _STANDBY_WAIT

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """See psycopg. Raises OperationalError when the time is over."""
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass the driver's waiting on until patience ends: it reports often that nothing came."""
        ends = monotonic() + self.patience
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and (reason := self._end_of_patience(ends)):
                    self.close()
                    raise psycopg.OperationalError(reason)
                wanted = steps.send(ready)
        except StopIteration as done:
            if self.is_alone:
                self.close()
                raise psycopg.OperationalError(_ALONE) from None
            result: T = done.value
            return result

    def _end_of_patience(self, ends: float) -> str:
        """Return why the wait is over, or an empty text while it is not."""
        if self.ended is not None and self.ended.is_set():
            return CLOSING
        return f"the server has not answered for {self.patience:g} s" if monotonic() > ends else ""


def engine_options(timeout: float) -> dict[str, Any]:
    """Return the options of a connection; the URL may override them. ``timeout``: seconds, for each of its hosts."""
    return {
        "connect_timeout": max(2, round(timeout)),
        "tcp_user_timeout": round(timeout * 1000),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": "inorder-worker",
    }


def listen(engine: sa.Engine, timeout: float, query: Mapping[str, Any], ended: threading.Event) -> None:
    """Make an engine open patient connections; the URL decides on prepared statements, by default only connections
    without a pooler use them. Of several hosts the primary is taken that was promoted last, else what the driver takes.
    None is made once ``ended`` is set. Raises InvalidOption."""
    threshold = _threshold(query)

    def make(arguments: Sequence[Any], options: dict[str, Any]) -> PatientConnection:
        connection = PatientConnection.connect(*arguments, **options, prepare_threshold=None)
        connection.patience, connection.ended = timeout + SPARE, ended
        connection.add_notice_handler(connection.note)
        return connection

    def connect(dialect: object, record: object, arguments: Any, options: dict[str, Any]) -> PatientConnection:
        given = {name: value for name, value in options.items() if name != _PREPARED}
        whole, hosts = partial(make, arguments, given), options_of_hosts(given)
        if len(hosts) == 1:
            connection = _connected(whole, ended)
        else:
            alone = [partial(_asked, partial(make, arguments, each)) for each in hosts]
            connection = newest_primary(alone, ended) or _connected(partial(_asked, whole), ended)
        if threshold is not None:
            connection.prepare_threshold = threshold or None
        elif not _is_pooled(connection):
            connection.prepare_threshold = PREPARED_AFTER
        return connection

    event.listen(engine, "do_connect", connect)


def _connected(make: Callable[[], PatientConnection], ended: threading.Event) -> PatientConnection:
    """Connect on a thread of its own. Raises psycopg's errors."""
    made = _started(make)
    while True:
        with contextlib.suppress(TimeoutError):
            return made.result(_LOOK_INTERVAL)
        if ended.is_set() and made.cancel():
            raise psycopg.OperationalError(CLOSING)


def _started(make: Callable[[], PatientConnection]) -> Future[PatientConnection]:
    """Begin to connect on a thread, as a connecting driver cannot be interrupted. Who cancels it gets no connection."""
    made: Future[PatientConnection] = Future()

    def work() -> None:
        try:
            connection = make()
        except Exception as error:
            if made.set_running_or_notify_cancel():
                made.set_exception(error)
            return
        if made.set_running_or_notify_cancel():
            made.set_result(connection)
        else:
            connection.close()

    threading.Thread(target=work, name="inorder-connect", daemon=True).start()
    return made


# -- several hosts -----------------------------------------------------------------------------------------------------


def options_of_hosts(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of a connection to each single host of these options. They are left alone where the URL wants
    a replica."""
    if options.get(_CHOICE, "any") not in _WRITABLE:
        return [dict(options)]
    lists = {name: str(options[name]).split(",") for name in _OF_HOSTS if options.get(name) is not None}
    count = max((len(each) for each in lists.values()), default=1)
    rest = {name: value for name, value in options.items() if name != _CHOICE}
    return [{**rest, **{name: (each * count)[at] for name, each in lists.items()}} for at in range(count)]


def _answer(connection: PatientConnection, question: str) -> Any:
    """Return the first row of an answer. Closes a connection that cannot be asked."""
    connection.autocommit = True  # or the question would begin a transaction
    try:
        return connection.execute(question).fetchone()
    except psycopg.Error:
        connection.close()
        raise


def _asked(make: Callable[[], PatientConnection]) -> PatientConnection:
    """Connect, and ask the server about itself as a primary. Raises psycopg's errors."""
    connection = make()
    row = _answer(connection, _ASK)
    if row is not None and row[2]:
        connection.primary = Primary(row[0], int(row[2][:8], 16), row[1])
    return connection


def newest_primary(
    makes: Iterable[Callable[[], PatientConnection]], ended: threading.Event
) -> PatientConnection | None:
    """Connect to all hosts of a URL at once. Return the connection to the primary that was promoted last, the first one
    of several; ``None`` if none takes writes. Silent hosts are not waited for. Raises psycopg's errors."""
    started, until = [_started(each) for each in makes], math.inf
    while True:
        done, missing = wait(started, _LOOK_INTERVAL)
        found = [each.result() for each in started if each in done and not each.exception()]
        primaries = [each for each in found if each.primary]
        if primaries:
            until = min(until, monotonic() + REST_PATIENCE)
        if not missing or monotonic() > until or ended.is_set():
            break
    taken = max(primaries, key=_timeline, default=None) if not ended.is_set() else None
    if len({each.primary and each.primary.start for each in primaries}) > 1 and taken is not None:
        _tell_two(taken, primaries)
    for each in started:
        if not each.cancel() and not each.exception() and each.result() is not taken:
            each.result().close()
    if ended.is_set() or not found:
        reasons = [str(each.exception()).partition("\n")[0] for each in done]
        raise psycopg.OperationalError(CLOSING if ended.is_set() else "; ".join(reasons))
    return taken


def _timeline(connection: PatientConnection) -> int:
    return connection.primary.timeline if connection.primary else 0


def _tell_two(taken: PatientConnection, primaries: Sequence[PatientConnection]) -> None:
    """Say that several servers take writes, once of each such sight."""
    hosts = ", ".join(f"{each.info.host}:{each.info.port} (timeline {_timeline(each)})" for each in primaries)
    if hosts in _told:
        return
    _told.add(hosts)
    used = f"{taken.info.host}:{taken.info.port}"
    hint = "stop those that were replaced: what is written to them is lost"
    log.error("event=two_primaries hosts=%s taken=%s hint=%s", hosts, used, hint)


_told: Final[set[str]] = set()


PREPARED_AFTER: Final = 5
"""Times that a statement is run before the server keeps it prepared."""


def _threshold(query: Mapping[str, Any]) -> int | None:
    """Return after how many runs a statement is prepared, 0 for never; ``None`` if the URL does not say."""
    given = query.get(_PREPARED)
    if given is None:
        return None
    if not (isinstance(given, str) and given.isascii() and given.isdigit()):
        raise InvalidOption("store", f"...?{_PREPARED}={given}", f"{_PREPARED}=N, after N times, or 0: never")
    return int(given)


def _is_pooled(connection: PatientConnection) -> bool:
    """Tell whether a pooler is between us and the server, by the server's process id, which differs then."""
    row = _answer(connection, "SELECT pg_backend_pid()")
    return row is None or row[0] != connection.info.backend_pid


def settings_of_writes(timeout: float, pause: float | None = None) -> str:
    """Return expressions that set the conditions of a write for its transaction: it always waits for the disk, for
    locks ``timeout`` seconds, and no longer than ``pause`` for us."""
    told = "current_setting('synchronous_commit')"
    durable = f"CASE {told} WHEN 'off' THEN 'on' ELSE {told} END"
    settings = [("synchronous_commit", durable), ("lock_timeout", f"'{_milliseconds(timeout)}'")]
    if pause is not None:
        settings.append(("idle_in_transaction_session_timeout", f"'{_milliseconds(pause)}'"))
    return ", ".join(f"set_config('{name}', {value}, true)" for name, value in settings)


def begin(settings: str) -> str:
    """Return the statement that begins a writing transaction in one message to the server. READ COMMITTED: an append
    that waited for a take-over must see it."""
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT {settings}"


BEGIN_READING: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = '1h'"
)
"""Nobody waits for a reader, which may take its time between two statements: a backup may go into a slow pipe."""


def _milliseconds(seconds: float) -> int:
    return min(_LONGEST_MS, max(1, round(seconds * 1000)))
