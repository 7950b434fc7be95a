"""Arrivals from brokers become notifications of the application: stamps read, order restored, verdicts given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from inorder.endpoint.effects import (
    Alarm,
    Clock,
    LeaseTurned,
    Missed,
    Notify,
    Outbox,
    Unrouted,
    WasOverlap,
)
from inorder.endpoint.fifo import FifoSequencer
from inorder.endpoint.kept import KeptCopies
from inorder.endpoint.lease import Lease
from inorder.endpoint.notifications import Event, Gap, Verdict
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, GapFound, Left, Output
from inorder.endpoint.routing import Route, Routes
from inorder.endpoint.subscriber import Subscriber
from inorder.endpoint.ticks import Ticks
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.arrival import Arrival, bytes_of
from inorder.protocol.names import key_of
from inorder.protocol.pairs import pairs
from inorder.protocol.stamp import FifoStamp, TotalStamp, decode_stamp
from inorder.protocol.wire import LoggedEvent, LoggedEvents, TopicInfo, TopicStart, decode_logged

LOOP_COPIES = 8
"""Repetitions of one event from which on a loop of bridges is suspected."""
MAX_COUNTED = 4096
"""Events whose repetitions are counted at a time."""
MAX_ALARMED = 1_000
"""Topics of which the same is said: who publishes under new names all the time can neither fill logs nor memory."""


class ArrivalCounts(msgspec.Struct):
    """Counters count arrivals of the kinds that the ordering module does not count.

    Attributes:
        overlaps: further copies for overlapping filters, dropped.
        unsequenced: delivered without an order.
        corrupt: had an envelope that could not be read; delivered ``unsequenced``.
        foreign: had a stamp of another domain or topic; delivered ``unsequenced``.
        malformed: were no messages; dropped by the adapter.
    """

    overlaps: int = 0
    unsequenced: int = 0
    corrupt: int = 0
    foreign: int = 0
    malformed: int = 0


class Arrivals:
    """Turns arrivals into notifications.

    Args:
        ordering, subscriber, routes, lease, outbox: the endpoint's.
        gap_timeout: for ``fifo`` streams, s.

    Attributes:
        domain: the domain id, once a worker told it.
        is_watched: arrivals that no subscription covers, and overlaps, are told as effects.
        delivered: events notified of, by verdict; ``gaps``, and ``missed`` numbers in them.
        let_go: called with a topic that was left, when it is read as far as is needed (R22).
    """

    def __init__(
        self,
        ordering: OrderingModule,
        subscriber: Subscriber,
        routes: Routes,
        lease: Lease,
        outbox: Outbox,
        clock: Clock,
        gap_timeout: float,
    ) -> None:
        self._ordering, self._subscriber, self._routes = ordering, subscriber, routes
        self._lease, self._outbox, self._clock = lease, outbox, clock
        self._names: dict[int, TopicInfo] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._alarmed: dict[str, set[tuple[str, str | bytes]]] = {}  # the topics, by what was said
        self._copies: dict[tuple[int, int], int] = {}
        self._repeats: dict[int, int] = {}  # by topic, up to where a former process may have notified (R18)
        self.fifo = FifoSequencer(gap_timeout)
        self.kept = KeptCopies()
        self.counts = ArrivalCounts()
        self.delivered: dict[str, int] = dict.fromkeys(Verdict, 0)
        self.gaps = self.missed = 0
        self._count = 0  # arrivals for the ordering module in this domain
        self._left = ordering.left
        self.let_go: Callable[[int], None] = _nothing
        self.given: Callable[[Event, Ticks], None] | None = None  # called with what is in order, and its ticks (R23)
        self.domain = 0
        self.is_watched = False

    def learn(self, topics: Iterable[TopicInfo]) -> None:
        """Workers named topics."""
        for info in topics:
            self._names[info.id] = info
            its = info.space, info.name
            self._ids[its] = max(info.id, self._ids.get(its, 0))  # a topic that has ended may have had the name before

    def forget(self, topics: Iterable[int]) -> None:
        """Forget the names of topics that have ended."""
        for topic in topics:
            info = self._names.pop(topic, None)
            if info is not None and self._ids.get((info.space, info.name)) == topic:
                del self._ids[info.space, info.name]
                self._routes.forget(info.space, info.name)

    def enter_domain(self, domain: int) -> None:
        """The workers serve another domain: ids stand for other topics there."""
        self.domain = domain
        self._count = 0
        self._names.clear()
        self._ids.clear()
        self._copies.clear()
        self._repeats.clear()

    def topic_id(self, space: str, name: str) -> int | None:
        """Return the id of a topic, where a worker has told it."""
        return self._ids.get((space, name))

    def note_repeats(self, starts: Iterable[TopicStart]) -> None:
        """Note up to which number a former process may have notified, by topic, as a durable subscription resumes."""
        self._repeats.update((each.topic.id, each.repeats) for each in starts if each.repeats)

    def name_of(self, topic: int) -> TopicInfo | None:
        """Return what workers told of a topic."""
        return self._names.get(topic)

    def named(self, deps: list[int]) -> tuple[tuple[str, int], ...]:
        """Return dependencies by topic name, those that are known."""
        names = self._names
        return tuple([(names[topic].name, number) for topic, number in pairs(deps, strict=False) if topic in names])

    # -- arrivals ----------------------------------------------------------------------------------------------

    def arrived(self, space: str, arrival: Arrival) -> None:
        """A broker notified."""
        now = self._clock.now()
        route = self._routes.of(space, arrival.topic)
        if route is None:
            if not (self._left and self._read_on(space, arrival, now)) and self.is_watched:
                self._outbox.effects.append(Unrouted(arrival))
            return
        stamp = None
        if arrival.stamp is not None:
            stamp = decode_stamp(arrival.stamp)
            if stamp is None:
                self.counts.corrupt += 1
        # where there is a stamp, its number tells copies apart, whichever of them comes first
        if stamp is None and route.overlaps > 1 and arrival.via and route.canonical not in arrival.via:
            self.counts.overlaps += 1
            return
        if route.ordering == "none" or stamp is None:
            if not (self._left and self._is_for_left(route, space, arrival, now)):
                self._unsequenced(space, arrival, stamp, now)
        elif isinstance(stamp, FifoStamp):
            self._fifo(space, arrival, (stamp.incarnation, space, key_of(arrival.topic)), stamp.counter, now)
        elif not self._is_ours(space, arrival, stamp):
            self._unsequenced(space, arrival, None, now)
        elif route.ordering == "fifo":
            if not (self._left and self._is_for_left(route, space, arrival, now)):
                self._fifo(space, arrival, (space, key_of(arrival.topic)), stamp.number, now, stamp.number)
        else:
            self._total(space, arrival, stamp, route.overlaps, now)

    def _is_for_left(self, route: Route, space: str, arrival: Arrival, now: float) -> bool:
        """Read on a topic that was left and has another subscription without total order (R22); return whether this is
        the copy for the former alone."""
        return self._read_on(space, arrival, now) and bool(arrival.via) and route.canonical not in arrival.via

    def _read_on(self, space: str, arrival: Arrival, now: float) -> bool:
        """Read an event of a topic that was left, silently (R22); return whether the arrival is such an event."""
        stamp = None if arrival.stamp is None else decode_stamp(arrival.stamp)
        if not isinstance(stamp, TotalStamp) or stamp.topic not in self._left:
            return False
        info = self._names.get(stamp.topic)
        if stamp.domain != self.domain or info is None or (info.space, info.name) != (space, arrival.topic):
            return False
        self._count += 1
        self.check_lease(now)
        content = space, arrival, self._count
        self.deliver(self._ordering.receive(stamp.topic, stamp.number, stamp.deps, content, len(arrival.payload), now))
        self._outbox.wants_flush = True
        return True

    def _total(self, space: str, arrival: Arrival, stamp: TotalStamp, overlaps: int, now: float) -> None:
        counts = self._ordering.counts
        before = counts.duplicates
        self._count += 1
        if not self._ordering.is_leased or self._clock.uptime() >= self._lease.until:
            self.check_lease(now)
        outputs = self._ordering.receive(
            stamp.topic,
            stamp.number,
            stamp.deps,
            (space, arrival, self._count),
            bytes_of(arrival.payload, arrival.topic, arrival.properties, arrival.stamp),
            now,
            ticks=stamp.ticks,
            retained=arrival.retained
            and self._is_kept(space, arrival, stamp.number > self._ordering.clock.get(stamp.topic, stamp.number)),
        )
        if counts.duplicates != before and self._is_overlap(space, arrival, stamp, overlaps):
            counts.duplicates = before
            self.counts.overlaps += 1
            if self.is_watched:
                self._outbox.effects.append(WasOverlap())
        if outputs:
            self.deliver(outputs)
        if not (self._outbox.wants_flush or self._ordering.is_idle):
            self._outbox.wants_flush = True

    def _is_overlap(self, space: str, arrival: Arrival, stamp: TotalStamp, overlaps: int) -> bool:
        """Tell whether a repeated event is the copy for a further filter, and say so if there are far too many."""
        if arrival.redelivered:
            return False
        if len(self._copies) >= MAX_COUNTED:
            self._copies.clear()
        key = stamp.topic, stamp.number
        copies = self._copies[key] = self._copies.get(key, 0) + 1
        if copies == overlaps + LOOP_COPIES:
            hint = "events arrive again and again: do bridges forward them in a loop?"
            self._alarm("loop_suspected", space, arrival.topic, stamp.number, hint)
        return copies < overlaps and len(arrival.via) <= 1

    def _is_kept(self, space: str, arrival: Arrival, is_new: bool = False) -> bool:
        """R5: it comes from the broker's store, as a subscription asked for; the flag alone does not say that.
        ``is_new``: its number is beyond what has come, so it is the event itself."""
        if not arrival.retained:
            return False
        if is_new:
            self.kept.have_come(space, arrival.topic)
        return not (is_new or arrival.redelivered) and self.kept.take(space, arrival.topic)

    def _is_ours(self, space: str, arrival: Arrival, stamp: TotalStamp) -> bool:
        """Tell whether a stamp is of this domain and of the topic it arrived on; if not, say so once."""
        info = self._names.get(stamp.topic)
        if stamp.domain != self.domain:
            why = f"of another domain ({stamp.domain})"
        elif info is not None and (info.space, info.name) != (space, arrival.topic):
            why = f"of the topic {info.name!r} in space {info.space!r}; does a bridge rename topics?"
        else:
            return True
        self.counts.foreign += 1
        self._alarm("foreign_stamp", space, arrival.topic, stamp.number, f"not sequenced: its stamp is {why}")
        return False

    def _alarm(self, kind: str, space: str, topic: str, number: int, hint: str) -> None:
        """Warn once of a topic's problem of one kind; ``number`` is the number of the event that showed the problem."""
        alarmed, its = self._alarmed.setdefault(kind, set()), (space, key_of(topic))
        if its not in alarmed and len(alarmed) < MAX_ALARMED:
            alarmed.add(its)
            self._outbox.effects.append(Alarm(kind, space, topic, number, hint))

    def forged(self, events: Iterable[tuple[int, int]]) -> None:
        """Ticks of these events, by topic and number, are not those that their stages gave."""
        for topic, number in events:
            if (info := self._names.get(topic)) is not None:
                self._alarm("forged_stamp", info.space, info.name, number, "who may publish there at the broker?")

    def _unsequenced(self, space: str, arrival: Arrival, stamp: object, now: float) -> None:
        topic = self._ids.get((space, arrival.topic))
        if topic is not None and stamp is None and not self._is_kept(space, arrival):
            self._ordering.unsequenced(topic, now)
        self.counts.unsequenced += 1
        number = stamp.number if isinstance(stamp, TotalStamp) else None
        self._plain(space, arrival, Verdict.UNSEQUENCED, number, now)

    def _plain(self, space: str, arrival: Arrival, verdict: Verdict, number: int | None, arrived: float) -> None:
        """Notify of what the ordering module has nothing to do with."""
        self._out(space, arrival, verdict, number, [], None, arrived)

    def _fifo(
        self,
        space: str,
        arrival: Arrival,
        stream: tuple[object, ...],
        counter: int,
        now: float,
        number: int | None = None,
    ) -> None:
        if self.fifo.take_late(stream, counter):
            self._plain(space, arrival, Verdict.LATE, number, now)
            return
        if arrival.retained and self._is_kept(space, arrival, self.fifo.is_next(stream, counter)):
            self._plain(space, arrival, Verdict.RETAINED, number, now)
            return
        size = bytes_of(arrival.payload, arrival.topic, arrival.properties, arrival.stamp)
        for its_space, its, its_number, arrived in self.fifo.receive(
            stream, counter, (space, arrival, number, now), now, size
        ):
            self._plain(its_space, its, Verdict.FIFO, its_number, arrived)
        if not self.fifo.is_idle:
            self._outbox.wants_flush = True

    # -- the event log (R18) -----------------------------------------------------------------------------------

    def logged(self, frame: LoggedEvents, now: float) -> None:
        """Events that the broker did not deliver came from their topic's log."""
        info = self._names.get(frame.topic)
        if info is not None:
            found = [self._found(info, each) for each in frame.events]
            self.deliver(self._ordering.fetched(frame.topic, frame.ranges, frame.through, found, now))

    @staticmethod
    def _found(info: TopicInfo, event: LoggedEvent) -> Found:
        content = None if event.content is None else decode_logged(event.content)
        if content is None:
            return Found(event.number, event.deps, None, 0)
        arrival = Arrival(info.name, content.payload, qos=content.qos, properties=tuple(content.properties))
        return Found(event.number, event.deps, (info.space, arrival, 0), len(content.payload), event.ticks)

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def check_lease(self, now: float) -> None:
        """Check, before an event is notified in order, whether every stage of the subscription answered in time."""
        is_leased = self._clock.uptime() < self._lease.until
        if is_leased == self._ordering.is_leased:
            return
        self._outbox.effects.append(LeaseTurned(is_leased))
        if is_leased:
            self.deliver(self._ordering.renewed(now))
        else:
            self._ordering.lapse()

    # -- notifications -----------------------------------------------------------------------------------------

    def deliver(self, outputs: list[Output]) -> None:
        """Notify what the ordering module let go."""
        for output in outputs:
            if isinstance(output, Sequenced):
                space, arrival, _ = output.content
                verdict, number = output.verdict, output.number
                if verdict is Verdict.UNSEQUENCED:
                    self._discredited(space, arrival, output)
                    continue
                if self._repeats and number <= self._repeats.get(output.topic, 0):
                    arrival.redelivered = True
                self._out(space, arrival, verdict, number, output.deps, output)
            elif isinstance(output, Left):
                self.let_go(output.topic)
            elif (info := self._names.get(output.topic)) is not None:
                self._gap(output, info)

    def _discredited(self, space: str, arrival: Arrival, entry: Sequenced) -> None:
        """The ordering module has no place for its stamp; its topic may have been unsubscribed while it waited."""
        if self._routes.of(space, arrival.topic) is not None:
            self.counts.unsequenced += 1
            self._out(space, arrival, Verdict.UNSEQUENCED, entry.number, [], entry)

    def _gap(self, found: GapFound, info: TopicInfo) -> None:
        self.gaps += 1
        self.missed += found.last - found.first + 1
        if found.reason == "unstamped":
            hint = "messages without stamps arrived instead: a bridge or an old protocol version strips them"
            self._alarm("unstamped", info.space, info.name, found.first, hint)
        gap = Gap(info.space, info.name, found.first, found.last, found.reason)
        self._outbox.effects.append(Missed(gap, found.topic))

    def caught_up(self, space: str, now: float) -> None:
        """Take note that a barrier has come back: the client has read all that its broker had before (R24)."""
        self.check_lease(now)
        self.deliver(self._ordering.caught_up(space, now))

    def tick(self, now: float) -> None:
        """Time passed."""
        self.check_lease(now)
        self.deliver(self._ordering.tick(now))
        for space, arrival, number, arrived in self.fifo.tick(now):
            self._plain(space, arrival, Verdict.FIFO, number, arrived)

    def _out(
        self,
        space: str,
        arrival: Arrival,
        verdict: Verdict,
        number: int | None,
        deps: list[int],
        entry: Sequenced | None,
        arrived: float = 0.0,
    ) -> None:
        """Notify of an event."""
        self.delivered[verdict] += 1
        event = Event(
            space,
            arrival.topic,
            arrival.payload,
            verdict,
            number,
            self.named(deps) if deps else (),
            arrival.retained,
            arrival.redelivered,
            arrival.qos,
            arrival.properties,
            entry is not None and entry.repaired,
        )
        if self.given is not None and entry is not None and verdict is Verdict.IN_ORDER:
            self.given(event, entry.ticks)
        self._outbox.effects.append(Notify(event, arrival, entry, arrived))


def _nothing(topic: int) -> None:
    """Do nothing."""
