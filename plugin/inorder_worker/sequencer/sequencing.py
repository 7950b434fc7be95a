"""Subscriptions as bit sets, and the sequencing groups of topics that follow from them.

A set of topics is an ``int`` whose bit *t* stands for topic id *t*. Ids are dense, so a subscription to ten
thousand topics is 1,250 bytes, and the sequencing group of a topic is two big-integer operations per subscription.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec

from inorder.protocol.covering import Coverage
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import SpaceFilter
from inorder_worker.sequencer.topic_manager import TopicManager

COVERAGES_KEPT = 64
"""Of how many sets of wildcards it is remembered which topics they cover."""
_FEW = 8
"""Up to so many topics, arithmetic with the whole set is quicker than going through its words."""
_WORD = 64
_SPARSE = 4
"""With fewer bits than one in so many, one after the other is quicker than all at once."""


def bit_set(topics: Collection[int]) -> int:
    """Return the bit set of these topics."""
    if len(topics) <= _FEW:
        bits = 0
        for topic in topics:
            bits |= 1 << topic
        return bits
    # each step of the above costs as much as the set is wide
    parts = bytearray((max(topics) >> 3) + 1)
    for topic in topics:
        parts[topic >> 3] |= 1 << (topic & 7)
    return int.from_bytes(parts, "little")


def members(bits: int) -> Iterator[int]:
    """Yield the topics of a bit set, lowest id first."""
    start = 0
    for word in _words(bits):
        while word:
            lowest = word & -word
            yield start + lowest.bit_length() - 1
            word ^= lowest
        start += _WORD


def _words(bits: int) -> Sequence[int]:
    """Return what to take the members from, ``_WORD`` bits each: all at once where they are few."""
    if bits.bit_count() <= _FEW:
        return (bits,)
    count = -(-bits.bit_length() // _WORD)
    return struct.unpack(f"<{count}Q", bits.to_bytes(count * _WORD // 8, "little"))


def shared_twice(masks: Iterable[int]) -> tuple[int, int]:
    """Return (the topics in any of the masks, the topics in at least two of them)."""
    once = twice = 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return once, twice


def add_all_to(bits: bytearray, topics: int) -> None:
    """Add the topics of a bit set to one that is kept as bytes."""
    bits[:] = packed(int.from_bytes(bits, "little") | topics)


def packed(bits: int) -> bytearray:
    """Return a bit set as bytes."""
    return bytearray(bits.to_bytes((bits.bit_length() + 7) // 8, "little"))


def turned(sets: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Transpose bit sets by topic: yield each member of any of them, with the bit set of its topics."""
    width = max((each.bit_length() for each in sets.values()), default=0)
    if sum(each.bit_count() for each in sets.values()) < width // _SPARSE:
        found: dict[int, int] = {}
        for topic, its in sets.items():
            for other in members(its):
                found[other] = found.get(other, 0) | 1 << topic
        yield from found.items()
        return
    # a byte for each member and eight topics: as digits of a text the bits stand that far apart
    topics, ones = list(sets), int.from_bytes(b"\1" * width, "big")
    rows = [topics[at : at + 8] for at in range(0, len(topics), 8)]
    columns = []
    for row in rows:
        column = 0
        for bit, topic in enumerate(row):
            column |= (int.from_bytes(f"{sets[topic]:0{width}b}".encode(), "big") & ones) << bit
        columns.append(column.to_bytes(width, "little"))
    known: dict[tuple[int, int], int] = {}
    for other, key in enumerate(zip(*columns, strict=True)):
        its = 0
        for at, value in enumerate(key):
            if value:
                if (some := known.get((at, value))) is None:
                    some = known[at, value] = sum(1 << topic for bit, topic in enumerate(rows[at]) if value >> bit & 1)
                its |= some
        if its:
            yield other, its


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
        bounded: the client may take events out of turn, so it needs ticks (R23).
        active: topics the client is subscribed to.
        plain: those whose stamps it can read in the payload only.
        lingering: dropped topics that still count (R10), with (incarnation, version) of the change that dropped them.
        durable: it stays, however long its client is away (R12).
        given: of a durable one whose client's session has ended: the last numbers of topics here at that time, which
            its application may have been notified of (R18).
        owner: whose it is, see the session.
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

    def mask(self) -> int:
        """Return the topics that count for sequencing groups: active and lingering."""
        return bit_set(self.active) | bit_set(self.lingering)

    @property
    def has_wildcards(self) -> bool:
        """Topics created later may belong to it (R13)."""
        return any(each.filter.kind is not FilterKind.EXACT for each in self.filters)


