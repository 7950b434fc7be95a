"""The sorted rows of one run: publishes, each subscriber's order, and subscriptions.

What the rows leave open is settled here once, for all metrics:

- A row without a run belongs to the run ``""``; a row without a client or kind says nothing.
- A subscriber's incarnations follow each other by the first time that any of their rows was made (ties: by number).
- An event that was accepted more than once counts as the first of them, by the time of its publish call.
- An event that a subscriber got more than once counts where it came first.
- The offset of a clock changes with time (:mod:`inorder_analytics.clocks`); a row's is that of when it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from inorder.traces.schema import DROPPED_VERDICTS
from inorder_analytics.clocks import Clock, clock_at, clocks
from inorder_analytics.reading import Row

Topic = tuple[int, int]
"""(domain, topic id)"""
Event = tuple[int, int, int]
"""(domain, topic id, number), in one run"""
Session = tuple[str, int]
"""(client id, incarnation)"""

NOTIFIED: Final = ("in_order", "late")
"""Verdicts by which a subscriber was notified of an event with a number."""
ARRIVED: Final = (*NOTIFIED, *DROPPED_VERDICTS)
"""Verdicts of arrivals that have a number."""


@dataclass(slots=True)
class Interest:
    """One client's subscriptions of one topic: beginnings and ends (in the order of its rows), with numbers."""

    began: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    ended: list[tuple[tuple[int, int], int]] = field(default_factory=list)

    def covers(self, number: int) -> bool:
        """Tell whether the client wanted an event: a subscription began below it, and no later end is below it, too."""
        ended = max((at for at, end in self.ended if end < number), default=None)
        return any(start < number and (ended is None or at >= ended) for at, start in self.began)


