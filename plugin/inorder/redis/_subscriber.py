"""The inner side of a ``PubSub``: it puts the responses of a connection in order. On the event loop's thread."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from inorder.client.clock import ReadingTime
from inorder.client.configured import ClientConfiguration
from inorder.client.notification_sink import PassedOver
from inorder.endpoint.notifications import Event, Gap, Verdict
from inorder.errors import InorderError
from inorder.logs import logger
from inorder.ports import Arrival
from inorder.protocol.filters import MAX_TOPIC_BYTES, redis_filter
from inorder.protocol.names import Filter, key_of
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

UNSEQUENCED = Inorder(Verdict.UNSEQUENCED)


@dataclass(eq=False)
class _Change:
    """A change of the subscription, and the server's confirmations that wait for its end."""

    kind: Literal["subscribe", "unsubscribe"]
    via: Via
    filter: Filter
    confirmations: list[Response] = field(default_factory=list)


class _Sent(NamedTuple):
    """The channel or pattern of a message, and all channels and patterns for which the server sends it."""

    via: Via
    vias: tuple[Via, ...]


class Subscriber:
    """Orders the responses that one ``PubSub`` reads.

    A channel is subscribed at the server first, by the library; with the server's confirmation the topic managers are
    told (R7), and with their answer the confirmation goes on to the application.

    Args:
        configuration: of the client.
        address: the server's, for logs.
        ring: called whenever something has become available.

    Attributes:
        items: what the application gets next, oldest first.
        time: goes on while the application reads.
        settled: channels and patterns whose subscription has been answered, however, and not been ended since.
        refusals: how many commands the server has refused.
        error: why nothing more is ordered here.
        ens: has the pings that whoever reads is to send (R24).
    """

    def __init__(
        self,
        configuration: ClientConfiguration,
        address: str,
        on_available: Callable[[], None],
    ) -> None:
        self.ens = RedisPyEns(address)
        self.ens.on_ping_due = on_available
        self._client = engine_of(configuration, self.ens)
        self.time = ReadingTime()
        self._client.hand_to(self, self.time)
        self._timeout, self._on_available = configuration.subscribe_timeout, on_available
        self.items: deque[Item] = deque()
        self.settled: set[Via] = set()
        self.refusals = 0
        self.error: InorderError | None = None
        self._live: dict[Via, Filter | None] = {}
        self._pending: dict[Via, _Change] = {}
        self._leaving: Counter[Via] = Counter()
        self._holders: dict[Filter, set[Via]] = {}
        self._changes: deque[_Change] = deque()
        self._task: asyncio.Task[None] | None = None
        self._covering: dict[str | bytes, tuple[Via, ...]] = {}

    async def open(self) -> None:
        """Connect to the workers. Raises WorkerUnreachable, Unauthorized, VersionMismatch."""
        self.ens.attach(asyncio.get_running_loop())
        self.ens.up()
        await self._client.__aenter__()

    @property
    def is_waiting(self) -> bool:
        """Tell whether a message waits for its turn."""
        return self._client.stats().waiting > 0

    async def close(self) -> None:
        """End the subscription."""
        if self._task is not None:
            self._task.cancel()
        await self._client.close()

    # -- what the library read ---------------------------------------------------------------------------------

    def feed(self, responses: list[Any]) -> None:
        """Take responses in the order in which they were read."""
        for response in responses:
            if self.ens.is_pong(response):
                continue
            kind = response[0] if isinstance(response, list) and response else None
            if isinstance(response, Failed):
                self.refusals += 1
            if kind == MESSAGE:
                self._message((MESSAGE, response[1]), response[1], response[2])
            elif kind == PATTERN_MESSAGE:
                self._message((PATTERN_MESSAGE, response[1]), response[2], response[3])
            elif kind in SUBSCRIBED:
                self._subscribed((SUBSCRIBED[kind], response[1]), Response(response))
            elif kind in UNSUBSCRIBED and response[1] is not None:
                self._unsubscribed((UNSUBSCRIBED[kind], response[1]), Response(response))
            else:
                self._out(Response(response) if isinstance(response, list) else response)

    def _message(self, via: Via, channel: bytes, raw: bytes) -> None:
        stamp, payload = split(raw)
        topic = text_of(channel)
        if topic is None or not 0 < len(channel) <= MAX_TOPIC_BYTES or self._live.get(via) is None:
            self._out(message_of(via, channel, payload, UNSEQUENCED))
        elif self.error is None:
            self.ens.arrived(Arrival(topic, payload, stamp, source=_Sent(via, self._vias_of(topic))))
            self.ens.flush()
        else:
            self._out(Failed(self.error, is_final=True))

    def _vias_of(self, topic: str) -> tuple[Via, ...]:
        """Return the confirmed subscriptions for which the server sends a message of this channel, channels first. All
        of that is given at the first one's turn (see :mod:`inorder.client.copies`)."""
        key = key_of(topic)
        vias = self._covering.get(key)
        if vias is None:
            if len(self._covering) > 100_000:
                self._covering.clear()
            covering = [via for via, filter in self._live.items() if filter is not None and filter.covers(topic)]
            vias = self._covering[key] = tuple(sorted(covering, key=itemgetter(0)))
        return vias

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _subscribed(self, via: Via, confirmation: Response) -> None:
        """Handle the server's confirmation of a subscription, which comes again after each reconnection."""
        pending = self._pending.get(via)
        if pending is not None:
            pending.confirmations.append(confirmation)
            return
        before = self._live.get(via)
        text = filter_text(via)
        usable = text is not None and 0 < len(text.encode()) <= MAX_TOPIC_BYTES
        filter = redis_filter(text) if usable else None
        self._live[via] = filter
        self._covering.clear()
        if filter is None or before is not None or self._is_kept(via) or self.error is not None:
            self._settle(via)
            self._out(confirmation)
        else:
            self._pending[via] = change = _Change("subscribe", via, filter, [confirmation])
            self._queue(change)

    def _is_kept(self, via: Via) -> bool:
        """Cancel an unsubscription of which the topic managers have not been told; tell whether there was one."""
        for change in self._changes if self._leaving[via] else ():
            if change.kind == "unsubscribe" and change.via == via:
                self._changes.remove(change)
                self._leaving -= Counter([via])
                return True
        return False

    def _unsubscribed(self, via: Via, confirmation: Response) -> None:
        """Handle the server's word that a subscription ended: deliveries end, the topic managers hear later."""
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

    def ends(self, kind: bytes, names: list[bytes]) -> None:
        """Note that the library is about to unsubscribe, without names from all of the kind (any thread): a later
        subscription waits for an answer of its own."""
        vias = {(kind, each) for each in names} if names else {via for via in tuple(self.settled) if via[0] == kind}
        self.settled -= vias

    def _queue(self, change: _Change) -> None:
        self._changes.append(change)
        if self._task is None:
            self._task = asyncio.create_task(self._change(), name="inorder.redis: subscription changes")

    async def _change(self) -> None:
        while self._changes:
            batch = [self._changes.popleft()]
            while self._changes and self._changes[0].kind == batch[0].kind:
                batch.append(self._changes.popleft())
            await self._tell(batch)
        self._task = None

    async def _tell(self, batch: list[_Change]) -> None:
        """Tell the topic managers of changes of one kind; after a refusal tell them of each change by itself."""
        try:
            if self.error is None:
                async with asyncio.timeout(self._timeout):
                    await (self._add(batch) if batch[0].kind == "subscribe" else self._remove(batch))
        except TimeoutError:
            hint = "the workers have not answered: its events wait until they do"
            _log.warning("event=subscription_unanswered filter=%s hint=%s", batch[0].filter.text, hint)
        except InorderError as error:
            for each in batch:
                self._let_go(each)
            if len(batch) > 1 and self.error is None:
                for each in batch:
                    await self._tell([each])
                return
            self._refuse(batch, error)
        for each in batch:
            if each.kind == "unsubscribe":
                self._leaving -= Counter([each.via])
            else:
                self._release(each)

    def _refuse(self, batch: list[_Change], error: InorderError) -> None:
        """Give the application the error instead of confirmations; later messages have no place in the order."""
        for each in batch:
            each.confirmations.clear()
            self._pending.pop(each.via, None)
            if each.kind == "subscribe" and each.via in self._live:
                self._live[each.via] = None
            self._settle(each.via)
        self._covering.clear()
        if self.error is None:  # else the application hears of that
            self._out(Failed(error))

    async def _add(self, batch: list[_Change]) -> None:
        new = []
        for each in batch:
            holders = self._holders.setdefault(each.filter, set())
            if not holders:
                new.append(each.filter.text)
            holders.add(each.via)
        if new:
            await self._client.subscribe(*new)

    def _let_go(self, change: _Change) -> bool:
        """Take a filter from its channel or pattern; return whether nothing holds the filter now."""
        holders = self._holders.get(change.filter, set())
        holders.discard(change.via)
        return not holders and self._holders.pop(change.filter, None) is not None

    async def _remove(self, batch: list[_Change]) -> None:
        gone = [each.filter.text for each in batch if self._let_go(each)]
        if gone:
            await self._client.unsubscribe(*gone)

    def _release(self, change: _Change) -> None:
        """Pass the confirmations on to the application."""
        if self._pending.get(change.via) is change:
            del self._pending[change.via]
        confirmations, change.confirmations = change.confirmations, []
        if confirmations:
            self._settle(change.via)
        for each in confirmations:
            self._out(each)

    def _settle(self, via: Via) -> None:
        self.settled.add(via)
        self._on_available()

    # -- what the client tells (NotificationSink) --------------------------------------------------------------------

    def on_event(self, event: Event, arrival: Arrival) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        inorder = Inorder(event.verdict, event.number, event.deps)
        channel = event.topic.encode()
        for via in self._given_to(event, arrival.source):
            if via in self._live and not self._leaving[via]:
                pending = self._pending.get(via)
                if pending is not None:  # the answer of the topic managers is on its way out
                    self._release(pending)
                self._out(message_of(via, channel, event.payload, inorder))

    def _given_to(self, event: Event, sent: object) -> tuple[Via, ...]:
        if not isinstance(sent, _Sent):  # from an event log: as the server would have sent it
            return self._vias_of(event.topic)
        # what has no place in the order comes when it comes, each of its copies by itself
        return (sent.via,) if event.verdict is Verdict.UNSEQUENCED else sent.vias

    def on_gap(self, gap: Gap) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        self._out(gap)

    def on_passed_over(self, arrival: Arrival, topic: int, number: int, why: PassedOver) -> None:
        """Drop a copy, for all copies are delivered together with their twin."""

    def on_unrouted(self, arrival: Arrival) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        via = arrival.source.via if isinstance(arrival.source, _Sent) else None
        if via in self._live and (arrival.stamp is None or via not in self._pending):
            self._out(message_of(via, arrival.topic.encode(), arrival.payload, UNSEQUENCED))

    def on_failed(self, error: InorderError) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        self.error = error
        self._out(Failed(error, is_final=True))

    def _out(self, item: Item) -> None:
        self.items.append(item)
        self._on_available()
