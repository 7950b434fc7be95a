"""The inner side of a ``PubSub``: what it read from its connection comes out in order. On the event loop's thread."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from inorder.client.clock import ReadingTime
from inorder.client.configured import ClientConfiguration
from inorder.core.filters import MAX_TOPIC_BYTES, redis_filter
from inorder.core.names import Filter
from inorder.core.notifications import Event, Gap, Verdict
from inorder.errors import InorderError
from inorder.logs import logger
from inorder.ports import Arrival
from inorder.redis._ens import RedisPyEns, engine_of
from inorder.redis._message import (
    MESSAGE,
    PATTERN_MESSAGE,
    SUBSCRIBED,
    UNSUBSCRIBED,
    Failed,
    Inorder,
    Item,
    Response,
    Via,
    filter_text,
    message_of,
    text_of,
)
from inorder_adapters.payload_form import split

_log = logger("inorder.redis")

COPY_WAIT = 0.05
"""How long the copies of one message, for several patterns, may come apart from each other, s."""
UNSEQUENCED = Inorder(Verdict.UNSEQUENCED)


@dataclass(eq=False)
class _Change:
    """A change of the subscription, and the server's confirmations that wait for it."""

    kind: Literal["subscribe", "unsubscribe"]
    via: Via
    filter: Filter
    confirmations: list[Response] = field(default_factory=list)


@dataclass
class _Copies:
    """One message as it comes once for each channel and pattern that covers it."""

    channel: bytes
    raw: bytes
    topic: str
    stamp: bytes
    payload: bytes
    vias: list[Via]


