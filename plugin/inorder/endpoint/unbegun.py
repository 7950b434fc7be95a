"""A subscriber keeps events back that need the start of a topic, until a stage has told the start (R9, R13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inorder.endpoint.gaps import MAX_PASSED, NumberSet
from inorder.endpoint.outputs import OrderingTimes
from inorder.endpoint.waiting import Sequenced

MAX_FOREIGN = 200_000
"""Ids that are remembered as none of the subscription's: a forged stamp may name any. Of more all are forgotten, and
asked for again."""


class UnbegunTopic:
    """A subscriber's knowledge of one topic without a clock."""

    __slots__ = ("floor", "given_up", "head", "held", "is_awaited", "parked")

    def __init__(self) -> None:
        # Something waits to learn where the topic begins or what it is called, so workers are asked for that.
        self.is_awaited = False
        # Events of other topics that depend on this one, in the order in which they came to that.
        self.held: list[Sequenced] = []
        # Its own events in the order of their arrival; Unbegun.count and Unbegun.size have them, too.
        self.parked: list[Sequenced] = []
        # Its own events that found no room.
        self.given_up = NumberSet()
        # The highest number that a head told of, 0: none did (R17).
        self.head = 0
        # Events were forced that depend on numbers up to this one: the clock begins here at least (R6).
        self.floor = 0


