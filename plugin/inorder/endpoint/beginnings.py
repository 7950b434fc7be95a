"""Beginnings and ends of topics: a subscriber's side of R7 to R9, R11 to R13."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from math import inf

from inorder.endpoint.barriers import CaughtUp
from inorder.endpoint.merging import Merge
from inorder.endpoint.notifications import GapReason
from inorder.endpoint.outputs import GapFound
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.suspicion import Suspicion, again, is_leap
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.pairs import flat, joined, pairs, raise_to
from inorder.protocol.wire import SharedBase, TopicStart


class Beginnings:
    """Gives topics their clocks and takes them away (R7-R9, R11-R13).

    Args:
        broker_of: returns the broker of a topic's space.
    """

    def __init__(self, turns: Turns, suspicion: Suspicion, broker_of: Callable[[int], CaughtUp]) -> None:
        self._turns, self._suspicion, self._broker_of = turns, suspicion, broker_of
        self._unbegun = turns.unbegun
        # Another domain has begun, and where its topics begin is not known yet.
        self.is_restored = False

    # -- topics that begin -------------------------------------------------------------------------------------

    def subscribed(
        self, starts: Iterable[TopicStart], now: float, *, filters: bool, bases: Iterable[SharedBase] = ()
    ) -> None:
        """The subscription is complete (R7); clocks are taken only for topics that are new here (R8)."""
        starts = list(starts)
        begun = {start.topic.id: start.start for start in starts}
        shared = {
            topic: unmet for each in bases if (unmet := self._unmet(each.numbers, begun)) for topic in each.topics
        }
        resumed: dict[int, int] = {}
        if not self._turns.readers.keys() - self._turns.left:  # else the client had them all the time, and asks again
            resumed = {start.topic.id: start.reached for start in starts if start.saved >= 0}
        for start in starts:
            self._begin(start, shared.get(start.topic.id, []), now)
        self._report_ended(begun)
        if resumed:
            self._merge(resumed)
        self._unbegun.subscribed(filters=filters)
        self._receive_parked(self._unbegun.decided(self._turns.readers), now)
        self.is_restored = False

    def _report_ended(self, begun: Mapping[int, int]) -> None:
        """Topics that were to begin anew have ended meanwhile. How far they went nobody knows any more; what has come
        since has no place in any order, and is in the gap."""
        unbegun = self._unbegun
        for topic in sorted(unbegun.interrupted.keys() - begun.keys()):
            first, known = unbegun.interrupted.pop(topic), unbegun.topics.get(topic)
            last = max((each.number for each in known.parked), default=first) if known is not None else first
            self._turns.out.append(GapFound(topic, first, max(first, last), GapReason.EXPIRED))
            unbegun.over(topic)

    def _merge(self, ends: Mapping[int, int]) -> None:
        """Numbers of resumed topics up to the given ones are old (R18)."""
        turns = self._turns
        if turns.merging is None:
            turns.merging = Merge(turns.readers, turns.room, turns.unbegun, turns.give)
            turns.room.changed = turns.merging.moved
        turns.merging.begin(ends)

    def named(
        self, mine: Iterable[int], foreign: Iterable[int], left: Iterable[int], over: Iterable[int], now: float
    ) -> None:
        """Take the names of unknown topics: those of this subscription are younger than it and begin at 0 (R13). So do
        those of a subscription that was ``left`` meanwhile, which are only read on (R22). Those that no worker knows
        are ``over``: they have ended."""
        decided: list[int] = []
        self._turns.left.update(left)
        for topic in (*mine, *left):
            if topic not in self._turns.readers:
                self._take_clock(topic, 0, [], now)
                self._learn_head(topic, now)
            decided.append(topic)
        for topic in foreign:
            self._unbegun.foreign(topic)
            decided.append(topic)
        for topic in over:
            self._unbegun.over(topic)
            decided.append(topic)
        self._receive_parked(decided, now)

    def _receive_parked(self, topics: Iterable[int], now: float) -> None:
        """Receive the parked events of topics whose beginning is now known, or which are foreign."""
        turns = self._turns
        decided = [self._unbegun.leave(topic) for topic in topics]
        turns.run(deque(entry for each in decided for entry in each.held), now)
        for entry in [entry for each in decided for entry in each.parked]:
            reader = turns.readers.get(entry.topic)
            if self.is_restored and reader is None:
                turns.unsequence(entry)
            else:
                turns.receive(entry, now)

    def _unmet(self, numbers: list[int], begun: Mapping[int, int]) -> list[int]:
        """Return those of some numbers (flat pairs) that the clocks have not reached, nor have where topics begin."""
        readers = self._turns.readers
        return joined(
            (topic, number)
            for topic, number in pairs(numbers)
            if number > (begun.get(topic, -1) if (reader := readers.get(topic)) is None else reader.clock)
        )

    def _begin(self, start: TopicStart, shared: list[int], now: float) -> None:
        turns, topic = self._turns, start.topic.id
        if topic in turns.readers:
            return
        number, base = start.start, _merged(start.base + shared) if start.base else shared
        first = self._unbegun.interrupted.pop(topic, None)
        if first is None and start.saved >= 0:
            first = start.saved + 1
        if first is not None and first <= number:
            turns.out.append(GapFound(topic, first, number, GapReason.EXPIRED))
        elif first is not None and first - 1 > number:  # R18: saved was less than we have notified of
            number, base = first - 1, []
        reader = self._take_clock(topic, number, base, now)
        if self.is_restored and number:
            reader.restored.add(1, number)
        if start.reached > reader.clock:  # what is missing was missed long ago: it is asked for at once
            self._learn_late(reader, start.reached, now - turns.times.gap_timeout)
            reader.missing.vouch(start.reached)
        self._learn_head(topic, now)

    def _take_clock(self, topic: int, number: int, base: list[int], now: float) -> TopicReader:
        known = self._unbegun.begun(topic)
        reader = TopicReader(topic, number, self._broker_of(topic), base)
        if known is not None:
            reader.given_up = known.given_up
        self._turns.begin(reader)
        if known is not None:
            self._rise_to_floor(reader, known.floor, now)
        return reader

    def _rise_to_floor(self, reader: TopicReader, floor: int, now: float) -> None:
        """R6: events that depend on numbers up to the floor were let go while nobody knew where the topic begins."""
        if not is_leap(reader, floor):  # a forged one: no topic gets that far while its start is on its way
            self._turns.jump(reader, floor, now)

    def _learn_late(self, reader: TopicReader, number: int, since: float) -> None:
        """Take note of a number that counts as known since then (s), and is asked for accordingly."""
        self._turns.learn(reader, number, since)
        self._turns.agenda.note(reader)

    def _learn_head(self, topic: int, now: float) -> None:
        """Mark numbers as missing that a head, or a given-up number, told before the topic's clock was known."""
        if (known := self._unbegun.topics.get(topic)) is not None:
            reader = self._turns.readers[topic]
            self._turns.learn(reader, reader.given_up.highest, now)
            self._turns.take_head(reader, known.head, now)

    # -- topics that end ---------------------------------------------------------------------------------------

    def unsubscribed(self, topics: Iterable[int], now: float) -> None:
        """Topics are dropped at once, with what waits in them; the rest is looked at again (R11)."""
        topics = list(topics)
        awake = self._turns.end(topics)
        for topic in topics:
            self._unbegun.left(topic)
            awake.extend(self._unbegun.leave(topic).held)
        self._turns.run(awake, now)
        self._suspicion.settle(set(), now)

    def ended(self, topics: Iterable[int], now: float) -> None:
        """Topics have ended, and are read; all that waits for them may go."""
        turns, awake = self._turns, deque[Sequenced]()
        for topic in topics:
            awake.extend(turns.let_go(topic) if topic in turns.left else turns.end([topic]))
            self._unbegun.interrupted.pop(topic, None)
            awake.extend(self._unbegun.leave(topic).held)
        turns.run(awake, now)

    def leave(self, topics: Iterable[int], now: float) -> None:
        """Topics are left: they are read on until it is known how far (R22). Those that have not begun end."""
        turns, unbegun = self._turns, list[int]()
        for topic in topics:
            reader = turns.readers.get(topic)
            if reader is None:
                unbegun.append(topic)
            else:
                if turns.watcher is not None:
                    turns.watcher.ended(topic, reader.clock)
                turns.left.add(topic)
        self.unsubscribed(unbegun, now)

    def read_through(self, ends: Mapping[int, int], since: float, now: float) -> None:
        """Read the topics left last up to these numbers (R22), which are known ``since`` then. A topic that is read so
        far, or has no number here, is let go."""
        turns, awake = self._turns, deque[Sequenced]()
        for topic in sorted(turns.left):
            reader, number = turns.readers[topic], ends.get(topic, 0)
            if reader.end is not None:
                continue  # an earlier change left it
            if reader.clock >= number:
                awake.extend(turns.let_go(topic))
            else:
                reader.end = number
                self._learn_late(reader, number, since)
                reader.missing.vouch(number)
        turns.run(awake, now)

    def drop_left(self, now: float) -> None:
        """Let go of all topics that were left."""
        turns = self._turns
        turns.run(deque(entry for topic in sorted(turns.left) for entry in turns.let_go(topic)), now)

    def expired(self, topics: Iterable[int], now: float) -> None:
        """Topics are to begin anew (R12, R17): each gets one gap from the number after its clock to its new start. What
        waits in them is parked until then, and dropped up to the start."""
        turns, unbegun = self._turns, self._unbegun
        readers = [reader for topic in topics if (reader := turns.readers.get(topic)) is not None]
        left = [reader.topic for reader in readers if reader.topic in turns.left]
        readers = [reader for reader in readers if reader.topic not in turns.left]
        if readers:
            unbegun.subscribing()
        for reader in readers:
            unbegun.interrupted[reader.topic] = reader.unreported
            waiting = [each for each in turns.room.topic(reader.topic).values() if not each.is_hole]
            unbegun.keep(reader.topic, map(again, waiting))
            turns.skip(reader, reader.jumped.overdue(inf))
        topics = [reader.topic for reader in readers]
        for entry in self._suspicion.take_of(set(topics)):
            unbegun.keep(entry.topic, [entry])
        awake = turns.end(topics)
        turns.on_hold = [each for each in turns.on_hold if not each.done]
        awake.extend(entry for topic in left for entry in turns.let_go(topic))
        turns.run(awake, now)

    def other_domain(self) -> None:
        """All topics end, each with one gap; what waits goes out without an order, as it arrived. So does the
        first copy of what the new domain numbered before the new starts, whenever it arrives: the broker had the
        subscription all the time."""
        turns = self._turns
        for reader in turns.jumping.values():
            turns.skip(reader, reader.jumped.overdue(inf))
        for topic, reader in turns.readers.items():
            if turns.watcher is not None:
                turns.watcher.ended(topic, reader.clock)
            first = reader.unreported
            turns.out.append(GapFound(topic, first, max(first, reader.missing.known), GapReason.RESTORED))
        for topic, first in self._unbegun.interrupted.items():
            turns.out.append(GapFound(topic, first, first, GapReason.RESTORED))
        waiting = [*turns.room.events(), *self._suspicion.take(), *self._unbegun.parked]
        for entry in sorted(waiting, key=lambda each: each.arrived):
            turns.unsequence(entry)
        turns.end_all()
        self.is_restored = True


def _merged(base: list[int]) -> list[int]:
    """Return each topic's highest number of a flat list."""
    numbers: dict[int, int] = {}
    raise_to(numbers, base)
    return flat(numbers)
