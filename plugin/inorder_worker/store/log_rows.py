"""The rows of event logs (R18): written in the journal's transaction, read beside it, each with its own seal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
import sqlalchemy as sa

from inorder.protocol.pairs import pairs
from inorder_worker.sequencer.commands import LogDeps, LogTrim
from inorder_worker.store.chain import Problem, seal
from inorder_worker.store.history import OrderRow, keep_order
from inorder_worker.store.schema import event_log

CHUNK_ROWS: Final = 256
_SEALED: Final = ("topic", "number", "stored_ms", "deps", "content", "size")


class LogRow(NamedTuple):
    """One stored event: its topic's id and number, when it was stored (ms since 1970), dependencies (flat, ``None``
    while its timestamp rides up), content (``None``: it was not sent) and ticks (R23)."""

    topic: int
    number: int
    stored_ms: int
    deps: list[int] | None
    content: bytes | None
    ticks: tuple[int, ...] = ()


LogWrite: TypeAlias = LogRow | LogDeps | LogTrim | OrderRow
"""What a commit writes beside the journal's rows."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """One page of an answer from a log.

    Attributes:
        rows: by number; those whose timestamp is not complete yet are left out.
        through: how far they go.
        first, last: the lowest and the highest number of the topic that there is, 0 if there is none.
        damaged: numbers whose rows do not fit their seal, left out.
    """

    rows: list[LogRow]
    through: int
    first: int
    last: int
    damaged: list[int]


class Oldest(NamedTuple):
    """A row's number, age and size, for the bounds, and its dependencies, ``None`` where there are none yet. Nobody has
    looked at its seal: of a damaged row they may be wrong or ``None``, and what is no number is 0. ``has_ticks``: the
    number has ticks (R23)."""

    number: int
    stored_ms: int
    size: int
    deps: list[int] | None
    has_ticks: bool = False


class LogTotals(NamedTuple):
    """The size of a topic's log, when its oldest row was stored, and its highest number."""

    topic: int
    events: int
    size: int
    oldest_ms: int
    last: int


class LogReader(Protocol):
    """Reads event logs beside the journal's own thread; all calls come from one other thread. Raises StoreErrors."""

    def read(self, topic: int, ranges: Sequence[int], since_ms: int, max_rows: int, max_bytes: int) -> LogPage:
        """Return events of these numbers (flat pairs), as many as fit, but at least one."""

    def totals(self, topics: Sequence[int]) -> list[LogTotals]:
        """Return the sizes of these logs; of those without a row, nothing. It takes a look at each row."""

    def oldest(self, topic: int, first: int, count: int) -> list[Oldest]:
        """Return a log's rows from a number on. (Rows before it may be there, too, and be deleted in a moment.)"""

    def close(self) -> None:
        """Close the connection to the store. No error."""


def values_of(row: LogRow) -> dict[str, Any]:
    """Return the columns of a row."""
    deps = None if row.deps is None else _packed(row.deps, row.ticks)
    values = {
        "topic": row.topic, "number": row.number, "stored_ms": row.stored_ms, "deps": deps, "content": row.content,
        "size": len(row.content or b""),
    }  # fmt: skip
    return {**values, "seal": _seal(values)}


def _seal(values: Mapping[Any, Any]) -> str:
    return seal("event_log", *(values[name] for name in _SEALED))


def row_problem(found: Mapping[Any, Any]) -> Problem | None:
    """Return the fault of a stored row, or ``None``."""
    if found["seal"] == _seal(found):
        return None
    detail = f"event log of topic {found['topic']}: number {found['number']} is damaged (its seal does not fit)"
    return Problem("event_log", None, found["number"], detail)


def _packed(deps: list[int], ticks: tuple[int, ...]) -> bytes:
    """Return the column ``deps``: the flat list; where there are ticks, a list of it and of these."""
    return msgspec.msgpack.encode((deps, ticks) if ticks else deps)


def unpacked(data: bytes | None) -> tuple[list[int] | None, tuple[int, ...]]:
    """Return dependencies and ticks of the column ``deps``. Raises msgspec.DecodeError for what is neither."""
    if data is None:
        return None, ()
    try:
        return _deps_decoder.decode(data), ()
    except msgspec.ValidationError:
        return _both_decoder.decode(data)


_deps_decoder: Final = msgspec.msgpack.Decoder(list[int])
_both_decoder: Final = msgspec.msgpack.Decoder(tuple[list[int], tuple[int, ...]])


def _deps_of(data: object) -> tuple[list[int] | None, bool]:
    """Return the dependencies of a column ``deps`` whose seal nobody has looked at, ``None`` for a damaged one, and
    whether there are ticks."""
    try:
        deps, ticks = unpacked(data) if isinstance(data, bytes) else (None, ())
    except (msgspec.DecodeError, TypeError):
        return None, False
    return None if deps is None or len(deps) % 2 else deps, bool(ticks)


def _whole(value: object) -> int:
    """Return a number of a row whose seal nobody has looked at; SQLite may have anything in its place."""
    return value if isinstance(value, int) else 0


# -- writing: inside the journal's transaction -----------------------------------------------------------------------

MAX_RANGES: Final = 1_000
"""Ranges that are looked at for one answer: each is a question to the store, and others wait for theirs."""
_INSERT = event_log.insert()
_ONE = sa.select(event_log).where(event_log.c.topic == sa.bindparam("of"), event_log.c.number == sa.bindparam("at"))
_COMPLETE = event_log.update().where(event_log.c.topic == sa.bindparam("of"), event_log.c.number == sa.bindparam("at"))
_TRIM = event_log.delete().where(event_log.c.topic == sa.bindparam("of"), event_log.c.number <= sa.bindparam("through"))


