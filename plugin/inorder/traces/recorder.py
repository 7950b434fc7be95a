"""The recorder's side in the event loop: it writes rows into buffers and passes full buffers to the writer's thread.

What it does for an event is one record into memory that is there already, some hundred nanoseconds; it never waits for
the disk. What may wait to be written is bounded, and rows beyond are counted instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import nan
from typing import TYPE_CHECKING, Any, Final

from inorder.endpoint.notifications import Verdict
from inorder.endpoint.publications import Publication
from inorder.endpoint.waiting import Sequenced
from inorder.traces.options import Traces
from inorder.traces.row_buffers import (
    BUFFER_ROWS,
    HOW_BITS,
    NOTHING,
    NOTIFIED,
    PUBLISHED,
    REDELIVERED,
    REPAIRED,
    RETAINED,
    SEQUENCED,
    Layout,
    RowBuffer,
    TopicName,
)
from inorder.traces.schema import DROPPED_VERDICTS, OUTCOMES

if TYPE_CHECKING:
    from inorder.traces.writer import Writer

BATCH: Final = 32
"""Rows that are recorded with one call, at most: more are not cheaper, for the first of them have left the processor's
caches by then."""
ORDERINGS: Final = ("total", "fifo", "none")
VERDICTS: Final = (*map(str, Verdict), *DROPPED_VERDICTS)

_VERDICT = {verdict: at for at, verdict in enumerate(VERDICTS)}
_OUTCOME = {outcome: at for at, outcome in enumerate(OUTCOMES)}
_ORDERING = {ordering: at << HOW_BITS for at, ordering in enumerate(ORDERINGS)}
_FIRST_DROPPED = len(VERDICTS) - len(DROPPED_VERDICTS)
_USUAL = Verdict.IN_ORDER
_IN_ORDER = _VERDICT[Verdict.IN_ORDER] | SEQUENCED
_PUBLISHED_SIZE, _NOTIFIED_SIZE = PUBLISHED.struct.size, NOTIFIED.struct.size
_pack_published = PUBLISHED.struct.pack_into
_pack_notified = NOTIFIED.struct.pack_into

Row = dict[str, Any]
"""A row of another kind than those of buffers, by column."""


class OtherRows:
    """Rows of the rarer kinds; ``recorded_at`` and the like are µs since 1970 in them."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> int:
        """The number of rows."""
        return len(self.rows)