def filter_bytes(filters: Iterable[SpaceFilter]) -> int:
    """Return how many bytes the texts of filters have."""
    return sum(len(each.space.encode()) + len(each.filter.text.encode()) for each in filters)


class Group:
    """A topic's sequencing group as a stage needs it; bit sets, because a group may hold every topic there is.

    Attributes:
        fills: topics to fill here: members on this stage and, at the topic's home, on those below.
        above: members on stages above; filled on the way up.
        co_subscribed: topics that share at least one subscription with it (a publisher-order dependency on any other
            topic concerns no one, R19).
        top: the highest stage with a member; the timestamp is complete there.
        gained: members that joined since the last timestamp; carried once although they may not have risen (R21).
        outside: all topics but the members and the topic itself.
        neighbours: those of them that are co-subscribed.
    """

    __slots__ = ("above", "co_subscribed", "fills", "gained", "neighbours", "outside", "top")

    def __init__(self, topic: int, fills: int, above: int, co_subscribed: int, top: int, gained: int) -> None:
        self.fills, self.above, self.co_subscribed, self.top, self.gained = fills, above, co_subscribed, top, gained
        self.outside = ~(fills | above | 1 << topic)
        self.neighbours = co_subscribed & self.outside


class Overlaps:
    """The subscriptions at a stage and the sequencing groups they make.

    SG(T) = the topics that share at least two subscriptions with T (DESIGN, "Vocabulary"). Groups are computed when
    a topic is next stamped after a change: ``stale`` holds the topics that changed. ``anyone`` holds all topics that
    somebody subscribes to.

    What a change, or a topic's group, costs is bounded by the topics of that subscription and by the subscriptions that
    have that topic: each has a place, and each topic the bit set of the places that have it.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._masks: dict[str, int] = {}
        self._bounded_masks: dict[str, int] = {}
        self._plain_masks: dict[str, int] = {}
        self._all, self._bounded, self._plain = Counts(), Counts(), Counts()
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._mask_at: list[int] = []
        self._readers: dict[int, int] = {}
        self._kept: dict[str, tuple[int, int]] = {}
        self._coverage: dict[str, Coverage] = {}
        self._coverages = WeakValueDictionary[frozenset[tuple[str, Filter, bool]], Coverage]()
        self._found: dict[Coverage, tuple[int, int, int]] = {}
        self.stale = 0
        self.anyone = 0

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def get(self, client_id: str) -> Subscription | None:
        """Return a client's subscription, or ``None``."""
        return self._subscriptions.get(client_id)

    def put(self, subscription: Subscription) -> None:
        """Store a new or changed subscription; groups of all its topics, old and new, become stale."""
        before = self._subscriptions.get(subscription.client_id)
        if before is not None:
            self._count(before, -1)
        self._count(subscription, 1)
        coverage = self.coverage_of(subscription.filters)
        if coverage is None:
            self._coverage.pop(subscription.client_id, None)
        else:
            self._coverage[subscription.client_id] = coverage
        mask = subscription.mask()
        self._tell_topics(subscription.client_id, self._mask_of(subscription.client_id) ^ mask)
        self._put(subscription, mask, bit_set(subscription.plain))

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
            new = coverage.of(topics[each] for each in range(through + 1, last + 1) if each in topics)
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
        if subscription.durable and subscription.filters:
            count, size = self.kept(subscription.owner)
            now = count + by, size + by * filter_bytes(subscription.filters)
            if now[0]:
                self._kept[subscription.owner] = now
            else:
                del self._kept[subscription.owner]

    def gained(self, subscriptions: Collection[Subscription], topics: int, plain: int = 0) -> None:
        """Add topics to stored subscriptions (bit sets), without a look at their other topics; ``plain``: the topics
        whose stamps they can read in the payload only."""
        places = 0
        for each in subscriptions:
            mask, before = self._mask_of(each.client_id), self._plain_masks.get(each.client_id, 0)
            places |= 1 << self._place_of(each.client_id)
            self._put(each, mask | topics, before | plain)
        for topic in members(topics):
            self._readers[topic] = self._readers.get(topic, 0) | places

    def lost(self, subscription: Subscription, topic: int) -> int:
        """Remove a topic from a stored subscription; return the topics that leave its group."""
        client_id, bit = subscription.client_id, 1 << topic
        mask = self._mask_of(client_id) & ~bit
        left = self._shared_once(topic, mask & self._all.twice, self._places.get(client_id, -1))
        self._tell_topics(client_id, self._mask_of(client_id) & bit)
        self._put(subscription, mask, self._plain_masks.get(client_id, 0))
        return left

    def _shared_once(self, topic: int, among: int, without: int) -> int:
        """Return those of some topics that just one subscription has together with ``topic``, one place left aside."""
        once = twice = 0
        for place in members(self._readers.get(topic, 0)) if among else ():
            if place != without:
                both = self._mask_at[place] & among
                twice |= once & both
                once |= both
                if twice == among:
                    break
        return once & ~twice

    def count_of(self, topic: int) -> int:
        """Return how many subscriptions have a topic, active or lingering: so many are looked at for its group."""
        return self._readers.get(topic, 0).bit_count()

    def _mask_of(self, client_id: str) -> int:
        return self._masks.get(client_id, 0)

    def _put(self, subscription: Subscription, mask: int, plain: int) -> None:
        client_id = subscription.client_id
        before = self._mask_of(client_id)
        self.stale |= mask | before
        if mask:
            self._mask_at[self._place_of(client_id)] = mask
        elif (place := self._places.pop(client_id, None)) is not None:
            self._free.append(place)
        _replace(self._bounded_masks, self._bounded, client_id, mask if subscription.bounded else 0)
        _replace(self._plain_masks, self._plain, client_id, plain)
        if mask or subscription.filters:
            self._subscriptions[client_id] = subscription
        else:
            self._subscriptions.pop(client_id, None)
        _replace(self._masks, self._all, client_id, mask)
        self.anyone = self._all.once

    def _place_of(self, client_id: str) -> int:
        """Return a subscription's place; it takes one where it has none."""
        if (place := self._places.get(client_id)) is None:
            if not self._free:
                self._free.append(len(self._mask_at))
                self._mask_at.append(0)
            place = self._places[client_id] = self._free.pop()
        return place

    def _tell_topics(self, client_id: str, changed: int) -> None:
        """A subscription gets or loses each of these topics."""
        readers, bit = self._readers, 1 << self._place_of(client_id) if changed else 0
        for topic in members(changed):
            now = readers.get(topic, 0) ^ bit
            if now:
                readers[topic] = now
            else:
                del readers[topic]

    def group(self, topic: int) -> tuple[int, int]:
        """Return (topics in some subscription with ``topic``, its sequencing group), as bit sets without itself."""
        readers = self._readers.get(topic, 0)
        if not readers:  # many topics are nobody's, and each set has a bit for every one
            return 0, 0
        bit = 1 << topic
        once, twice = shared_twice(self._mask_at[place] for place in members(readers))
        return once & ~bit, twice & ~bit

    def has_bounded(self, topic: int) -> bool:
        """Tell whether a subscription that may take events out of turn contains the topic (R23)."""
        return bool(self._bounded.once >> topic & 1)

    def has_plain(self, topic: int) -> bool:
        """Tell whether some subscriber can read this topic's stamps in the payload only."""
        return bool(self._plain.once >> topic & 1)


def _replace(masks: dict[str, int], counts: Counts, client_id: str, mask: int) -> None:
    counts.change(masks.get(client_id, 0), mask)
    if mask:
        masks[client_id] = mask
    else:
        masks.pop(client_id, None)
