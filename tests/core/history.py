"""What a simulated run did, and independent checks of it: plain data and slow, obvious loops, nothing of the core.

A violation is a sentence with its witnesses: the rule, the events and the subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

EventId = tuple[str, int, int]
"""(client id, incarnation, counter)"""
Place = tuple[int, int]
"""(topic id, number)"""


@dataclass(slots=True)
class Stamped:
    """An event with its timestamp, as its publisher got it."""

    event: EventId
    place: Place
    deps: dict[int, int]
    published: int
    stamped: float


@dataclass(slots=True)
class Notified:
    """An event as a subscriber got it."""

    event: EventId
    place: Place
    verdict: str
    when: float


@dataclass(slots=True)
class Span:
    """One uninterrupted subscription of one subscriber to one topic: numbers after ``start`` up to ``end``.
    ``completed``: the step, ``began``: the time of its answer."""

    topic: int
    start: int
    completed: int
    began: float
    end: int | None = None
    dropped: float | None = None


@dataclass(slots=True)
class SubscriberHistory:
    """All that one client was notified of, over all its incarnations."""

    name: str
    mode: str
    notified: list[Notified] = field(default_factory=list)
    gaps: list[tuple[int, int, int, str]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    expiries: int = 0

    @property
    def in_order(self) -> list[Notified]:
        return [each for each in self.notified if each.verdict == "in_order"]


@dataclass(slots=True)
class History:
    """One run.

    Attributes:
        linger: seconds; order across an unsubscription longer ago is not promised (R20).
        states: what the stages say of each number at the end.
        heads: the highest confirmed number of each topic at the end.
    """

    linger: float
    stamped: dict[EventId, Stamped] = field(default_factory=dict)
    places: dict[Place, EventId] = field(default_factory=dict)
    subscribers: dict[str, SubscriberHistory] = field(default_factory=dict)
    states: dict[Place, str] = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def stamp(self, event: EventId, place: Place, deps: list[int], published: int, now: float) -> None:
        """A publisher got a timestamp: the first time, or again (R1)."""
        entries = dict(zip(deps[::2], deps[1::2], strict=True))
        known = self.stamped.get(event)
        if known is None:
            if place in self.places:
                self.complaints.append(f"R1 {place} was given to {self.places[place]} and to {event}")
            self.places[place] = event
            self.stamped[event] = Stamped(event, place, entries, published, now)
        elif known.place != place or known.deps != entries:
            self.complaints.append(f"R1 {event} had {known.place} {known.deps}, later {place} {entries}")


def violations(history: History) -> list[str]:
    """Return every rule that the run broke, with its witnesses."""
    found = list(history.complaints)
    for subscriber in history.subscribers.values():
        found += _check_topic_order(subscriber)
        found += _check_phantoms(history, subscriber)
        found += _check_completeness(history, subscriber)
        if subscriber.mode == "strict":
            found += _check_publisher_order(subscriber)
    for one, two in combinations(history.subscribers.values(), 2):
        found += _check_total_order(history, one, two)
    return found


def _check_topic_order(subscriber: SubscriberHistory) -> Iterator[str]:
    """Per topic: in_order numbers rise, and nothing is notified twice (R5, R20)."""
    last: dict[int, int] = {}
    seen: set[Place] = set()
    for each in subscriber.notified:
        topic, number = each.place
        if each.place in seen:
            yield f"R5 {subscriber.name} was notified of {each.place} twice"
        seen.add(each.place)
        if each.verdict == "in_order":
            if number <= last.get(topic, 0):
                yield f"R4 {subscriber.name}: {each.place} after number {last[topic]}"
            last[topic] = number


def _check_phantoms(history: History, subscriber: SubscriberHistory) -> Iterator[str]:
    """What is notified was published so, was not void, and is late only where events may be passed over (R6)."""
    for each in subscriber.notified:
        if history.places.get(each.place) != each.event:
            yield f"phantom: {subscriber.name} got {each.event} as {each.place}, {history.places.get(each.place)} is"
        if each.verdict == "late" and subscriber.mode == "strict":
            yield f"R6 {subscriber.name} is strict and got {each.place} late"
        if each.verdict not in ("in_order", "late"):
            yield f"{subscriber.name} got {each.place} as {each.verdict}"
        if history.states.get(each.place) == "VOID":
            yield f"R16 {subscriber.name} got {each.place}, which is void"


def _check_completeness(history: History, subscriber: SubscriberHistory) -> Iterator[str]:
    """Every number of a span was notified, is void, or was reported (R17); at the end nothing is left out."""
    got = {each.place for each in subscriber.notified}
    reported: set[Place] = set()
    for topic, first, last, reason in subscriber.gaps:
        for place in [(topic, number) for number in range(first, last + 1)]:
            if place in reported:
                yield f"R17 {subscriber.name}: {place} reported twice"
            if place in got and subscriber.mode == "strict":
                yield f"R17 {subscriber.name}: {place} reported as {reason} and notified"
            reported.add(place)
    for span in subscriber.spans:
        if span.dropped is None and (span.end or 0) < history.heads.get(span.topic, 0):
            yield f"R17 {subscriber.name}: topic {span.topic} at {span.end}, head {history.heads[span.topic]}"
        yield from _check_start(history, subscriber, span)
        if subscriber.mode == "strict" or span.dropped is None:  # else numbers it jumped may have been due later
            for place in [(span.topic, number) for number in range(span.start + 1, (span.end or 0) + 1)]:
                if place not in got and place not in reported and history.states.get(place) != "VOID":
                    yield f"R17 {subscriber.name}: {place} ({history.states.get(place)}) was skipped silently"


def _check_start(history: History, subscriber: SubscriberHistory, span: Span) -> Iterator[str]:
    """What is published after a subscription is complete belongs to it (R7)."""
    for event in history.stamped.values():
        if event.place[0] == span.topic and event.published > span.completed and event.place[1] <= span.start:
            yield f"R7 {subscriber.name}: start {span.start} of topic {span.topic} is after the later {event}"


def _check_publisher_order(subscriber: SubscriberHistory) -> Iterator[str]:
    """R19: what one session published arrives in its order, across topics."""
    last: dict[tuple[str, int], Notified] = {}
    for each in subscriber.in_order:
        session = each.event[:2]
        before = last.get(session)
        if before is not None and before.event[2] > each.event[2]:
            yield f"R19 {subscriber.name}: {before.event} {before.place} came before {each.event} {each.place}"
        last[session] = each


def _check_total_order(history: History, one: SubscriberHistory, two: SubscriberHistory) -> Iterator[str]:
    """TNO: no two subscribers see two events in opposite orders, both in_order."""
    position = {each.place: at for at, each in enumerate(two.in_order)}
    common = [each for each in one.in_order if each.place in position]
    order = [position[each.place] for each in common]
    if order == sorted(order):
        return
    for before, after in combinations(common, 2):
        if position[before.place] > position[after.place] and not (
            _is_beyond_linger(history, (one, two), before, after)
            or _is_beyond_linger(history, (two, one), after, before)
        ):
            yield (
                f"TNO {one.name} ({one.mode}) was notified of {before.place} {before.event} before "
                f"{after.place} {after.event}, {two.name} ({two.mode}) after it"
            )


def _is_beyond_linger(
    history: History, pair: tuple[SubscriberHistory, SubscriberHistory], before: Notified, after: Notified
) -> bool:
    """R20: not promised across an unsubscription longer ago than ``linger``. But while both go on holding what they
    shared at its end, the removed topic is carried once more and the order stays (R10)."""
    stamped = max(history.stamped[before.event].stamped, history.stamped[after.event].stamped)
    one, two = pair
    first, second = before.place[0], after.place[0]
    for span in one.spans:
        if span.topic != first or span.dropped is None or span.dropped + history.linger > stamped:
            continue
        when = span.dropped + history.linger
        if not (_held(one, second, when, stamped) and all(_held(two, each, when, stamped) for each in (first, second))):
            return True
    return False


def _held(subscriber: SubscriberHistory, topic: int, since: float, until: float) -> bool:
    return any(
        span.topic == topic and span.began < since and (span.dropped is None or span.dropped > until)
        for span in subscriber.spans
    )
