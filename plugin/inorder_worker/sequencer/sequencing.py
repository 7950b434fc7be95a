"""The subscriptions at a stage, and the sequencing groups of topics that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from weakref import WeakValueDictionary

import msgspec

from inorder.protocol.covering import Coverage
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import SpaceFilter
from inorder_worker.sequencer.bits import bit_set, members, shared_twice
from inorder_worker.sequencer.reader_classes import ReaderClass, ReaderClasses
from inorder_worker.sequencer.topic_manager import TopicManager

COVERAGES_KEPT = 64
"""Of how many sets of wildcards it is remembered which topics they cover."""


class Counts:
    """Counts tell how many sets each topic is in, of sets that come and go. Bit *t* of plane *p* is bit *p* of topic
    *t*'s count: a set is added to all counts at once, at a cost that does not grow with the number of sets."""

    __slots__ = ("_planes",)

    def __init__(self) -> None:
        self._planes: list[int] = []

    def change(self, before: int, now: int) -> None:
        """One set has become another."""
        if carry := now & ~before:
            for at, plane in enumerate(self._planes):
                self._planes[at], carry = plane ^ carry, plane & carry
            if carry:
                self._planes.append(carry)
        if borrow := before & ~now:
            for at, plane in enumerate(self._planes):
                self._planes[at], borrow = plane ^ borrow, ~plane & borrow
            while self._planes and not self._planes[-1]:
                self._planes.pop()

    @property
    def once(self) -> int:
        """Topics in any of the sets."""
        return self.twice | (self._planes[0] if self._planes else 0)

    @property
    def twice(self) -> int:
        """Topics in two or more of them."""
        found = 0
        for plane in self._planes[1:]:
            found |= plane
        return found


class Subscription(msgspec.Struct):
    """A stage's memory of one client's subscription (R7, R10, R11).

    Attributes:
        client_id, incarnation, version: the last change applied.
        filters: its filters, for topics created later (R13).
        bounded: the client may take events out of turn (R23).
        active: topics the client is subscribed to.
        plain: those whose stamps it can read in the payload only.
        lingering: dropped topics that still count (R10), with (incarnation, version) of the change that dropped them.
        durable: it stays, however long its client is away (R12).
        given: of a durable one whose client's session has ended: the last numbers of topics here at that time, which
            its application may have been notified of (R18).
        owner: whose it is, see the session.
        is_former: of an incarnation that another one has replaced; it may go on notifying while its lease lasts (R12),
            so what lingers of it has a reader still.
        answered: how the change was answered, encoded, if it is answered alike when it is asked for again (R11, R22).
        lets_go: its client understands the ends of topics.
    """

    client_id: str
    incarnation: int
    version: int
    filters: list[SpaceFilter]
    bounded: bool
    active: set[int]
    plain: set[int]
    lingering: dict[int, tuple[int, int]]
    durable: bool = False
    given: dict[int, int] = {}
    owner: str = ""
    is_former: bool = False
    answered: bytes = b""
    lets_go: bool = False

    def mask(self) -> int:
        """Return the topics that count for sequencing groups: active and lingering."""
        return bit_set(self.active) | bit_set(self.lingering)

    def read(self) -> int:
        """Return the topics that somebody may be notified of."""
        return self.mask() if self.is_former else bit_set(self.active)

    @property
    def has_wildcards(self) -> bool:
        """Topics created later may belong to it (R13)."""
        return any(each.filter.kind is not FilterKind.EXACT for each in self.filters)


def filter_bytes(filters: Iterable[SpaceFilter]) -> int:
    """Return how many bytes the texts of filters have."""
    return sum(len(each.space.encode()) + len(each.filter.text.encode()) for each in filters)


