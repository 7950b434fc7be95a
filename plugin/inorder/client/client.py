"""The client for an application's publishers and subscribers on its brokers, in one total order."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from inorder.client import checking
from inorder.client.adapters import make_brokers
from inorder.client.clock import LoopClock
from inorder.client.delivery import DeliveryStream, Notification
from inorder.client.driving import Driver, new_incarnation
from inorder.client.ens_link import EnsLink
from inorder.client.notification_sink import NotificationSink
from inorder.client.observing import Observer
from inorder.client.options import ClientTimes
from inorder.client.publishing import Publish
from inorder.client.stats import ClientStats, Counters
from inorder.client.tracing import Tracing
from inorder.client.workers import Workers
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.notifications import Event, Gap, Receipt
from inorder.endpoint.outputs import Mode
from inorder.endpoint.routing import ORDERINGS, Ordering
from inorder.errors import Closed, InorderError, InvalidOption, UsageError
from inorder.logs import logger
from inorder.ports import Ens, Outgoing
from inorder.protocol.wire import PROTOCOL_VERSIONS, Hello
from inorder.traces.options import Traces, traces_of

_log = logger("inorder.client")

Order = Literal["total", "fifo", "none"]


class Client:
    """Publishes and subscribes through existing brokers; subscriptions with ``ordering="total"`` get the one order of
    all subscribers of the domain.

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
        self.client_id = checking.checked_id(client_id)
        checking.check_durable(durable, client_id, workers)
        self._times = times = times or ClientTimes()
        mode, wanted = checking.checked_mode(mode), None if traces is None else traces_of(traces)
        self._clock = LoopClock()
        self._stream = DeliveryStream(times.max_undelivered, times.max_undelivered_bytes)
        self._endpoint = Endpoint(mode, self._clock, times.endpoint(), stream=new_incarnation(), durable=durable)
        self._links: dict[str, EnsLink] = {}
        self._driver = driver = Driver(self._endpoint, self._clock, self._stream, self._links, times)
        self._tracing = Tracing(wanted, mode, self._endpoint, driver, self._stream)
        driver.failed, driver.began_anew = self._fail, self._tracing.began_anew
        self._publishing = driver.publishing
        if durable:
            self._stream.done_with = driver.done_with
        for name, ens in make_brokers(brokers, space, client_id=self.client_id, options=options or {}).items():
            self._links[name] = EnsLink(ens, name, driver, times)
        token = checking.checked_token(token)
        hello = Hello(*PROTOCOL_VERSIONS, token, self.client_id, driver.incarnation, "inorder-python")
        addresses = checking.checked_workers(workers)
        self._worker = driver.workers = Workers(addresses, hello, driver, times, tls) if addresses else None
        self._counters = counters = Counters(self._endpoint, driver, self._stream, self._links)
        self._reporting = driver.report(Observer(counters.counts, counters.waits, driver.now), times.report_interval)
        self._tasks: list[asyncio.Task[None]] = []
        self._state: Literal["new", "open", "closed"] = "new"
        self._error: InorderError | None = None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Client {self.client_id!r} {self._state}: {', '.join(map(repr, self._links.values()))}>"

    @property
    def incarnation(self) -> int:
        """The random number of this process's session in this domain (see event ids)."""
        return self._driver.incarnation

    def hand_to(self, sink: NotificationSink, now: Callable[[], float] | None = None) -> None:
        """Send notifications to the library that embeds this client, instead of :meth:`events`. Before it is opened.

        Args:
            now: the time by which missing events are waited for (s), where that is not the event loop's.
        """
        self._driver.notifier.sink = sink
        if now is not None:
            self._clock.now = now
        self._endpoint.watch()

    def send_now(self) -> None:
        """Send new publishes now instead of once per turn of the event loop; for a library that embeds this client."""
        self._driver.flush_now()

    # -- life --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect to the workers and all brokers. Raises WorkerUnreachable, BrokerUnreachable, Unauthorized,
        VersionMismatch; InvalidOption where traces cannot be written."""
        if self._state != "new":
            raise UsageError("a client is opened once; make a new one")
        self._loop = loop = asyncio.get_running_loop()
        self._state = "open"
        self._driver.open(loop)
        try:
            await self._tracing.begin(self.client_id, lambda: self._reporting.observer.offset)
            if self._worker is not None:
                await self._worker.connect()
            for link in self._links.values():
                self._check_open()  # another task may have closed it meanwhile: nothing may connect after that
                await link.open()
            self._check_open()
            self._tracing.began_anew(self._endpoint.domain)
            if self._worker is not None:
                self._start(self._worker.run(), "worker links")
                self._reporting.begin()
            for space, link in self._links.items():
                self._start(link.run(), f"broker link {space}")
            if self._endpoint.durable is not None:
                await self._driver.changing.resume()
                self._check_open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
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
        """Pass an error that ends the client to readers, subscribers and publishers, and leave the brokers at once:
        another process may have taken this client id over, and a reconnection would throw it out."""
        if self._error is None and self._closing is None:
            self._error = error
            self._end_stream(error)
            self._driver.notifier.failed(error)
            self._close_soon()

    def _end_stream(self, error: InorderError | None) -> None:
        """End the stream behind its present contents."""
        self._stream.end(error)
        self._tracing.stream_ended()

    async def close(self) -> None:
        """Finish open work (for at most ``close_timeout``), leave the brokers, end the stream. Safe more than once."""
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
        self._driver.stop(reason)
        if self._error is None:
            await self._driver.drain(deadline)
        self._publishing.give_up(reason)
        self._driver.flush()  # tells what became void
        self._reporting.report()
        self._driver.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._driver.disconnect(max(deadline - self._loop.time(), self._times.close_timeout / 3))
        if self._error is None:
            self._end_stream(None)
        await self._tracing.close(deadline - self._loop.time())

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
        self._check_order("order", order)
        message = checking.checked_message(link.ens, topic, payload, qos, retain, properties)
        self._check_room()
        # R18's neighbour: an empty retained message clears the topic, and must stay empty on the wire
        is_clearing = retain and not message.payload
        if order == "total" and not is_clearing:
            self._driver.permissions.check_publish(link.space, message.topic)
            self._publishing.check_log(link.space, message)
        publish: asyncio.Future[Receipt] = self._begin(link, message, "none" if is_clearing else order)
        return publish

    def _check_room(self) -> None:
        self._publishing.check_room()

    def _check_order(self, option: Literal["order", "ordering"], value: str) -> None:
        if value not in ORDERINGS:
            raise InvalidOption(option, value, "'total', 'fifo' or 'none'")
        if value == "total" and self._worker is None:
            raise InvalidOption(option, value, "'fifo' or 'none' for a client without workers")

    def _begin(self, link: EnsLink, message: Outgoing, order: Order) -> Any:
        """Queue a checked publish. The blocking twin calls what is above on any thread, and this on the loop's."""
        publish = Publish(link, message, self._loop)
        if order == "total":
            self._publishing.total(publish)
            self._driver.perform()
        else:
            self._publishing.plain(publish, fifo=order == "fifo")
        return publish

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
        """Subscribe to topics or filters; return when every event published from now on will be delivered.

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
        self._check_order("ordering", ordering)
        if ordering != "total" and self._endpoint.durable is not None:
            raise InvalidOption("ordering", ordering, "'total' for a durable client: nothing else can be resumed")
        checking.check_qos(qos, link.ens.capabilities.qos)
        parsed = [link.ens.parse_filter(each) for each in filters]
        if ordering == "total":
            for each in parsed:
                self._driver.permissions.check_subscribe(link.space, each)
        await self._driver.changing.subscribe(link, parsed, ordering, qos)

    async def unsubscribe(self, *filters: str, space: str | None = None) -> None:
        """End subscriptions, given as they were made; none of their events is delivered any more (R10, R11). The broker
        goes on delivering a topic to this client as long as others may rely on it, for moments as a rule (R22).

        Raises:
            InvalidFilter: not well formed, or not subscribed.
        """
        self._check_open()
        link = self._link(space)
        parsed = [link.ens.parse_filter(each) for each in filters]
        await self._driver.changing.unsubscribe(link, parsed)

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
        """Return an iterator over one topic's event log (R18) up to the present: in the topic's order, with verdict
        ``replayed``, and independent of subscriptions.

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
        self._driver.permissions.check_read(link.space, name)
        return self._driver.replaying.replay(link.space, name, from_)

    def stats(self) -> ClientStats:
        """Return the counters."""
        return self._counters.stats()
