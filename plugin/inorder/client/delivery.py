"""The delivery stream: one ordered, bounded queue between the ordering module and the application."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from inorder.endpoint.notifications import Event, Gap, GapReason, Reconnected, Verdict
from inorder.errors import Closed, InorderError, StreamInUse
from inorder.logs import logger
from inorder.protocol.arrival import bytes_of

_log = logger("inorder.client")

Notification = Event | Gap | Reconnected


class DeliveryStream(AsyncIterator[Notification]):
    """The notifications that the application has not taken yet.

    Beyond ``max_events`` or ``max_bytes`` events are given up until half of it is taken. Their numbers are reported as
    one ``Gap(reason="overflow")`` per topic and range at their place in the stream. Events that are not in the total
    order (verdicts unsequenced, retained and fifo; subscriptions with ``ordering="fifo"`` or ``"none"``) leave no gap:
    they are counted, as all others, in ``overflowed`` and logged as a warning, once per overflow. Memory stays bounded:
    numbers come in order but for late ones. A ``Gap(reason="restored")`` is never given up: it says that numbers are
    others from there on.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events, self._max_bytes = max_events, max_bytes
        self._queue: deque[Notification] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: InorderError | None = None
        self._overflow: dict[tuple[str, str], list[tuple[int, int]]] | None = None
        self._is_loss_logged = False
        self.overflowed = 0
        self.done_with: Callable[[Notification], None] | None = None
        """Called with the last notification taken when the next one is asked for (R18)."""
        self._taken: deque[Notification] = deque()
        self.gap_placed: Callable[[Gap], None] = lambda gap: None
        """Called with each gap that stands for events that were given up."""

    @property
    def not_done_with(self) -> int:
        """The notifications for which ``done_with`` is still to be called."""
        return len(self._queue) + len(self._taken)

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: Notification) -> bool:
        """Append a notification; return whether it is in the stream. After the end there are none."""
        if self._ended:
            return False
        size = _bytes_of(item)
        if isinstance(item, Gap) and item.reason is GapReason.RESTORED:
            self.place_gaps()
        elif not self._takes(size):
            self._give_up(item)
            return False
        self._bytes += size
        self._queue.append(item)
        self._wake()
        return True

    def _takes(self, size: int) -> bool:
        """Tell whether so many bytes are within the limits; if not, begin an overflow unless one goes on."""
        if self._overflow is not None and not self._has_room():
            return False
        if len(self._queue) < self._max_events and self._bytes + size <= self._max_bytes:
            return True
        self._overflow = {}
        self._is_loss_logged = False
        return False

    def _has_room(self) -> bool:
        """Tell whether an overflow is over, and if so put its gaps in their place."""
        if 2 * len(self._queue) > self._max_events or 2 * self._bytes > self._max_bytes:
            return False
        self.place_gaps()
        return True

    def place_gaps(self) -> None:
        """Put the gaps of an overflow here, ahead of notifications that it does not concern."""
        overflow, self._overflow = self._overflow or {}, None
        for (space, topic), ranges in overflow.items():
            for first, last in ranges:
                gap = Gap(space, topic, first, last, GapReason.OVERFLOW)
                self._queue.append(gap)
                self.gap_placed(gap)

    def _give_up(self, item: Notification) -> None:
        assert self._overflow is not None
        if isinstance(item, Event):
            self.overflowed += 1
            numbers = None
            if item.number is not None and item.verdict in (Verdict.IN_ORDER, Verdict.LATE):
                numbers = item.number, item.number
            elif not self._is_loss_logged:
                self._is_loss_logged = True
                _log.warning(
                    "event=overflow space=%s topic=%s hint=%s", item.space, item.topic,
                    "events() is read too slowly: events without a number are given up, with no gap to tell of them; "
                    "stats().overflow counts them",
                )  # fmt: skip
        elif isinstance(item, Gap):
            numbers = (item.first, item.last)
        else:
            self._queue.append(item)
            return
        if numbers is not None:
            ranges = self._overflow.setdefault((item.space, item.topic), [])
            if ranges and numbers[0] == ranges[-1][1] + 1:
                ranges[-1] = ranges[-1][0], numbers[1]
            else:
                ranges.append(numbers)

    def end(self, error: InorderError | None = None) -> None:
        """End the stream, because the client was closed or for ``error``, which the reader gets."""
        self._ended = True
        self._error = self._error or error
        self.place_gaps()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def read(self) -> AsyncIterator[Notification]:
        """Return the stream as an iterator. Raises Closed after the end."""
        if self._ended and not self._queue and self._error is None:
            raise Closed("the client is closed")
        return self

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self

    async def __anext__(self) -> Notification:
        """Return the next notification as soon as there is one.

        Raises:
            StreamInUse: another task waits for it already.
            StopAsyncIteration: the client was closed and everything was taken.
            InorderError: the client failed for good, and everything was taken.
        """
        queue = self._queue
        self._check_free()
        if self._taken:
            self.done()
        if not queue:
            await self._filled()
        return self._take()

    async def take(self, most: int) -> list[Notification]:
        """Return at least one notification, for a reader elsewhere who calls :meth:`done`. Raises as ``__anext__``."""
        self._check_free()
        if not self._queue:
            await self._filled()
        return [self._take() for _ in range(min(most, len(self._queue)))]

    def take_rest(self) -> list[Notification]:
        """Return the notifications left unread at the end."""
        return [self._take() for _ in range(len(self._queue))]

    def done(self) -> None:
        """Note that the reader has done with the first notification in its hands and asks for the next (R18)."""
        taken = self._taken.popleft()
        if self.done_with is not None:
            self.done_with(taken)

    def _check_free(self) -> None:
        if self._waiter is not None:
            raise StreamInUse("events() is being iterated by another task; a client has one delivery stream")

    async def _filled(self) -> None:
        """Wait until there is a notification. Raises StopAsyncIteration, or the error, where nothing will be."""
        queue = self._queue
        while not queue:
            if self._overflow is not None and self._has_room():
                continue
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _take(self) -> Notification:
        item = self._queue.popleft()
        self._bytes -= _bytes_of(item)
        if self.done_with is not None:
            self._taken.append(item)
        return item


def _bytes_of(item: Notification) -> int:
    return bytes_of(item.payload, item.topic, item.properties) if isinstance(item, Event) else 0
