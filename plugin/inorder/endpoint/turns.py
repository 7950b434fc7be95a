"""Turns: an event is notified when everything before it was (R4), or is late (R5, R23)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from inorder.endpoint.agenda import Agenda
from inorder.endpoint.barriers import PRECISION
from inorder.endpoint.gaps import MAX_PASSED
from inorder.endpoint.leading import Leads
from inorder.endpoint.merging import Merge
from inorder.endpoint.notifications import GapReason, Verdict
from inorder.endpoint.outputs import GapFound, Left, OrderingCounts, OrderingTimes, Output, Watcher
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.unbegun import Unbegun
from inorder.endpoint.waiting import Sequenced, WaitingRoom, hole

LONG: Final = 64
"""Parts of dependencies, two for each, that are looked through anew whenever an event is woken."""


class Turns:
    """The state of an ordering module, and the one way in which its clocks move. The module's other parts (limits,
    losses, missing numbers, beginnings) decide what happens to a number; here it happens.

    Args:
        times: timers and bounds.
        is_strict: nothing goes before its turn; otherwise the limits of R6 let events go.
    """

    def __init__(self, times: OrderingTimes, *, is_strict: bool) -> None:
        self.times = times
        self.is_strict = is_strict
        self.counts = OrderingCounts()
        self.watcher: Watcher | None = None
        # R12: while it is not, strict mode collects what is ready in on_hold, and other modes tag it as late.
        self.is_leased = True
        self.on_hold: list[Sequenced] = []
        # The topics that have a clock, in the order in which they began; all others that matter are in unbegun.
        self.readers: dict[int, TopicReader] = {}
        self.unbegun = Unbegun(times)
        # R23: how far a reader that takes events out of turn has got in the one order. Strict ones do not look at it.
        self.leads = Leads(self.readers, times.gap_timeout)
        # Everything in it is of a topic with a reader, and sleeps on a number above a reader's clock.
        self.room = WaitingRoom(has_limits=not is_strict)
        # When what is to be done about missing numbers.
        self.agenda = Agenda(self.readers, times)
        # Readers with jumped numbers, in the order of their first jump, and perhaps some whose numbers have all come.
        self.jumping: dict[int, TopicReader] = {}
        # R22: topics that were left and are read on; nothing is told of them. One is in here until its Left is taken.
        self.left: set[int] = set()
        self.merging: Merge | None = None  # R18: of a subscription that was resumed
        # What the caller has not taken yet.
        self.out: list[Output] = []
        # An event began to wait; not called in strict mode.
        self.on_waiting: Callable[[float], None] = _nothing

    def drain(self) -> list[Output]:
        """Return (and forget) what is to be notified."""
        out, self.out = self.out, []
        return self.audible(out) if self.left else out

    def audible(self, out: list[Output]) -> list[Output]:
        """Return the outputs that are told: of a topic that was left only its end."""
        told = [each for each in out if each.topic not in self.left or isinstance(each, Left)]
        self.left.difference_update(each.topic for each in told if isinstance(each, Left))
        return told

    # -- arrivals (R4, R5) -------------------------------------------------------------------------------------

    def receive(self, entry: Sequenced, now: float) -> None:
        """Take an event that arrived, or a parked or held one again."""
        reader = self.readers.get(entry.topic)
        if reader is None:
            self._receive_unbegun(entry)
        elif entry.number <= reader.clock:
            self._receive_old(reader, entry)
        else:
            self._receive_new(reader, entry, now)

    def _receive_new(self, reader: TopicReader, entry: Sequenced, now: float) -> None:
        room, topic, number = self.room, entry.topic, entry.number
        waiting = room.entries.get(topic)  # mostly nothing
        known = waiting.get(number) if waiting else None
        if known is not None:
            if known.is_hole and number <= reader.reported:
                self._receive_old(reader, entry)
                return
            if not known.is_hole:
                self._drop_duplicate(entry)
                return
            room.remove(known)
        if reader.base:
            reader.add_base(entry)
        if self.is_ready(reader, entry, now):
            self.notify(reader, entry)
            awake = room.wake(topic, number) if reader.end is None else self._woken_by(reader)
            if awake:
                self.run(deque(awake), now)
            return
        if number > reader.missing.known:
            self.learn(reader, number, now)
        if len(entry.deps) > 2:  # a single one has been learned, if it is not met
            self._learn_dependencies(entry, now)
        if self.is_strict and self._is_full(entry):
            self.counts.overflow += 1
            reader.given_up.add(number)
            reader.given_up.keep(MAX_PASSED)
            entry.done, entry.content = True, None  # whatever it sleeps on still holds it
            return
        room.put(entry)
        if self.merging is not None:
            self.run(deque(), now)
        if not self.is_strict:
            self.on_waiting(now)

    def _receive_old(self, reader: TopicReader, entry: Sequenced) -> None:
        """R5: below the clock it is late, if its number was passed over and this is its first copy; else a copy that
        the broker kept, a duplicate, or from before the subscription. Its number comes before the retain flag."""
        if self._was_passed(reader, entry.number):
            entry.verdict = Verdict.LATE
            self.out.append(entry)
        elif entry.retained:
            entry.verdict = Verdict.RETAINED
            self.out.append(entry)
        elif reader.take_restored(entry.number):
            self.unsequence(entry)
        elif entry.number <= reader.start:
            self._drop_before(entry)
        else:
            self._drop_duplicate(entry)

    def _receive_unbegun(self, entry: Sequenced) -> None:
        """An event of a topic whose clock is not known yet: kept until it is (R9, R13), as far as there is room."""
        if self.unbegun.is_over(entry.topic):
            if entry.retained:
                entry.verdict = Verdict.RETAINED
                self.out.append(entry)
            else:  # the topic has ended before this subscription had it
                self._drop_before(entry)
        elif not self.unbegun.is_held(entry.topic):
            self.unsequence(entry)
        elif not self.unbegun.park(entry):
            self.counts.overflow += 1

    def _drop_before(self, entry: Sequenced) -> None:
        self.counts.before += 1
        if self.watcher is not None:
            self.watcher.dropped(entry, "before")

    def _was_passed(self, reader: TopicReader, number: int) -> bool:
        """Tell whether a number was jumped or reported and has not come; from now on it has."""
        if reader.jumped.take(number):
            return True
        is_after_gap = reader.passed.discard(number)
        self.counts.after_gap += is_after_gap
        return is_after_gap

    def _drop_duplicate(self, entry: Sequenced) -> None:
        self.counts.duplicates += 1
        if self.watcher is not None:
            self.watcher.dropped(entry, "duplicate")

    def _is_full(self, entry: Sequenced) -> bool:
        times, room = self.times, self.room
        has_room = room.count < times.max_waiting and room.size + entry.size <= times.max_waiting_bytes
        return not has_room and (self.merging is None or not self.merging.needs(entry))

    # -- readiness (R4) ----------------------------------------------------------------------------------------

    def is_ready(self, reader: TopicReader, entry: Sequenced, now: float) -> bool:
        """Tell whether an event's turn has come; if not, let the event sleep on the first missing number. That number
        is known missing from now on: its topic may have been named after the event arrived (R13, R17).

        Its own predecessor comes last: a compact timestamp has the entries that rose after that (R21), the latest one
        first. So what sleeps on the first entry that is not met seldom has to sleep again."""
        readers = self.readers
        parts = iter(entry.deps)
        for topic in parts:
            number, other = next(parts, 0), readers.get(topic)
            if other is None:
                if self.unbegun.is_held(topic):
                    self.unbegun.hold(topic, entry)
                    return False
            elif other.clock < number:
                behind = other
                break
        else:
            if reader.clock >= entry.number - 1:
                if self.is_leased or not self.is_strict:
                    return self.merging is None or not self.merging.holds(entry)
                self.on_hold.append(entry)
                return False
            behind, number = reader, entry.number - 1
        self.room.sleep(entry, behind.topic, number)
        if number > behind.missing.known:
            self.learn(behind, number, now)
        return False

    def run(self, awake: deque[Sequenced], now: float) -> None:
        """Notify of ready events, and of events that these wake; of old ones as far as they may go by then."""
        self._give_all(awake, now)
        if self.merging is not None:
            while self.merging.go_on(awake, is_open=self.is_leased or not self.is_strict):
                self._give_all(awake, now)
            if self.merging.is_over:
                self.merging = self.room.changed = None

    def _give_all(self, awake: deque[Sequenced], now: float) -> None:
        readers, room, is_ready = self.readers, self.room, self.is_ready
        while awake:
            entry = awake.popleft()
            if entry.done or (reader := readers.get(entry.topic)) is None:
                continue
            if entry.number <= reader.clock:
                self.overtaken(reader, entry)
            elif is_ready(reader, entry, now):
                room.remove(entry)
                self.notify(reader, entry)
                awake.extend(room.wake(entry.topic, entry.number) if reader.end is None else self._woken_by(reader))
            elif len(entry.deps) > LONG:
                _put_met_last(entry, readers, self.unbegun)

    def give(self, reader: TopicReader, entry: Sequenced) -> Sequence[Sequenced]:
        """Let an old entry have its turn (R18), and return the events that wake by this."""
        self.room.remove(entry)
        self.notify(reader, entry)
        return self._woken_by(reader)

    def overtaken(self, reader: TopicReader, entry: Sequenced) -> None:
        """The clock was forced past a waiting entry. The belt makes no circles of dependencies (R2), so this takes a
        damaged or forged stamp; the clock must not go back for it."""
        self.room.remove(entry)
        if not entry.is_hole:
            self._receive_old(reader, entry)

    def _woken_by(self, reader: TopicReader) -> Sequence[Sequenced]:
        """Return (and forget) the events that slept on the number of a topic that was left and has just got there."""
        topic, number = reader.topic, reader.clock
        return self.let_go(topic) if reader.end is not None and number >= reader.end else self.room.wake(topic, number)

    # -- what becomes of a number ------------------------------------------------------------------------------

    def notify(self, reader: TopicReader, entry: Sequenced) -> None:
        """The entry's turn: advance the clock; an event goes out, a hole is skipped (and reported)."""
        entry.done = True
        reader.clock = entry.number
        if reader.missing.confirmed:  # the next one of these may have been overdue before this one
            self.agenda.note_proof(reader)
        if self.merging is not None:
            self.merging.moved(reader.topic)
        if not entry.is_hole:
            if not self.is_leased or not (self.is_strict or self.leads.take(entry)):
                entry.verdict = Verdict.LATE
            self.out.append(entry)
        elif entry.hole is None:
            self.counts.voids += 1
        elif entry.number > reader.reported:
            self._report(reader, entry.number, entry.hole)

    def unsequence(self, entry: Sequenced) -> None:
        """The entry goes out without an order."""
        entry.done = True
        entry.verdict = Verdict.UNSEQUENCED
        self.out.append(entry)

    def jump(self, reader: TopicReader, number: int, now: float) -> Sequence[Sequenced]:
        """Pass over everything up to ``number``, which may still arrive, late (R6); return the woken events."""
        clock, first = reader.clock, reader.unreported
        if clock >= number:
            return []
        if first <= number:
            skipped_at = reader.missing.broker.at(now) + self.times.loss_timeout - PRECISION
            reader.jumped.add(first, number, skipped_at)
            self.jumping[reader.topic] = reader
            if len(reader.jumped) > MAX_PASSED:
                self.skip(reader, [reader.jumped.oldest()])
        reader.clock = number
        self.agenda.note_proof(reader)
        if self.merging is not None:
            self.merging.moved(reader.topic)
        return self.room.wake_range(reader.topic, clock + 1, number)

    def skip(self, reader: TopicReader, jumped: Iterable[tuple[int, int]]) -> None:
        """Report numbers that were jumped and have not come."""
        for first, last in jumped:
            self._tell(reader, first, last, GapReason.SKIPPED)

    def put_hole(
        self, reader: TopicReader, number: int, deps: list[int], reason: GapReason | None, now: float
    ) -> Sequenced:
        """A number is to be skipped in its turn (R17); return what waits for that turn in the number's place."""
        made = hole(reader.topic, number, deps, reason, now)
        if reader.base:
            reader.add_base(made)
        self.room.put(made)
        self._learn_dependencies(made, now)
        return made

    def _report(self, reader: TopicReader, first: int, reason: GapReason) -> None:
        """R17: one gap for a whole run of numbers with one reason, when its first number is skipped."""
        waiting, last = self.room.topic(reader.topic), first
        while (following := waiting.get(last + 1)) is not None and following.is_hole and following.hole is reason:
            last += 1
        reader.reported = last
        self._tell(reader, first, last, reason)

    def _tell(self, reader: TopicReader, first: int, last: int, reason: GapReason) -> None:
        self.out.append(GapFound(reader.topic, first, last, reason))
        reader.told(first, last)

    # -- what is known to exist (R17) --------------------------------------------------------------------------

    def learn(self, reader: TopicReader, number: int, now: float) -> None:
        """Take note that a number exists."""
        if number > reader.clock and reader.missing.learn(number, now) and reader.topic not in self.agenda.behind:
            self.agenda.learned(reader.topic)

    def take_head(self, reader: TopicReader, number: int, now: float) -> None:
        """A worker told a confirmed number."""
        self.learn(reader, number, now)
        reader.missing.vouch(number)

    def _learn_dependencies(self, entry: Sequenced, now: float) -> None:
        """Learn the dependencies of an event or a hole, which only the latter may name (R21, compact stamps)."""
        readers, parts = self.readers, iter(entry.deps)
        for topic in parts:
            number, reader = next(parts, 0), readers.get(topic)
            if reader is not None and number > reader.missing.known:
                self.learn(reader, number, now)

    # -- beginnings and ends -----------------------------------------------------------------------------------

    def begin(self, reader: TopicReader) -> None:
        """A topic has a clock from now on."""
        self.readers[reader.topic] = reader
        if self.watcher is not None:
            self.watcher.began(reader.topic, reader.clock)

    def end(self, topics: Iterable[int]) -> deque[Sequenced]:
        """Drop the clocks and states of topics; return the events that slept on their numbers."""
        awake: deque[Sequenced] = deque()
        for topic in topics:
            reader = self.readers.pop(topic, None)
            if reader is not None and self.watcher is not None:
                self.watcher.ended(topic, reader.clock)
            self.agenda.forget(topic)
            self.jumping.pop(topic, None)
            awake.extend(self.room.drop(topic))
        return awake

    def let_go(self, topic: int) -> deque[Sequenced]:
        """A topic that was left is read as far as is needed: it ends. Return the events that slept on its numbers."""
        if topic not in self.readers:
            return deque()
        awake = self.end([topic])
        self.unbegun.left(topic)
        awake.extend(self.unbegun.leave(topic).held)
        self.out.append(Left(topic))
        return awake

    def end_all(self) -> None:
        """Drop all clocks with all that is known and waits."""
        self.out += map(Left, self.left)
        self.readers.clear()
        self.unbegun.clear()
        self.agenda.clear()
        self.jumping.clear()
        self.room, self.on_hold = WaitingRoom(has_limits=not self.is_strict), []
        self.leads.forget()
        self.merging = None


def _put_met_last(entry: Sequenced, readers: Mapping[int, TopicReader], unbegun: Unbegun) -> None:
    """Let the next look at an event begin at the first dependency that is not met now: a stamp may be forged, and name
    thousands of topics. Those before it are looked at again behind all others."""
    deps = entry.deps
    for at in range(0, len(deps), 2):
        other = readers.get(deps[at])
        if unbegun.is_held(deps[at]) if other is None else other.clock < deps[at + 1]:
            if at > LONG:
                entry.deps = deps[at:] + deps[:at]
            return


def _nothing(now: float) -> None:
    """Do nothing."""
