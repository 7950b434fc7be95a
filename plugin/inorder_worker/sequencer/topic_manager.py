"""The state of one topic at one stage.

At the topic's own stage it is the paper's topic manager; at a stage above, the topic's timestamps only pass and
are filled with the numbers of topics there. Both keep the same things: the last number seen, the group to fill,
and what was carried, so one class serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import NumberState

_NEVER = (0, 0)
_CONFIRMED = NumberState.CONFIRMED
ANSWERS_KEPT: Final = 100_000
"""Of a session at a stage, where its client lets go of none. Ours may have 20,000 publishes unfinished, unless that is
set otherwise (``max_pending``), and waits for the answers to a thousand at most."""


class NumberRecord(msgspec.Struct, array_like=True, gc=False):
    """One number a topic manager issued (DESIGN, "Vocabulary", states of a number).

    Attributes:
        client_id, incarnation, counter: the event id.
        deps: the complete timestamp's dependencies (flat), ``None`` until it is complete.
        state: see :class:`~inorder.protocol.wire.NumberState`.
        created: stage time (ms), for ``confirm_timeout``.
        in_payload: the envelope form that went with it.
        logged: the event log has what was published under it (R18).
        ticks: of the timestamp, once it is complete (R23).
    """

    client_id: str
    incarnation: int
    counter: int
    topic: int
    number: int
    deps: list[int] | None
    state: NumberState
    created: int
    in_payload: bool
    logged: bool = False
    ticks: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Tell whether the number's outcome is not known, or the timestamp not complete."""
        return self.state is NumberState.PENDING or self.deps is None


class TopicManager(msgspec.Struct):
    """A topic at a stage.

    Attributes:
        id, space, name, stage: the topic; ``stage`` is its home.
        number: at home its ``LC``; above, the last of its numbers that passed or was announced by a subscription
            (the ``LLC`` of every topic here: a stage is atomic, so one value serves them all, R3).
        tick: when ``number`` last rose, in the stage's own count of events.
        has_passed: it rose by an event, not because a subscription announced it, or the topic order changed (R22).
        told: where its event passed if not here: the stage, that stage's tick, and the tick here from which on clients
            began the topic behind it; empty: that is not known (see ``telling``).
        filled: the tick of this topic's last timestamp; entries that did not rise since may be left out (R21). 0: the
            next one regards the whole group.
        base: what its events follow on other stages (R19), the highest number of each topic; see ``bases``.
        switched: its number when the topic order changed last (R8, R14).
        head: the highest confirmed number (R17).
        records: numbers still known one by one; only at home.
        marks: where blocks of numbers end, to forget them by; the next block begins with the number ``mark_at``, or at
            the stage time ``mark_by``.
        expired: the last number no longer known one by one.
        moved: the order epoch in which the topic came to its stage (R14).
        counted: the number with which the window of its popularity began (R15).
        idle_since: when it was found to get no number (stage time); 0: it has got one since.
        is_retired: this stage has forgotten all but the number since then (see ``retiring``).
        logged: it has an event log (R18).
        log_first: at home, the lowest number in it; all later ones have a row there. 0 while it holds none.
        log_base: what the numbers below ``log_first`` follow that ticks do not tell, together (``event_log``).
        riding: at home, numbers whose timestamp is on its way up; with the stage from which it was asked for again, -1
            for none.
        confirmed, void, abandoned: at home, how many numbers became that; ``late``: those that were confirmed when
            they had been given up. For operators; nothing decides by it.
        owner: whose session made it, where that counts (``quotas``).
        follows: the last number of the topic that had this one's name before and has not ended yet (flat).
    """

    id: int
    space: str
    name: str
    stage: int
    number: int = 0
    tick: int = 0
    has_passed: bool = False
    told: tuple[int, ...] = ()
    filled: int = 0
    base: dict[int, int] = {}
    switched: int = 0
    head: int = 0
    records: dict[int, NumberRecord] = {}
    marks: list[int] = []
    mark_at: int = 0
    expired: int = 0
    moved: int = 0
    counted: int = 0
    idle_since: int = 0
    is_retired: bool = False
    logged: bool = False
    log_first: int = 0
    log_base: dict[int, int] | None = {}
    riding: dict[int, int] = {}
    confirmed: int = 0
    void: int = 0
    abandoned: int = 0
    late: int = 0
    mark_by: int = 0
    owner: str | None = None
    follows: list[int] = []

    def settle(self, record: NumberRecord, to: NumberState) -> NumberState:
        """A pending number is settled: return as what. What the event log has is never void or abandoned: whoever
        misses it gets it from there (R18)."""
        if to is _CONFIRMED or self.has_logged(record):
            record.state = _CONFIRMED
            self.confirmed += 1
            return _CONFIRMED
        record.state = to
        if to is NumberState.VOID:
            self.void += 1
        else:
            self.abandoned += 1
        return to

    def has_logged(self, record: NumberRecord) -> bool:
        """Tell whether the event log serves a number of this topic (R18)."""
        return record.logged and 0 < self.log_first <= record.number


