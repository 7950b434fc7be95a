"""Which topics need each other's numbers: subscriptions as bit sets, sequencing groups from them.

A set of topics is an ``int`` whose bit *t* stands for topic id *t*. Ids are dense, so a subscription to ten
thousand topics is 1,250 bytes, and the sequencing group of a topic is two big-integer operations per subscription.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

import msgspec

from inorder.protocol.covering import Coverage
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import SpaceFilter

_FEW = 8
"""Up to so many topics, arithmetic with the whole set is quicker than going through its words."""
_WORD = 64


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


class Subscription(msgspec.Struct):
    """What a stage remembers of one client's subscription (R7, R10, R11).

    Attributes:
        client_id, incarnation, version: the last change applied.
        filters: its filters, for topics created later (R13).
        bounded: the client may take events out of turn, so timestamps stay full for it (R21).
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
    """

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._masks: dict[str, int] = {}
        self._bounded: dict[str, int] = {}
        self._plain: dict[str, set[int]] = {}
        self._kept: dict[str, tuple[int, int]] = {}
        self._coverage: dict[str, Coverage] = {}
        self._coverages = WeakValueDictionary[frozenset[tuple[str, Filter, bool]], Coverage]()
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
        self._put(subscription, subscription.mask())

    def coverage_of(self, filters: Iterable[SpaceFilter]) -> Coverage | None:
        """Return what those filters that have wildcards cover, ``None`` without any. Subscriptions that have the same
        ones share it."""
        wild = [each for each in filters if each.filter.kind is not FilterKind.EXACT]
        key = frozenset((each.space, each.filter, each.reads_properties) for each in wild)
        coverage = self._coverages.get(key)
        if coverage is None and key:
            coverage = self._coverages[key] = Coverage(wild)
        return coverage

    def with_wildcards(self) -> list[tuple[Subscription, Coverage]]:
        """Return the subscriptions that topics which are created later may belong to, and by what (R13)."""
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

    def gained(self, subscription: Subscription, topics: int) -> None:
        """Note that a stored subscription has got these topics (a bit set): what it has beside is not gone through."""
        self._put(subscription, self._masks.get(subscription.client_id, 0) | topics)

    def lost(self, subscription: Subscription, topic: int) -> None:
        """Note that a topic does not count in a stored subscription any more."""
        self._put(subscription, self._masks.get(subscription.client_id, 0) & ~(1 << topic))

    def _put(self, subscription: Subscription, mask: int) -> None:
        client_id = subscription.client_id
        before = self._masks.get(client_id, 0)
        self.stale |= mask | before
        self._bounded.pop(client_id, None)
        self._plain.pop(client_id, None)
        if mask or subscription.filters:
            self._subscriptions[client_id] = subscription
            self._masks[client_id] = mask
            if subscription.bounded:
                self._bounded[client_id] = mask
            if subscription.plain:
                self._plain[client_id] = subscription.plain
        else:
            self._subscriptions.pop(client_id, None)
            self._masks.pop(client_id, None)
        self.anyone |= mask
        if gone := before & ~mask:
            self.anyone &= ~gone
            for each in self._masks.values():
                self.anyone |= each & gone

    def group(self, topic: int) -> tuple[int, int]:
        """Return (topics in some subscription with ``topic``, its sequencing group), as bit sets without itself."""
        bit = 1 << topic
        once, twice = shared_twice(mask for mask in self._masks.values() if mask & bit)
        return once & ~bit, twice & ~bit

    def has_bounded(self, topic: int) -> bool:
        """Tell whether a subscription that may take events out of turn contains the topic (R21)."""
        bit = 1 << topic
        return any(mask & bit for mask in self._bounded.values())

    def has_plain(self, topic: int) -> bool:
        """Tell whether some subscriber can read this topic's stamps in the payload only."""
        return any(topic in each for each in self._plain.values())
