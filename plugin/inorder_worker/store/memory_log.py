"""Event logs in memory, for :class:`~inorder_worker.store.journal.MemoryJournal`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from inorder.protocol.pairs import pairs
from inorder_worker.sequencer.commands import LogDeps
from inorder_worker.store.history import OrderRow
from inorder_worker.store.log_rows import LogPage, LogRow, LogTotals, LogWrite, Oldest

Rows = dict[int, dict[int, LogRow]]
"""By topic and number, the lowest number first."""


def write(rows: Rows, changes: Iterable[LogWrite]) -> None:
    """Make changes in their order."""
    for change in changes:
        if isinstance(change, OrderRow):
            continue  # a history is for people, who do not look in here
        of = rows.setdefault(change.topic, {})
        if isinstance(change, LogRow):
            of[change.number] = change
        elif isinstance(change, LogDeps):
            of[change.number] = of[change.number]._replace(deps=change.deps, ticks=change.ticks)
        else:
            for number in list(takewhile(lambda each: each <= change.through, of)):  # noqa: B023
                del of[number]


class MemoryLogReader:
    """A LogReader of logs in memory."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self, topic: int, ranges: Sequence[int], since_ms: int, max_rows: int, max_bytes: int) -> LogPage:
        """See LogReader."""
        of = dict(sorted(self._rows.get(topic, {}).items()))
        ends = min(of, default=0), max(of, default=0)
        found: list[LogRow] = []
        room, through = max_bytes, 0
        for first, last in pairs(ranges):
            for number, row in of.items():
                if not first <= number <= last or row.stored_ms < since_ms:
                    continue
                size = len(row.content or b"")
                if len(found) >= max_rows or (room < size and found):
                    return LogPage(found, number - 1, *ends, [])
                room -= size
                if row.deps is not None:
                    found.append(row)
            through = last
        return LogPage(found, through, *ends, [])

    def totals(self, topics: Sequence[int]) -> list[LogTotals]:
        """See LogReader."""
        logs = ((topic, list(self._rows.get(topic, {}).values())) for topic in sorted(topics))
        return [
            LogTotals(topic, len(rows), sum(len(row.content or b"") for row in rows),
                      min(row.stored_ms for row in rows), rows[-1].number)
            for topic, rows in logs if rows
        ]  # fmt: skip

    def oldest(self, topic: int, first: int, count: int) -> list[Oldest]:
        """See LogReader."""
        rows = (row for row in list(self._rows.get(topic, {}).values()) if row.number >= first)
        return [
            Oldest(row.number, row.stored_ms, len(row.content or b""), row.deps, bool(row.ticks))
            for row in islice(rows, count)
        ]

    def close(self) -> None:
        """See LogReader."""
