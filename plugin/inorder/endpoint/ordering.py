"""The ordering module: timestamps and arrivals in, notifications in total order out (R4-R9, R17, R24).

Strict mode waits for every number until it arrives or is known not to come. Bounded and tag mode let go at a limit
(R6). Nothing here knows topic names: topics are cluster-wide ids, payloads are opaque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from math import inf
from typing import Any, Literal, Protocol

import msgspec

from inorder.endpoint.barriers import PRECISION, Brokers, CaughtUp, Sparing
from inorder.endpoint.gaps import MAX_ASKED, MAX_PASSED, MAX_UNREAD, JumpedNumbers, MissingNumbers, NumberSet
from inorder.endpoint.notifications import Bounded, GapReason, Verdict
from inorder.endpoint.waiting import Parked, Sequenced, WaitingRoom, hole
from inorder.endpoint.waits import waits_of
from inorder.protocol.pairs import flat, raise_to
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState, TopicStart, Wait

MAX_LEAP = 100_000
"""A bounded reader passes over this many numbers beyond what is known to exist without asking whether they do."""

Mode = Literal["strict", "tag"] | Bounded


class OrderingTimes(msgspec.Struct, frozen=True):
    """Timers (s) and bounds of an ordering module.

    Attributes:
        gap_timeout: how long a missing number is waited for before its stage is asked (R17).
        loss_timeout: how long, from the same start, before a confirmed number counts as lost: only time counts in
            which the client was caught up with its broker (R24). Numbers that follow one another, and are overdue
            within 1.25 s, are reported as one gap when the last one is.
        max_waiting, max_waiting_bytes: in strict mode, what may wait; arrivals beyond are given up and their
            numbers reported as ``overflow`` when their turn comes. Never silently.
    """

    gap_timeout: float = 1.0
    loss_timeout: float = 5.0
    max_waiting: int = 200_000
    max_waiting_bytes: int = 256 * 1024 * 1024

    @property
    def barrier_interval(self) -> float:
        """How often the broker is asked whether all was read while something is missing, s."""
        return min(1.0, self.loss_timeout / 5)


class GapFound(msgspec.Struct, frozen=True):
    """A run of numbers was skipped (the client makes a ``Gap`` of it)."""

    topic: int
    first: int
    last: int
    reason: GapReason


class Question(msgspec.Struct, frozen=True):
    """Ask the topic's stage about these numbers (flat pairs) and pass the answer to ``answered``."""

    topic: int
    ranges: list[int]


class Fetch(msgspec.Struct, frozen=True):
    """Ask the topic's event log for these numbers (flat pairs) and pass the answer to ``fetched`` (R18)."""

    topic: int
    ranges: list[int]


class Found(msgspec.Struct, frozen=True):
    """What the log has under a number: its dependencies, and what to notify of; ``None``: that was never stored."""

    number: int
    deps: list[int]
    content: Any
    size: int


class OrderingCounts(msgspec.Struct):
    """What was seen: ``duplicates`` (dropped), ``before`` (older than the subscription, dropped), ``overflow``
    (given up at a limit), ``voids`` (skipped without report), ``forced`` (let go by a limit), ``repaired`` (from an
    event log), ``after_gap`` (came, and was given as late, after a gap had told of it)."""

    duplicates: int = 0
    before: int = 0
    overflow: int = 0
    voids: int = 0
    forced: int = 0
    repaired: int = 0
    after_gap: int = 0


Output = Sequenced | GapFound


class Watcher(Protocol):
    """Is told of what no output tells, as it happens; for traces. It must not call the ordering module."""

    def began(self, topic: int, number: int) -> None:
        """A topic's clock was taken: it begins behind this number."""

    def ended(self, topic: int, number: int) -> None:
        """A topic's clock is dropped; this was the last number notified of or skipped."""

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """An arrival was dropped, and counted."""