class Session(msgspec.Struct):
    """One incarnation of a client at a stage: its requests (R1) and its publisher order (R19).

    Attributes:
        low: counters below it are forgotten.
        answers: counter to ``(topic, number)``, at the topic's home and where the request entered; number 0 while it
            rides to its home from here.
        used: topic to ``(counter, number)`` of this session's last event there, least recent first; number 0 where
            the event only rode through.
        open: ``(topic, number)`` neither confirmed nor given up, oldest first.
        connected: its connection is up; else ``since`` (ms) is when it went.
        timeout: what its client was told when it connected, ms: how long it counts on its subscription (R12).
        is_opened: its client has connected since it is here: all its counters from ``low`` on are known. Else it came
            with a topic (R14) or a request from below, and what was asked of this stage before may be forgotten.
        max_open: how many numbers may be in ``open``; 0: any.
        began: what this client used before that counter may be forgotten here (``used``): its session was dropped.
        proves: its client is believed nothing of numbers that cannot be known here (``claims``).
        vouched: numbers of topics further down that stages there let it name.
        owner, max_topics, max_subscriptions, max_owned: as its client came (``OpenSession``).
        floor: counters below it are forgotten as well, but for those in ``answers``: its client did not let go of so
            many (``keep_answers``). It is this stage's own and does not ride along, as ``low`` does. With more than
            ``look_at`` answers the next look for what can be forgotten is due.
        passed_on: ranges of numbers that it settled here since the topic order changed last, of topics that moved away.
        refusals: how often requests of topics that have ended were refused; -1: its client does not know that, as far
            as it has told.
        begun: the tick at which a subscription passed last, and ``before``: the last counter used before that.
        earlier: the topics used up to then, least recent first, and those of them that got numbers since; ``None``:
            nobody has looked for them.
    """

    client_id: str
    incarnation: int
    low: int = 0
    answers: dict[int, tuple[int, int]] = {}
    used: dict[int, tuple[int, int]] = {}
    open: dict[tuple[int, int], None] = {}
    connected: bool = True
    since: int = 0
    timeout: int = 0
    is_opened: bool = True
    max_open: int = 0
    began: int = 0
    proves: bool = False
    vouched: dict[int, int] = {}
    owner: str = ""
    max_topics: int = 0
    max_subscriptions: int = 0
    floor: int = 0
    look_at: int = 0
    passed_on: int = 0
    max_owned: int = 0
    refusals: int = -1
    begun: int = 0
    before: int = 0
    earlier: list[int] | None = None

    def used_before(self, begun: int) -> int:
        """Return the last counter that was used before the last subscription passed, at the tick ``begun``."""
        if begun != self.begun:
            self.begun, self.before = begun, next(reversed(self.used.values()), _NEVER)[0]
            self.earlier = None
        return self.before

    @property
    def highest(self) -> int:
        """The highest counter that it knows."""
        used = next(reversed(self.used.values()), _NEVER)[0]
        return max(self.low - 1, self.floor - 1, used, max(self.answers, default=0))

    def keep_answers(self, most: int, topics: Mapping[int, TopicManager]) -> None:
        """Forget the oldest answers beyond ``most``, but none with an open number here or a timestamp on its way: its
        client waits for that, and nothing would come. A client asks again where it has no answer, and that is not so
        long ago; or where it has not confirmed a number, and that is open, or given up: it hears ``forgotten`` then."""
        if not most < len(self.answers) > self.look_at:
            return
        step = max(1, most // 10)
        over = len(self.answers) - most
        steps = 4 * (step + len(self.answers) - self.look_at)  # more than came since, and not all of them each time
        for counter, place in list(islice(self.answers.items(), steps)):
            topic, number = place
            manager = topics.get(topic)
            if over and number and place not in self.open and (manager is None or number not in manager.riding):
                over -= 1
                del self.answers[counter]
                self.floor = max(self.floor, counter + 1)
        self.look_at = len(self.answers) + step

    def forget_below(self, low: int) -> None:
        """Let go of all answers that the client does not care about any more (R1)."""
        if low <= self.low:
            return
        # the shorter of the two walks: a client may name any mark, and must not make this stage count up to it
        span = range(self.low, low)
        for counter in span if len(span) <= len(self.answers) else [each for each in self.answers if each < low]:
            self.answers.pop(counter, None)
        self.low = low

    @property
    def forgotten_below(self) -> int:
        """Requests with lower counters, if there is no answer to them, may have had one (R1)."""
        return self.low if self.low > self.floor else self.floor

    def remembers(self, required: list[int], stage: int) -> bool:
        """Tell whether this stage knows of the publisher's last events what a request relies on (R19)."""
        return not required or all(counter >= self.began for at, counter in pairs(required) if at == stage)

    def follow(self, topic: int, counter: int) -> list[int]:
        """An event only rides through this stage: return the session's last events in other topics here since its
        last one in ``topic`` (R19, flat), and note this one as the newest."""
        used = self.used
        if counter <= next(reversed(used.values()), _NEVER)[0]:
            return []  # made again, and numbered long ago: its home knows what it depends on
        since = used.pop(topic, _NEVER)[0]
        after: list[int] = []
        for other, (when, number) in reversed(used.items()):
            if when <= since:
                break
            if number:
                after += (other, number)
        used[topic] = (counter, 0)
        return after
