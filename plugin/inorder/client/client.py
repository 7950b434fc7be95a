"""The client: an application's publishers and subscribers on its brokers, in one total order."""

from __future__ import annotations

import asyncio
import datetime
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from inorder.client import clock
from inorder.client.adapters import open_ens
from inorder.client.arrivals import Arrivals
from inorder.client.delivery import DeliveryStream, Notification
from inorder.client.durable import DurableClock
from inorder.client.ens_link import EnsLink
from inorder.client.observing import Observer
from inorder.client.options import ClientTimes
from inorder.client.publishing import LOG_ALLOWANCE, Publish, Publishing
from inorder.client.recording import Recording
from inorder.client.replaying import Replaying
from inorder.client.routing import ORDERINGS, Ordering, Routes
from inorder.client.subscribing import Subscribing
from inorder.client.taking import Taker, TakerWatcher
from inorder.client.workers import Workers
from inorder.endpoint.lease import Lease
from inorder.endpoint.notifications import Bounded, Event, Gap, Receipt, Reconnected, Verdict
from inorder.endpoint.ordering import Mode, OrderingModule
from inorder.endpoint.publisher import ADDS_ABOVE_FROM
from inorder.endpoint.subscriber import Subscriber
from inorder.errors import Closed, InorderError, InvalidOption, PayloadTooLarge, UsageError
from inorder.logs import logger
from inorder.ports import Arrival, Ens, Outgoing
from inorder.protocol.access import Permissions
from inorder.protocol.names import CLIENT_ID, Filter, is_client_id
from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSIONS,
    AskNumbers,
    ClientCounts,
    Done,
    Durable,
    Frame,
    Heads,
    Hello,
    LoggedEvents,
    Logs,
    Moved,
    NameTopics,
    Numbers,
    Opened,
    ReadLog,
    Renewed,
    Reported,
    Resolve,
    Settled,
    Subscribed,
    Timestamps,
    Topics,
    Welcome,
    WorkerFrame,
)
from inorder.traces.options import Traces, traces_of
from inorder.traces.recorder import Recorder

_log = logger("inorder.client")

Order = Literal["total", "fifo", "none"]
STANDSTILL = 0.25
"""How often to look whether time goes on again, s (see :meth:`Client.hand_to`)."""
MAX_UNREAD = 5_000
"""Notifications that the application has not taken, from which on nothing more is fetched from event logs."""
NAMES_ASKED = 100
"""Topics whose names are asked for at once: as long as they may be, they fit into one answer."""
STAMP_ALLOWANCE = 256
"""Bytes kept free for a stamp below the broker's limit; the wire form of a longer one is checked by the adapter."""


class ClientStats(msgspec.Struct, frozen=True):
    """Counters of a client since it was made; ``delivered`` by verdict. ``after_gap``: of the late ones, those that
    came after a gap had told of them."""

    delivered: dict[str, int]
    duplicates: int
    overlaps: int
    before: int
    gaps: int
    voids: int
    repaired: int
    overflow: int
    unsequenced: int
    corrupt: int
    foreign: int
    malformed: int
    waiting: int
    waiting_bytes: int
    undelivered: int
    pending: int
    late_confirms: int
    worker_reconnects: int
    connected: bool
    after_gap: int


