"""The history of a run, recorded at its edges: plain data that shares nothing with the core.

A recorder (a simulation, a test over real clients, a job over traces) fills a :class:`History`; the checks only read
it. What a recorder cannot see it leaves out, and the checks that would need it stay silent: each field says which.

Times are seconds of any one clock. Topics are numbers; :attr:`History.topics` may name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Session = tuple[str, int]
"""(client id, incarnation)"""
EventId = tuple[str, int, int]
"""(client id, incarnation, counter)"""
Place = tuple[int, int]
"""(topic, number)"""

Outcome = Literal["open", "acknowledged", "void", "unknown"]
"""How a publish ended: not yet; the ENS accepted it; it was certainly not handed over; it may have been (R16)."""


# -- publishers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Publish:
    """One call of publish.

    Attributes:
        topic: where.
        order: ``"total"``, ``"fifo"`` or ``"none"``; without total order there is no number.
        outcome: as its caller was told.
    """

    event: EventId
    topic: int
    order: str = "total"
    outcome: Outcome = "open"


def highest(deps: Sequence[int]) -> dict[int, int]:
    """Return a timestamp's dependencies, given as flat pairs, with the highest number for each topic."""
    found: dict[int, int] = {}
    # by hand: what judges imports nothing of what it judges
    for topic, number in zip(deps[::2], deps[1::2], strict=True):
        found[topic] = max(number, found.get(topic, 0))
    return found


@dataclass(slots=True)
class Stamped:
    """An event with its timestamp, as its publisher got it.

    Attributes:
        place: its topic and its number there.
        deps: its dependencies, numbers by topic.
        published: when publish was called, on the clock of :attr:`Span.completed`.
        stamped: when the timestamp came, s.
    """

    event: EventId
    place: Place
    deps: Mapping[int, int]
    published: float
    stamped: float


# -- subscribers -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Notified:
    """A notification of an event to a subscriber.

    Attributes:
        event: who it is, ``None`` for what no recorded publisher published.
        place: as its timestamp says, ``None`` without one.
        verdict: ``in_order``, ``late``, ``fifo``, ``unsequenced`` or ``retained``.
        when: s.
        redelivered: marked as perhaps notified before (R18).
    """

    event: EventId | None
    place: Place | None
    verdict: str
    when: float
    redelivered: bool = False


@dataclass(slots=True)
class Report:
    """A reported gap: numbers ``first`` to ``last`` of a topic (R17), after ``behind`` notifications."""

    topic: int
    first: int
    last: int
    reason: str
    behind: int = 0


@dataclass(slots=True)
class Span:
    """One uninterrupted subscription of one subscriber to one topic: numbers after ``start`` up to ``end``.

    Attributes:
        start: the topic's number when it began.
        completed: when its subscribe was complete, on the clock of :attr:`Stamped.published`.
        began: the same in s.
        end: the last number notified or skipped; ``None`` where that was not seen (then nothing is said about the
            numbers after the last one notified or reported).
        dropped: when it was unsubscribed or lost, s; ``None`` while it goes on.
        continues: it follows an interruption of the span before (expired, R12): what lies between is to be reported.
    """

    topic: int
    start: int
    completed: float
    began: float
    end: int | None = None
    dropped: float | None = None
    continues: bool = False


@dataclass(slots=True)
class Resume:
    """A durable subscriber's return with its saved clock (R18), after so many notifications, gaps and spans."""

    clock: Mapping[int, int]
    notified: int
    gaps: int
    spans: int


@dataclass(slots=True)
class Run:
    """The notifications and gaps of a subscriber between two resumes.

    Attributes:
        clock: the saved clock that it began with.
        before: how many notifications came before it.
    """

    clock: Mapping[int, int]
    notified: list[Notified]
    gaps: list[Report]
    spans: list[Span]
    before: int

    def stream(self) -> Iterator[Notified | Report]:
        """Return notifications and gaps in the order of their arrival."""
        gaps = iter(self.gaps)
        gap = next(gaps, None)
        for at, each in enumerate(self.notified, start=self.before):
            while gap is not None and gap.behind <= at:
                yield gap
                gap = next(gaps, None)
            yield each
        while gap is not None:
            yield gap
            gap = next(gaps, None)