class OrderingModule:
    """One client's subscription clock and everything that waits for it.

    All methods take the time in seconds and return what is to be notified, in order. Where :meth:`barriers` asks for it
    the caller has a broker asked, and passes the answer to :meth:`caught_up`.

    Args:
        mode: ``"strict"`` (no limit), ``"tag"`` (buffer 0, the papers' tagging) or :class:`Bounded` (R6).
        times: timers and bounds.
    """

    def __init__(self, mode: Mode = "strict", times: OrderingTimes | None = None) -> None:
        self.mode = mode
        self.times = times or OrderingTimes()
        self.counts = OrderingCounts()
        self.watcher: Watcher | None = None
        self.space_of: Callable[[int], str] = _one_broker
        """Returns the space of a topic, whose broker is asked for barriers."""
        self._brokers = Brokers(self.times.barrier_interval, self.times.gap_timeout)
        self._sparing = Sparing(MAX_UNREAD, self.times.gap_timeout)
        self._bound = Bounded(buffer=0) if mode == "tag" else mode if isinstance(mode, Bounded) else None
        self._clock: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._room = WaitingRoom(self._bound is not None)
        self._missing: dict[int, MissingNumbers] = {}
        self._behind: set[int] = set()
        self._jumped: dict[int, JumpedNumbers] = {}
        self._reported: dict[int, int] = {}
        # R5: what was reported and has not come
        self._passed: dict[int, NumberSet] = {}
        self._given_up: dict[int, NumberSet] = {}
        # R8: by topic, what counts as dependencies of one of its next numbers
        self._bases: dict[int, dict[int, dict[int, int]]] = {}
        # R9 and R13: ids that are not in the clock may belong to this subscription; what waits to learn it
        self._foreign: set[int] = set()
        self._hold_unknown = False
        self._ask_unknown = False
        self._held: dict[int, list[Sequenced]] = {}
        self._parked = Parked()
        self._floor: dict[int, int] = {}
        self._unnamed_heads: dict[int, int] = {}  # R17: of topics that may belong to this subscription, too
        # R6: events whose turn came by a limit and whose numbers are not plausible; they left the waiting room
        self._doubted: list[Sequenced] = []
        self._doubted_size = 0
        self._ask_doubted_at = 0.0
        # R12: what would go out but for the lease (strict); topics that begin anew, with the number after their clock
        self._on_hold: list[Sequenced] = []
        self._interrupted: dict[int, int] = {}
        # another domain has begun, and where its topics begin is not known yet
        self._is_restored = False
        self.is_leased = True
        self._out: list[Output] = []

    def __repr__(self) -> str:
        return f"<OrderingModule {self.mode}: {len(self._clock)} topics, {self._room.count} waiting>"

    @property
    def clock(self) -> dict[int, int]:
        """The subscription clock: the last number notified or skipped, by topic. Do not change it."""
        return self._clock

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return self._room.count + len(self._doubted)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, nothing is missing, nothing was jumped: no timer and no question is due."""
        unnamed = self._held or self._parked or self._unnamed_heads
        return not (self._behind or self._jumped or unnamed or self.waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of waiting payloads."""
        return self._room.size + self._doubted_size

    def waits(self, now: float) -> list[Wait]:
        """Return what holds events up for long, for operators."""
        return waits_of(self._room, self._held, now) if self._room.count else []

    def waits_for_turn(self, topic: int, number: int) -> bool:
        """Tell whether an event with this number waits."""
        entry = self._room.get(topic, number)
        return entry is not None and not entry.is_hole

    # -- arrivals (R4, R5) -------------------------------------------------------------------------------------

    def receive(
        self, topic: int, number: int, deps: list[int], content: Any, size: int, now: float, *, retained: bool = False
    ) -> list[Output]:
        """An event arrived from the ENS. ``retained``: the broker sent it from its store, as a subscription asked it to
        (R5)."""
        self._receive(Sequenced(topic, number, deps, content, size, now, retained), now)
        out, self._out = self._out, []
        return out

    def _receive(self, entry: Sequenced, now: float) -> None:
        clock = self._clock.get(entry.topic)
        if clock is None:
            self._park(entry)
        elif entry.number <= clock:
            self._receive_old(entry)
        else:
            self._receive_new(entry, now)

    def _receive_new(self, entry: Sequenced, now: float) -> None:
        room, topic, number = self._room, entry.topic, entry.number
        known = room.get(topic, number)
        if known is not None:
            if known.is_hole and number <= self._reported.get(topic, 0):
                self._receive_old(entry)
                return
            if not known.is_hole:
                self._drop_duplicate(entry)
                return
            room.remove(known)
        if topic in self._bases:
            self._add_base(entry)
        if self._is_ready(entry, now):
            self._notify(entry)
            awake = room.wake(topic, number)
            if awake:
                self._run(deque(awake), now)
            return
        if number > self._missing[topic].known:
            self._learn(topic, number, now)
        if len(entry.deps) > 2:  # a single one has been learned, if it is not met
            self._learn_dependencies(entry, now)
        if self._bound is None and self._is_full(entry):
            self._give_up(topic, number)
            entry.done, entry.content = True, None  # whatever it sleeps on still holds it
            return
        room.put(entry)
        if self._bound is not None:
            self._enforce(now)

    def _receive_old(self, entry: Sequenced) -> None:
        """R5: below the clock it is late, if its number was passed over and this is its first copy; else a copy that
        the broker kept, a duplicate, or from before the subscription. Its number comes before the retain flag."""
        if self._was_passed(entry.topic, entry.number):
            entry.verdict = Verdict.LATE
            self._out.append(entry)
        elif entry.retained:
            entry.verdict = Verdict.RETAINED
            self._out.append(entry)
        elif entry.number <= self._start[entry.topic]:
            self.counts.before += 1
            if self.watcher is not None:
                self.watcher.dropped(entry, "before")
        else:
            self._drop_duplicate(entry)

    def _was_passed(self, topic: int, number: int) -> bool:
        """Tell whether a number was jumped or reported and has not come; from now on it has."""
        jumped, passed = self._jumped.get(topic), self._passed.get(topic)
        if jumped is not None and jumped.take(number):
            return True
        is_after_gap = passed is not None and passed.discard(number)
        self.counts.after_gap += is_after_gap
        return is_after_gap

    def _drop_duplicate(self, entry: Sequenced) -> None:
        self.counts.duplicates += 1
        if self.watcher is not None:
            self.watcher.dropped(entry, "duplicate")

    def _is_full(self, entry: Sequenced) -> bool:
        times, room = self.times, self._room
        return room.count >= times.max_waiting or room.size + entry.size > times.max_waiting_bytes

    def _give_up(self, topic: int, number: int) -> None:
        """There is no room for an event: its number is reported when its turn comes."""
        self.counts.overflow += 1
        self._given_up.setdefault(topic, NumberSet()).add(number)

    def _park(self, entry: Sequenced) -> None:
        """An event of a topic whose clock is not known yet: kept until it is (R9, R13), as far as there is room."""
        times, parked = self.times, self._parked
        if self._is_held(entry.topic):
            if parked.count >= times.max_waiting or parked.size + entry.size > times.max_waiting_bytes:
                self._give_up(entry.topic, entry.number)
            else:
                parked.put(entry.topic, [entry])
        else:
            entry.verdict = Verdict.UNSEQUENCED
            self._out.append(entry)

    def unsequenced(self, topic: int, now: float) -> None:
        """A message without a stamp arrived on a topic of the subscription (R17: perhaps what is missing)."""
        missing = self._missing.get(topic)
        if missing is not None:
            missing.unstamped_at = now

    # -- readiness (R4) ----------------------------------------------------------------------------------------

    def _is_ready(self, entry: Sequenced, now: float) -> bool:
        """Tell whether an event's turn has come; if not, it sleeps on the first number it needs (which is known missing
        from now on, if it was not: its topic may have been named after the event arrived, R13, R17).

        Its own predecessor comes last: a compact timestamp has the entries that rose after that (R21), the latest one
        first. So what sleeps on the first entry that is not met seldom has to sleep again."""
        clock = self._clock
        parts = iter(entry.deps)
        for topic in parts:
            number, reached = next(parts, 0), clock.get(topic)
            if reached is None:
                if self._is_held(topic):
                    self._held.setdefault(topic, []).append(entry)
                    return False
            elif reached < number:
                self._sleep(entry, topic, number, now)
                return False
        if clock[entry.topic] < entry.number - 1:
            self._sleep(entry, entry.topic, entry.number - 1, now)
            return False
        if self.is_leased or self._bound is not None:
            return True
        self._on_hold.append(entry)
        return False

    def _sleep(self, entry: Sequenced, topic: int, number: int, now: float) -> None:
        self._room.sleep(entry, topic, number)
        if number > self._missing[topic].known:
            self._learn(topic, number, now)

    def _is_held(self, topic: int) -> bool:
        """R9: an entry of a topic being subscribed holds the event; R13: so does one of a topic not named yet."""
        return self._hold_unknown and topic not in self._foreign

    def _run(self, awake: deque[Sequenced], now: float) -> None:
        """Notify what is ready, and what that wakes."""
        clock, room, is_ready = self._clock, self._room, self._is_ready
        while awake:
            entry = awake.popleft()
            if entry.done or (reached := clock.get(entry.topic)) is None:
                continue
            if entry.number <= reached:
                self._overtaken(entry)
            elif is_ready(entry, now):
                room.remove(entry)
                self._notify(entry)
                awake.extend(room.wake(entry.topic, entry.number))

    def _overtaken(self, entry: Sequenced) -> None:
        """The clock was forced past a waiting entry. The belt makes no circles of dependencies (R2), so this takes a
        damaged or forged stamp; the clock must not go back for it."""
        self._room.remove(entry)
        if not entry.is_hole:
            self._receive_old(entry)

    def _notify(self, entry: Sequenced) -> None:
        """The entry's turn: advance the clock; an event goes out, a hole is skipped (and reported)."""
        entry.done = True
        self._clock[entry.topic] = entry.number
        if not entry.is_hole:
            if not self.is_leased:
                entry.verdict = Verdict.LATE
            self._out.append(entry)
        elif entry.hole is None:
            self.counts.voids += 1
        elif entry.number > self._reported.get(entry.topic, 0):
            self._report(entry, entry.hole)

    def _report(self, first: Sequenced, reason: GapReason) -> None:
        """R17: one gap for a whole run of numbers with one reason, when its first number is skipped."""
        waiting, last = self._room.topic(first.topic), first.number
        while (following := waiting.get(last + 1)) is not None and following.is_hole and following.hole is reason:
            last += 1
        self._reported[first.topic] = last
        self._told(GapFound(first.topic, first.number, last, reason))

    def _told(self, gap: GapFound) -> None:
        """A gap is told: what comes of it all the same is late (R5)."""
        self._out.append(gap)
        passed = self._passed.setdefault(gap.topic, NumberSet())
        passed.add(gap.first, gap.last)
        passed.keep(MAX_PASSED)

    def _skip(self, topic: int, jumped: Iterable[tuple[int, int]]) -> None:
        for first, last in jumped:
            self._told(GapFound(topic, first, last, GapReason.SKIPPED))

    def _add_base(self, entry: Sequenced) -> None:
        bases = self._bases.get(entry.topic)
        if bases is None:
            return
        if base := bases.get(entry.number):
            entry.deps = entry.deps + flat(base)
        clock = self._clock[entry.topic]
        for number in [each for each in bases if each <= clock]:
            del bases[number]
        if not bases:
            del self._bases[entry.topic]

    def _raise_base(self, topic: int, number: int, base: list[int]) -> None:
        if base:
            raise_to(self._bases.setdefault(topic, {}).setdefault(number, {}), base)

    # -- bounded waiting (R6) ----------------------------------------------------------------------------------

    def _enforce(self, now: float) -> None:
        """Let events go until all limits are kept."""
        bound, room = self._bound, self._room
        while bound is not None and (oldest := room.oldest()) is not None:
            over = (
                (bound.buffer is not None and room.count > bound.buffer)
                or (bound.buffer_bytes is not None and room.size > bound.buffer_bytes)
                or (bound.max_wait is not None and oldest.arrived + bound.max_wait <= now)
            )
            if not over:
                return
            self.counts.forced += 1
            self._force(oldest, now)

    def _force(self, entry: Sequenced, now: float) -> None:
        """R6: first its waiting predecessors by timestamp, then itself; the clock takes the whole timestamp."""
        path = [entry]
        on_path = {id(entry)}
        while path:
            current = path[-1]
            if not current.done and not current.is_hole and self._implausible(current):
                self._doubt(current, now)
            before = None if current.done else self._waiting_before(current)
            if before is not None and id(before) not in on_path:
                path.append(before)
                on_path.add(id(before))
                continue
            path.pop()
            if not current.done:
                self._let_go(current, now)

    def _waiting_before(self, entry: Sequenced) -> Sequenced | None:
        lowest = self._room.lowest(entry.topic)
        if lowest is not None and lowest.number < entry.number:
            return lowest
        for at in range(0, len(entry.deps), 2):
            lowest = self._room.lowest(entry.deps[at])
            if lowest is not None and lowest.number <= entry.deps[at + 1]:
                return lowest
        return None

    def _let_go(self, entry: Sequenced, now: float) -> None:
        if entry.number <= self._clock[entry.topic]:
            self._overtaken(entry)
            return
        awake: list[Sequenced] = []
        for at in range(0, len(entry.deps), 2):
            topic, number = entry.deps[at], entry.deps[at + 1]
            if topic in self._clock:
                awake += self._jump(topic, number, now)
            elif self._is_held(topic):
                self._floor[topic] = max(self._floor.get(topic, 0), number)
        awake += self._jump(entry.topic, entry.number - 1, now)
        self._room.remove(entry)
        self._notify(entry)
        awake += self._room.wake(entry.topic, entry.number)
        self._run(deque(awake), now)

    def _jump(self, topic: int, number: int, now: float) -> Sequence[Sequenced]:
        """Pass over everything up to ``number``; it may still arrive, late."""
        clock = self._clock[topic]
        if clock >= number:
            return []
        first = max(clock, self._reported.get(topic, 0)) + 1
        if first <= number:
            jumped = self._jumped.setdefault(topic, JumpedNumbers())
            jumped.add(first, number, self._missing[topic].broker.at(now) + self.times.loss_timeout - PRECISION)
            if len(jumped) > MAX_PASSED:
                self._skip(topic, [jumped.oldest()])
        self._clock[topic] = number
        return self._room.wake_range(topic, clock + 1, number)

    # R6 lets an event go at the limit whatever its timestamp says. This departs from it for implausible timestamps
    # only: one forged stamp would else move the clock beyond all numbers that its topic will ever have, and every
    # event after it would be a duplicate. Such an event is held beyond the limits, the stages are asked for exactly
    # its numbers (at once), and what they never issued goes out without an order, as in strict mode.

    def _implausible(self, entry: Sequenced) -> list[tuple[int, int]]:
        """Return the numbers, by topic, to which the clock would leap without anyone having vouched for them."""
        claims = []
        if self._is_leap(entry.topic, entry.number - 1):
            claims.append((entry.topic, entry.number))
        parts = iter(entry.deps)
        for topic in parts:
            number = next(parts, 0)
            if topic in self._clock and self._is_leap(topic, number):
                claims.append((topic, number))
        return claims

    def _is_leap(self, topic: int, number: int) -> bool:
        clock = self._clock[topic]
        return number > clock + MAX_LEAP and number > max(clock, self._missing[topic].vouched) + MAX_LEAP

    def _doubt(self, entry: Sequenced, now: float) -> None:
        """Hold an event until the stages told whether its numbers exist."""
        self._room.remove(entry)
        times, size = self.times, self._doubted_size + entry.size
        if len(self._doubted) >= times.max_waiting or size > times.max_waiting_bytes:
            self.counts.overflow += 1
            self._unsequence(entry)
            return
        if not self._doubted:
            self._ask_doubted_at = now
        self._doubted.append(_again(entry))  # alarms still point to the one that left
        self._doubted_size = size

    def _settle_doubts(self, unknown: set[tuple[int, int]], now: float) -> None:
        """Look again at what is held: numbers nobody issued discredit it, and without any doubt left it may go."""
        if not self._doubted:
            return
        doubted, self._doubted, self._doubted_size = self._doubted, [], 0
        again: list[Sequenced] = []
        for entry in doubted:
            if entry.topic not in self._clock:
                continue
            claims = self._implausible(entry)
            if not unknown.isdisjoint(claims):
                self._unsequence(entry)
            elif claims:
                self._doubted.append(entry)
                self._doubted_size += entry.size
            else:
                again.append(entry)
        for entry in again:
            self._receive(entry, now)

    def _doubtful(self, now: float) -> dict[int, list[int]]:
        """Return the numbers to ask for now because of doubts, by topic."""
        claimed: dict[int, list[int]] = {}
        if self._doubted and self._ask_doubted_at <= now:
            self._ask_doubted_at = now + self.times.gap_timeout
            for topic, number in sorted({claim for entry in self._doubted for claim in self._implausible(entry)}):
                numbers = claimed.setdefault(topic, [])
                if len(numbers) < MAX_ASKED:
                    numbers.append(number)
        return claimed

    def _unsequence(self, entry: Sequenced) -> None:
        entry.done = True
        entry.verdict = Verdict.UNSEQUENCED
        self._out.append(entry)

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def lapse(self) -> None:
        """Not every stage of the subscription has answered in time. From now on strict mode holds what is ready, and
        bounded and tag mode notify of it as late: their clocks go on, but nothing of it counts as in order."""
        self.is_leased = False

    def renewed(self, now: float) -> list[Output]:
        """All stages have answered: what was held may go."""
        self.is_leased = True
        held, self._on_hold = self._on_hold, []
        self._run(deque(held), now)
        return self._drain()

    @property
    def interrupted(self) -> dict[int, int]:
        """Topics that wait for a new start, with the number after their old clock; after each addition the caller is to
        subscribe anew (R12, R17). Do not change it."""
        return self._interrupted

    def expired(self, topics: Iterable[int], now: float) -> list[Output]:
        """The topic managers have dropped these topics from the subscription (R12), or forgotten numbers that are
        missing here (R17). They begin anew with the next :meth:`subscribed`, each with one gap from the number after
        its clock to its new start. What waits in them is kept aside until then, and dropped up to the start."""
        topics = [topic for topic in topics if topic in self._clock]
        if not topics:
            return []
        self.subscribing()
        for topic in topics:
            self._interrupted[topic] = max(self._clock[topic], self._reported.get(topic, 0)) + 1
            waiting = [each for each in self._room.topic(topic).values() if not each.is_hole]
            self._parked.put(topic, map(_again, waiting))
            self._skip(topic, self._jumped.pop(topic, JumpedNumbers()).overdue(inf))
        self._park_doubted(set(topics))
        awake = self._forget(topics)
        self._on_hold = [each for each in self._on_hold if not each.done]
        self._run(awake, now)
        return self._drain()

    def other_domain(self, now: float) -> list[Output]:
        """The workers' numbers are others from now on (a restored store has a domain id of its own); topic ids and all
        that is known here belong to the former ones. Each topic ends with one gap; what waits goes out without an
        order, as it arrived. The caller subscribes anew. What arrives until the new starts are known, and is from
        before them, goes out without an order too: other clients may have come to the new domain sooner."""
        for topic, jumped in self._jumped.items():
            self._skip(topic, jumped.overdue(inf))
        for topic, clock in self._clock.items():
            if self.watcher is not None:
                self.watcher.ended(topic, clock)
            first = max(clock, self._reported.get(topic, 0)) + 1
            self._out.append(GapFound(topic, first, max(first, self._missing[topic].known), GapReason.RESTORED))
        self._out += [GapFound(topic, first, first, GapReason.RESTORED) for topic, first in self._interrupted.items()]
        waiting = [*self._room.events(), *self._doubted, *self._parked.events()]
        for entry in sorted(waiting, key=lambda each: each.arrived):
            self._unsequence(entry)
        for kept in (self._clock, self._start, self._missing, self._jumped, self._reported, self._given_up):
            kept.clear()
        for known in (self._passed, self._bases, self._held, self._floor, self._interrupted, self._unnamed_heads):
            known.clear()
        self._parked = Parked()
        self._behind.clear()
        self._foreign.clear()
        self._is_restored = True
        self._room, self._doubted, self._doubted_size, self._on_hold = WaitingRoom(self._bound is not None), [], 0, []
        return self._drain()

    def _park_doubted(self, topics: set[int]) -> None:
        doubted, self._doubted, self._doubted_size = self._doubted, [], 0
        for entry in doubted:
            if entry.topic in topics:
                self._parked.put(entry.topic, [entry])
            else:
                self._doubted.append(entry)
                self._doubted_size += entry.size

    def _forget(self, topics: Iterable[int]) -> deque[Sequenced]:
        """Drop all that is known of topics; return what slept on their numbers."""
        awake: deque[Sequenced] = deque()
        for topic in topics:
            clock = self._clock.pop(topic, None)
            if clock is not None and self.watcher is not None:
                self.watcher.ended(topic, clock)
            self._start.pop(topic, None)
            self._missing.pop(topic, None)
            self._behind.discard(topic)
            self._jumped.pop(topic, None)
            self._reported.pop(topic, None)
            self._passed.pop(topic, None)
            self._given_up.pop(topic, None)
            self._bases.pop(topic, None)
            awake.extend(self._room.drop(topic))
        return awake

    # -- subscriptions (R7-R9, R11, R13) -----------------------------------------------------------------------

    def subscribing(self) -> None:
        """A subscribe is outstanding: any topic without a clock may be part of it, so it holds events (R9)."""
        self._hold_unknown, self._ask_unknown = True, False
        self._foreign.clear()

    def subscribed(self, starts: Iterable[TopicStart], now: float, *, filters: bool) -> list[Output]:
        """The subscription is complete (R7); clocks are taken only for topics that are new here (R8).

        ``filters``: the subscription has wildcards, so topics with unknown ids may still be part of it (R13).
        """
        for start in starts:
            self._begin(start, now)
        if not filters:
            self._unnamed_heads.clear()  # what is left is of topics that are not in the subscription
        self._hold_unknown = self._ask_unknown = filters
        awake: deque[Sequenced] = deque()
        parked: list[Sequenced] = []
        for topic in set(self._held) | set(self._parked):
            if topic in self._clock or not self._is_held(topic):
                awake.extend(self._held.pop(topic, ()))
                parked += self._parked.take(topic)
        self._run(awake, now)
        for entry in parked:
            if self._is_restored and entry.number <= self._start.get(entry.topic, 0):
                self._unsequence(entry)
            else:
                self._receive(entry, now)
        self._is_restored = False
        return self._drain()

    def _begin(self, start: TopicStart, now: float) -> None:
        topic = start.topic.id
        if topic in self._clock:
            return
        self._foreign.discard(topic)
        number, base = start.start, start.base
        first = self._interrupted.pop(topic, None)
        if first is None and start.saved >= 0:
            first = start.saved + 1
        if first is not None and first <= number:
            self._out.append(GapFound(topic, first, number, GapReason.EXPIRED))
        elif first is not None and first - 1 > number:  # R18: saved was less than we have notified of
            number, base = first - 1, []
        self._take_clock(topic, number)
        self._raise_base(topic, number + 1, base)
        self._rise_to_floor(topic, now)
        if start.reached > self._clock[topic]:  # what is missing was missed long ago: it is asked for at once
            self._learn(topic, start.reached, now - self.times.gap_timeout)
            self._vouch(topic, start.reached)
        self._learn_earlier(topic, now)

    def _take_clock(self, topic: int, number: int) -> None:
        self._clock[topic] = self._start[topic] = number
        self._missing[topic] = MissingNumbers(number, self._brokers.of(self.space_of(topic)))
        if self.watcher is not None:
            self.watcher.began(topic, number)

    def _learn_earlier(self, topic: int, now: float) -> None:
        """What was given up, or told by a head, before the topic's clock was known is missing in it."""
        if topic in self._given_up:
            self._learn(topic, self._given_up[topic].highest, now)
        self._take_head(topic, self._unnamed_heads.pop(topic, 0), now)

    def _rise_to_floor(self, topic: int, now: float) -> None:
        floor = self._floor.pop(topic, 0)
        if not self._is_leap(topic, floor):  # a forged one: no topic gets that far while its start is on its way
            self._jump(topic, floor, now)

    def unnamed(self) -> list[int]:
        """Return ids of topics that hold events until a worker has named them (R13), or of which only a head has told
        yet (R17: their first events may be lost)."""
        if not self._ask_unknown:
            return []
        return list({*self._held, *self._parked, *self._unnamed_heads})

    def named(self, mine: Iterable[int], foreign: Iterable[int], now: float) -> list[Output]:
        """Unknown topics were named: those of this subscription begin at 0 (they are younger than it, R13), the
        others concern no one here. An event that waited for the name of such a topic goes out unsequenced: the
        caller drops it if its topic was unsubscribed meanwhile."""
        awake: deque[Sequenced] = deque()
        parked: list[Sequenced] = []
        for topic in mine:
            if topic not in self._clock:
                self._take_clock(topic, 0)
                self._rise_to_floor(topic, now)
                self._learn_earlier(topic, now)
            awake.extend(self._held.pop(topic, ()))
            parked += self._parked.take(topic)
        for topic in foreign:
            self._foreign.add(topic)
            self._given_up.pop(topic, None)
            self._unnamed_heads.pop(topic, None)
            awake.extend(self._held.pop(topic, ()))
            parked += self._parked.take(topic)
        self._run(awake, now)
        for entry in parked:
            self._receive(entry, now)
        return self._drain()

    def unsubscribed(self, topics: Iterable[int], now: float) -> list[Output]:
        """Topics are dropped at once, with what waits in them; the rest is looked at again (R11)."""
        topics = list(topics)
        awake = self._forget(topics)
        for topic in topics:
            if self._ask_unknown or not self._hold_unknown:
                self._foreign.add(topic)
            self._interrupted.pop(topic, None)
            self._unnamed_heads.pop(topic, None)
            self._parked.take(topic)
            self._floor.pop(topic, None)
            awake.extend(self._held.pop(topic, ()))
        self._run(awake, now)
        self._settle_doubts(set(), now)
        return self._drain()

    # -- holes (R17) -------------------------------------------------------------------------------------------

    def _learn(self, topic: int, number: int, now: float) -> None:
        missing = self._missing.get(topic)
        if missing is not None and number > self._clock[topic] and missing.learn(number, now):
            self._behind.add(topic)

    def _learn_dependencies(self, entry: Sequenced, now: float) -> None:
        """Also of holes: with compact stamps (R21) a hole may be the only one that names what it waits for."""
        missing, parts = self._missing, iter(entry.deps)
        for topic in parts:
            number, known = next(parts, 0), missing.get(topic)
            if known is not None and number > known.known:
                self._learn(topic, number, now)

    def heads(self, pairs: list[int], now: float) -> None:
        """A worker told the highest confirmed numbers (flat pairs). A topic that nobody has named yet may be a new one
        under a filter (R13), whose events are all lost on their way: then nothing else tells that there is one."""
        for topic, number in zip(pairs[::2], pairs[1::2], strict=False):
            if topic in self._clock:
                self._take_head(topic, number, now)
            elif self._is_held(topic):
                self._unnamed_heads[topic] = max(number, self._unnamed_heads.get(topic, 0))

    def _take_head(self, topic: int, number: int, now: float) -> None:
        self._learn(topic, number, now)
        self._vouch(topic, number)

    def _vouch(self, topic: int, number: int) -> None:
        missing = self._missing[topic]
        missing.vouched = max(missing.vouched, number)

    def questions(self, now: float) -> list[Question]:
        """Return what the workers are to be asked now; asked again after ``gap_timeout`` without an answer. Of what may
        not be read yet (R24) little, first where most time has passed: that may be what does not come."""
        timeout, due_now = self.times.gap_timeout, []
        asked = {topic: [each for each in numbers for _ in (0, 1)] for topic, numbers in self._doubtful(now).items()}
        for topic in list(self._behind):
            missing = self._missing[topic]
            due = missing.due(self._clock[topic], timeout)
            if due is None:
                self._behind.discard(topic)
            elif due <= now:
                due_now.append((missing.since, topic))
        for _, topic in sorted(due_now):
            missing = self._missing[topic]
            missing.ask_again_at(now + timeout)
            ranges = missing.ranges(self._clock[topic], self._room.topic(topic), now, timeout, self._sparing)
            if ranges:
                asked[topic] = asked.get(topic, []) + ranges
        for topic in asked:
            self._missing[topic].asked(now)
        return [Question(topic, ranges) for topic, ranges in asked.items()]

    def answered(self, numbers: Numbers, now: float) -> list[Output]:
        """A stage answered: void and abandoned numbers are skipped in their turn, confirmed ones when overdue. What it
        tells without a question (request 0) was given up, and settles no question."""
        topic = numbers.topic
        missing, clock = self._missing.get(topic), self._clock.get(topic)
        if missing is None or clock is None:
            return []
        was_asked = numbers.request != 0
        asked_at = missing.answered() if was_asked else None
        doubted = {number for entry in self._doubted for of, number in self._implausible(entry) if of == topic}
        unknown: set[tuple[int, int]] = set()
        made: deque[Sequenced] = deque()
        if self._has_expired(topic, _lost_for_good(numbers)):
            return self.expired([topic], now)
        self._want_expired(topic, numbers)
        self._vouch(topic, numbers.expired_through)
        again: float | None = None
        for answer in numbers.answers:
            if answer.state is not NumberState.UNKNOWN:
                self._vouch(topic, answer.number)
            elif answer.number in doubted:
                unknown.add((topic, answer.number))
            if answer.number <= clock or answer.number in self._room.topic(topic) or answer.number in doubted:
                continue
            if answer.state is NumberState.UNKNOWN:
                if asked_at is not None:
                    made += self._discredit(topic, answer.number, asked_at, now)
                break
            if answer.state is NumberState.PENDING and not (answer.logged and self._is_overdue(missing, answer, now)):
                again = now + self.times.gap_timeout
                missing.pending(now)
            else:
                made += self._judge(topic, missing, answer, now)
        if was_asked:
            missing.ask_again_at(again)
        self._run(made, now)
        self._settle_doubts(unknown, now)
        if self._bound is not None:
            self._enforce(now)
        return self._drain()

    def _judge(self, topic: int, missing: MissingNumbers, answer: NumberAnswer, now: float) -> list[Sequenced]:
        """Decide about a missing number whose fate is known; return the hole, where it is one."""
        if answer.logged:
            missing.want(answer.number, answer.deps)
        elif answer.state is not NumberState.CONFIRMED:
            reason = GapReason.ABANDONED if answer.state is NumberState.ABANDONED else None
            return [self._put_hole(topic, answer.number, answer.deps, reason, now)]
        elif answer.number in self._given_up.get(topic, ()):  # it has arrived: nothing is to be waited for
            reason = self._loss_reason(topic, answer.number, missing)
            return [self._put_hole(topic, answer.number, answer.deps, reason, now)]
        else:
            missing.confirm(answer.number, answer.deps, now)
        return []

    def _put_hole(self, topic: int, number: int, deps: list[int], reason: GapReason | None, now: float) -> Sequenced:
        made = hole(topic, number, deps, reason, now)
        self._add_base(made)
        self._room.put(made)
        self._learn_dependencies(made, now)
        return made

    def _is_overdue(self, missing: MissingNumbers, answer: NumberAnswer, now: float) -> bool:
        known = missing.learned_at(answer.number)
        return known is not None and known + self.times.loss_timeout <= now

    def _want_expired(self, topic: int, numbers: Numbers) -> None:
        """The stage knows these numbers no longer one by one, but its log has them."""
        if numbers.logged_from:
            missing, present = self._missing[topic], self._room.topic(topic)
            first = max(self._clock[topic] + 1, numbers.logged_from)
            for number in range(first, min(numbers.expired_through, first + MAX_ASKED) + 1):
                if number not in present and number not in missing.confirmed:
                    missing.want(number, None)

    # -- repair from the event log (R18) -----------------------------------------------------------------------

    def fetches(self, now: float, *, hold: bool = False) -> list[Fetch]:
        """Return what the event logs are to be asked for now; asked again after ``gap_timeout`` without an answer.
        ``hold``: the application has enough to read; look again after that time."""
        asked = []
        for topic, missing in self._watched():
            due = missing.fetch_due(self._clock[topic])
            if due is not None and due <= now and hold:
                missing.hold_fetch(now + self.times.gap_timeout)
            elif due is not None and due <= now:
                ranges = missing.fetch(self._room.topic(topic), now + self.times.gap_timeout)
                if ranges:
                    asked.append(Fetch(topic, ranges))
        return asked

    def fetched(self, topic: int, ranges: list[int], through: int, found: Iterable[Found], now: float) -> list[Output]:
        """The log of a topic answered for numbers of ``ranges`` up to ``through``. What it does not have will be lost
        when it is overdue; where nobody knows what it depended on either, the topic begins anew."""
        missing = self._missing.get(topic)
        if missing is None:
            return []
        wanted = missing.fetched(ranges, through)
        missing.ask_again_at(None)
        entries: list[Sequenced] = []
        for each in found:
            deps = wanted.pop(each.number, None)
            if each.content is None:
                wanted[each.number] = each.deps if deps is None else deps
            else:
                entries.append(Sequenced(topic, each.number, each.deps, each.content, each.size, now, repaired=True))
        for number in sorted(wanted):
            deps = wanted[number]
            if number <= self._clock[topic] or number in self._room.topic(topic):
                continue
            if deps is None:
                return self.expired([topic], now)
            missing.confirm(number, deps, now)
        before = self.counts.overflow
        for entry in entries:
            if entry.number > self._clock[topic] and entry.number not in self._room.topic(topic):
                self.counts.repaired += 1
                self._given_up.get(topic, NumberSet()).discard(entry.number)
                self._receive(entry, now)
        if self.counts.overflow != before:  # there is no room for more of it yet
            missing.ask_again_at(now + self.times.gap_timeout)
        return self._drain()

    # -- barriers (R24) ----------------------------------------------------------------------------------------

    def barriers(self, now: float) -> list[str]:
        """Return the spaces whose brokers are to be asked now whether all was read; each is answered with
        :meth:`caught_up`, or :meth:`not_caught_up`."""
        asked = [broker for broker, due in self._barriers_due() if due <= now]
        for broker in asked:
            broker.begin(now)
        return [broker.space for broker in asked]

    def caught_up(self, space: str, now: float) -> list[Output]:
        """Everything has been read that a broker had when its barrier began: what is overdue by that is lost."""
        broker, made = self._brokers.of(space), list[Sequenced]()
        broker.passed(now)
        for topic, missing in self._watched():
            if missing.broker is broker:
                made += self._lose_overdue(topic, missing, now)
                missing.ask_unread()
        self._run(deque(made), now)
        if self._bound is not None:
            self._enforce(now)
        for topic, jumped in list(self._jumped.items()):
            if self._missing[topic].broker is broker:
                self._skip(topic, jumped.overdue(broker.proven))
                if not jumped:
                    del self._jumped[topic]
        return self._drain()

    def not_caught_up(self, space: str, now: float) -> None:
        """A barrier will not come back: the connection to its broker is gone."""
        self._brokers.of(space).failed(now)
        for _, missing in self._watched():
            missing.ask_unread()

    def _barriers_due(self) -> list[tuple[CaughtUp, float]]:
        clock, loss = self._clock, self.times.loss_timeout
        lost = ((each.broker, each.next_loss(clock[topic], loss)) for topic, each in self._watched())
        unasked = ((each.broker, each.unasked_at) for _, each in self._watched())
        skipped = ((self._missing[topic].broker, each.due()) for topic, each in self._jumped.items())
        return self._brokers.due((*lost, *unasked, *skipped))

    def _lose_overdue(self, topic: int, missing: MissingNumbers, now: float) -> list[Sequenced]:
        """Confirmed numbers that did not arrive within ``loss_timeout`` become holes."""
        clock, proven, loss, made = self._clock[topic], missing.broker.proven, self.times.loss_timeout, []
        while (due := missing.next_loss(clock, loss)) is not None and due <= proven:
            number, deps = missing.next_lost()
            if number not in self._room.topic(topic):
                made.append(self._put_hole(topic, number, deps, self._loss_reason(topic, number, missing), now))
        return made

    def _loss_reason(self, topic: int, number: int, missing: MissingNumbers) -> GapReason:
        if number in self._given_up.get(topic, ()):
            self._given_up[topic].discard(number)
            return GapReason.OVERFLOW
        at = missing.unstamped_at
        known = missing.learned_at(number)
        since = 0.0 if known is None else known - self.times.loss_timeout
        return GapReason.UNSTAMPED if at is not None and at >= since else GapReason.LOST

    def _has_expired(self, topic: int, through: int) -> bool:
        """Tell whether a missing number is one of those, up to ``through``, that its stage no longer knows. It may have
        been void, abandoned or lost, with dependencies that nobody can tell: passing over it could put what follows
        before them (R17, R19)."""
        present, confirmed = self._room.topic(topic), self._missing[topic].confirmed
        return any(
            number not in present and number not in confirmed for number in range(self._clock[topic] + 1, through + 1)
        )

    def _discredit(self, topic: int, number: int, asked_at: float, now: float) -> list[Sequenced]:
        """Nobody had issued ``number`` when the stage answered: what claimed it, or depended on it, before the stage
        was asked carries a damaged or forged stamp. Such an event is notified without an order rather than waited
        for. What came since may be stamped after the answer left: it stays, and teaches its numbers anew.

        Returns what is to be looked at again."""
        self._missing[topic].forget_from(number, now)
        claiming = [each for each in self._room.topic(topic).values() if each.number >= number]
        asleep = [each for each in self._room.wake_from(topic, number) if not each.done]
        for entry in claiming + asleep:
            if not entry.done and entry.arrived < asked_at:
                self._room.remove(entry)
                if not entry.is_hole:
                    self._unsequence(entry)
        for entry in claiming:
            if not entry.done:
                self._learn(topic, entry.number, now)
        return asleep

    # -- time --------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Output]:
        """Time passed: bounded events may go."""
        self._settle_doubts(set(), now)
        self._enforce(now)
        return self._drain()

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick`, :meth:`barriers`, :meth:`questions` and :meth:`fetches` are next due (s), or
        ``None``."""
        due = [missing.due(self._clock[topic], self.times.gap_timeout) for topic, missing in self._watched()]
        due += [missing.fetch_due(self._clock[topic]) for topic, missing in self._watched()]
        due.append(self.next_tick())
        if self._doubted:
            due.append(self._ask_doubted_at)
        return min((each for each in due if each is not None), default=None)

    def next_tick(self) -> float | None:
        """Return when :meth:`tick` and :meth:`barriers` are next due (s), or ``None``; all there is to do while no
        worker can be asked."""
        due = [when for _, when in self._barriers_due()]
        bound = self._bound
        if bound is not None and bound.max_wait is not None and (oldest := self._room.oldest()) is not None:
            due.append(oldest.arrived + bound.max_wait)
        return min(due, default=None)

    def _watched(self) -> list[tuple[int, MissingNumbers]]:
        return [(topic, self._missing[topic]) for topic in self._behind]

    def _drain(self) -> list[Output]:
        out, self._out = self._out, []
        return out


def _one_broker(topic: int) -> str:
    """Return the space of all topics, where nobody says which they are of."""
    return ""


def _lost_for_good(numbers: Numbers) -> int:
    """Return up to which number neither the stage nor its log knows them."""
    expired, first = numbers.expired_through, numbers.logged_from
    return min(expired, first - 1) if first else expired


def _again(entry: Sequenced) -> Sequenced:
    """Return an entry that is to be received once more; what still points to the old one ignores that."""
    again = copy(entry)
    again.done = False
    return again