class Recorder:
    """Records the events of one client.

    All methods but :meth:`prepare` are called on the event loop's thread, and none raises but that one.

    Args:
        traces: where, and how.
        client_id: whose rows these are.
        clock: the event loop's, s.
        wall_ns: the time of day, ns since 1970.
    """

    def __init__(
        self,
        traces: Traces,
        client_id: str,
        clock: Callable[[], float],
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._traces, self._client_id, self._clock, self._wall_ns = traces, client_id, clock, wall_ns
        self._run = traces.run_id
        self._room = max(64, min(BUFFER_ROWS, traces.max_buffered_rows // 8))
        self._writer: Writer | None = None
        self._incarnation = self._domain = 0
        self._handed = 0
        self._delivered = 0
        self._others = OtherRows()
        self._published, self._notified = self._buffer(PUBLISHED), self._buffer(NOTIFIED)

    def prepare(self, incarnation: int) -> None:
        """Check that the place can be written, and start the writer's thread. This loads libraries and waits for the
        disk. Raises InvalidOption where it cannot."""
        from inorder.traces.writer import Writer

        self._writer = Writer(self._traces, self._run, self._client_id, incarnation)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def opened(self, incarnation: int, domain: int, mode: str) -> None:
        """Record a client's beginning, also in another domain: arrivals and notifications count from 1 again."""
        self.flush(close_file=False)
        self._incarnation, self._domain, self._delivered = incarnation, domain, 0
        for buffer in (self._published, self._notified):
            buffer.incarnation, buffer.domain = incarnation, domain
        self._other("opened", detail=mode)

    def accepted(self, publications: Sequence[Publication]) -> None:
        """Record publishes with total order that the broker accepted; at most :data:`BATCH` of them."""
        buffer = self._room_for(self._published, len(publications))
        raw, numbers, places, at = buffer.raw, buffer.numbers, buffer.places, buffer.count * _PUBLISHED_SIZE
        for publication in publications:
            publish, info = publication.content, publication.info
            message, accepted_at = publish.message, publish.accepted_at
            assert info is not None  # a worker has named its topic
            topic, stage, top = info.id, info.stage, publication.top
            place = places.get(topic)
            if place is None:
                place = buffer.place(topic, (info.space, info.name, topic))
            if deps := publication.deps:
                numbers.fromlist(deps)
            _pack_published(
                raw, at,
                place, 0, len(numbers), publication.number, publication.counter, len(message.payload),
                len(message.stamp), stage, publication.entry, stage if top < 0 else top,
                publish.published_at, publish.stamped_at, accepted_at, accepted_at,
            )  # fmt: skip
            at += _PUBLISHED_SIZE
        buffer.added(len(publications))

    def published(
        self,
        name: TopicName,
        outcome: str,
        ordering: str,
        row: tuple[int, ...],
        deps: list[int],
        times: tuple[float, ...],
    ) -> None:
        """Record a publish that ended in any way.

        Args:
            name: the topic's space, name and id; NOTHING stands for what a row has not, here and below.
            row: number, counter, bytes of the payload and of the timestamp, stages: of the topic, entered, highest.
            deps: the timestamp's.
            times: when it was published, stamped, accepted, and now; NaN for what never came.
        """
        buffer = self._room_for(self._published, 1)
        buffer.is_mixed = True
        at = buffer.places.get(name)
        if at is None:
            at = buffer.place(name, name)
        buffer.numbers.fromlist(deps)
        how = _OUTCOME[outcome] | _ORDERING[ordering]
        _pack_published(buffer.raw, buffer.count * _PUBLISHED_SIZE, at, how, len(buffer.numbers), *row, *times)
        buffer.added(1)

    def sequenced(self, notified: Sequence[Sequenced], times: Sequence[float]) -> None:
        """Record notifications of events with a timestamp, at these times of the event loop; at most :data:`BATCH` of
        them. The content of each has its space, what arrived, and the index of the arrival."""
        buffer = self._room_for(self._notified, len(notified))
        raw, numbers, places, at = buffer.raw, buffer.numbers, buffer.places, buffer.count * _NOTIFIED_SIZE
        index = self._delivered
        for entry, now in zip(notified, times, strict=True):
            space, arrival, arrival_index = entry.content
            topic, waited = entry.topic, entry.waited_number
            place = places.get(topic)
            if place is None:
                place = buffer.place(topic, (space, arrival.topic, topic))
            if deps := entry.deps:
                numbers.fromlist(deps)
            if waited:
                buffer.has_waited = True
            how, arrived = _IN_ORDER, entry.arrived
            if entry.verdict is not _USUAL or arrival.retained or arrival.redelivered or entry.repaired:
                buffer.is_mixed = True
                how = _VERDICT[entry.verdict] | SEQUENCED | flags_of(arrival)
                if entry.repaired:
                    how, arrived, arrival_index = how | REPAIRED, nan, NOTHING
            index += 1
            _pack_notified(
                raw, at,
                place, how, len(numbers), entry.number, arrival_index, index, entry.waited_topic, waited, entry.size,
                arrived, now,
            )  # fmt: skip
            at += _NOTIFIED_SIZE
        self._delivered = index
        buffer.added(len(notified))

    def notified(
        self, name: TopicName, verdict: str, flags: int, row: tuple[int, ...], deps: list[int] | None, arrived: float
    ) -> None:
        """Record a notification of an event without a timestamp, or a dropped arrival.

        Args:
            verdict: one of :data:`VERDICTS`.
            flags: of :mod:`inorder.traces.row_buffers`, ``RETAINED | REDELIVERED | REPAIRED``.
            row: number and arrival index (NOTHING where there is none), the topic and number that it waited for last (0
                where it did not), bytes of the payload.
            deps: ``None`` where it has no timestamp.
            arrived: when it arrived, by the event loop's clock; NaN where the broker did not notify of it.
        """
        buffer = self._room_for(self._notified, 1)
        buffer.is_mixed = buffer.has_waited = True
        at = buffer.places.get(name)
        if at is None:
            at = buffer.place(name, name)
        if deps is not None:
            flags |= SEQUENCED
            buffer.numbers.fromlist(deps)
        code, index = _VERDICT[verdict], NOTHING
        if code < _FIRST_DROPPED:
            index = self._delivered = self._delivered + 1
        number, arrival_index, *others = row
        _pack_notified(
            buffer.raw, buffer.count * _NOTIFIED_SIZE,
            at, code | flags, len(buffer.numbers), number, arrival_index, index, *others, arrived, self._clock(),
        )  # fmt: skip
        buffer.added(1)

    def gap(self, name: TopicName, first: int, last: int, reason: str) -> None:
        """Record numbers that will not come."""
        self._delivered += 1
        self._of_topic("gap", name, number=first, last_number=last, detail=reason, delivery_index=self._delivered)

    def subscribed(self, name: TopicName, number: int) -> None:
        """Record that a topic's subscription began behind this number."""
        self._of_topic("subscribed", name, number=number)

    def unsubscribed(self, name: TopicName, number: int) -> None:
        """Record that a topic's subscription ended at this number, the last one notified of or skipped."""
        self._of_topic("unsubscribed", name, number=number)

    def clock(self, offset_us: int, error_us: int, at_us: int) -> None:
        """Record the offset of the worker's clock, as found at this time of day."""
        self._other("clock", recorded_at=at_us, offset_us=offset_us, error_us=error_us)

    def _of_topic(self, kind: str, name: TopicName, **columns: Any) -> None:
        space, topic, topic_id = name
        self._other(kind, space=space, topic=topic, topic_id=None if topic_id == NOTHING else topic_id, **columns)

    def _other(self, kind: str, **columns: Any) -> None:
        rows = self._others.rows
        at = self._wall_ns() // 1000
        known = {"kind": kind, "recorded_at": at, "incarnation": self._incarnation, "domain": self._domain}
        rows.append({**known, **columns})
        if len(rows) >= self._room:
            others, self._others = self._others, OtherRows()
            self._hand_over(others)

    # -- to the writer -------------------------------------------------------------------------------------------------

    def _buffer(self, layout: Layout) -> RowBuffer:
        """Return an empty buffer, reusing one of the writer's if possible."""
        buffer = None if self._writer is None else self._writer.used(layout)
        buffer = buffer or RowBuffer(layout, self._room)
        buffer.incarnation, buffer.domain = self._incarnation, self._domain
        buffer.zero_us = self._zero_us()
        return buffer

    def _zero_us(self) -> int:
        """Return the time of day at the event loop's time 0, by the quickest of a few looks: the process may pause
        within one. It is looked at again for each buffer, for that clock stands still while the machine sleeps."""
        looks = []
        for _ in range(3):
            before = self._clock()
            wall = self._wall_ns()
            after = self._clock()
            looks.append((after - before, wall / 1000 - (before + after) * 500_000))
        return round(min(looks)[1])

    def _room_for(self, buffer: RowBuffer, rows: int) -> RowBuffer:
        """Return this buffer, or another one if it has too little room."""
        return buffer if buffer.count + rows <= buffer.room else self._next(buffer)

    def _next(self, buffer: RowBuffer) -> RowBuffer:
        """Hand a full buffer over and return an empty one."""
        following = self._buffer(buffer.layout)
        if buffer.layout is PUBLISHED:
            self._published = following
        else:
            self._notified = following
        self._hand_over(buffer)
        return following

    def _hand_over(self, rows: RowBuffer | OtherRows) -> None:
        writer, weight = self._writer, rows.weight
        if writer is None:
            return
        limit = self._traces.max_buffered_rows
        if isinstance(rows, RowBuffer):
            limit -= limit // 16  # the rest is for what there is little of, and what all else is read by
        if self._handed - writer.done + weight > limit:
            writer.drop(rows)
        else:
            self._handed += weight
            writer.take(rows)

    def flush(self, *, close_file: bool = True) -> None:
        """Hand over all rows and have the file closed."""
        for buffer in (self._published, self._notified):
            if buffer.count:
                self._next(buffer)
            else:
                buffer.zero_us = self._zero_us()
        if self._others.rows:
            others, self._others = self._others, OtherRows()
            self._hand_over(others)
        if close_file and self._writer is not None:
            self._writer.close_file()

    async def close(self, seconds: float) -> None:
        """Write the rest within this many seconds and those of the settings. The log tells of unwritten rows."""
        self.flush()
        writer, self._writer = self._writer, None
        if writer is not None:
            deadline = time.monotonic() + seconds + self._traces.close_timeout
            ended = asyncio.get_running_loop().create_future()
            writer.stop(deadline, _telling(ended))
            await asyncio.wait([ended], timeout=max(0.0, deadline - time.monotonic()))
            writer.left()


def flags_of(arrival: Any) -> int:
    """Return the flags of a broker's notification."""
    return (RETAINED if arrival.retained else 0) | (REDELIVERED if arrival.redelivered else 0)


def _telling(ended: asyncio.Future[None]) -> Callable[[], None]:
    """Return a function that resolves a future from another thread, whose loop may be closed by then."""
    loop = ended.get_loop()

    def resolve() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve)

    return tell
