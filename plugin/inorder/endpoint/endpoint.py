"""A client's side of the protocol: it makes all decisions of a client, and carries out none.

The owner of an :class:`Endpoint` tells it what happens, by calling one method after the other, and carries out the
effects that these have left (:meth:`Endpoint.take`), in their order. It flushes where :attr:`Outbox.wants_flush` says
so, once for all that happens at a time, and ticks when :meth:`Endpoint.next_deadline` says so. What is asked and not
answered is asked again when a stage is reached again, so frames may get lost with connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.asking import Asking
from inorder.endpoint.changes import Change
from inorder.endpoint.durable import SavedClock
from inorder.endpoint.effects import (
    AnyEffect,
    AskLease,
    Began,
    BeginBarrier,
    Clock,
    Dropped,
    Ended,
    Outbox,
)
from inorder.endpoint.endings import Endings
from inorder.endpoint.lease import Lease
from inorder.endpoint.notifications import Event, Gap, Reconnected
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, OrderingTimes
from inorder.endpoint.publications import Publication
from inorder.endpoint.publishing import Publishing
from inorder.endpoint.request_history import RECENT_S, RequestHistory
from inorder.endpoint.routing import Routes, Subscription
from inorder.endpoint.subscriber import Subscriber
from inorder.endpoint.subscribing import Subscribing
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.names import Filter
from inorder.protocol.pairs import firsts
from inorder.protocol.stamp import FifoStamp, encode_stamp
from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    MAX_LISTED,
    Done,
    Durable,
    Frame,
    Heads,
    Hello,
    LoggedEvents,
    Moved,
    Numbers,
    Opened,
    Renewed,
    Resolve,
    Settled,
    Subscribed,
    Timestamps,
    Topics,
    Welcome,
    WorkerFrame,
)

STANDSTILL = 0.25
"""How often to look whether a clock that stood still goes on again, s."""


class EndpointTimes(msgspec.Struct, frozen=True):
    """Timers of an endpoint, s.

    Attributes:
        ordering: of the ordering module.
        settle_delay: how long confirmations may wait for others to go with (R16).
        save_delay: how often a durable subscriber saves its clock (R18).
        recent: for how long a counter is recent, as hellos tell (R1).
    """

    ordering: OrderingTimes = OrderingTimes()
    settle_delay: float = 0.02
    save_delay: float = 0.2
    recent: float = RECENT_S


class Endpoint:
    """One client's machine.

    Args:
        mode: how long total order waits.
        clock: the time; deadlines are reckoned from it.
        stream: names this process among publishers of ``fifo`` events; at random.
        durable: the subscription stays while this client is away (R18).

    Attributes:
        outbox: the effects, and what is wanted of the owner.
        arrived: a broker notified: called with its space and the arrival.
        ordering, subscriber, routes, arrivals, lease, publishing, subscribing, asking, endings: its parts, to look at.
        durable: a durable client's saved clock; ``None`` for others.
    """

    def __init__(
        self, mode: Mode, clock: Clock, times: EndpointTimes | None = None, *, stream: int = 0, durable: bool = False
    ) -> None:
        times = times or EndpointTimes()
        self._clock, self._stream = clock, stream
        self._fifo: dict[tuple[str, str], int] = {}
        self._renew_at: float | None = None
        self._is_bottom_back = self._is_closing = self._stands_still = False
        self._ticked_at = 0.0
        self.outbox = outbox = Outbox(clock, RequestHistory(times.recent))
        self.ordering = OrderingModule(mode, times.ordering)
        self.subscriber = Subscriber(bounded=mode != "strict", durable=durable)
        self.ordering.space_of = self.subscriber.space_of
        self.routes, self.lease = Routes(), Lease()
        parts = self.ordering, self.subscriber, self.routes
        self.arrivals = Arrivals(*parts, self.lease, outbox, clock, times.ordering.gap_timeout)
        self.arrived = self.arrivals.arrived
        self.subscribing = Subscribing(
            self.subscriber, self.ordering, self.routes, self.arrivals, self.lease, outbox, clock
        )
        self.publishing = Publishing(outbox, clock, self.arrivals, times.settle_delay)
        self.asking = Asking(self.ordering, self.subscriber, outbox)
        self.endings = Endings(self.subscriber, self.ordering, self.arrivals, outbox, clock)
        saving = outbox, clock, self.arrivals, times.save_delay
        self.durable = SavedClock(*saving, None if mode == "strict" else self.ordering.point) if durable else None

    def __repr__(self) -> str:
        return f"<Endpoint: {self.ordering!r}, {self.publishing.publisher!r}>"

    def take(self) -> list[AnyEffect]:
        """Return the effects since the last call, to be carried out in their order."""
        outbox = self.outbox
        effects, outbox.effects = outbox.effects, []
        return effects

    def watch(self) -> None:
        """Return also as effects what no notification shows: topics that begin and end, and dropped arrivals."""
        self.ordering.watcher = _Watcher(self.ordering, self.outbox)
        self.arrivals.is_watched = True

    # -- what is known -----------------------------------------------------------------------------------------

    @property
    def domain(self) -> int:
        """The domain id, once a worker told it."""
        return self.arrivals.domain

    def describe(self) -> dict[str, Any]:
        """Return what the machine knows, for tests and messages about failures."""
        ordering = self.ordering
        return {
            "domain": self.domain,
            "reached": sorted(self.outbox.reached),
            "clock": dict(ordering.clock),
            "waiting": ordering.waiting,
            "interrupted": dict(ordering.interrupted),
            "is_leased": ordering.is_leased,
            "leased_until": self.lease.until,
            "filters": [each.filter.text for each in self.subscriber.filters],
            "topics": {info.id: info.label for info in self.subscriber.topics.values()},
            "is_changing": self.subscribing.is_changing,
            "is_holding": self.subscribing.is_holding,
            "pending": self.publishing.publisher.pending,
            "naming": sorted(self.asking.naming),
            "saving": {} if self.durable is None else dict(self.durable.saving),
        }

    def greeting(self, hello: Hello) -> Hello:
        """Return a hello with what the stages were asked for."""
        history, asked_epoch = self.outbox.history, self.publishing.publisher.asked_epoch
        recent = history.recent(self._clock.uptime())
        return msgspec.structs.replace(hello, asked=history.pairs(), asked_epoch=asked_epoch, recent=recent)

    # -- the application ---------------------------------------------------------------------------------------

    def publish(
        self, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None = None, size: int = 0
    ) -> Publication:
        """Publish an event that was checked, in total order. ``content`` is the caller's own."""
        return self.publishing.publish(topic, content, to_log, size)

    def cancel(self, publication: Publication) -> None:
        """Cancel a publication that nobody wants any more."""
        self.publishing.cancel(publication)

    def fifo_stamp(self, space: str, topic: str) -> tuple[bytes, int]:
        """Return the stamp of the next ``fifo`` event of a topic, and its counter."""
        counter = self._fifo[space, topic] = self._fifo.get((space, topic), 0) + 1
        return encode_stamp(FifoStamp(self._stream, counter)), counter

    def change(
        self,
        adds: Iterable[Subscription] = (),
        removes: Iterable[tuple[str, Filter]] = (),
        content: Any = None,
        *,
        is_at_brokers: bool = False,
    ) -> Change:
        """Change the subscription, after the changes before; :class:`Changed` tells when that is complete.
        ``is_at_brokers``: what is removed is unsubscribed there already."""
        return self.subscribing.change(Change(list(adds), list(removes), content, is_at_brokers=is_at_brokers))

    def resume(self) -> None:
        """Ask which durable subscription waits for this client; :class:`Resumed` tells it."""
        if self.durable is not None:
            self.durable.ask()

    def done_with(self, item: Event | Gap | Reconnected) -> None:
        """The application asks for what follows this notification (R18)."""
        if self.durable is not None:
            self.durable.done_with(item)

    # -- the workers -------------------------------------------------------------------------------------------

    def welcomed(self, welcome: Welcome) -> None:
        """A worker took this client in."""
        self.arrivals.domain = welcome.domain
        self.publishing.welcomed(welcome)

    def lost(self, stages: Iterable[int]) -> None:
        """The connections to these stages are gone, though others may be there already."""
        for stage in stages:
            self.outbox.reached.discard(stage)
            self.publishing.publisher.lost(stage)

    def reached(self, stages: set[int], bottom: int) -> None:
        """Send all unanswered requests to these stages again, at once, as nothing new may overtake them (R19)."""
        outbox = self.outbox
        self.lease.bottom = outbox.bottom = bottom
        outbox.reached |= stages
        if bottom in stages:
            self.asking.forget_names()
            self.endings.reached()
            self._is_bottom_back = True
        for frame in self.publishing.publisher.connected(stages):
            outbox.send(frame)
        outbox.wants_flush = True

    def opened(self, frame: Opened, greeted: float) -> None:
        """A stage has noted that this client is connected, after a hello that left at ``greeted`` (uptime, s)."""
        self.lease.opened(frame.stage, frame.session_timeout_ms / 1000, greeted)
        if frame.stage == self.lease.bottom:
            self.subscribing.opened(frame)
        self.arrivals.check_lease(self._clock.now())
        if self._renew_at is None and not self._is_closing:
            self._renew()
        self.outbox.wants_flush = True

    def _renew(self) -> None:
        """Ask the workers for the lease, and again after a while, whether they answered or not (R12)."""
        if self.lease.pause is not None:
            uptime = self._clock.uptime()
            self.outbox.effects.append(AskLease(self.lease.ask(uptime)))
            self._renew_at = uptime + self.lease.pause
            self.outbox.wants_timer = True

    def leave_domain(self) -> None:
        """The workers serve another domain (R4): whatever is known of the former one is void. Names of topics are those
        of the former one until :meth:`enter_domain`, for the effects that tell of it."""
        self.outbox.reached.clear()
        self.outbox.history.clear()
        self.asking.forget_names()
        self.publishing.leave_domain()
        self.arrivals.deliver(self.ordering.other_domain(self._clock.now()))

    def enter_domain(self, domain: int) -> None:
        """All that was told of the former domain is carried out: begin anew in this one."""
        self.arrivals.enter_domain(domain)
        self.subscribing.enter_domain()

    def receive(self, frame: WorkerFrame) -> None:
        """A stage's answer arrived."""
        now = self._clock.now()
        if isinstance(frame, Renewed):
            self.lease.answered(frame.request, firsts(frame.stages))
        self.arrivals.check_lease(now)
        match frame:
            case Timestamps():
                self.publishing.answered(frame)
            case Settled():
                self.publishing.settled(frame)
            case Heads():
                self.endings.told(frame, self.publishing.publisher)
            case Topics():
                self._named(frame, now)
            case Moved():
                self.publishing.publisher.moved(frame)
                self.subscribing.moved(frame)
            case Subscribed():
                self.subscribing.completed(frame)
            case Numbers() | LoggedEvents():
                self._repair(frame, now)
            case Done() | Durable() if self.durable is not None:
                self.durable.told(frame)
            case _:
                return
        self.outbox.wants_flush = True

    def _repair(self, frame: Numbers | LoggedEvents, now: float) -> None:
        """A stage or a log told of missing numbers; where these are forgotten, the topic begins anew (R17, R18)."""
        interrupted = self.ordering.interrupted
        before = len(interrupted)
        if isinstance(frame, Numbers):
            self.arrivals.deliver(self.ordering.answered(frame, now))
            self.arrivals.forged(self.ordering.forged())
        elif not frame.refusal:  # where it was refused, it is asked again
            self.arrivals.logged(frame, now)
        if len(interrupted) > before:
            self.subscribing.begin_anew()

    def _named(self, frame: Topics, now: float) -> None:
        self.arrivals.learn(frame.topics)
        self.publishing.publisher.named(frame.topics, frame.order_epoch)
        asked = self.asking.asked_for(frame.request)
        if asked is not None:
            self.subscribing.named(frame, asked, now)
            self.asking.answered(frame.request)

    # -- the brokers -------------------------------------------------------------------------------------------

    def kept_wanted(self, space: str, filter: Filter) -> None:
        """A broker is asked to subscribe to a filter, and so for the copies that it keeps (R5)."""
        self.arrivals.kept.wanted(space, filter)

    def caught_up(self, space: str, is_caught_up: bool = True) -> None:
        """A barrier has come back (R24), or it will not."""
        now = self._clock.now()
        if is_caught_up:
            self.arrivals.caught_up(space, now)
        else:
            self.ordering.not_caught_up(space, now)
        self.outbox.wants_flush = True

    def broker_restored(self, space: str) -> None:
        """A broker is connected again, and all subscriptions are there."""
        self.publishing.restored(space)
        self.outbox.wants_flush = True

    def broker_answered(self, change: Change, error: Exception | None = None) -> None:
        """Take the brokers' outcome of :class:`AskBroker`: done, refused, or unanswered."""
        self.subscribing.broker_answered(change, error)

    def accepted(self, publication: Publication) -> None:
        """The broker accepted an event (R16)."""
        self.publishing.accepted_by_broker(publication)

    def refused(self, publication: Publication, error: Exception) -> None:
        """The broker was certainly not given an event."""
        self.publishing.refused_by_broker(publication, error)

    # -- time --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` is due without any other input, by the clock's uptime; ``None``: never."""
        uptime, saved = self._clock.uptime(), self.durable
        times = [self.publishing.settle_at, self._renew_at, None if saved is None else saved.due_at]
        # whom should it ask while no stage is reached?
        due = self.ordering.next_deadline() if self.outbox.reached else self.ordering.next_tick()
        fifo = self.arrivals.fifo.next_deadline()
        if due is None or (fifo is not None and fifo < due):
            due = fifo
        if due is not None:
            times.append(uptime + max(due - self._clock.now(), STANDSTILL if self._stands_still else 0.001))
        return min((each for each in times if each is not None), default=None)

    def tick(self, *, hold: bool = False) -> None:
        """Time passed; flush. ``hold``: see there."""
        now, uptime = self._clock.now(), self._clock.uptime()
        self._stands_still, self._ticked_at = now == self._ticked_at, now  # then nothing can become due
        self.arrivals.tick(now)
        if self._renew_at is not None and self._renew_at <= uptime and not self._is_closing:
            self._renew()
        if self.durable is not None and self.durable.due_at is not None and self.durable.due_at <= uptime:
            self.durable.tick()
        settle_at = self.publishing.settle_at
        self.flush(settle=settle_at is not None and settle_at <= uptime, hold=hold)

    def flush(self, *, settle: bool = False, hold: bool = False) -> None:
        """Send what is to be sent.

        Args:
            settle: tell what became of numbers now, also alone.
            hold: the application has enough to read; nothing more is fetched from event logs.
        """
        outbox, ordering = self.outbox, self.ordering
        outbox.wants_flush, outbox.wants_timer = False, True
        if self.subscribing.drains.has_over:
            self.subscribing.go_on()
        if not ordering.is_idle and not self._is_closing:
            outbox.effects += map(BeginBarrier, ordering.barriers(self._clock.now()))
        if self._is_bottom_back and outbox.bottom in outbox.reached:
            self._is_bottom_back = False
            self.subscribing.request()
            if self.durable is not None:
                self.durable.reached()
            self.publishing.settle_soon()  # what was accepted while nobody could be told
        if settle:
            self.publishing.settle_at = None
        if not outbox.reached:
            return
        for frame in self._frames(settle or self._is_closing):
            outbox.send(frame)
        self.endings.tell()
        if not ordering.is_idle:
            self.asking.ask(self._clock.now(), hold=hold)

    def _frames(self, settle: bool) -> Iterator[Frame]:
        publisher = self.publishing.publisher
        frames = self.publishing.requests()
        yield from frames
        # together with requests, so that one commit of the stage holds both
        if settle or frames:
            yield from publisher.settlements()
        if publisher.is_waiting_for_names:
            for names in _in_frames(publisher.unnamed()):
                yield Resolve(self.outbox.next_request(), names)

    # -- the end -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The client closes: no change is begun any more, nothing is asked of the brokers and the clock."""
        self._is_closing = True
        self.subscribing.stop()
        if self.durable is not None:
            self.durable.stop()

    def leave(self) -> None:
        """Finish: tell what became of numbers, and save the clock, or end the subscription; again and again."""
        self.subscribing.leave_brokers()
        if self.durable is not None:
            self.durable.save()
        elif self.outbox.bottom in self.outbox.reached:
            self.subscribing.leave()
        self.flush(settle=True)