class Subscriber:
    """Orders what one ``PubSub`` reads.

    A channel is subscribed at the server first, by the library; with the server's confirmation the topic managers are
    told (R7), and with their answer the confirmation goes on to the application.

    Args:
        configuration: of the client.
        address: the server's, for logs.
        ring: called whenever something has become available.

    Attributes:
        items: what the application gets next, oldest first.
        time: goes on while the application reads.
        settled: channels and patterns whose subscription has been answered, however.
        error: why nothing more is ordered here.
    """

    def __init__(
        self,
        configuration: ClientConfiguration,
        address: str,
        ring: Callable[[], None],
    ) -> None:
        self._ens = RedisPyEns(address)
        self._client = engine_of(configuration, self._ens)
        self.time = ReadingTime()
        self._client.hand_to(self, self.time)
        self._timeout, self._ring = configuration.subscribe_timeout, ring
        self.items: deque[Item] = deque()
        self.settled: set[Via] = set()
        self.error: InorderError | None = None
        self._live: dict[Via, Filter | None] = {}
        self._pending: dict[Via, _Change] = {}
        self._leaving: Counter[Via] = Counter()
        self._holders: dict[Filter, set[Via]] = {}
        self._changes: deque[_Change] = deque()
        self._task: asyncio.Task[None] | None = None
        self._copies: _Copies | None = None
        self._copies_timer: asyncio.TimerHandle | None = None
        self._covering: dict[str, int] = {}

    async def open(self) -> None:
        """Connect to the workers. Raises WorkerUnreachable, Unauthorized, VersionMismatch."""
        self._ens.attach(asyncio.get_running_loop())
        self._ens.up()
        await self._client.__aenter__()

    async def close(self) -> None:
        """End the subscription."""
        for handle in (self._task, self._copies_timer):
            if handle is not None:
                handle.cancel()
        await self._client.close()

    # -- what the library read ---------------------------------------------------------------------------------

    def feed(self, responses: list[Any]) -> None:
        """Take what was read, in its order."""
        for response in responses:
            kind = response[0] if isinstance(response, list) and response else None
            if kind == MESSAGE:
                self._message((MESSAGE, response[1]), response[1], response[2])
            elif kind == PATTERN_MESSAGE:
                self._message((PATTERN_MESSAGE, response[1]), response[2], response[3])
            else:
                self._end_copies()
                if kind in SUBSCRIBED:
                    self._subscribed((SUBSCRIBED[kind], response[1]), Response(response))
                elif kind in UNSUBSCRIBED and response[1] is not None:
                    self._unsubscribed((UNSUBSCRIBED[kind], response[1]), Response(response))
                else:
                    self._out(Response(response) if isinstance(response, list) else response)

    def _message(self, via: Via, channel: bytes, raw: bytes) -> None:
        copies = self._copies
        if copies is not None and copies.channel == channel and copies.raw == raw and via not in copies.vias:
            copies.vias.append(via)
            if len(copies.vias) >= self._covering[copies.topic]:
                self._end_copies()
            return
        self._end_copies()
        stamp, payload = split(raw)
        topic = text_of(channel)
        if topic is None or not 0 < len(channel) <= MAX_TOPIC_BYTES or self._live.get(via) is None:
            self._out(message_of(via, channel, payload, UNSEQUENCED))
        elif stamp is None:
            self._arrived(Arrival(topic, payload, source=(via,)))
        else:
            copies = self._copies = _Copies(channel, raw, topic, stamp, payload, [via])
            if self._copies_of(topic) <= 1:
                self._end_copies()
            else:
                self._copies_timer = asyncio.get_running_loop().call_later(COPY_WAIT, self._end_copies)

    def _copies_of(self, topic: str) -> int:
        """Return how often the server sends a message of this channel, by the subscriptions that it has confirmed."""
        count = self._covering.get(topic)
        if count is None:
            if len(self._covering) > 100_000:
                self._covering.clear()
            count = sum(filter is not None and filter.covers(topic) for filter in self._live.values())
            self._covering[topic] = count
        return count

    def _end_copies(self) -> None:
        copies, self._copies = self._copies, None
        if copies is None:
            return
        if self._copies_timer is not None:
            self._copies_timer.cancel()
            self._copies_timer = None
        self._arrived(Arrival(copies.topic, copies.payload, copies.stamp, source=tuple(copies.vias)))

    def _arrived(self, arrival: Arrival) -> None:
        if self.error is None:
            self._ens.arrived(arrival)
            self._ens.flush()
        else:
            self._out(Failed(self.error))

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _subscribed(self, via: Via, confirmation: Response) -> None:
        """The server has confirmed; it does so again after each reconnection of the library."""
        pending = self._pending.get(via)
        if pending is not None:
            pending.confirmations.append(confirmation)
            return
        is_new = via not in self._live
        text = filter_text(via)
        usable = text is not None and 0 < len(text.encode()) <= MAX_TOPIC_BYTES
        filter = redis_filter(text) if usable else None
        self._live[via] = filter
        self._covering.clear()
        if is_new and filter is not None and self.error is None:
            self._pending[via] = change = _Change("subscribe", via, filter, [confirmation])
            self._queue(change)
        else:
            self._settle(via)
            self._out(confirmation)

    def _unsubscribed(self, via: Via, confirmation: Response) -> None:
        """The server has confirmed: nothing of it is delivered any more; that the topic managers know can wait."""
        filter = self._live.pop(via, None)
        self._covering.clear()
        self.settled.discard(via)
        pending = self._pending.get(via)
        if pending is not None:
            self._release(pending)
        if filter is not None:
            self._leaving[via] += 1
            self._queue(_Change("unsubscribe", via, filter))
        self._out(confirmation)

    def _queue(self, change: _Change) -> None:
        self._changes.append(change)
        if self._task is None:
            self._task = asyncio.create_task(self._change(), name="inorder.redis: subscription changes")

    async def _change(self) -> None:
        while self._changes:
            batch = [self._changes.popleft()]
            while self._changes and self._changes[0].kind == batch[0].kind:
                batch.append(self._changes.popleft())
            try:
                if self.error is None:
                    async with asyncio.timeout(self._timeout):
                        await (self._add(batch) if batch[0].kind == "subscribe" else self._remove(batch))
            except TimeoutError:
                hint = "the workers have not answered: its events wait until they do"
                _log.warning("event=subscription_unanswered filter=%s hint=%s", batch[0].filter.text, hint)
            except InorderError as error:
                for each in batch:
                    each.confirmations.clear()
                    self._pending.pop(each.via, None)
                    self._settle(each.via)
                self._out(Failed(error))
            for each in batch:
                if each.kind == "unsubscribe":
                    self._leaving -= Counter([each.via])
                else:
                    self._release(each)
        self._task = None

    async def _add(self, batch: list[_Change]) -> None:
        new = []
        for each in batch:
            holders = self._holders.setdefault(each.filter, set())
            if not holders:
                new.append(each.filter.text)
            holders.add(each.via)
        if new:
            await self._client.subscribe(*new)

    async def _remove(self, batch: list[_Change]) -> None:
        gone = []
        for each in batch:
            holders = self._holders.get(each.filter, set())
            holders.discard(each.via)
            if not holders and self._holders.pop(each.filter, None) is not None:
                gone.append(each.filter.text)
        if gone:
            await self._client.unsubscribe(*gone)

    def _release(self, change: _Change) -> None:
        """The confirmations go on to the application."""
        if self._pending.get(change.via) is change:
            del self._pending[change.via]
        confirmations, change.confirmations = change.confirmations, []
        if confirmations:
            self._settle(change.via)
        for each in confirmations:
            self._out(each)

    def _settle(self, via: Via) -> None:
        self.settled.add(via)
        self._ring()

    # -- what the client tells (Taker) -------------------------------------------------------------------------

    def event(self, event: Event, arrival: Arrival) -> None:
        """See :class:`~inorder.client.taking.Taker`."""
        inorder = Inorder(event.verdict, event.number, event.deps)
        channel = event.topic.encode()
        vias = arrival.source if isinstance(arrival.source, tuple) else self._vias_of(event.topic)
        for via in vias:
            if via in self._live and not self._leaving[via]:
                pending = self._pending.get(via)
                if pending is not None:  # the answer of the topic managers is on its way out
                    self._release(pending)
                self._out(message_of(via, channel, event.payload, inorder))

    def _vias_of(self, topic: str) -> list[Via]:
        """Return how the server would have sent what came from an event log."""
        return [via for via, filter in self._live.items() if filter is not None and filter.covers(topic)]

    def gap(self, gap: Gap) -> None:
        """See :class:`~inorder.client.taking.Taker`."""
        self._out(gap)

    def passed_over(self, arrival: Arrival, topic: int, number: int, why: Literal["before", "duplicate"]) -> None:
        """See :class:`~inorder.client.taking.Taker`."""

    def unrouted(self, arrival: Arrival) -> None:
        """See :class:`~inorder.client.taking.Taker`."""
        for via in arrival.source if isinstance(arrival.source, tuple) else ():
            if via in self._live and (arrival.stamp is None or via not in self._pending):
                self._out(message_of(via, arrival.topic.encode(), arrival.payload, UNSEQUENCED))

    def failed(self, error: InorderError) -> None:
        """See :class:`~inorder.client.taking.Taker`."""
        self.error = error
        self._out(Failed(error))

    def _out(self, item: Item) -> None:
        self.items.append(item)
        self._ring()