def write(connection: sa.Connection, changes: Iterable[LogWrite]) -> None:
    """Write changes in their order."""
    new: list[dict[str, Any]] = []
    for change in changes:
        if isinstance(change, LogRow):
            new.append(values_of(change))
            continue
        _insert(connection, new)
        if isinstance(change, OrderRow):
            keep_order(connection, change)
        elif isinstance(change, LogDeps):
            _complete(connection, change)
        else:
            connection.execute(_TRIM, {"of": change.topic, "through": change.through})
    _insert(connection, new)


def _insert(connection: sa.Connection, new: list[dict[str, Any]]) -> None:
    if new:
        connection.execute(_INSERT, new)
        new.clear()


def _complete(connection: sa.Connection, change: LogDeps) -> None:
    place = {"of": change.topic, "at": change.number}
    found = connection.execute(_ONE, place).mappings().one_or_none()
    if found is None or row_problem(found):
        return  # damaged: it stays as it is, and is named when it is read
    values = {**found, "deps": _packed(change.deps, change.ticks)}
    connection.execute(_COMPLETE.values(deps=values["deps"], seal=_seal(values)), place)


# -- reading ---------------------------------------------------------------------------------------------------------

_log = event_log.c
_SIZES = (
    sa.select(_log.number, _log.size)
    .where(_log.topic == sa.bindparam("of"), _log.number >= sa.bindparam("first"), _log.number <= sa.bindparam("last"))
    .where(_log.stored_ms >= sa.bindparam("since"))
    .order_by(_log.number)
    .limit(sa.bindparam("count"))
)
_ROWS = (
    sa.select(event_log)
    .where(_log.topic == sa.bindparam("of"), _log.number >= sa.bindparam("first"), _log.number <= sa.bindparam("last"))
    .order_by(_log.number)
)
_ENDS = sa.select(sa.func.min(_log.number), sa.func.max(_log.number)).where(_log.topic == sa.bindparam("of"))
_TOTALS = (
    sa.select(
        _log.topic, sa.func.count(), sa.func.sum(_log.size), sa.func.min(_log.stored_ms), sa.func.max(_log.number)
    )
    .where(_log.topic.in_(sa.bindparam("of", expanding=True)))
    .group_by(_log.topic)
    .order_by(_log.topic)
)
_OLDEST = (
    sa.select(_log.number, _log.stored_ms, _log.size, _log.deps)
    .where(_log.topic == sa.bindparam("of"), _log.number >= sa.bindparam("first"))
    .order_by(_log.number)
    .limit(sa.bindparam("count"))
)


class SqlLogReader:
    """A LogReader; ``run`` does reads in the store (see Store.run)."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any], close: Callable[[], None]) -> None:
        self._run, self._close = run, close

    def read(self, topic: int, ranges: Sequence[int], since_ms: int, max_rows: int, max_bytes: int) -> LogPage:
        """See LogReader."""
        page: LogPage = self._run(lambda connection: _read(connection, topic, ranges, since_ms, max_rows, max_bytes))
        return page

    def totals(self, topics: Sequence[int]) -> list[LogTotals]:
        """See LogReader."""
        rows = self._run(lambda connection: connection.execute(_TOTALS, {"of": list(topics)}).all())
        return [
            LogTotals(topic, count, int(size or 0), _whole(oldest), _whole(last))
            for topic, count, size, oldest, last in rows
        ]

    def oldest(self, topic: int, first: int, count: int) -> list[Oldest]:
        """See LogReader."""
        where = {"of": topic, "first": first, "count": count}
        rows = self._run(lambda connection: connection.execute(_OLDEST, where).all())
        return [
            Oldest(number, _whole(stored_ms), _whole(size), *_deps_of(deps)) for number, stored_ms, size, deps in rows
        ]

    def close(self) -> None:
        """See LogReader."""
        self._close()


def _read(
    connection: sa.Connection, topic: int, ranges: Sequence[int], since_ms: int, max_rows: int, max_bytes: int
) -> LogPage:
    lowest, highest = connection.execute(_ENDS, {"of": topic}).one()
    rows, damaged = list[LogRow](), list[int]()
    room, through = max_bytes, 0
    for at, (first, last) in enumerate(pairs(ranges)):
        if at == MAX_RANGES:
            return LogPage(rows, first - 1, lowest or 0, highest or 0, damaged)
        where = {"of": topic, "first": max(first, lowest or 0), "last": last, "since": since_ms}
        sizes = connection.execute(_SIZES, {**where, "count": max_rows - len(rows) + 1}).all()
        taken = 0
        for _, stored in sizes[: max_rows - len(rows)]:
            size = _whole(stored)
            if room < size and (rows or taken):
                break
            room -= size
            taken += 1
        if taken:
            found = {"of": topic, "first": sizes[0].number, "last": sizes[taken - 1].number}
            for row in connection.execute(_ROWS, found).mappings():
                if row_problem(row):
                    damaged.append(row["number"])
                elif row["stored_ms"] >= since_ms and row["deps"] is not None:
                    deps, ticks = unpacked(row["deps"])
                    rows.append(LogRow(topic, row["number"], row["stored_ms"], deps, row["content"], ticks))
        if taken < len(sizes):
            return LogPage(rows, sizes[taken].number - 1, lowest or 0, highest or 0, damaged)
        through = last
    return LogPage(rows, through, lowest or 0, highest or 0, damaged)
