"""Queries of traces: matching rows, the latest ones, new ones as they come, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from inorder.traces.schema import NAMES
from inorder_analytics.columns import arrow_schema
from inorder_analytics.copies import Copies
from inorder_analytics.reading import TraceFile, Traces
from inorder_analytics.results import Damaged

INSTANTS: Final = frozenset(each.name for each in arrow_schema() if pa.types.is_timestamp(each.type))


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions for rows, all of which must hold.

    Attributes:
        topic: its name, or space and name with a colon between.
        number: the event's; gaps that hold it fit, too.
    """

    run: str | None = None
    client: str | None = None
    kind: str | None = None
    topic: str | None = None
    number: int | None = None

    def of(self, table: pa.Table) -> pa.Table:
        """Return the matching rows of a table."""
        for name in ("run", "client", "kind"):
            wanted = getattr(self, name)
            if wanted is not None:
                table = table.filter(pc.equal(table.column(name), wanted))
        if self.topic is not None:
            spaces = pc.fill_null(table.column("space"), "")
            labels = pc.binary_join_element_wise(spaces, table.column("topic"), ":")
            table = table.filter(pc.or_(pc.equal(table.column("topic"), self.topic), pc.equal(labels, self.topic)))
        if self.number is not None:
            first = table.column("number")
            last = pc.coalesce(table.column("last_number"), first)
            table = table.filter(pc.and_(pc.less_equal(first, self.number), pc.greater_equal(last, self.number)))
        return table


def matching(traces: Traces, wanted: Filter, copies: Copies | None = None) -> Iterator[dict[str, Any]]:
    """Return the matching rows, file by file, as :func:`plain`, without those that ``copies`` knows."""
    for _, table in traces.tables(copies=copies):
        yield from plain(wanted.of(table))


def latest(traces: Traces, wanted: Filter, count: int, copies: Copies | None = None) -> list[dict[str, Any]]:
    """Return the matching rows recorded last, in the order of their times; ``copies`` learns all rows."""
    found = arrow_schema().empty_table()
    for _, table in traces.tables(copies=copies):
        found = pa.concat_tables([found, wanted.of(table)]).sort_by("recorded_at")
        found = found.slice(max(0, found.num_rows - count))
    return list(plain(found))


@dataclass(slots=True)
class Following:
    """Follows the new rows under a path, as files may grow, and be merged into others.

    Attributes:
        damaged: files that could not be read at the last look; they are looked at again when they change.
    """

    traces: Traces
    wanted: Filter
    damaged: list[Damaged] = field(default_factory=list)
    _seen: set[tuple[str, int, str]] = field(default_factory=set)
    _rows: Copies = field(default_factory=Copies)

    def begin(self, count: int) -> list[dict[str, Any]]:
        """Return the ``count`` matching rows recorded last; present rows do not count as new."""
        self.traces.files = self._new()
        self.damaged = self.traces.damaged
        return latest(self.traces, self.wanted, count, self._rows)

    def look(self) -> Iterator[dict[str, Any]]:
        """Return the new matching rows. Raises InvalidOption where the path is gone."""
        self.traces.files = self._new()
        self.traces.damaged = self.damaged = []
        yield from matching(self.traces, self.wanted, self._rows)

    def _new(self) -> list[TraceFile]:
        new = [each for each in self.traces.listed() if (each.file, each.bytes, each.version) not in self._seen]
        self._seen.update((each.file, each.bytes, each.version) for each in new)
        return new


def plain(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Return rows in plain JSON types: without null columns, instants in ISO 8601."""
    columns = {name: table.column(name) for name in NAMES}
    for name in INSTANTS:
        columns[name] = pc.strftime(columns[name], "%Y-%m-%dT%H:%M:%SZ", locale="C")
    for values in zip(*(column.to_pylist() for column in columns.values()), strict=True):
        yield {name: value for name, value in zip(NAMES, values, strict=True) if value is not None}


# -- statistics --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Statistics:
    """Counts of the contents of traces.

    Attributes:
        first, last: when the first and the last row were made, by their clients' clocks.
        rows: each counted once.
        copies: rows that are there more than once.
        dropped: rows that clients could not record.
    """

    path: str
    files: int = 0
    bytes: int = 0
    rows: int = 0
    copies: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None
    dropped: int = 0
    damaged: list[Damaged] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Count the rows of one more file."""
        self.rows += table.num_rows
        for name, counter in (("kind", self.kinds), ("run", self.runs), ("client", self.clients)):
            _count(table.column(name), counter)
        spaces = pc.fill_null(table.column("space"), "")
        _count(pc.binary_join_element_wise(spaces, table.column("topic"), ":"), self.topics)
        times = pc.min_max(table.column("recorded_at")).as_py()
        if times["min"] is not None:
            self.first = min(times["min"], self.first or times["min"])
            self.last = max(times["max"], self.last or times["max"])
        is_dropped = pc.fill_null(pc.equal(table.column("kind"), "dropped"), False)
        self.dropped += pc.sum(table.column("count").filter(is_dropped)).as_py() or 0

    def to_plain(self) -> dict[str, Any]:
        """Return the counts in plain JSON types, the largest first."""
        counts = {name: dict(_ranked(getattr(self, name))) for name in ("kinds", "runs", "clients", "topics")}
        return {
            "path": self.path,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "copies": self.copies,
            **counts,
            "first": None if self.first is None else _iso(self.first),
            "last": None if self.last is None else _iso(self.last),
            "dropped": self.dropped,
            "damaged": msgspec.to_builtins(self.damaged),
            "notes": self.notes,
        }


def statistics(traces: Traces) -> Statistics:
    """Count the contents of traces."""
    found = Statistics(traces.path)
    names = ("kind", "run", "client", "space", "topic", "recorded_at", "count")
    for file, table in traces.tables(names):
        found.files += 1
        found.bytes += file.bytes
        found.add(table)
    found.damaged, found.copies = list(traces.damaged), traces.copies
    found.notes = traces.survey().notes
    return found


def _count(column: pa.ChunkedArray, counter: Counter[str]) -> None:
    for each in pc.value_counts(column).to_pylist():
        if each["values"] is not None:
            counter[each["values"]] += each["counts"]


def _ranked(counter: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counter.items(), key=lambda each: (-each[1], each[0]))


def _iso(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