@dataclass
class Recorded:
    """The rows of one run.

    Attributes:
        accepted: by event, the row of its publish.
        published: rows of all publishes with total order.
        told: rows of all notifications, whatever their verdict.
        notifications: rows with a verdict of :data:`NOTIFIED`, of numbered events, repetitions included.
        changes: rows of subscriptions that began or ended.
        modes: how each session waits: strict, bounded or tag.
        dropped: rows that a session could not record.
        repeated: arrivals that were dropped as repetitions, or as older than the subscription.
        labels: topics as space and name with a colon between; where rows disagree the least.
    """

    run: str
    rows: int = 0
    publishers: set[str] = field(default_factory=set)
    subscribers: set[str] = field(default_factory=set)
    accepted: dict[Event, Row] = field(default_factory=dict)
    published: list[Row] = field(default_factory=list)
    told: list[Row] = field(default_factory=list)
    notifications: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    modes: dict[Session, str] = field(default_factory=dict)
    dropped: Counter[Session] = field(default_factory=Counter)
    repeated: int = 0
    labels: dict[Topic, str] = field(default_factory=dict)
    _arrivals: list[Row] = field(default_factory=list)
    _interests: dict[Topic, dict[str, Interest]] = field(default_factory=dict)
    _measured: dict[Session, list[tuple[int, int, int]]] = field(default_factory=dict)
    _began: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add one row."""
        self.rows += 1
        client, kind = row.client, row.kind
        if client is None or kind is None:
            return
        began = self._began.setdefault(client, {})
        incarnation, when = _or(row.incarnation, 0), _or(row.recorded_at, 0)
        began[incarnation] = min(when, began.get(incarnation, when))
        self._name(row)
        if kind == "published":
            self._published(client, row)
        elif kind == "notified":
            self._notified(client, row)
        elif kind == "gap":
            self.gaps.append(row)
        elif kind in ("subscribed", "unsubscribed"):
            self.changes.append(row)
            if kind == "subscribed":
                self.subscribers.add(client)
        elif kind == "clock":
            self._clock((client, incarnation), row)
        elif kind == "dropped":
            self.dropped[client, incarnation] += _or(row.count, 0)
        elif kind == "opened" and row.detail is not None:
            self.modes[client, incarnation] = row.detail

    def _name(self, row: Row) -> None:
        topic = topic_of(row)
        if topic is not None and row.topic is not None:
            label = f"{_or(row.space, '')}:{row.topic}"
            self.labels[topic] = min(label, self.labels.get(topic, label))

    def _published(self, client: str, row: Row) -> None:
        self.publishers.add(client)
        if row.ordering not in ("total", None):
            return
        self.published.append(row)
        event = event_of(row)
        if event is None or row.outcome != "accepted":
            return
        before = self.accepted.get(event)
        if before is None or _earlier(row) < _earlier(before):
            self.accepted[event] = row

    def _notified(self, client: str, row: Row) -> None:
        verdict = row.verdict
        if verdict not in DROPPED_VERDICTS:
            self.subscribers.add(client)
            self.told.append(row)
        else:
            self.repeated += 1
        if verdict not in ARRIVED or event_of(row) is None:
            return
        self._arrivals.append(row)
        if verdict in NOTIFIED:
            self.notifications.append(row)

    def _clock(self, session: Session, row: Row) -> None:
        if row.offset_us is None or row.error_us is None:
            return
        measured = self._measured.setdefault(session, [])
        measured.append((_or(row.recorded_at, 0), row.offset_us, row.error_us))

    @property
    def dropped_rows(self) -> int:
        """The number of rows that could not be recorded."""
        return self.dropped.total()

    # -- what the rows say together ------------------------------------------------------------------------------

    def sessions(self) -> Iterator[tuple[Session, int]]:
        """Return all sessions, each with its index among its client's, from 0."""
        for client in sorted(self._orders):
            for incarnation, order in self._orders[client].items():
                yield (client, incarnation), order

    def order_of(self, row: Row) -> int:
        """Return the index of a row's incarnation among its client's, from 0."""
        return self._orders[row.client][_or(row.incarnation, 0)]

    @cached_property
    def _orders(self) -> dict[str, dict[int, int]]:
        return {
            client: {each: at for at, each in enumerate(sorted(began, key=lambda each: (began[each], each)))}
            for client, began in self._began.items()
        }

    @cached_property
    def events(self) -> set[Event]:
        """The events that the broker accepted, or any subscriber got."""
        return self.accepted.keys() | {event for row in self._arrivals if (event := event_of(row)) is not None}

    @cached_property
    def raw(self) -> dict[str, list[Event]]:
        """The broker's deliveries by client, each event at its first arrival."""
        came = [row for row in self._arrivals if row.arrival_index is not None and not row.repaired]
        return self._streams(came, "arrival_index")

    @cached_property
    def delivered(self) -> dict[str, list[Event]]:
        """The notifications in order by client."""
        told = [row for row in self.notifications if row.verdict == "in_order" and row.delivery_index is not None]
        return self._streams(told, "delivery_index")

    def _streams(self, rows: list[Row], index: str) -> dict[str, list[Event]]:
        streams: dict[str, dict[Event, None]] = {}
        for row in sorted(rows, key=lambda row: (self.order_of(row), getattr(row, index), event_of(row))):
            event = event_of(row)
            if event is not None:
                streams.setdefault(row.client, {}).setdefault(event)
        return {client: list(stream) for client, stream in streams.items()}

    @cached_property
    def first_notified(self) -> dict[Event, dict[str, Row]]:
        """The first notification by event and client, in order or late."""
        found: dict[Event, dict[str, Row]] = {}
        for row in sorted(self.notifications, key=lambda row: (self.order_of(row), _or(row.delivery_index, 0))):
            event = event_of(row)
            if event is not None:
                found.setdefault(event, {}).setdefault(row.client, row)
        return found

    def interested(self, event: Event) -> list[str]:
        """Return the clients that wanted an event, sorted: the subscribed ones; for a topic without a recorded
        subscription, all clients notified of anything in it."""
        topic, number = event[:2], event[2]
        spans = self._spans.get(topic)
        if spans is None:
            return self._audience.get(topic, [])
        return sorted(client for client, interest in spans.items() if interest.covers(number))

    @cached_property
    def _spans(self) -> dict[Topic, dict[str, Interest]]:
        spans: dict[Topic, dict[str, Interest]] = {}
        for row in self.changes:
            topic = topic_of(row)
            if topic is None or (row.kind == "subscribed" and row.number is None):
                continue
            interest = spans.setdefault(topic, {}).setdefault(row.client, Interest())
            at = self.order_of(row), _or(row.recorded_at, 0)
            if row.kind == "subscribed":
                interest.began.append((at, row.number))
            else:  # where it ended is not known: it is not said to have been interested in anything
                interest.ended.append((at, _or(row.number, -1)))
        return {topic: each for topic, each in spans.items() if any(interest.began for interest in each.values())}

    @cached_property
    def _audience(self) -> dict[Topic, list[str]]:
        found: dict[Topic, set[str]] = {}
        for row in self.notifications:
            topic = topic_of(row)
            if topic is not None:
                found.setdefault(topic, set()).add(row.client)
        return {topic: sorted(clients) for topic, clients in found.items()}

    def clock_of(self, row: Row) -> tuple[int, int | None]:
        """Return offset and error bound (µs) of the clock of a row; (0, None) without a measurement."""
        found = self._clocks.get((row.client, _or(row.incarnation, 0)))
        if found is None:
            return 0, None
        clock = clock_at(found, _or(row.recorded_at, 0))
        return (0, None) if clock is None else clock[1:]

    @cached_property
    def _clocks(self) -> dict[Session, list[Clock]]:
        return {session: clocks(measured) for session, measured in self._measured.items()}

    def label(self, topic: Topic) -> str:
        """Return a topic's name with its space, or its id if no row names it."""
        return self.labels.get(topic, f"topic {topic[1]}")


def recorded_runs(rows: Iterable[Row]) -> dict[str, Recorded]:
    """Sort rows by run and return the runs by name."""
    runs: dict[str, Recorded] = {}
    for row in rows:
        run = _or(row.run, "")
        runs.setdefault(run, Recorded(run)).add(row)
    return dict(sorted(runs.items()))


def topic_of(row: Row) -> Topic | None:
    """Return the topic of a row, or ``None``."""
    domain, topic = row.domain, row.topic_id
    return None if domain is None or topic is None else (domain, topic)


def event_of(row: Row) -> Event | None:
    """Return the event of a row, or ``None``."""
    domain, topic, number = row.domain, row.topic_id, row.number
    return None if domain is None or topic is None or number is None else (domain, topic, number)


def _earlier(row: Row) -> tuple[int, str, int, int]:
    return _or(row.published_at, 2**63), row.client, _or(row.incarnation, 0), _or(row.counter, 0)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
