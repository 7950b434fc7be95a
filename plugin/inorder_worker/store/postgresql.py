"""The store's settings for PostgreSQL, and its patience with a silent server.

Nothing is set for a session. Behind a pooler that gives each transaction another connection (PgBouncer's
``pool_mode = transaction``) a setting would be somebody else's from the next transaction on, and not ours. What matters
is set inside of each transaction that writes; nothing is prepared there, either.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

from inorder.errors import InvalidOption

T = TypeVar("T")

SPARE: Final = 1.0
"""Seconds after which a server is given up later than it should have given up waiting for a lock by itself."""
CLOSING: Final = "it is being closed"
"""Why nothing is waited for any more."""
_LOOK_INTERVAL: Final = 0.1
"""Seconds between two looks whether we are to go on connecting."""
_PREPARED: Final = "prepare_threshold"
_LONGEST_MS: Final = 2**31 - 1


class PatientConnection(psycopg.Connection[Any]):
    """A connection that waits for an answer for at most ``patience`` seconds, or until ``ended`` is set, and is closed
    then.

    The driver waits for ever: the system's keepalives are answered for a server that stands still, and for one that
    itself waits for a standby.
    """

    patience: float = math.inf
    ended: threading.Event | None = None

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
    without a pooler use them. None is made once ``ended`` is set. Raises InvalidOption."""
    threshold = _threshold(query)

    def connect(dialect: object, record: object, arguments: Any, options: dict[str, Any]) -> PatientConnection:
        given = {name: value for name, value in options.items() if name != _PREPARED}
        make = partial(PatientConnection.connect, *arguments, **given, prepare_threshold=None)
        connection = _connected(make, ended)
        connection.patience, connection.ended = timeout + SPARE, ended
        if threshold is not None:
            connection.prepare_threshold = threshold or None
        elif not _is_pooled(connection):
            connection.prepare_threshold = PREPARED_AFTER
        return connection

    event.listen(engine, "do_connect", connect)


def _connected(make: Callable[[], PatientConnection], ended: threading.Event) -> PatientConnection:
    """Connect on a thread of its own, as a connecting driver cannot be interrupted. Raises psycopg's errors."""
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
    while True:
        with contextlib.suppress(TimeoutError):
            return made.result(_LOOK_INTERVAL)
        if ended.is_set() and made.cancel():
            raise psycopg.OperationalError(CLOSING)


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
    """Tell whether a pooler is between us and the server, by the server's process id, which differs then. Closes a
    connection that cannot be asked."""
    connection.autocommit = True  # or the question would begin a transaction
    try:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
    except psycopg.Error:
        connection.close()
        raise
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
