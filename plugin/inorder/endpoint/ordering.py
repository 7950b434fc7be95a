"""The ordering module: timestamps and arrivals in, notifications in total order out (R4-R9, R17, R24).

Strict mode waits for every number until it arrives or is known not to come. Bounded and tag mode let go at a limit
(R6). Nothing here knows topic names: topics are cluster-wide ids, payloads are opaque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from inorder.endpoint.barriers import Brokers, CaughtUp
from inorder.endpoint.beginnings import Beginnings
from inorder.endpoint.holes import Holes
from inorder.endpoint.limits import Limits
from inorder.endpoint.losses import Losses
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Fetch, Found, Mode, OrderingTimes, Output, Question, Watcher
from inorder.endpoint.reader import SubscriptionClock
from inorder.endpoint.suspicion import Suspicion
from inorder.endpoint.ticks import Reached, Ticks
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.endpoint.waits import waits_of
from inorder.protocol.wire import Numbers, SharedBase, TopicStart, Wait


class OrderingModule:
    """One client's subscription clock and everything that waits for it.

    All methods take the time in seconds and return what is to be notified, in order. Where :meth:`barriers` asks for it
    the caller has a broker asked, and passes the answer to :meth:`caught_up`.

    Args:
        mode: ``"strict"`` (no limit), ``"tag"`` (buffer 0, the papers' tagging) or :class:`Bounded` (R6).
        times: timers and bounds.

    Attributes:
        counts: what was seen.
        clock: the subscription clock: the last number notified or skipped, by topic, as it is when it is looked at.
        space_of: returns the space of a topic, whose broker is asked for barriers.
    """

    def __init__(self, mode: Mode = "strict", times: OrderingTimes | None = None) -> None:
        self.mode = mode
        self.times = times or OrderingTimes()
        self.space_of: Callable[[int], str] = _one_broker
        bound = Bounded(buffer=0) if mode == "tag" else mode if isinstance(mode, Bounded) else None
        self._brokers = Brokers(self.times.barrier_interval, self.times.gap_timeout)
        self._turns = turns = Turns(self.times, is_strict=bound is None)
        self._suspicion = Suspicion(turns)
        self._limits = Limits(turns, self._suspicion, bound)
        self._losses = Losses(turns, self._brokers)
        self._beginnings = Beginnings(turns, self._suspicion, self._broker_of)
        self._holes = Holes(turns, self._suspicion, self._beginnings)
        turns.on_waiting = self._limits.enforce
        self.counts = turns.counts
        self.clock = SubscriptionClock(turns.readers)

    def __repr__(self) -> str:
        return f"<OrderingModule {self.mode}: {len(self.clock)} topics, {self._turns.room.count} waiting>"

    @property
    def watcher(self) -> Watcher | None:
        """The listener for changes that no output shows."""
        return self._turns.watcher

    @watcher.setter
    def watcher(self, watcher: Watcher | None) -> None:
        self._turns.watcher = watcher

    @property
    def waiting(self) -> int:
        """The number of waiting events."""
        return self._turns.room.count + self._suspicion.count

    @property
    def waiting_bytes(self) -> int:
        """Bytes that waiting events count for."""
        return self._turns.room.size + self._suspicion.size

    @property
    def is_idle(self) -> bool:
        """Tell whether no event waits, and no number is missing or jumped: no timer and no question is due."""
        turns = self._turns
        is_behind = turns.agenda.behind or turns.jumping or turns.unbegun.is_awaited or self.waiting
        return not is_behind and turns.leads.due is None

    def waits(self, now: float) -> list[Wait]:
        """Return what holds events up for long, for operators."""
        turns = self._turns
        old = () if turns.merging is None else turns.merging.missing()
        return waits_of(turns.room, turns.unbegun.held, old, now) if turns.room.count else []

    def waits_for_turn(self, topic: int, number: int) -> bool:
        """Tell whether an event with this number waits."""
        entry = self._turns.room.get(topic, number)
        return entry is not None and not entry.is_hole

    def describe(self) -> dict[str, Any]:
        """Return the whole state of the module, in plain containers: the knowledge of readers and of topics without a
        clock, by topic, and the waiting entries themselves. For tests and for looking into a client."""
        turns = self._turns
        return {
            "readers": {topic: reader.describe() for topic, reader in turns.readers.items()},
            "unbegun": turns.unbegun.describe(),
            "waiting": turns.room.describe(),
            "on_hold": list(turns.on_hold),
            "doubted": self._suspicion.describe(),
            "circles": self._holes.circles.describe(),
            "left": set(turns.left),
            "behind": set(turns.agenda.behind),
            "jumping": list(turns.jumping),
            "is_leased": turns.is_leased,
            "reached": turns.leads.reached.saved(),
            "leads": turns.leads.describe(),
            "merging": None if turns.merging is None else turns.merging.describe(),
            "is_restored": self._beginnings.is_restored,
            "brokers": self._brokers.describe(),
            "unread": self._holes.sparing.describe(),
        }

    # -- the point reached (R23) -------------------------------------------------------------------------------

    def resume(self, saved: list[int]) -> None:
        """A former process was done with what has these ticks, behind the order epoch; ``saved`` may be empty."""
        self._turns.leads.resume(saved)

    def forged(self) -> list[tuple[int, int]]:
        """Return (and forget) the events, by topic and number, whose ticks were found to be forged."""
        leads = self._turns.leads
        found, leads.forged = leads.forged, []
        return found

    def point(self, done: Reached) -> Reached:
        """Return the point that the application was done with, with a former process's, and without forged ticks."""
        return self._turns.leads.point(done)

    # -- arrivals (R4, R5) -------------------------------------------------------------------------------------

    def receive(
        self,
        topic: int,
        number: int,
        deps: list[int],
        content: Any,
        size: int,
        now: float,
        *,
        retained: bool = False,
        ticks: Ticks = (),
    ) -> list[Output]:
        """An event arrived from the ENS. ``retained``: the broker sent it from its store, as a subscription asked it to
        (R5)."""
        turns = self._turns
        entry = Sequenced(topic, number, deps, content, size, now, retained, ticks)
        turns.receive(entry, now)
        out, turns.out = turns.out, []
        return turns.audible(out) if turns.left else out

    def unsequenced(self, topic: int, now: float) -> None:
        """A message without a stamp arrived on a topic of the subscription (R17: perhaps what is missing)."""
        reader = self._turns.readers.get(topic)
        if reader is not None:
            reader.missing.unstamped_at = now

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    @property
    def is_leased(self) -> bool:
        """Every stage of the subscription has answered in time."""
        return self._turns.is_leased

    def lapse(self) -> None:
        """End the lease, as a stage of the subscription has not answered in time. From now on strict mode holds ready
        events, and bounded and tag mode notify of these as late: the clocks go on, but nothing counts as in order."""
        self._turns.is_leased = False

    def renewed(self, now: float) -> list[Output]:
        """All stages have answered: what was held may go."""
        turns = self._turns
        turns.is_leased = True
        held, turns.on_hold = turns.on_hold, []
        turns.run(deque(held), now)
        return turns.drain()

    # -- subscriptions (R7-R9, R11-R13) ------------------------------------------------------------------------

    def subscribing(self) -> None:
        """A subscribe is outstanding: any topic without a clock may be part of it, so it holds events (R9)."""
        self._turns.unbegun.subscribing()

    def subscribed(
        self, starts: Iterable[TopicStart], now: float, *, filters: bool, bases: Iterable[SharedBase] = ()
    ) -> list[Output]:
        """The subscription is complete (R7); clocks are taken only for topics that are new here (R8).

        ``filters``: the subscription has wildcards, so topics with unknown ids may still be part of it (R13).
        ``bases``: what topics that begin together depend on, beside the bases of single ones.
        """
        self._beginnings.subscribed(starts, now, filters=filters, bases=bases)
        return self._turns.drain()

    def unnamed(self) -> list[int]:
        """Return the ids of topics that hold events until a worker has named the topic (R13), or that only a head has
        told of (R17: the first events may be lost)."""
        return self._turns.unbegun.unnamed()

    def names_asked(self, topics: Iterable[int]) -> None:
        """Workers are asked for these names: :meth:`unnamed` leaves them out."""
        self._turns.unbegun.asked(topics)

    def names_unanswered(self, topics: Iterable[int]) -> None:
        """Take note that nobody answers for these names any more; the awaited ones are to be asked for again."""
        self._turns.unbegun.unanswered(topics)

    def named(
        self,
        mine: Iterable[int],
        foreign: Iterable[int],
        now: float,
        *,
        left: Iterable[int] = (),
        over: Iterable[int] = (),
    ) -> list[Output]:
        """Begin the named topics of this subscription at 0 (a topic without a name is younger than the subscription,
        R13); the others concern no one here. Topics of a subscription that was ``left`` begin so, too, and are only
        read on (R22). An event that waited for the name of a foreign topic goes out unsequenced: the caller drops it if
        its topic was unsubscribed meanwhile. Topics that no worker knows are ``over``, and what comes of them is from
        before the subscription."""
        self._beginnings.named(mine, foreign, left, over, now)
        return self._turns.drain()

    def unsubscribed(self, topics: Iterable[int], now: float) -> list[Output]:
        """Topics are dropped at once, with what waits in them; the rest is looked at again (R11)."""
        self._beginnings.unsubscribed(topics, now)
        return self._turns.drain()

    @property
    def left(self) -> AbstractSet[int]:
        """A live view of the topics that were left and are read on (R22)."""
        return self._turns.left

    def leave(self, topics: Iterable[int], now: float) -> list[Output]:
        """Topics are left: they are read on, and nothing more is told of them, until :meth:`read_through` (R22)."""
        self._beginnings.leave(topics, now)
        return self._turns.drain()

    def read_through(self, ends: Mapping[int, int], now: float, *, at_once: bool) -> list[Output]:
        """The topics left last are to be read up to these numbers; then each ends, with a :class:`Left` (R22).
        ``at_once``: nothing more comes from their brokers, so what is missing is asked for now."""
        self._beginnings.read_through(ends, now - self.times.gap_timeout if at_once else now, now)
        return self._turns.drain()

    def drop_left(self, now: float) -> list[Output]:
        """Let go of all topics that were left."""
        self._beginnings.drop_left(now)
        return self._turns.drain()

    def has_read(self, topic: int, number: int) -> bool:
        """Tell whether all numbers of a topic up to this one were notified of or reported. A topic without a number has
        none."""
        reader = self._turns.readers.get(topic)
        return not number if reader is None else reader.clock >= number and not reader.jumped

    def ended(self, topics: Iterable[int], now: float) -> list[Output]:
        """All readers of these topics have read all of each: what is known of them is forgotten, and is met."""
        self._beginnings.ended(topics, now)
        return self._turns.drain()

    @property
    def interrupted(self) -> Mapping[int, int]:
        """A live view of the topics that wait for a new start, each with the number after its old clock. After each
        addition the caller is to subscribe anew (R12, R17)."""
        return self._turns.unbegun.interrupted

    def expired(self, topics: Iterable[int], now: float) -> list[Output]:
        """The topic managers have dropped these topics from the subscription (R12), or forgotten numbers that are
        missing here (R17). They begin anew with the next :meth:`subscribed`, each with one gap from the number after
        its clock to its new start. What waits in them is kept aside until then, and dropped up to the start."""
        self._beginnings.expired(topics, now)
        return self._turns.drain()

    def other_domain(self, now: float) -> list[Output]:
        """The workers' numbers are others from now on (a restored store has a domain id of its own); topic ids and all
        that is known here belong to the former ones. Each topic ends with one gap; what waits goes out without an
        order, as it arrived. The caller subscribes anew. What arrives until the new starts are known, and is from
        before them, goes out without an order too: other clients may have come to the new domain sooner."""
        self._beginnings.other_domain()
        return self._turns.drain()

    # -- missing numbers (R17, R18) ----------------------------------------------------------------------------

    def heads(self, pairs: list[int], now: float) -> None:
        """A worker told the highest confirmed numbers (flat pairs). A topic that nobody has named yet may be a new one
        under a filter (R13), whose events are all lost on their way: then nothing else tells that there is one."""
        self._holes.heads(pairs, now)

    def questions(self, now: float) -> list[Question]:
        """Return what the workers are to be asked now; asked again after ``gap_timeout`` without an answer. Of what may
        not be read yet (R24) little, first where most time has passed: that may be what does not come."""
        return self._holes.questions(now)

    def answered(self, numbers: Numbers, now: float) -> list[Output]:
        """A stage answered, or told unasked (request 0) that numbers were given up."""
        self._holes.answered(numbers, now)
        return self._turns.drain()

    def fetches(self, now: float, *, hold: bool = False) -> list[Fetch]:
        """Return what the event logs are to be asked for now; asked again after ``gap_timeout`` without an answer.
        ``hold``: the application has enough to read; look again after that time."""
        return self._holes.fetches(now, hold=hold)

    def fetched(self, topic: int, ranges: list[int], through: int, found: Iterable[Found], now: float) -> list[Output]:
        """The log of a topic answered for numbers of ``ranges`` up to ``through``."""
        self._holes.fetched(topic, ranges, through, found, now)
        return self._turns.drain()

    # -- barriers (R24) ----------------------------------------------------------------------------------------

    def barriers(self, now: float) -> list[str]:
        """Return the spaces whose brokers are to be asked now whether all was read; each is answered with
        :meth:`caught_up`, or :meth:`not_caught_up`."""
        return self._losses.barriers(now)

    def caught_up(self, space: str, now: float) -> list[Output]:
        """Report overdue numbers as lost: the client has read all that the broker had when its barrier began (R24)."""
        self._losses.caught_up(space, now)
        return self._turns.drain()

    def not_caught_up(self, space: str, now: float) -> None:
        """A barrier will not come back: the connection to its broker is gone."""
        self._losses.not_caught_up(space, now)

    def _broker_of(self, topic: int) -> CaughtUp:
        return self._brokers.of(self.space_of(topic))

    # -- time --------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Output]:
        """Time passed: bounded events may go."""
        self._suspicion.settle(set(), now)
        self._limits.enforce(now)
        return self._turns.drain()

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick`, :meth:`barriers`, :meth:`questions` and :meth:`fetches` are next due (s), or
        ``None``."""
        return _earliest(self._holes.due, self.next_tick())

    def next_tick(self) -> float | None:
        """Return when :meth:`tick` and :meth:`barriers` are next due (s), or ``None``; all there is to do while no
        worker can be asked."""
        return _earliest(self._losses.due, self._limits.due)


def _earliest(*due: float | None) -> float | None:
    return min((each for each in due if each is not None), default=None)


def _one_broker(topic: int) -> str:
    """Return the space of all topics, where nobody says which they are of."""
    return ""
