"""The sizes of this worker's event logs: counted once, and kept with each commit from then on (R18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from inorder_worker.sequencer.commands import LogTrim
from inorder_worker.store.log_rows import LogRow, LogTotals, LogWrite

DUE_ROWS: Final = 1_000
"""Rows that a log may get before its bounds are looked at, and"""
DUE_BYTES: Final = 8 * 1024 * 1024
"""bytes of them; each log is looked at after a time anyway."""


class Cut(NamedTuple):
    """The oldest rows of a log, up to a number: how many, of how many bytes, and when the next row was stored."""

    through: int
    events: int
    size: int
    oldest_ms: int


@dataclass(slots=True)
class LogSize:
    """The size of one log.

    Attributes:
        events, size: rows, and bytes of what was published.
        oldest_ms: when the oldest row was stored.
        last: the highest number.
        new_events, new_size: of those that came since somebody looked.
        cut: what a trim that is under way takes away.
    """

    events: int
    size: int
    oldest_ms: int
    last: int
    new_events: int = 0
    new_size: int = 0
    cut: Cut | None = None

    def add(self, number: int, size: int, stored_ms: int) -> None:
        """A row was written, if it is a later one than all that were counted."""
        if number > self.last:
            if not self.events:
                self.oldest_ms = stored_ms
            self.events, self.size, self.last = self.events + 1, self.size + size, number
            self.new_events, self.new_size = self.new_events + 1, self.new_size + size

    def take_away(self, cut: Cut) -> None:
        """A trim was committed."""
        self.events, self.size, self.oldest_ms = self.events - cut.events, self.size - cut.size, cut.oldest_ms
        self.cut = None

    def end(self, cut: Cut) -> None:
        """A trim is not under way any more, whether its stage has made it or not."""
        if self.cut is cut:
            self.cut = None


Written = list[tuple[int, int, int]]
"""Number, bytes and time of rows."""


class LogSizes:
    """Knows the size of each log of the stages here without a look at its rows.

    A log is counted in the store while its stage goes on writing. Rows that are written meanwhile are added behind the
    last one that was counted, so it does not matter which of them the count has seen.

    Attributes:
        due: topics whose logs have grown, or were trimmed, since somebody looked.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, LogSize] = {}
        self._uncounted: dict[int, Written] = {}
        self.due: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        """Iterate over the topics whose logs are counted."""
        return iter(list(self._sizes))

    def get(self, topic: int) -> LogSize | None:
        """Return the size of a log that is counted and has a row."""
        return self._sizes.get(topic)

    def forget(self, topic: int) -> None:
        """A topic has no log here any more."""
        self._sizes.pop(topic, None)
        self._uncounted.pop(topic, None)

    def recount(self, topics: Iterable[int]) -> None:
        """Forget the sizes of these logs, to have them counted."""
        for topic in topics:
            self.forget(topic)
            self._uncounted[topic] = []

    def uncounted(self, most: int) -> dict[int, Written]:
        """Return logs to be counted; what is written meanwhile is noted there."""
        topics = list(self._uncounted)[:most]
        return {topic: self._uncounted[topic] for topic in topics}

    def counted(self, asked: dict[int, Written], found: Collection[LogTotals]) -> None:
        """Take the sizes that the store had for logs that were asked for; one without a row was not found."""
        totals = {each.topic: each for each in found}
        for topic, written in asked.items():
            if self._uncounted.get(topic) is not written:
                continue  # it was trimmed, or went to another stage, while it was counted
            del self._uncounted[topic]
            its = totals.get(topic)
            size = LogSize(its.events, its.size, its.oldest_ms, its.last) if its is not None else LogSize(0, 0, 0, 0)
            for row in written:
                size.add(*row)
            if size.events:
                self._sizes[topic] = size

    def wrote(self, changes: Iterable[LogWrite]) -> None:
        """Take note of what a commit has written."""
        for change in changes:
            if isinstance(change, LogRow):
                self._added(change.topic, (change.number, len(change.content or b""), change.stored_ms))
            elif isinstance(change, LogTrim):
                self._trimmed(change)

    def _added(self, topic: int, row: tuple[int, int, int]) -> None:
        size = self._sizes.get(topic)
        if size is None:
            written = self._uncounted.get(topic)
            if written is not None:
                written.append(row)
                return
            size = self._sizes[topic] = LogSize(0, 0, 0, 0)  # its first row
        size.add(*row)
        if size.new_events >= DUE_ROWS or size.new_size >= DUE_BYTES:
            self.due.add(topic)

    def _trimmed(self, change: LogTrim) -> None:
        topic, size = change.topic, self._sizes.get(change.topic)
        if size is not None and size.cut is not None and size.cut.through == change.through:
            size.take_away(size.cut)
            self.due.add(topic)
            if not size.events:
                self.forget(topic)
        elif size is not None or topic in self._uncounted:
            self.recount([topic])  # a log that has ended, or a trim that was asked for before
            self.due.add(topic)
