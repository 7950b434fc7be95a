"""Turns what the clients wrote down into a history for the checks of the protocol.

Each process start of a client is a subscriber of its own: it knows nothing of what the one before was notified of.
A durable subscriber is one for all its lives: what it was notified of in them, put together, must have no hole (R18).
Where a subscription starts is not told to an application; taken is the latest start that what it saw and R7 allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.records import (
    Acknowledged,
    AnyRecord,
    Began,
    Called,
    Failed,
    Missing,
    Notified,
    Saved,
    Subscribed,
    Subscribing,
    Unsubscribed,
)
from tests.chaos.store import Numbers

from inorder.protocol.names import mqtt_covers
from inorder.protocol.pairs import flat
from inorder_analytics.checks import EventId, History, Span, SubscriberHistory, Violation, Witness, violations


@dataclass(slots=True)
class ProcessStart:
    """One process start of a client.

    Attributes:
        name: client id and number of the start.
        killed: when it was killed, s; ``None`` for one that lived to the end.
        durable: it keeps its subscription from one life to the next.
    """

    client_id: str
    name: str
    records: Sequence[AnyRecord]
    killed: float | None = None
    durable: bool = False


@dataclass(slots=True)
class _Held:
    """One subscription of one topic, and the numbers that came of it."""

    topic: str
    since: float | None = None
    until: float | None = None
    numbers: list[int] = field(default_factory=list)


class Histories:
    """Makes one history of all lives.

    Attributes:
        history: what the checks read; complete after :meth:`judge`.
    """

    def __init__(self, lives: Iterable[ProcessStart], numbers: Numbers, linger: float) -> None:
        self._lives, self._numbers = list(lives), numbers
        self.history = History(linger)
        self._topics: dict[str, int] = {}
        self._events: dict[str, EventId] = {}
        self._published: dict[int, list[tuple[int, float]]] = {}
        self._wrong: list[Violation] = []

    def judge(self) -> list[Violation]:
        """Return every rule that was broken."""
        for life in self._lives:
            self._publishes(life)
        for (topic, number), state in self._numbers.states.items():
            place = self._topic(topic), number
            self.history.states[place] = state
            if place not in self.history.places:
                self.history.unheard[place] = self._deps(self._numbers.deps.get((topic, number), {}).items())
            if state == "CONFIRMED":
                self.history.heads[place[0]] = max(number, self.history.heads.get(place[0], 0))
        for place in self.history.places:
            self.history.heads[place[0]] = max(place[1], self.history.heads.get(place[0], 0))
        for life in self._lives:
            if not life.durable:
                self._notifications(life)
        for client_id in dict.fromkeys(life.client_id for life in self._lives if life.durable):
            self._durable_notifications(client_id)
        return [*self._wrong, *violations(self.history)]

    def _topic(self, name: str) -> int:
        number = self._topics.setdefault(name, len(self._topics) + 1)
        self.history.topics[number] = name
        return number

    def _deps(self, deps: Iterable[tuple[str, int]]) -> dict[int, int]:
        return {self._topic(name): number for name, number in deps}

    # -- publishers --------------------------------------------------------------------------------------------

    def _publishes(self, life: ProcessStart) -> None:
        incarnation = 0
        called: dict[int, Called] = {}
        for record in life.records:
            match record:
                case Began():
                    incarnation = record.incarnation
                case Called():
                    event = life.client_id, incarnation, record.counter
                    called[record.counter] = record
                    self._events[record.payload] = event
                    self.history.publish(event, self._topic(record.topic))
                case Failed():
                    self.history.publishes[life.client_id, incarnation, record.counter].outcome = "unknown"
                case Acknowledged():
                    event = life.client_id, incarnation, record.counter
                    self.history.publishes[event].outcome = "acknowledged"
                    self._acknowledged(event, record, called[record.counter].when)
        for publish in self.history.publishes.values():
            if publish.outcome == "open" and publish.event[:2] == (life.client_id, incarnation) and life.killed:
                publish.outcome = "unknown"

    def _acknowledged(self, event: EventId, record: Acknowledged, published: float) -> None:
        name = record.topic, record.number
        place = self._topic(record.topic), record.number
        deps = self._numbers.deps.get(name, dict(record.deps))
        self.history.stamp(event, place, flat(self._deps(deps.items())), published, record.when)
        self._published.setdefault(place[0], []).append((record.number, published))
        owner = self._numbers.owners.get(name)
        if owner != event[:2]:
            told = f"is {owner[0]}'s" if owner is not None else "was never given"
            self._wrong.append(_of(event, place, f"{event} got {name[0]}#{name[1]}, which {told}, says the store"))
        elif any(deps.get(topic) != number for topic, number in record.deps):
            sentence = f"{event} {name[0]}#{name[1]} had {dict(record.deps)}, in the store it has {deps}"
            self._wrong.append(_of(event, place, sentence))

    # -- subscribers -------------------------------------------------------------------------------------------

    def _notifications(self, life: ProcessStart) -> None:
        if not any(isinstance(each, Subscribing) for each in life.records):
            return
        subscriber = self.history.subscriber(life.name, _mode(life))
        for held in self._replay(subscriber, life):
            held.until = held.until or life.killed
            if (span := self._span(held)) is not None:
                subscriber.spans.append(span)

    def _durable_notifications(self, client_id: str) -> None:
        """Each life resumes where its clock was saved, nobody knows where: at or behind what is known to be saved, and
        not behind what the lives before were told of."""
        lives = [life for life in self._lives if life.client_id == client_id]
        subscriber = self.history.subscriber(client_id, _mode(lives[0]))
        saved: dict[int, int] = {}
        reached: dict[int, int] = {}
        for at, life in enumerate(lives):
            if at:
                subscriber.resume(saved)
            for held in self._replay(subscriber, life):
                topic = self._topic(held.topic)
                span = self._span(held)
                if topic in reached:
                    start = min([reached[topic], *(number - 1 for number in held.numbers)])
                    span = Span(topic, start, float("inf"), 0.0)
                if span is not None:
                    subscriber.spans.append(span)
                    reached[topic] = max([span.start, reached.get(topic, 0), *held.numbers])
            for record in life.records:
                if isinstance(record, Saved):
                    saved.update((self._topic(name), number) for name, number in record.numbers.items())

    def _replay(self, subscriber: SubscriberHistory, life: ProcessStart) -> list[_Held]:
        """Note what a life was told; return the subscriptions that it had, topic by topic."""
        open_now: dict[str, _Held] = {}
        all_held: list[_Held] = []
        for record in life.records:
            match record:
                case Subscribing():
                    new = [_Held(each) for each in self._covered(record.topics) if each not in open_now]
                    open_now.update((each.topic, each) for each in new)
                    all_held += new
                case Subscribed():
                    for each in self._covered(record.topics):
                        open_now[each].since = record.when
                case Unsubscribed():
                    for each in self._covered(record.topics):
                        open_now.pop(each).until = record.called
                case Notified() | Missing():
                    self._note(subscriber, record, open_now)
        return all_held

    def _covered(self, filters: Iterable[str]) -> list[str]:
        """Return the topics of the run that filters cover."""
        return [name for name in self._topics if any(mqtt_covers(each, name) for each in filters)]

    def _note(self, subscriber: SubscriberHistory, record: Notified | Missing, open_now: dict[str, _Held]) -> None:
        topic, held = self._topic(record.topic), open_now.get(record.topic)
        if isinstance(record, Missing):
            subscriber.report(topic, record.first, record.last, record.reason)
            numbers = [record.first, record.last]
        else:
            place = None if record.number is None else (topic, record.number)
            event = self._events.get(record.payload)
            subscriber.notify(event, place, record.verdict, record.when, redelivered=record.redelivered)
            numbers = [] if record.number is None else [record.number]
        if held is not None:
            held.numbers += numbers
        else:
            sentence = f"{subscriber.name} was told of {record.topic}, which it had left"
            self._wrong.append(Violation("R11", (), (subscriber.name,), sentence))

    def _span(self, held: _Held) -> Span | None:
        """Return what a subscription was; ``None`` for one that was never complete and brought nothing."""
        topic, completed = self._topic(held.topic), held.since
        if completed is None and not held.numbers:
            return None
        since = completed if completed is not None else float("inf")
        owed = [number for number, published in self._published.get(topic, ()) if published > since]
        end = max(held.numbers, default=0)
        if held.until is not None:
            owed = [each for each in owed if each <= end]
        nothing = end if held.until is not None else self.history.heads.get(topic, 0)
        start = min([*owed, *held.numbers], default=nothing + 1) - 1
        began = completed if completed is not None else 0.0
        if held.until is None:
            return Span(topic, start, since, began)
        return Span(topic, start, since, began, max(end, start), held.until)


def _mode(life: ProcessStart) -> str:
    return next((each.mode for each in life.records if isinstance(each, Began)), "strict")


def lost_though_logged(history: History, durables: Iterable[str] = ()) -> Iterator[Violation]:
    """Yield each loss that a subscriber was told of although topics have logs, of which nothing was dropped (R18):
    to durable ones nothing expires either."""
    for subscriber in history.subscribers.values():
        losses = {"lost", "abandoned", *(["expired"] if subscriber.name in durables else [])}
        for gap in subscriber.gaps:
            if gap.reason in losses:
                numbers = f"{history.topics[gap.topic]}#{gap.first} to {gap.last}"
                sentence = f"{subscriber.name} was told that {numbers} are {gap.reason}, which a log has"
                yield Violation("R18", (), (subscriber.name,), sentence)


def _of(event: EventId, place: tuple[int, int], sentence: str) -> Violation:
    return Violation("R1", (Witness(event, place),), (), sentence)
