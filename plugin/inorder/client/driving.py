"""The driver of a client's endpoint on the event loop: it passes in what links report and carries out the effects."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping

from inorder.client.changing import Changing
from inorder.client.clock import LoopClock
from inorder.client.delivery import DeliveryStream, Notification
from inorder.client.ens_link import EnsLink
from inorder.client.notifying import Notifier
from inorder.client.observing import Observer, Reporting
from inorder.client.options import ClientTimes
from inorder.client.publishing import LOG_ALLOWANCE, Publishing
from inorder.client.replaying import Replaying
from inorder.client.workers import Workers
from inorder.endpoint.effects import (
    AskAllHeads,
    AskBroker,
    AskLease,
    BeginBarrier,
    Changed,
    Failed,
    HandOver,
    Need,
    Notify,
    Published,
    Requeued,
    Resumed,
    Send,
)
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.notifications import Reconnected
from inorder.errors import InorderError
from inorder.logs import SELDOM, logger
from inorder.ports import Arrival
from inorder.protocol.access import Permissions
from inorder.protocol.names import Filter
from inorder.protocol.wire import Frame, Hello, LoggedEvents, Logs, Opened, Reported, Welcome, WorkerFrame

_log = logger("inorder.client")

MAX_UNREAD = 5_000
"""Notifications that the application has not taken, from which on nothing more is fetched from event logs."""


class Driver:
    """Connects an endpoint with its links; see :class:`~inorder.client.ens_link.EnsEvents` and
    :class:`~inorder.client.workers.WorkerEvents` for their reports.

    Args:
        links: the brokers, by space; made afterwards, as they report here.
        times: bounds, too.

    Attributes:
        workers: the connections to the workers, where there are any.
        is_open: the client is opened, and nobody has closed it.
        incarnation: of the session; another one in another domain.
        permissions: what the client's token allows.
        malformed: what arrived and was no message.
        failed: called with the error that ends the client for good.
        began_anew: called when the client goes on in another domain.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: LoopClock,
        stream: DeliveryStream,
        links: Mapping[str, EnsLink],
        times: ClientTimes,
    ) -> None:
        self._endpoint, self._outbox, self.clock, self._stream = endpoint, endpoint.outbox, clock, stream
        self._links = links
        self._enough = min(MAX_UNREAD, times.max_undelivered // 2)
        self.workers: Workers | None = None
        self.is_open = self._is_running = False
        self.incarnation = new_incarnation()
        self.permissions = Permissions()
        self.malformed = 0
        self.failed: Callable[[InorderError], None] = lambda error: None
        self.began_anew: Callable[[int], None] = lambda domain: None
        self.publishing = Publishing(endpoint, self.perform, times.max_pending)
        self.changing = Changing(endpoint, self.perform, links)
        self.notifier = Notifier(stream, endpoint.ordering.mode == "strict")
        self._arrived, self._notify = endpoint.arrived, self.notifier.notify  # what every event takes, looked up once
        self.replaying = Replaying(self.send, self._outbox.next_request, endpoint.arrivals.named)
        self.reporting: Reporting | None = None
        self._loop: asyncio.AbstractEventLoop
        self._flush_call: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handlers: dict[type, Callable[..., None]] = {
            **self.notifier.handlers,
            HandOver: self.publishing.hand_over,
            Published: self.publishing.published,
            Failed: self.publishing.failed,
            Requeued: self.publishing.requeued,
            AskBroker: self.changing.ask_broker,
            Changed: self.changing.changed,
            Resumed: self.changing.resumed,
            BeginBarrier: self._begin_barrier,
            AskLease: self._ask_lease,
            AskAllHeads: self._ask_all_heads,
            Need: self._need,
        }

    def now(self) -> float:
        """Return the time (s) by which missing events are waited for."""
        return self.clock.now()

    def report(self, observer: Observer, interval: float) -> Reporting:
        """Return a reporter that tells the workers every ``interval`` seconds what was seen; 0: never."""
        workers = self.workers
        if workers is not None and interval:
            self.publishing.observer = self.notifier.observer = observer
        self.reporting = Reporting(
            observer,
            0.0 if workers is None else interval,
            lambda: workers is not None and workers.reaches_bottom,
            self._outbox.next_request,
            self.send,
        )
        return self.reporting

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin on the event loop on which the client is opened."""
        self._loop = loop
        if self.clock.now is time.monotonic:  # nobody has given another one
            self.clock.now = loop.time
        self.is_open = self._is_running = True

    # -- effects -----------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Carry out all effects that the endpoint wants by now."""
        outbox, handlers, notify = self._outbox, self._handlers, self.notifier.notify
        while effects := outbox.effects:
            outbox.effects = []
            sends: list[Send] = []
            for effect in effects:
                if type(effect) is Notify:
                    notify(effect)
                elif type(effect) is Send:
                    sends.append(effect)
                else:
                    handlers[type(effect)](effect)
            if sends and self.workers is not None:
                self.workers.send(*sends)
        if outbox.wants_flush and self._flush_call is None and self._is_running:
            self._flush_call = self._loop.call_soon(self._flush)
        if outbox.wants_timer and self.is_open:
            self._arm()

    def send(self, frame: Frame) -> None:
        """Send a frame to the workers, or drop it while there is no connection."""
        self._outbox.send(frame)
        self.perform()

    def _begin_barrier(self, effect: BeginBarrier) -> None:
        self._links[effect.space].begin_barrier()

    def _ask_lease(self, effect: AskLease) -> None:
        if self.workers is not None:
            self.workers.renew(effect.request)

    def _ask_all_heads(self, _: AskAllHeads) -> None:
        if self.workers is not None:
            self.workers.ask_heads()

    def _need(self, effect: Need) -> None:
        if self.workers is not None:
            self.workers.need(effect.stages)

    # -- time --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send all queued frames, once per turn of the loop."""
        self._flush_call = None
        self.flush()

    def flush(self) -> None:
        """Send all queued frames."""
        self._endpoint.flush(hold=self._has_enough)
        self.perform()

    def flush_now(self) -> None:
        """Send at the end of this turn of the loop, if anything is queued."""
        if self._flush_call is not None:
            self._flush_call.cancel()
            self._flush()

    @property
    def _has_enough(self) -> bool:
        return len(self._stream) > self._enough

    def _arm(self) -> None:
        """Set the timer for the next deadline."""
        self._outbox.wants_timer = False
        due = self._endpoint.next_deadline()
        at = None if due is None else self._loop.time() + due - self.clock.uptime()
        if self._timer is not None:
            if at is not None and self._timer.when() <= at:
                return  # it fires early and is set again then
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._endpoint.tick(hold=self._has_enough)
        self.perform()

    def stop(self, reason: InorderError) -> None:
        """Begin nothing new, and fail waiting calls with the reason."""
        self.is_open = False
        self._endpoint.stop()
        self.changing.stop(reason)
        self.replaying.stop(reason)

    async def drain(self, deadline: float) -> None:
        """Let publishes finish and leave the topic managers: the topics linger, then count no more. At most until
        ``deadline`` (s, of the event loop)."""
        endpoint, workers = self._endpoint, self.workers
        while self._loop.time() < deadline:
            endpoint.leave()
            self.perform()
            is_heard = workers is not None and workers.reaches_bottom
            is_saved = endpoint.durable is None or endpoint.durable.is_saved
            is_left = not self.changing.is_asking
            if is_left and not (
                self.publishing.pending or (is_heard and (endpoint.subscribing.is_changing or not is_saved))
            ):
                return
            await asyncio.sleep(0.005)

    async def disconnect(self, seconds: float) -> None:
        """Close all connections, within so many seconds."""
        closing: list[Awaitable[None]] = [asyncio.wait_for(each.ens.close(), seconds) for each in self._links.values()]
        if self.workers is not None:
            closing.append(self.workers.close(seconds))
        for failure in await asyncio.gather(*closing, return_exceptions=True):
            if failure is not None:
                _log.info("event=close_failed error=%s", repr(failure))

    def end(self) -> None:
        """Stop all that happens by itself."""
        self._is_running = False
        for call in (self._timer, self._flush_call):
            if call is not None:
                call.cancel()
        if self.reporting is not None:
            self.reporting.end()
        for link in self._links.values():
            link.end_barrier()

    def done_with(self, item: Notification) -> None:
        """Note that the application asks for the notification after this one (R18)."""
        self._endpoint.done_with(item)
        self.perform()

    # -- what brokers report -----------------------------------------------------------------------------------

    def on_ens_arrived(self, link: EnsLink, arrival: Arrival) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        outbox = self._outbox
        self._arrived(link.space, arrival)
        effects = outbox.effects
        if len(effects) == 1 and type(first := effects[0]) is Notify:  # as nearly always: its turn has come
            effects.clear()
            self._notify(first)
        if effects or outbox.wants_flush or outbox.wants_timer:
            self.perform()

    def on_ens_malformed(self, link: EnsLink, reason: str) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self.malformed += 1
        _log.warning("event=malformed space=%s reason=%s", link.space, reason, extra=SELDOM)

    def on_ens_asked(self, link: EnsLink, filter: Filter) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._endpoint.kept_wanted(link.space, filter)

    def on_ens_caught_up(self, link: EnsLink, is_caught_up: bool) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._endpoint.caught_up(link.space, is_caught_up)
        self.perform()

    def on_ens_reconnected(self, link: EnsLink) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._stream.put(Reconnected(link.space))

    def on_ens_restored(self, link: EnsLink) -> None:
        """See :class:`~inorder.client.ens_link.EnsEvents`."""
        self._endpoint.broker_restored(link.space)
        self.publishing.restored(link)
        self.perform()

    # -- what workers report -----------------------------------------------------------------------------------

    def greeting(self, hello: Hello) -> Hello:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        return self._endpoint.greeting(hello)

    def on_worker_welcomed(self, welcome: Welcome) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        self._endpoint.welcomed(welcome)
        self.publishing.max_logged_bytes = welcome.max_frame_bytes - LOG_ALLOWANCE
        if welcome.access != self.permissions.access:
            self.permissions = Permissions(welcome.access)

    def on_other_domain(self, domain: int) -> int:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        hint = "the workers' store was restored or is another one; subscriptions and publishes begin anew"
        _log.warning("event=other_domain domain=%d before=%d hint=%s", domain, self._endpoint.domain, hint)
        self.incarnation = new_incarnation()
        self.replaying.other_domain()
        self._endpoint.leave_domain()
        self.perform()
        self._endpoint.enter_domain(domain)
        self.perform()
        self._stream.place_gaps()  # their numbers are of the former domain
        if self._endpoint.durable is not None:
            self._endpoint.durable.forget(self._stream.not_done_with)
        self.began_anew(domain)
        return self.incarnation

    def on_stages_lost(self, stages: set[int]) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        self._endpoint.lost(stages)

    def on_stages_reached(self, stages: set[int], bottom: int) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        if bottom in stages and self.reporting is not None:
            self.reporting.observer.other_worker()
        self._endpoint.reached(stages, bottom)
        self.perform()

    def on_stage_opened(self, frame: Opened, greeted: float) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        self._endpoint.opened(frame, greeted)
        self.perform()

    def on_worker_frame(self, frame: WorkerFrame) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        if isinstance(frame, Reported):
            if self.reporting is not None:
                self.reporting.observer.told(frame)
        elif not (isinstance(frame, LoggedEvents | Logs) and self.replaying.answered(frame)):
            self._endpoint.receive(frame)
            self.perform()

    def on_worker_lost(self, error: Exception) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        _log.warning("event=worker_lost error=%s", error)

    def on_worker_failed(self, error: InorderError) -> None:
        """See :class:`~inorder.client.workers.WorkerEvents`."""
        _log.error("event=refused_for_good error=%s", error)
        self.failed(error)


def new_incarnation() -> int:
    """Return a random number for a session, or for a stream of ``fifo`` events."""
    return secrets.randbits(64) - 2**63