class Unbegun:
    """The topics without a clock, and the rule whether one of them may belong to the subscription.

    Args:
        times: how much room there is for parked events.

    Attributes:
        topics: what is known of them, by id. A topic is in here or has a reader, never both for longer than a method
            of the ordering module takes.
        interrupted: the topics that had a clock and wait for a new start, with the number after the old clock (R12,
            R17).
        count, size: parked events of all topics, and the bytes of their payloads.
        holds: ids without a clock may belong to the subscription, unless they are ``foreign``.
        asks: no change is on its way that would tell, so workers are asked for the names of such ids (R13).
        unasked: the awaited topics whose names nobody was asked for, or in vain; the oldest first.
    """

    def __init__(self, times: OrderingTimes) -> None:
        self._times = times
        self.topics: dict[int, UnbegunTopic] = {}
        self.interrupted: dict[int, int] = {}
        self.count = 0
        self.size = 0
        self.holds = False
        self.asks = False
        self.unasked: dict[int, None] = {}
        self._foreign: set[int] = set()
        self._over: set[int] = set()

    @property
    def is_awaited(self) -> bool:
        """Tell whether an event waits for a topic's start or name."""
        return any(each.is_awaited for each in self.topics.values())

    @property
    def held(self) -> dict[int, list[Sequenced]]:
        """The events that wait for another topic's start or name, by that topic."""
        return {topic: each.held for topic, each in self.topics.items() if each.held}

    @property
    def parked(self) -> list[Sequenced]:
        """All parked events."""
        return [entry for each in self.topics.values() for entry in each.parked]

    def is_held(self, topic: int) -> bool:
        """Tell whether a topic without a clock holds events up: one that is being subscribed does (R9), and so does one
        that is not named yet (R13)."""
        return self.holds and topic not in self._foreign and topic not in self._over

    def is_over(self, topic: int) -> bool:
        """Tell whether no worker knows the topic: it has ended before the subscription had it."""
        return topic in self._over

    def unnamed(self) -> list[int]:
        """Return the ids that workers are to be asked for."""
        return list(self.unasked) if self.asks else []

    def asked(self, topics: Iterable[int]) -> None:
        """Workers are being asked for these names."""
        for topic in topics:
            self.unasked.pop(topic, None)

    def unanswered(self, topics: Iterable[int]) -> None:
        """Take note that nobody answers for these names any more; the awaited ones are to be asked for again."""
        for topic in topics:
            if (unbegun := self.topics.get(topic)) is not None and unbegun.is_awaited:
                self.unasked[topic] = None

    # -- what is learned meanwhile -----------------------------------------------------------------------------

    def hold(self, topic: int, entry: Sequenced) -> None:
        """Hold an event that depends on the topic."""
        self._awaited(topic).held.append(entry)

    def park(self, entry: Sequenced) -> bool:
        """Keep an event of an unbegun topic; return whether there was room. Where there is none it is given up."""
        times = self._times
        if self.count >= times.max_waiting or self.size + entry.size > times.max_waiting_bytes:
            given_up = self._topic(entry.topic).given_up
            given_up.add(entry.number)
            given_up.keep(MAX_PASSED)
            return False
        self.keep(entry.topic, [entry])
        return True

    def keep(self, topic: int, entries: Iterable[Sequenced]) -> None:
        """Park events behind the topic's others, without a limit; from now on the topic's start is awaited."""
        parked = self._awaited(topic).parked
        for entry in entries:
            parked.append(entry)
            self.count += 1
            self.size += entry.size

    def take_head(self, topic: int, number: int) -> None:
        """A worker told a confirmed number of the topic."""
        awaited = self._awaited(topic)
        awaited.head = max(number, awaited.head)

    def raise_floor(self, topic: int, number: int) -> None:
        """An event was forced that depends on this number (R6)."""
        unbegun = self._topic(topic)
        unbegun.floor = max(number, unbegun.floor)

    def _topic(self, topic: int) -> UnbegunTopic:
        unbegun = self.topics.get(topic)
        if unbegun is None:
            unbegun = self.topics[topic] = UnbegunTopic()
        return unbegun

    def _awaited(self, topic: int) -> UnbegunTopic:
        unbegun = self._topic(topic)
        if not unbegun.is_awaited:
            unbegun.is_awaited = True
            self.unasked[topic] = None
        return unbegun

    # -- how that ends -----------------------------------------------------------------------------------------

    def subscribing(self) -> None:
        """A change of the subscription is on its way: each topic without a clock may be part of it (R9)."""
        self.holds, self.asks = True, False
        self._foreign.clear()

    def subscribed(self, *, filters: bool) -> None:
        """The change is complete. With ``filters``, topics that have no name yet may still belong to it (R13)."""
        self.holds = self.asks = filters

    def decided(self, begun: Mapping[int, Any]) -> list[int]:
        """Return the topics that need not be waited for: each has ``begun``, or holds nothing up any more."""
        return sorted(topic for topic in self.topics if topic in begun or not self.is_held(topic))

    def begun(self, topic: int) -> UnbegunTopic | None:
        """Return what is known of a topic that begins now. What waits for it stays until :meth:`leave`."""
        self._foreign.discard(topic)
        return self.topics.get(topic)

    def foreign(self, topic: int) -> None:
        """The topic is none of the subscription's."""
        _add(self._foreign, topic)

    def over(self, topic: int) -> None:
        """No worker knows the topic."""
        _add(self._over, topic)

    def left(self, topic: int) -> None:
        """The topic was unsubscribed. An outstanding change may have it again; otherwise it is foreign."""
        if self.asks or not self.holds:
            self._foreign.add(topic)
        self.interrupted.pop(topic, None)

    def leave(self, topic: int) -> UnbegunTopic:
        """Return and forget all that is known of the topic."""
        unbegun = self.topics.pop(topic, None)
        self.unasked.pop(topic, None)
        if unbegun is None:
            return UnbegunTopic()
        self.count -= len(unbegun.parked)
        self.size -= sum(each.size for each in unbegun.parked)
        return unbegun

    def clear(self) -> None:
        """Forget all topics; the rule stays."""
        self.topics.clear()
        self.unasked.clear()
        self.interrupted.clear()
        self._foreign.clear()
        self._over.clear()
        self.count = self.size = 0

    def describe(self) -> dict[str, Any]:
        """Return everything that is known, in plain containers."""
        topics = {
            topic: {
                "is_awaited": each.is_awaited,
                "held": list(each.held),
                "parked": list(each.parked),
                "given_up": each.given_up.describe(),
                "head": each.head,
                "floor": each.floor,
            }
            for topic, each in self.topics.items()
        }
        return {
            "topics": topics,
            "interrupted": dict(self.interrupted),
            "parked": (self.count, self.size),
            "holds": self.holds,
            "asks": self.asks,
            "foreign": set(self._foreign),
            "over": set(self._over),
        }


def _add(topics: set[int], topic: int) -> None:
    if len(topics) >= MAX_FOREIGN:
        topics.clear()
    topics.add(topic)
