"""Which topics need each other's numbers: subscriptions as bit sets, sequencing groups from them.

A set of topics is an ``int`` whose bit *t* stands for topic id *t*. Ids are dense, so a subscription to ten
thousand topics is 1,250 bytes, and the sequencing group of a topic is two big-integer operations per subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from inorder.core.wire import SpaceFilter


def bit_set(topics: Iterable[int]) -> int:
    """Return the bit set of these topics."""
    bits = 0
    for topic in topics:
        bits |= 1 << topic
    return bits


def members(bits: int) -> Iterator[int]:
    """Yield the topics of a bit set, lowest id first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


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

    def mask(self) -> int:
        """Return the topics that count for sequencing groups: active and lingering."""
        return bit_set(self.active) | bit_set(self.lingering)

    def covering(self, space: str, name: str) -> list[SpaceFilter]:
        """Return the filters that cover a topic."""
        return [each for each in self.filters if each.space == space and each.filter.covers(name)]


class Group:
    """A topic's sequencing group as a stage needs it; bit sets, because a group may hold every topic there is.

    Attributes:
        fills: topics to fill here: members on this stage and, at the topic's home, on those below.
        above: members on stages above; filled on the way up.
        company: topics that share at least one subscription with it (a publisher-order dependency on any other
            topic concerns no one, R19).
        top: the highest stage with a member; the timestamp is complete there.
        gained: members that joined since the last timestamp; carried once although they may not have risen (R21).
        strangers: all topics but the members and the topic itself.
        neighbours: those of them in its company.
    """

    __slots__ = ("above", "company", "fills", "gained", "neighbours", "strangers", "top")

    def __init__(self, topic: int, fills: int, above: int, company: int, top: int, gained: int) -> None:
        self.fills, self.above, self.company, self.top, self.gained = fills, above, company, top, gained
        self.strangers = ~(fills | above | 1 << topic)
        self.neighbours = company & self.strangers


class Overlaps:
    """The subscriptions at a stage and the sequencing groups they make.

    SG(T) = the topics that share at least two subscriptions with T (DESIGN section 1). Groups are computed when
    a topic is next stamped after a change: ``stale`` holds the topics that changed. ``anyone`` holds all topics that
    somebody subscribes to.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._masks: dict[str, int] = {}
        self.stale = 0
        self.anyone = 0

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def get(self, client_id: str) -> Subscription | None:
        """Return a client's subscription, or ``None``."""
        return self._subscriptions.get(client_id)

    def put(self, subscription: Subscription) -> None:
        """Store a new or changed subscription; groups of all its topics, old and new, become stale."""
        client_id = subscription.client_id
        mask = subscription.mask()
        self.stale |= mask | self._masks.get(client_id, 0)
        if mask or subscription.filters:
            self._subscriptions[client_id] = subscription
            self._masks[client_id] = mask
        else:
            self._subscriptions.pop(client_id, None)
            self._masks.pop(client_id, None)
        self.anyone, _ = shared_twice(self._masks.values())

    def group(self, topic: int) -> tuple[int, int]:
        """Return (topics in some subscription with ``topic``, its sequencing group), as bit sets without itself."""
        bit = 1 << topic
        once, twice = shared_twice(mask for mask in self._masks.values() if mask & bit)
        return once & ~bit, twice & ~bit

    def has_bounded(self, topic: int) -> bool:
        """Tell whether a subscription that may take events out of turn contains the topic (R21)."""
        bit = 1 << topic
        return any(self._masks[each.client_id] & bit for each in self if each.bounded)

    def has_plain(self, topic: int) -> bool:
        """Tell whether some subscriber can read this topic's stamps in the payload only."""
        return any(topic in each.plain for each in self)