class _Watcher:
    """Makes effects of what the ordering module tells as it happens."""

    def __init__(self, ordering: OrderingModule, outbox: Outbox) -> None:
        self._ordering, self._outbox = ordering, outbox

    def began(self, topic: int, number: int) -> None:
        """See :class:`~inorder.endpoint.outputs.Watcher`."""
        if topic not in self._ordering.left:
            self._outbox.effects.append(Began(topic, number))

    def ended(self, topic: int, number: int) -> None:
        """See :class:`~inorder.endpoint.outputs.Watcher`."""
        if topic not in self._ordering.left:
            self._outbox.effects.append(Ended(topic, number))

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """See :class:`~inorder.endpoint.outputs.Watcher`."""
        if entry.topic not in self._ordering.left:
            waits = why == "duplicate" and self._ordering.waits_for_turn(entry.topic, entry.number)
            self._outbox.effects.append(Dropped(entry, why, waits))


def _in_frames(names: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Cut topics to be named into lists that fit into a frame each."""
    size, batch = 0, list[tuple[str, str]]()
    for space, name in names:
        size += len(space.encode()) + len(name.encode()) + 16
        if batch and (size > MAX_FRAME_BYTES // 16 or len(batch) == MAX_LISTED):
            yield batch
            size, batch = 0, []
        batch.append((space, name))
    if batch:
        yield batch