class Client:
    """Publishes and subscribes through existing brokers; what it subscribes with ``ordering="total"`` arrives in the
    one order that all subscribers of the domain see.

    Use it as ``async with Client(...) as client``. All methods are called on the event loop's thread.

    Args:
        brokers: one broker's URL, or several by space: ``{"plant": "mqtt://...", "office": "redis://..."}``. Instead
            of a URL also an unconnected :class:`~inorder.ports.Ens`, of an adapter that has no scheme.
        workers: one address ``host:port`` or several; with none, only the orders ``fifo`` and ``none`` work.
        client_id: the same id means the same application; random by default.
        token: for the workers.
        durable: the subscription stays while this client is away, and resumes when a client of the same id opens again:
            with all that topics with an event log had meanwhile, in the same order (R18). Needs a ``client_id``, and
            subscribes with ordering ``"total"`` only.
        mode: how long total order waits: ``"strict"`` until a number arrives or is known not to, ``"tag"`` never
            (the papers' tagging), or :class:`Bounded` (R6).
        space: the name of a single broker's space; by default its adapter's.
        options: for the adapters (QoS defaults, TLS, ... see each adapter); override the URL's query.
        times: timers and bounds.
        tls: for the connection to the workers.
        traces: record what happens to every event: a folder, a URL of fsspec, or :class:`Traces`; by default nothing.

    Raises:
        InvalidOption: an argument or URL is not allowed.
        MissingExtra: an adapter's library is not installed, or what records traces.
    """

    def __init__(
        self,
        brokers: str | Ens | Mapping[str, str | Ens],
        *,
        workers: str | Sequence[str] = ("localhost:7401",),
        client_id: str | None = None,
        token: str | None = None,
        durable: bool = False,
        mode: Mode = "strict",
        space: str | None = None,
        options: Mapping[str, Any] | None = None,
        times: ClientTimes | None = None,
        tls: ssl.SSLContext | None = None,
        traces: str | Path | Traces | None = None,
    ) -> None:
        self.client_id = _checked_id(client_id)
        _check_durable(durable, client_id, workers)
        self.incarnation = _new_incarnation()
        self._times = times or ClientTimes()
        self._mode = _checked_mode(mode)
        self._domain = 0
        self._permissions = Permissions()
        self._now: Callable[[], float] = lambda: self._loop.time()
        self._ticked_at = 0.0
        self._stands_still = False
        self._traces = None if traces is None else traces_of(traces)
        self._recording: Recording | None = None
        self._links = self._make_links(brokers, space, options or {})
        self._hello = Hello(
            *PROTOCOL_VERSIONS, _checked_token(token), self.client_id, self.incarnation, "inorder-python"
        )
        addresses = _checked_workers(workers)
        self._worker = Workers(addresses, self._hello, self, self._times, tls) if addresses else None
        self._stream = DeliveryStream(self._times.max_undelivered, self._times.max_undelivered_bytes)
        self._ordering = OrderingModule(self._mode, self._times.ordering())
        self._subscriber = Subscriber(bounded=self._mode != "strict", durable=durable)
        self._ordering.space_of = self._subscriber.space_of
        self._routes = Routes()
        self._lease = Lease()
        self._arrivals = Arrivals(
            self._ordering,
            self._subscriber,
            self._routes,
            self._lease,
            lambda: self._domain,
            self._stream.put,
            self._times.gap_timeout,
        )
        self._publishing = Publishing(self._send, lambda: self._domain, self._arrivals.named, self._times.max_pending)
        self._publishing.settle_wanted = self._settle_soon
        self._subscribing = Subscribing(
            self._subscriber,
            self._ordering,
            self._routes,
            self._arrivals,
            self._lease,
            self._send,
            self._wake,
            lambda: self._now(),
        )
        self._observer = Observer(self._counts, lambda: self._ordering.waits(self._now()), lambda: self._now())
        if self._worker is not None and self._times.report_interval:
            self._publishing.observer = self._arrivals.observer = self._observer
        self._replaying = Replaying(self._send, self._request_id, self._arrivals.named)
        self._durable: DurableClock | None = None
        if durable:
            self._durable = DurableClock(self._send, self._request_id, self._arrivals.topic_id, self._times.save_delay)
            self._stream.done_with = self._durable.done_with
        self._tasks: list[asyncio.Task[None]] = []
        self._state: Literal["new", "open", "closed"] = "new"
        self._error: InorderError | None = None
        self._closing: asyncio.Task[None] | None = None
        self._pump_due = False
        self._pump_call: asyncio.Handle | None = None
        self._settle_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._renew_timer: asyncio.TimerHandle | None = None
        self._report_timer: asyncio.TimerHandle | None = None
        self._next_request = 1
        self._naming: dict[int, list[int]] = {}

    def _make_links(
        self, brokers: str | Ens | Mapping[str, str | Ens], space: str | None, options: Mapping[str, Any]
    ) -> dict[str, EnsLink]:
        if isinstance(brokers, (str, Ens)):
            ens = self._make_ens(brokers, options)
            name = _checked_space(ens.space if space is None else space)
            return {name: EnsLink(ens, name, self, self._times)}
        if not isinstance(brokers, Mapping) or not brokers:
            # what holds URLs may hold passwords, so only its type is named
            given = type(brokers) if isinstance(brokers, Iterable) and brokers else brokers
            raise InvalidOption("brokers", given, "a URL, or a mapping with at least one URL by space")
        if space is not None:
            raise InvalidOption("space", space, "only together with a single broker URL; several are given by space")
        return {
            _checked_space(name): EnsLink(self._make_ens(broker, options), name, self, self._times)
            for name, broker in brokers.items()
        }

    def _make_ens(self, broker: str | Ens, options: Mapping[str, Any]) -> Ens:
        if isinstance(broker, str) or not isinstance(broker, Ens):
            return open_ens(broker, client_id=self.client_id, options=options)
        return broker

    def __repr__(self) -> str:
        return f"<Client {self.client_id!r} {self._state}: {', '.join(map(repr, self._links.values()))}>"

    def hand_to(self, taker: Taker, now: Callable[[], float] | None = None) -> None:
        """Have notifications go to the library that this client is embedded in, instead of :meth:`events`. Before it is
        opened.

        Args:
            now: the time by which missing events are waited for (s), where that is not the event loop's.
        """
        self._arrivals.taker = taker
        if now is not None:
            self._now = now
        self._ordering.watcher = TakerWatcher(taker, self._ordering)

    # -- life --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect to the workers and all brokers. Raises WorkerUnreachable, BrokerUnreachable, Unauthorized,
        VersionMismatch; InvalidOption where traces cannot be written."""
        if self._state != "new":
            raise UsageError("a client is opened once; make a new one")
        self._loop = asyncio.get_running_loop()
        self._state = "open"
        try:
            if self._traces is not None:
                await self._prepare_traces(self._traces)
            if self._worker is not None:
                await self._worker.connect()
            for link in self._links.values():
                self._check_open()  # another task may have closed it meanwhile: nothing may connect after that
                await link.open()
            self._check_open()
        except BaseException:
            await self.close()
            raise
        if self._recording is not None:
            self._recording.opened(self.incarnation, self._domain, self._mode_name)
        if self._worker is not None:
            self._start(self._worker.run(), "worker links")
            self._report_later()
        for space, link in self._links.items():
            self._start(link.run(), f"broker link {space}")
        await self._resume()
        return self

    async def _prepare_traces(self, traces: Traces) -> None:
        """Look whether traces can be written, before anything else; that loads libraries and may wait for the disk."""
        clock = _quickest(self._loop)
        recorder = Recorder(traces, self.client_id, clock)
        await asyncio.to_thread(recorder.prepare, self.incarnation)
        arrivals = self._arrivals
        self._recording = recording = Recording(
            recorder, clock, arrivals.name_of, arrivals.topic_id, lambda: self._observer.offset
        )
        self._publishing.recording = arrivals.recording = recording
        taker, ordering = arrivals.taker, self._ordering
        ordering.watcher = recording if taker is None else TakerWatcher(taker, ordering, recording)
        self._stream.gap_placed = recording.gap
        recording.flush_every(traces.flush_interval)

    @property
    def _mode_name(self) -> str:
        return "bounded" if isinstance(self._mode, Bounded) else self._mode

    async def _resume(self) -> None:
        """R18: go on with the durable subscription that waits for this client."""
        if self._durable is not None:
            try:
                filters = await self._durable.ask()
                if filters:
                    await self._subscribing.resume(filters, self._links)
                self._check_open()
            except BaseException:
                await self.close()
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    def _start(self, coroutine: Any, name: str) -> None:
        task = asyncio.create_task(coroutine, name=f"inorder {self.client_id}: {name}")
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("event=task_failed task=%s", task.get_name(), exc_info=error)
            self._fail(error if isinstance(error, InorderError) else InorderError(f"{task.get_name()}: {error!r}"))

    def _fail(self, error: InorderError) -> None:
        """Nothing more can come: readers, subscribers and publishers get the reason, and the brokers are left at once
        (another process may have taken this client id over; coming back would throw it out)."""
        if self._error is None and self._closing is None:
            self._error = error
            self._end_stream(error)
            if self._arrivals.taker is not None:
                self._arrivals.taker.failed(error)
            self._close_soon()

    def _end_stream(self, error: InorderError | None) -> None:
        """The application gets no more than what is in its stream now; a durable subscription goes on without it."""
        self._stream.end(error)
        if self._recording is not None and self._durable is None:
            self._recording.ended_all(self._ordering.clock)

    async def close(self) -> None:
        """Finish what is on its way (for at most ``close_timeout``), leave the brokers, end the stream. Safe more
        than once."""
        if self._state == "new":
            self._state = "closed"
            self._stream.end()
        else:
            await asyncio.shield(self._close_soon())  # goes on to its end where the caller is cancelled

    def _close_soon(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._state = "closed"
            self._closing = asyncio.create_task(self._close(), name=f"inorder {self.client_id}: close")
        return self._closing

    async def _close(self) -> None:
        deadline = self._loop.time() + self._times.close_timeout
        reason = self._error or Closed("the client was closed before that was done")
        self._subscribing.stop(reason)
        self._replaying.stop(reason)
        if self._durable is not None:
            self._durable.stop(reason)
        if self._error is None:
            await self._drain(deadline)
        self._publishing.give_up(reason)
        self._pump()  # tells what became void
        self._report()
        for timer in (self._timer, self._settle_timer, self._renew_timer, self._report_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        for link in self._links.values():
            link.end_barrier()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        seconds = max(deadline - self._loop.time(), self._times.close_timeout / 3)
        closing: list[Awaitable[None]] = [asyncio.wait_for(each.ens.close(), seconds) for each in self._links.values()]
        if self._worker is not None:
            closing.append(self._worker.close(seconds))
        for failure in await asyncio.gather(*closing, return_exceptions=True):
            if failure is not None:
                _log.info("event=close_failed error=%s", repr(failure))
        if self._error is None:
            self._end_stream(None)
        if self._recording is not None:
            await self._recording.close(max(0.0, deadline - self._loop.time()))

    async def _drain(self, deadline: float) -> None:
        """Let publishes finish and say good-bye to the topic managers: the topics linger, then count no more."""
        while self._loop.time() < deadline:
            is_heard = self._worker is not None and self._worker.reaches(self._worker.bottom)
            is_saved = True
            if self._durable is not None:
                self._durable.save()
                is_saved = self._durable.is_saved
            elif is_heard:
                self._subscribing.leave()
            if not (self._publishing.pending or (is_heard and (self._subscribing.is_changing or not is_saved))):
                return
            self._pump(settle=True)
            await asyncio.sleep(0.005)

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._state != "open":
            raise Closed("the client is closed" if self._state == "closed" else "the client is not open yet")

    # -- publish -----------------------------------------------------------------------------------------------

    def publish(
        self,
        topic: str,
        payload: Any = b"",
        *,
        order: Order = "total",
        qos: int = 0,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        space: str | None = None,
    ) -> asyncio.Future[Receipt]:
        """Publish an event; the order of the calls is the publisher's order (R19).

        Everything is checked before anything is changed. The future resolves when the broker has accepted the
        event; many may be open at once. Cancelling one takes the event back if it was not handed over yet.

        Args:
            payload: what the broker's own client library takes.
            order: ``"total"``, ``"fifo"`` (this publisher's order only, no worker involved) or ``"none"``.
            qos, retain, properties: as the broker means them.
            space: which broker, where the client has several.

        Raises:
            InvalidTopic, InvalidPayload, PayloadTooLarge, InvalidOption, QueueFull, Closed.
            Forbidden: the token does not allow to publish to this topic; others are not affected.
        """
        self._check_open()
        link = self._link(space)
        message = self._checked_message(link, topic, payload, order, qos, retain, properties)
        self._check_room()
        # R18's neighbour: an empty retained message clears the topic, and must stay empty on the wire
        is_clearing = retain and not message.payload
        if order == "total" and not is_clearing:
            self._permissions.check_publish(link.space, message.topic)
            self._publishing.check_log(link.space, message)
        publish: asyncio.Future[Receipt] = self._begin(link, message, "none" if is_clearing else order)
        return publish

    def _check_room(self) -> None:
        self._publishing.check_room()

    def _begin(self, link: EnsLink, message: Outgoing, order: Order) -> Any:
        """Queue what has been checked. The blocking twin calls what is above on any thread, and this on the loop's."""
        publish = Publish(link, message, self._loop)
        if order == "total":
            self._publishing.total(publish)
            self._wake()
        else:
            self._publishing.plain(publish, fifo=order == "fifo")
        return publish

    def _checked_message(
        self, link: EnsLink, topic: str, payload: Any, order: str, qos: int, retain: bool, properties: Any
    ) -> Outgoing:
        ens = link.ens
        name = ens.check_topic(topic)
        body = ens.encode_payload(payload)
        limit = ens.capabilities.max_payload_bytes
        if limit is not None and len(body) + STAMP_ALLOWANCE > limit:
            raise PayloadTooLarge(len(body), limit - STAMP_ALLOWANCE)
        if order not in ORDERINGS:
            raise InvalidOption("order", order, "'total', 'fifo' or 'none'")
        if order == "total" and self._worker is None:
            raise InvalidOption("order", order, "'fifo' or 'none' for a client without workers")
        _check_qos(qos, ens.capabilities.qos)
        if not isinstance(retain, bool):
            raise InvalidOption("retain", retain, "True or False")
        if retain and not ens.capabilities.retain:
            raise InvalidOption("retain", retain, "False: this broker keeps no messages")
        own = ens.check_properties(_checked_properties(properties)) if properties else ()
        return Outgoing(name, body, None, False, qos, retain, own)

    def _link(self, space: str | None) -> EnsLink:
        if space is None and len(self._links) == 1:
            return next(iter(self._links.values()))
        link = self._links.get(space) if space is not None else None
        if link is None:
            raise InvalidOption("space", space, f"one of {', '.join(map(repr, self._links))}")
        return link

    # -- subscribe ---------------------------------------------------------------------------------------------

    async def subscribe(
        self, *filters: str, ordering: Ordering = "total", qos: int = 0, space: str | None = None
    ) -> None:
        """Subscribe to topics or filters; returns when every event published from now on will be delivered.

        Args:
            ordering: ``"total"``, ``"fifo"`` (each publisher's order; unknown to the workers) or ``"none"``.

        Raises:
            InvalidFilter, InvalidOption, Refused (by the broker), Closed.
            Forbidden: the token does not allow all topics of a filter; nothing was subscribed.
        """
        self._check_open()
        link = self._link(space)
        if not filters:
            raise InvalidOption("filters", filters, "at least one topic or filter")
        if ordering not in ORDERINGS:
            raise InvalidOption("ordering", ordering, "'total', 'fifo' or 'none'")
        if ordering == "total" and self._worker is None:
            raise InvalidOption("ordering", ordering, "'fifo' or 'none' for a client without workers")
        if ordering != "total" and self._durable is not None:
            raise InvalidOption("ordering", ordering, "'total' for a durable client: nothing else can be resumed")
        _check_qos(qos, link.ens.capabilities.qos)
        parsed = [link.ens.parse_filter(each) for each in filters]
        if ordering == "total":
            for each in parsed:
                self._permissions.check_subscribe(link.space, each)
        await self._subscribing.subscribe(link, parsed, ordering, qos)

    async def unsubscribe(self, *filters: str, space: str | None = None) -> None:
        """End subscriptions, given as they were made; nothing of them is delivered any more (R10, R11).

        Raises:
            InvalidFilter: not well formed, or not subscribed.
        """
        self._check_open()
        link = self._link(space)
        parsed = [link.ens.parse_filter(each) for each in filters]
        await self._subscribing.unsubscribe(link, parsed)

    def events(self) -> AsyncIterator[Notification]:
        """Return the one delivery stream: ``Event``, ``Gap`` and ``Reconnected``, over all subscriptions.

        It ends when the client is closed, and raises if the client fails for good (replaced by another process of
        the same id, refused by the workers). Raises Closed if that is so already.
        """
        if self._state == "new":
            raise Closed("the client is not open yet")
        return self._stream.read()

    def replay(
        self, topic: str, *, from_: int | datetime.datetime | None = None, space: str | None = None
    ) -> AsyncIterator[Event | Gap]:
        """Return the events of one topic's event log (R18), up to the present, as an iterator of its own: in the
        topic's order, with verdict ``replayed``, beside and independent of subscriptions.

        What the log does not have in between (a damaged row, an event that was published before its publisher knew of
        the log) is a ``Gap``.

        Args:
            from_: the first number, or a time (with its zone) from which on events were stored; by default all.

        Raises (from the iterator):
            NotLogged: the topic has no log.
            NotInLog: the log has the first numbers asked for no longer; it says which.
            Refused: the workers' store was restored meanwhile.
            InvalidTopic, InvalidOption, Closed.
            Forbidden: the token does not allow to read the topic.
        """
        self._check_open()
        link = self._link(space)
        if self._worker is None:
            raise InvalidOption("workers", (), "at least one worker, which has the log")
        name = link.ens.check_topic(topic)
        self._permissions.check_read(link.space, name)
        return self._replaying.replay(link.space, name, from_)

    def stats(self) -> ClientStats:
        """Return the counters."""
        ordering, counts = self._ordering, self._arrivals.counts
        return ClientStats(
            delivered={str(verdict): count for verdict, count in self._arrivals.delivered.items()},
            duplicates=ordering.counts.duplicates + self._arrivals.fifo.duplicates,
            overlaps=counts.overlaps,
            before=ordering.counts.before,
            gaps=self._arrivals.gaps,
            voids=ordering.counts.voids,
            repaired=ordering.counts.repaired,
            overflow=ordering.counts.overflow + self._stream.overflowed,
            unsequenced=counts.unsequenced,
            corrupt=counts.corrupt,
            foreign=counts.foreign,
            malformed=counts.malformed,
            waiting=ordering.waiting,
            waiting_bytes=ordering.waiting_bytes,
            undelivered=len(self._stream),
            pending=self._publishing.pending,
            late_confirms=self._publishing.late_confirms,
            worker_reconnects=0 if self._worker is None else self._worker.reconnects,
            connected=(self._worker is None or self._worker.is_complete)
            and all(link.is_connected for link in self._links.values()),
            after_gap=ordering.counts.after_gap,
        )

    def _counts(self) -> ClientCounts:
        """Return the counters that operators are shown."""
        stats, delivered = self.stats(), self._arrivals.delivered
        in_order, late = delivered[Verdict.IN_ORDER], delivered[Verdict.LATE]
        return ClientCounts(
            published=self._publishing.accepted,
            in_order=in_order,
            late=late,
            other=sum(delivered.values()) - in_order - late,
            duplicates=stats.duplicates,
            gaps=stats.gaps,
            missed=self._arrivals.missed,
            voids=stats.voids,
            repaired=stats.repaired,
            overflow=stats.overflow,
            late_confirms=stats.late_confirms,
            waiting=stats.waiting,
            waiting_bytes=stats.waiting_bytes,
            undelivered=stats.undelivered,
            pending=stats.pending,
            after_gap=stats.after_gap,
        )

    def _report(self) -> None:
        """Tell the workers what this client has seen since the last time."""
        if self._times.report_interval and self._worker is not None and self._worker.reaches(self._worker.bottom):
            report = self._observer.report(self._request_id())
            if report is not None:
                self._worker.send(report)

    def _report_later(self) -> None:
        if self._times.report_interval and self._state == "open":
            self._report_timer = self._loop.call_later(self._times.report_interval, self._report_due)

    def _report_due(self) -> None:
        self._report()
        self._report_later()

    # -- what brokers report -----------------------------------------------------------------------------------

    def ens_arrived(self, link: EnsLink, arrival: Arrival) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._arrivals.arrived(link.space, arrival, self._now())
        if not self._pump_due and not (self._ordering.is_idle and self._arrivals.fifo.is_idle):
            self._wake()

    def ens_malformed(self, link: EnsLink, reason: str) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._arrivals.counts.malformed += 1
        _log.warning("event=malformed space=%s reason=%s", link.space, reason)

    def ens_asked(self, link: EnsLink, filter: Filter) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._arrivals.kept.wanted(link.space, filter)

    def ens_caught_up(self, link: EnsLink, is_caught_up: bool) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        if is_caught_up:
            self._arrivals.caught_up(link.space, self._now())
        else:
            self._ordering.not_caught_up(link.space, self._now())
        self._wake()

    def ens_reconnected(self, link: EnsLink) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._stream.put(Reconnected(link.space))

    def ens_restored(self, link: EnsLink) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._publishing.ens_restored(link)
        self._wake()

    # -- what workers report -----------------------------------------------------------------------------------

    def asked_epoch(self) -> int:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        return self._publishing.machine.asked_epoch

    def worker_welcomed(self, welcome: Welcome) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        self._domain = welcome.domain
        self._publishing.grace = welcome.publisher_grace_ms / 1000
        self._publishing.max_logged_bytes = welcome.max_frame_bytes - LOG_ALLOWANCE
        self._publishing.machine.welcomed(welcome.order_epoch)
        self._publishing.machine.max_open = welcome.access.max_unconfirmed
        if welcome.version < ADDS_ABOVE_FROM:  # it may have any stage, also one that rides come to from others
            self._publishing.machine.adds_above = False
        if welcome.access != self._permissions.access:
            self._permissions = Permissions(welcome.access)

    def other_domain(self, domain: int) -> int:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        hint = "the workers' store was restored or is another one; subscriptions and publishes begin anew"
        _log.warning("event=other_domain domain=%d before=%d hint=%s", domain, self._domain, hint)
        self._domain = domain
        self.incarnation = _new_incarnation()
        self._naming.clear()
        self._publishing.other_domain()
        self._replaying.other_domain()
        self._subscribing.other_domain(self._now())
        self._stream.place_gaps()  # their numbers are of the former domain
        if self._durable is not None:
            self._durable.forget(self._stream.not_done_with)
        if self._recording is not None:
            self._recording.opened(self.incarnation, domain, self._mode_name)
        return self.incarnation

    def stages_lost(self, stages: set[int]) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        for stage in stages:
            self._publishing.machine.lost(stage)

    def stages_reached(self, stages: set[int], bottom: int) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        self._lease.bottom = bottom
        if bottom in stages:
            self._naming.clear()
            self._observer.other_worker()
        self._publishing.stages_reached(stages)  # at once: nothing new may overtake what is asked again (R19)
        self._loop.call_soon(self._ask_again, bottom in stages)

    def _ask_again(self, has_bottom: bool) -> None:
        if has_bottom:
            self._subscribing.request()
            if self._durable is not None:
                self._durable.reached()
        self._settle_soon()  # what was accepted while nobody could be told
        self._wake()

    def stage_opened(self, frame: Opened, greeted: float) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        now = self._now()
        self._lease.opened(frame.stage, frame.session_timeout_ms / 1000, greeted)
        if frame.stage == self._lease.bottom:
            self._subscribing.opened(frame, now)
        self._arrivals.check_lease(now)
        if self._renew_timer is None and self._state == "open":
            self._renew()
        self._wake()

    def _renew(self) -> None:
        """Ask the workers for the lease, and again after a while, whether they answered or not (R12)."""
        self._renew_timer = None
        if self._worker is not None and self._lease.pause is not None:
            self._worker.renew(self._lease.ask(clock.waking_or_sleeping()))
            self._renew_timer = self._loop.call_later(self._lease.pause, self._renew)

    def worker_frame(self, frame: WorkerFrame) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        now = self._now()
        if isinstance(frame, Renewed):
            self._lease.answered(frame.request, frame.stages[::2])
        self._arrivals.check_lease(now)
        match frame:
            case Timestamps():
                self._publishing.answered(frame)
            case Settled():
                self._publishing.settled(frame)
            case Heads():
                self._ordering.heads(frame.heads, now)
            case Topics():
                self._named(frame, now)
            case Moved():
                self._moved(frame)
            case Subscribed():
                self._subscribed(frame, now)
            case Numbers():
                self._numbers(frame, now)
            case Done() | Durable() if self._durable is not None:
                self._durable.told(frame)
            case LoggedEvents() | Logs():
                self._logged(frame, now)
            case Reported():
                self._observer.told(frame)
                return
            case _:
                return
        self._wake()

    def worker_lost(self, error: Exception) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        _log.warning("event=worker_lost error=%s", error)

    def worker_failed(self, error: InorderError) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        _log.error("event=refused_for_good error=%s", error)
        self._fail(error)

    def _subscribed(self, frame: Subscribed, now: float) -> None:
        self._subscribing.completed(frame, now)
        if self._worker is not None and not frame.more:
            self._worker.need({each.stage for each in self._subscriber.topics.values()})
            self._worker.ask_heads()

    def _numbers(self, frame: Numbers, now: float) -> None:
        before = len(self._ordering.interrupted)
        self._arrivals.deliver(self._ordering.answered(frame, now))
        if len(self._ordering.interrupted) > before:  # its stage no longer knows what is missing there (R17)
            self._subscribing.begin_anew()

    def _logged(self, frame: LoggedEvents | Logs, now: float) -> None:
        """The event log of a topic answered (R18)."""
        if self._replaying.answered(frame) or not isinstance(frame, LoggedEvents) or frame.refusal:
            return  # where it was refused, it is asked again
        before = len(self._ordering.interrupted)
        self._arrivals.logged(frame, now)
        if len(self._ordering.interrupted) > before:
            self._subscribing.begin_anew()

    def _moved(self, frame: Moved) -> None:
        """The topic order has changed (R14): requests are planned anew, and others are to be asked about gaps."""
        self._publishing.machine.moved(frame)
        self._subscriber.moved(frame)
        self._subscribing.need_stages()
        if self._worker is not None:
            self._worker.need({each.stage for each in self._subscriber.topics.values()})

    def _named(self, frame: Topics, now: float) -> None:
        self._arrivals.learn(frame.topics)
        self._publishing.named(frame.topics, frame.order_epoch)
        asked = self._naming.pop(frame.request, None)
        # while a subscribe is outstanding its answer names the topics, with their clocks (R9)
        if asked is not None and not self._subscribing.is_holding:
            mine, foreign = self._subscriber.named(each for each in frame.topics if each.id in asked)
            known = {each.id for each in frame.topics}
            foreign += [each for each in asked if each not in known]
            self._subscribing.need_stages()
            self._arrivals.check_lease(now)
            self._arrivals.deliver(self._ordering.named(mine, foreign, now))
            if self._worker is not None:
                self._worker.need({self._subscriber.topics[each].stage for each in mine})

    # -- sending -----------------------------------------------------------------------------------------------

    def _send(self, frame: Frame) -> None:
        if self._worker is not None:
            self._worker.send(frame)

    def _wake(self) -> None:
        """Send what is to be sent, once for all that happens in this turn of the loop."""
        if not self._pump_due:
            self._pump_due = True
            self._pump_call = self._loop.call_soon(self._pump)

    def send_now(self) -> None:
        """For a library that this client is embedded in: send what was published now, and not once for all that happens
        in this turn of the event loop."""
        if self._pump_due and self._pump_call is not None:
            self._pump_call.cancel()
            self._pump()

    def _settle_soon(self) -> None:
        if self._settle_timer is None and self._state == "open":
            self._settle_timer = self._loop.call_later(self._times.settle_delay, self._settle_due)

    def _settle_due(self) -> None:
        self._settle_timer = None
        self._pump(settle=True)

    def _pump(self, settle: bool = False) -> None:
        self._pump_due = False
        if not self._ordering.is_idle and self._state == "open":
            for space in self._ordering.barriers(self._now()):
                self._links[space].begin_barrier()
        if self._worker is None or not self._worker.is_connected:
            self._arm()
            return
        machine = self._publishing.machine
        frames: list[Frame] = [*self._publishing.requests()]
        # together with requests, so that one commit of the stage holds both
        if settle or frames or self._state == "closed":
            frames += machine.settlements()
        if machine.is_waiting_for_names:
            frames += [Resolve(self._request_id(), names) for names in _in_frames(machine.unnamed())]
        self._worker.send(*frames)
        self._ask()
        self._arm()

    def _request_id(self) -> int:
        self._next_request += 1
        return self._next_request

    def _ask(self) -> None:
        """Ask about missing numbers (R17) and unknown topics (R13)."""
        if self._ordering.is_idle:
            return
        for question in self._ordering.questions(self._now()):
            info = self._subscriber.topics.get(question.topic)
            if info is not None:
                self._send(AskNumbers(self._request_id(), info.stage, question.topic, question.ranges))
        is_enough = len(self._stream) > min(MAX_UNREAD, self._times.max_undelivered // 2)
        for fetch in self._ordering.fetches(self._now(), hold=is_enough):
            info = self._subscriber.topics.get(fetch.topic)
            if info is not None:
                self._send(ReadLog(self._request_id(), info.stage, fetch.topic, fetch.ranges))
        asked = {each for ids in self._naming.values() for each in ids}
        unnamed = [each for each in self._ordering.unnamed() if each not in asked]
        for at in range(0, len(unnamed), NAMES_ASKED):
            request = self._request_id()
            self._naming[request] = unnamed[at : at + NAMES_ASKED]
            self._send(NameTopics(request, self._naming[request]))

    def _arm(self) -> None:
        """Set the timer to the next thing that is due without any arrival."""
        is_heard = self._worker is not None and self._worker.is_connected
        due = self._ordering.next_deadline() if is_heard else self._ordering.next_tick()  # whom should it ask?
        fifo = self._arrivals.fifo.next_deadline()
        if fifo is not None:
            due = fifo if due is None else min(due, fifo)
        at = None
        if due is not None:
            at = self._loop.time() + max(due - self._now(), STANDSTILL if self._stands_still else 0.001)
        if self._timer is not None:
            if at is not None and self._timer.when() <= at:
                return  # it fires early and is set again then
            self._timer.cancel()
            self._timer = None
        if at is not None and self._state == "open":
            self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        self._stands_still, self._ticked_at = now == self._ticked_at, now  # then nothing can become due
        self._arrivals.tick(now)
        self._pump()


def _quickest(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return the event loop's clock; asyncio's own loops only pass on that of the system."""
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


def _new_incarnation() -> int:
    return secrets.randbits(64) - 2**63


def _checked_id(client_id: str | None) -> str:
    if client_id is None:
        return f"inorder-{secrets.token_hex(4)}"
    if not isinstance(client_id, str) or not _is_text(client_id) or not is_client_id(client_id):
        raise InvalidOption("client_id", client_id, CLIENT_ID)
    return client_id


def _check_durable(durable: object, client_id: str | None, workers: object) -> None:
    if not isinstance(durable, bool):
        raise InvalidOption("durable", durable, "True or False")
    if durable and (client_id is None or not workers):
        raise InvalidOption("durable", durable, "False, or together with a client_id and workers")


def _checked_token(token: object) -> str:
    """Return the token, empty without one. What is wrong with it is said without showing it."""
    if token is None:
        return ""
    if not isinstance(token, str):
        raise InvalidOption("token", type(token), "a text, or None")
    if not _is_text(token):
        raise InvalidOption("token", "***", "a text without lone surrogates")
    return token


def _checked_workers(workers: object) -> list[str]:
    if isinstance(workers, str):
        return [workers]
    if not workers and (workers is None or isinstance(workers, Iterable)):
        return []
    if isinstance(workers, (bytes, bytearray)) or not isinstance(workers, Iterable):
        raise InvalidOption("workers", workers, "an address host:port, or a list of them")
    return list(workers)


def _check_qos(qos: object, allowed: tuple[int, ...]) -> None:
    if isinstance(qos, bool) or not isinstance(qos, int) or qos not in allowed:
        raise InvalidOption("qos", qos, f"one of {', '.join(map(str, allowed))}")


def _checked_space(space: object) -> str:
    if isinstance(space, str) and _is_text(space) and 0 < len(space.encode()) <= 255:
        return space
    raise InvalidOption("space", space, "a text of 1 to 255 bytes")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def _checked_properties(properties: Any) -> tuple[tuple[str, str], ...]:
    if not properties:
        return ()
    pairs = tuple(properties)
    if isinstance(properties, (str, bytes, Mapping)) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and _is_text(pair[0]) and _is_text(pair[1]) for pair in pairs
    ):
        raise InvalidOption("properties", properties, "a sequence of (name, value) pairs of text")
    return pairs


def _in_frames(names: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Cut topics to be named into lists that fit into a frame each."""
    size, batch = 0, list[tuple[str, str]]()
    for space, name in names:
        size += len(space.encode()) + len(name.encode()) + 16
        if batch and size > MAX_FRAME_BYTES // 16:
            yield batch
            size, batch = 0, []
        batch.append((space, name))
    if batch:
        yield batch


def _checked_mode(mode: Mode) -> Mode:
    if mode == "strict" or mode == "tag" or isinstance(mode, Bounded):
        return mode
    raise InvalidOption("mode", mode, "'strict', 'tag' or Bounded(buffer=..., max_wait=...)")