class Overlaps:
    """The subscriptions at a stage and the sequencing groups they make.

    SG(T) = the topics that share at least two subscriptions with T (DESIGN, "Vocabulary"). Each subscription has a
    place, and topics at the same places are a class. ``anyone`` holds all topics that somebody subscribes to,
    ``ticked`` the places of clients whose topics have ticks: those that take events out of turn, and durable ones.
    """

    def __init__(self) -> None:
        self.classes = ReaderClasses()
        self._subscriptions: dict[str, Subscription] = {}
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        # by place: its topics, those that are read, and those whose stamps can be read in the payload only
        self._had: list[int] = []
        self._read: list[int] = []
        self._plain: list[int] = []
        self._all, self._all_plain = Counts(), Counts()
        self.ticked = self._stays = 0
        self._names: Counter[tuple[str, str]] = Counter()
        self._kept: dict[str, tuple[int, int]] = {}
        self._coverage: dict[str, Coverage] = {}
        self._coverages = WeakValueDictionary[frozenset[tuple[str, Filter, bool]], Coverage]()
        self._found: dict[Coverage, tuple[int, int, int]] = {}
        self.anyone = 0

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def __len__(self) -> int:
        return len(self._subscriptions)

    def get(self, client_id: str) -> Subscription | None:
        """Return a client's subscription, or ``None``."""
        return self._subscriptions.get(client_id)

    def put(self, subscription: Subscription) -> None:
        """Store a new or changed subscription."""
        client_id = subscription.client_id
        before = self._subscriptions.get(client_id)
        if before is not None:
            self._count(before, -1)
        self._count(subscription, 1)
        coverage = self.coverage_of(subscription.filters)
        if coverage is None:
            self._coverage.pop(client_id, None)
        else:
            self._coverage[client_id] = coverage
        place, mask = self._place_of(client_id), subscription.mask()
        bit = 1 << place
        self.ticked = self.ticked | bit if subscription.bounded or subscription.durable else self.ticked & ~bit
        is_let_go = subscription.lets_go and not subscription.durable
        self._stays = self._stays & ~bit if is_let_go else self._stays | bit
        self._replace(place, mask, subscription.read(), bit_set(subscription.plain))
        if mask or subscription.filters:
            self._subscriptions[client_id] = subscription
        else:
            self._forget(client_id)

    def coverage_of(self, filters: Iterable[SpaceFilter]) -> Coverage | None:
        """Return the coverage of the filters with wildcards, ``None`` without any. Subscriptions that have the same
        ones share it."""
        wild = [each for each in filters if each.filter.kind is not FilterKind.EXACT]
        key = frozenset((each.space, each.filter, each.reads_properties) for each in wild)
        coverage = self._coverages.get(key)
        if coverage is None and key:
            coverage = self._coverages[key] = Coverage(wild)
        return coverage

    def covered(self, coverage: Coverage, topics: Mapping[int, TopicManager], last: int) -> tuple[set[int], set[int]]:
        """Return what :meth:`Coverage.of` finds among all topics, whose highest id is ``last``. What the latest ones
        were tried on is remembered: names never change, and who takes and leaves everything in turn tries them once."""
        through, found, plain = self._found.pop(coverage, (0, 0, 0))
        if through < last:
            latest = range(through + 1, last + 1)
            ids = latest if len(latest) <= len(topics) else sorted(topics)  # most of them have ended
            new = coverage.of(topics[each] for each in ids if each > through and each in topics)
            found, plain = found | bit_set(new[0]), plain | bit_set(new[1])
        self._found[coverage] = last, found, plain
        if len(self._found) > COVERAGES_KEPT:
            del self._found[next(iter(self._found))]
        return set(members(found)), set(members(plain))

    def with_wildcards(self) -> list[tuple[Subscription, Coverage]]:
        """Return the subscriptions to which later topics may belong, with their wildcards (R13)."""
        return [(self._subscriptions[client_id], coverage) for client_id, coverage in self._coverage.items()]

    def kept(self, owner: str) -> tuple[int, int]:
        """Return how many durable subscriptions an owner has, and the bytes of their filters."""
        return self._kept.get(owner, (0, 0))

    def _count(self, subscription: Subscription, by: int) -> None:
        for each in subscription.filters:
            if each.filter.kind is FilterKind.EXACT:
                name = each.space, each.filter.name
                self._names[name] += by
                if not self._names[name]:
                    del self._names[name]
        if subscription.durable and subscription.filters:
            count, size = self.kept(subscription.owner)
            now = count + by, size + by * filter_bytes(subscription.filters)
            if now[0]:
                self._kept[subscription.owner] = now
            else:
                del self._kept[subscription.owner]

    def gained(self, subscriptions: Collection[Subscription], topics: int, plain: int = 0) -> None:
        """Add new topics to stored subscriptions (bit sets), without a look at their other topics; ``plain``: the
        topics whose stamps they can read in the payload only."""
        places = mask = 0
        for each in subscriptions:
            place = self._place_of(each.client_id)
            places |= 1 << place
            mask |= self._had[place] | topics
            self._count_topics(place, self._had[place] | topics, self._plain[place] | plain)
            self._read[place] |= topics
        self.classes.toggle(places, topics, topics, mask)

    def had(self, subscription: Subscription) -> int:
        """Return the topics of a stored subscription that count for sequencing groups."""
        return self._had[self._place_of(subscription.client_id)]

    def lost(self, subscription: Subscription, topics: int) -> int:
        """Remove lingering topics (a bit set) from a subscription, without a look at the others; return those."""
        client_id = subscription.client_id
        place = self._place_of(client_id)
        mask = self._had[place] & ~topics
        self._replace(place, mask, self._read[place] & mask, self._plain[place] & mask)
        if not mask and not subscription.filters:
            self._forget(client_id)
        return mask

    def _forget(self, client_id: str) -> None:
        self._subscriptions.pop(client_id, None)
        self._free.append(self._places.pop(client_id))

    def _replace(self, place: int, mask: int, read: int, plain: int) -> None:
        had, was_read = self._had[place], self._read[place]
        self._count_topics(place, mask, plain)
        self._read[place] = read
        self.classes.toggle(1 << place, had ^ mask, was_read ^ read, mask)

    def _count_topics(self, place: int, mask: int, plain: int) -> None:
        self._all.change(self._had[place], mask)
        self._all_plain.change(self._plain[place], plain)
        self._had[place], self._plain[place] = mask, plain
        self.anyone = self._all.once

    def _place_of(self, client_id: str) -> int:
        """Return a subscription's place; it takes one where it has none."""
        if (place := self._places.get(client_id)) is None:
            if not self._free:
                self._free.append(len(self._had))
                for each in (self._had, self._read, self._plain):
                    each.append(0)
            place = self._places[client_id] = self._free.pop()
        return place

    # -- topics that end ---------------------------------------------------------------------------------------

    def lets_go(self, manager: TopicManager) -> bool:
        """Tell whether a topic may end for its readers. All must understand ends of topics, and none may have named it,
        may come back for it (R18) or lets it linger."""
        its = self.classes.of(manager.id)
        is_named = (manager.space, manager.name) in self._names
        return its.readers == its.active and not its.active & self._stays and not is_named

    def is_read_by(self, topic: int, clients: dict[str, None]) -> bool:
        """Tell whether nobody counts a topic but these clients, whose subscriptions have it. Those that have left it
        are taken out: any number of clients may come, read all of it and leave, while one other reader keeps it."""
        its, places = self.classes.of(topic), self._places
        if len(clients) < its.active.bit_count():
            return False
        known = 0
        for client_id in list(clients):
            place = places.get(client_id)
            if place is None or not its.active >> place & 1:
                del clients[client_id]
            else:
                known |= 1 << place
        return its.readers == its.active and not its.active & ~known

    def forget_topics(self, topics: set[int]) -> None:
        """Forget topics that have ended, also where a subscription has them."""
        gone = bit_set(topics)
        for subscription in self:
            subscription.active -= topics
            subscription.plain -= topics
        for place, had in enumerate(self._had):
            self._read[place] &= ~gone
            self._count_topics(place, had & ~gone, self._plain[place] & ~gone)
        self._found = {each: (last, found & ~gone, plain & ~gone) for each, (last, found, plain) in self._found.items()}
        self.classes.forget(topics)

    # -- sequencing groups -------------------------------------------------------------------------------------

    def shared_with(self, its: ReaderClass) -> tuple[int, int]:
        """Return (topics in some subscription with those of a class, their sequencing group), as bit sets."""
        return shared_twice(self._had[place] for place in members(its.readers))

    def group(self, topic: int) -> tuple[int, int]:
        """Return (topics in some subscription with ``topic``, its sequencing group), as bit sets without itself."""
        its = self.classes.of(topic)
        if not its.readers:  # many topics are nobody's, and each set has a bit for every one
            return 0, 0
        once, twice = self.shared_with(its)
        return once & ~(1 << topic), twice & ~(1 << topic)

    @property
    def plain(self) -> int:
        """Topics some subscriber of which can read stamps in the payload only, as a bit set."""
        return self._all_plain.once
