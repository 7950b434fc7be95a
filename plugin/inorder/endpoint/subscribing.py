"""Changing subscriptions: broker first, then the topic managers; one change at a time (R7, R11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.changes import Change
from inorder.endpoint.drains import Drains, SpaceAndFilter, needs_drain
from inorder.endpoint.effects import AskAllHeads, AskBroker, Changed, Clock, Expired, Need, Outbox
from inorder.endpoint.lease import Lease
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.routing import Routes
from inorder.endpoint.subscriber import Subscriber
from inorder.errors import InvalidFilter
from inorder.protocol.filters import MAX_FILTERS, number_problem
from inorder.protocol.names import FilterKind
from inorder.protocol.wire import Moved, Opened, SpaceFilter, Subscribed, Topics


class Subscribing:
    """A client's subscription changes, and what begins anew of itself.

    Args:
        subscriber, ordering, routes, arrivals, outbox: the endpoint's.
        lease: is told what a change needs and proves (R12).

    Attributes:
        is_holding: a subscribe is outstanding: which topics it has is not known yet, so nothing is foreign (R9).
        drains: what changes have left, and is read on (R22); to be looked at only.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        ordering: OrderingModule,
        routes: Routes,
        arrivals: Arrivals,
        lease: Lease,
        outbox: Outbox,
        clock: Clock,
    ) -> None:
        self._subscriber, self._ordering, self._routes = subscriber, ordering, routes
        self._arrivals, self._lease, self._outbox, self._clock = arrivals, lease, outbox, clock
        self._queue: deque[Change] = deque()
        self._current: Change | None = None
        self._began = 0.0
        self._is_anew_due = self._is_stopped = False
        self.is_holding = False
        self.drains = Drains()
        arrivals.let_go = self._let_go

    @property
    def is_changing(self) -> bool:
        """A change is on its way to the topic managers."""
        return self._subscriber.change is not None

    # -- what the application asks for -------------------------------------------------------------------------

    def change(self, change: Change) -> Change:
        """Begin a change, when those before it are complete."""
        self._queue.append(change)
        self.go_on()
        return change

    def go_on(self) -> None:
        """Begin the next change, if none is on its way; what begins anew goes along with it, or alone. A change waits
        where it takes what is still read on (R22)."""
        while self._current is None and not self.is_changing and not self._is_stopped:
            if not self._is_anew_due and (rest := self.drains.take_over()):
                self._leave_brokers(rest)
            elif self._queue and not self.drains.hold_up(self._queue[0].adds):
                self._begin(self._queue.popleft())
            else:
                break
        if self._is_anew_due and self._current is None and not self.is_changing:
            self._ask_stages()

    def _begin(self, change: Change) -> None:
        error = self._too_many(change)
        if error is not None:
            self._outbox.effects.append(Changed(change, error))
            return
        self._current, routes = change, self._routes
        change.before = [routes.get(each.space, each.filter) for each in change.adds]
        before = [(each, routes.get(*each)) for each in change.removes]
        total = [each for each, known in before if known is not None and known.ordering == "total"]
        for space, filter in change.removes:
            routes.remove(space, filter)
            self._arrivals.kept.dropped(space, filter)
        if change.removes and self._wanted() != self._subscriber.filters:
            added = [SpaceFilter(each.space, each.filter) for each in change.adds if each.ordering == "total"]
            # what is covered in another way goes on (R8)
            self._drop([*self._wanted(), *added], [] if change.is_at_brokers else total)
            change.unsubscribes = [each for each in change.removes if not self.drains.keep(each)]
            self._outbox.wants_flush = True
        for each in change.adds:
            routes.add(each)
        change.is_total = self._wanted() != self._subscriber.filters
        if change.adds and change.is_total:
            self.is_holding = True
            self._ordering.subscribing()  # R9: from here on, until the clock is known
        self._outbox.effects.append(AskBroker(change))

    def _too_many(self, change: Change) -> InvalidFilter | None:
        """Return what is wrong with more filters, or wildcards, than workers take."""
        known = ((each, self._routes.get(each.space, each.filter)) for each in change.adds if each.ordering == "total")
        more = [each for each, before in known if before is None or before.ordering != "total"]
        new, known_to_workers = [each.filter for each in more], self._subscriber.filters
        wild = [each for each in new if each.kind is not FilterKind.EXACT]
        if not (wild or len(new) + len(known_to_workers) > MAX_FILTERS):
            return None
        problem = number_problem([*new, *(each.filter for each in known_to_workers)])
        return None if problem is None else InvalidFilter((wild or new)[-1].text, problem)

    def broker_answered(self, change: Change, error: Exception | None) -> None:
        """Go on with a change that the brokers have made, or undo all of a refused one."""
        if change is not self._current:
            return  # the client was stopped meanwhile
        if change.is_rest:
            self._current = None
            self.go_on()
            return
        if error is not None and change.error is None:
            self._take_back(change, error)
            return
        if change.error is not None:
            self._taken_back(change)
        elif change.is_total:
            if change.adds:
                self._drop(self._wanted())  # what a call made weaker than total
            self._ask_stages()
            return
        self._finish(change.error)

    def _take_back(self, change: Change, error: Exception) -> None:
        change.error, new = error, []
        for each, before in zip(change.adds, change.before, strict=True):
            if before is None:
                self._routes.remove(each.space, each.filter)
                new.append((each.space, each.filter))
            else:
                self._routes.add(before)
        change.subscribes, change.unsubscribes = [], new
        self._outbox.effects.append(AskBroker(change))

    def _taken_back(self, change: Change) -> None:
        if self.drains.is_asked:  # the stages are told of nothing, so they do not tell how far it is to be read
            self._read_through(self._clock.now())
        if change.is_total and not self._is_anew_due:
            now = self._clock.now()
            self.is_holding = False
            self._arrivals.check_lease(now)
            self._arrivals.deliver(self._ordering.subscribed([], now, filters=self._subscriber.has_wildcards))
            self._outbox.wants_flush = True

    def _finish(self, error: Exception | None = None) -> None:
        change, self._current = self._current, None
        if change is not None:
            self._outbox.effects.append(Changed(change, error))
        self.go_on()

    def _drop(self, wanted: list[SpaceFilter], filters: Sequence[SpaceAndFilter] = ()) -> None:
        """Leave all topics but those of ``wanted``. The brokers go on delivering for ``filters`` until these topics are
        let go (R22)."""
        dropped, now = self._subscriber.dropped(wanted), self._clock.now()
        if self._ordering.mode == "strict" and needs_drain(wanted):
            if dropped or filters:
                infos = self._subscriber.leave(dropped)
                self._arrivals.check_lease(now)
                self._arrivals.deliver(self._ordering.leave(dropped, now))
                self.drains.begin(filters, [each for each in infos if each.id in self._ordering.left])
        elif dropped:
            self._arrivals.check_lease(now)  # what waited for these topics may go out (R12)
            self._arrivals.deliver(self._ordering.unsubscribed(dropped, now))

    def _let_go(self, topic: int) -> None:
        """A topic that was left is read as far as is needed (R22). What follows is done with the next flush."""
        self._subscriber.let_go(topic)
        self.drains.ended(topic)
        self._outbox.wants_flush = True

    def _leave_brokers(self, filters: list[SpaceAndFilter]) -> None:
        """Unsubscribe at the brokers from what is read on no more."""
        gone = [each for each in filters if self._routes.get(*each) is None]
        if gone:
            self._current = Change([], gone, None, is_rest=True)
            self._outbox.effects.append(AskBroker(self._current))

    def _wanted(self) -> list[SpaceFilter]:
        """The whole subscription with total order, as the application wants it."""
        is_durable = self._subscriber.is_durable
        return [
            SpaceFilter(each.space, each.filter, each.properties, each.qos if is_durable else 0)
            for each in self._routes.all()
            if each.ordering == "total"
        ]

    # -- the topic managers ------------------------------------------------------------------------------------

    def _ask_stages(self) -> None:
        self._began = self._clock.uptime()
        self._subscriber.begin(self._wanted(), anew=self._is_anew_due)
        self.request()

    def request(self) -> None:
        """Ask for the change on its way; again after each reconnection."""
        frame = self._subscriber.request()
        if frame is not None:
            self._outbox.send(frame)

    def completed(self, frame: Subscribed) -> None:
        """The clock arrived (R7)."""
        self._arrivals.learn(each.topic for each in (*frame.topics, *frame.left))
        starts = self._subscriber.completed(frame)
        if starts is not None:
            now = self._clock.now()
            self._arrivals.note_repeats(starts)
            self.is_holding = self._is_anew_due = False
            self._need_stages()
            self._lease.completed(self._began)
            self._arrivals.check_lease(now)
            self._name_left(self._subscriber.created, now)
            self._ordering.resume(self._subscriber.reached)
            outputs = self._ordering.subscribed(
                starts, now, filters=self._subscriber.has_wildcards, bases=self._subscriber.bases
            )
            self._arrivals.deliver(outputs)
            self._read_through(now)
        if not frame.more:
            self._outbox.effects += (Need(self._subscriber.homes), AskAllHeads())
        if starts is not None:
            self._finish()

    def _name_left(self, topics: list[int], now: float) -> None:
        """Topics under a filter that was left, which no worker had named before, begin with their first numbers (R13).
        They are read on like all others of the filter (R22)."""
        if topics and self.drains.is_asked:
            self._arrivals.deliver(self._ordering.named([], [], now, left=topics))
            self.drains.add([info for topic in topics if (info := self._subscriber.known(topic)) is not None])

    def _read_through(self, now: float) -> None:
        """The stages have told how far what was left is to be read (R22)."""
        at_once = self._current is not None and self._current.is_at_brokers
        self._arrivals.deliver(self._ordering.read_through(self._subscriber.ends, now, at_once=at_once))
        self._subscriber.keep_left(self._ordering.left)
        self.drains.told()

    def moved(self, frame: Moved) -> None:
        """The topic order has changed (R14): others are to be asked about gaps."""
        self._subscriber.moved(frame)
        self._need_stages()
        self._outbox.effects.append(Need(self._subscriber.homes))

    def named(self, frame: Topics, asked: list[int], now: float) -> None:
        """Workers named topics that an event or a head was of (R13). While a subscribe is outstanding its answer names
        the topics, with their clocks (R9). An id that nobody ever gave is foreign: forged, or of a newer store."""
        if self.is_holding:
            return
        ids = set(asked)
        wanted = [each for each in frame.topics if each.id in ids]
        left = [] if self._current is None else self._subscriber.leaves(wanted, self._wanted())
        mine, foreign = self._subscriber.named(each for each in wanted if each not in left)
        over = list[int]()
        for unknown in sorted(ids.difference(each.id for each in frame.topics)):
            (over if unknown <= frame.last else foreign).append(unknown)
        homes = {self._subscriber.topics[each].stage for each in mine}
        if mine:
            self._lease.needs_too(homes)
        self._arrivals.check_lease(now)
        if self.drains.is_asked:
            self._name_left([each.id for each in self._subscriber.read_on(left)], now)
        else:
            foreign += [each.id for each in left]
        self._arrivals.deliver(self._ordering.named(mine, foreign, now, over=over))
        if mine:
            self._outbox.effects.append(Need(homes))

    def _stages(self) -> set[int]:
        return {each.stage for each in self._subscriber.topics.values()}

    def _need_stages(self) -> None:
        """The subscription's topics, or their stages, have changed: these must answer from now on (R12)."""
        self._lease.needs(self._stages() if self._subscriber.filters else None)

    # -- what begins anew --------------------------------------------------------------------------------------

    def opened(self, frame: Opened) -> None:
        """Take the bottom stage's word on this session, which tells whether the subscription has expired (R12)."""
        if self._subscriber.is_lost(frame.version):
            if self._subscriber.topics:
                self._outbox.effects.append(Expired())
            self._subscriber.expired()
            topics = list(self._subscriber.topics)
            self._arrivals.deliver(self._ordering.expired(topics, self._clock.now()))
            self._arrivals.deliver(self._ordering.drop_left(self._clock.now()))
            self.begin_anew()

    def enter_domain(self) -> None:
        """The workers serve another domain: all topics begin anew."""
        self._subscriber.other_domain()
        if not self._is_stopped and (self._subscriber.filters or self.is_changing or self.is_holding):
            self.begin_anew()

    def begin_anew(self) -> None:
        """The ordering module has given topics up, whose new starts it needs."""
        self._ordering.subscribing()
        self.is_holding = self._is_anew_due = True
        if self.is_changing:
            self._subscriber.begin_anew()
            self.request()
        else:
            self.go_on()

    # -- the end -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """No more changes are begun; one that the brokers are asked for is not carried on."""
        self._is_stopped = True
        self._queue.clear()
        if self._current is not None and self._current.is_rest:
            self.drains.begin(self._current.unsubscribes, [])  # as leave_brokers will ask for it once more
        if not self.is_changing:
            self._current = None

    def leave_brokers(self) -> None:
        """The client closes: a broker that keeps its sessions must not deliver to the next one what was left."""
        self._leave_brokers(self.drains.give_up())

    def leave(self) -> None:
        """The client closes: end its subscription, if no change is on its way."""
        if not self.is_changing and self._subscriber.filters:
            self._subscriber.begin([])
            self.request()