@dataclass(slots=True)
class SubscriberHistory:
    """All notifications of one client over all its incarnations.

    Attributes:
        mode: ``strict``, ``bounded`` or ``tag``.
        lapses: times (from, until; s) in which its lease (R12) had run out; ``None`` if that was not recorded, then
            nothing is said about what is late.
        expiries: how often its whole subscription was found expired.
    """

    name: str
    mode: str
    notified: list[Notified] = field(default_factory=list)
    gaps: list[Report] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    lapses: list[tuple[float, float]] | None = None
    expiries: int = 0

    def notify(
        self, event: EventId | None, place: Place | None, verdict: str, when: float, *, redelivered: bool = False
    ) -> None:
        """Record a notification."""
        self.notified.append(Notified(event, place, verdict, when, redelivered))

    def report(self, topic: int, first: int, last: int, reason: str) -> None:
        """Record a reported gap."""
        self.gaps.append(Report(topic, first, last, reason, len(self.notified)))

    def resume(self, clock: Mapping[int, int]) -> None:
        """Record a resume after the saved clock, which begins new spans."""
        self.resumes.append(Resume(dict(clock), len(self.notified), len(self.gaps), len(self.spans)))

    @property
    def in_order(self) -> list[Notified]:
        """The notifications in order."""
        return [each for each in self.notified if each.verdict == "in_order"]

    def runs(self) -> list[Run]:
        """Return the runs from each resume to the next; one run without any resume."""
        cuts = [Resume({}, 0, 0, 0), *self.resumes]
        ends = [*self.resumes, Resume({}, len(self.notified), len(self.gaps), len(self.spans))]
        return [
            Run(
                cut.clock,
                self.notified[cut.notified : end.notified],
                self.gaps[cut.gaps : end.gaps],
                self.spans[cut.spans : end.spans],
                cut.notified,
            )
            for cut, end in zip(cuts, ends, strict=True)
        ]


# -- the whole -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Unfinished:
    """A wait that should have ended: the waiter and the reason, in words."""

    client: str
    what: str


@dataclass(slots=True)
class History:
    """The history of one run.

    Attributes:
        linger: seconds; order across an unsubscription longer ago is not promised (R20).
        publishes: calls of publish, by event.
        stamps: timestamps as publishers got them, each as often as it came.
        stamped: the first of each event's.
        places: the event that was given each number.
        subscribers: by client id.
        states: what the stages say of each number at the end (``PENDING``, ``CONFIRMED``, ``VOID``, ``ABANDONED``);
            ``RELEASED`` is void by the word of an operator, who cannot know whether the event was handed over.
        unknown: ranges (topic, first, last) of numbers of which it was not recorded what they are, so that they may be
            void.
        unheard: dependencies of numbers whose timestamp no publisher may have got, as the stages keep them.
        heads: the highest confirmed number of each topic at the end.
        unfinished: what still waited at the end.
        topics: names for sentences.
        forgotten: publishes that ended because the stages had forgotten their publisher's session, as they said.
        ended: sessions that a stage has dropped, where that is known.
        owners: the event that each number belongs to, as the stages keep them.
        is_direct: publishers and subscribers of a topic have one broker, and what is confirmed it has accepted.
    """

    linger: float
    publishes: dict[EventId, Publish] = field(default_factory=dict)
    stamps: list[Stamped] = field(default_factory=list)
    stamped: dict[EventId, Stamped] = field(default_factory=dict)
    places: dict[Place, EventId] = field(default_factory=dict)
    subscribers: dict[str, SubscriberHistory] = field(default_factory=dict)
    states: dict[Place, str] = field(default_factory=dict)
    unknown: list[tuple[int, int, int]] = field(default_factory=list)
    unheard: dict[Place, Mapping[int, int]] = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)
    unfinished: list[Unfinished] = field(default_factory=list)
    topics: dict[int, str] = field(default_factory=dict)
    forgotten: list[EventId] = field(default_factory=list)
    ended: set[tuple[str, int]] = field(default_factory=set)
    owners: dict[Place, EventId] = field(default_factory=dict)
    is_direct: bool = False

    def publish(self, event: EventId, topic: int, order: str = "total") -> Publish:
        """Record a publish, whose outcome is set later."""
        made = self.publishes[event] = Publish(event, topic, order)
        return made

    def stamp(self, event: EventId, place: Place, deps: Sequence[int], published: float, now: float) -> None:
        """Record a publisher's timestamp, new or repeated; ``deps`` as flat pairs."""
        made = Stamped(event, place, highest(deps), published, now)
        self.stamps.append(made)
        self.stamped.setdefault(event, made)
        self.places.setdefault(place, event)

    def subscriber(self, name: str, mode: str = "strict") -> SubscriberHistory:
        """Return the client's history, made at the first call."""
        return self.subscribers.setdefault(name, SubscriberHistory(name, mode))

    def deps_of(self, place: Place) -> Mapping[int, int] | None:
        """Return the dependencies of a number, or ``None`` if nobody recorded them."""
        event = self.places.get(place)
        return self.unheard.get(place) if event is None else self.stamped[event].deps

    def named(self, place: Place | None) -> str:
        """Return a place in words."""
        if place is None:
            return "no number"
        topic, number = place
        return f"{self.topics.get(topic, topic)}#{number}"
