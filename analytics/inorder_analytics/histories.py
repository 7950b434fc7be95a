"""Conversion of traces into histories for the protocol's checks.

A trace shows less than a simulation does, so a history says less, and checks stay silent where they cannot know:

- Each incarnation of a client is a subscriber of its own: it knows nothing of what the one before was notified of. What
  R18 promises across incarnations is judged apart (:attr:`JudgedRun.resumed`).
- Of events that no recorded publisher published the timestamps are known from their subscribers.
- A number counts as one that must come only where its publish is recorded as accepted; any other one may be void.
- A incarnation of which rows are missing can break an order, but nothing is said about what it left out.
- Times are by the worker's clock. Where a clock was not measured they decide nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import inf

from inorder_analytics.checks import History, Place, Resume, Span, Stamped, SubscriberHistory, highest
from inorder_analytics.checks.ranges import Ranges
from inorder_analytics.plain.recorded import NOTIFIED, Recorded, Session, Topic, event_of, topic_of
from inorder_analytics.reading import Row

HIGHEST = 2**63 - 1
NUMBERED = frozenset({*NOTIFIED, "retained"})
_BESIDE = frozenset({"replayed"})
"""Verdicts of what no check speaks of."""


@dataclass(slots=True)
class Incarnation:
    """One incarnation of a client in the role of a subscriber.

    Attributes:
        name: the client id; with the number of the start where there are several.
        mode: ``bounded`` where it is not recorded: that promises least of all that may be.
        dropped: rows that it could not record.
        is_damaged: files of its folder could not be read, and may have been its own.
        holes: notifications that are not in the trace, by their indexes.
    """

    session: Session
    name: str
    mode: str | None
    dropped: int
    is_damaged: bool
    rows: list[Row] = field(default_factory=list)
    holes: int = 0

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing of the incarnation is missing up to its end."""
        return not (self.dropped or self.holes or self.is_damaged)


@dataclass(slots=True)
class JudgedRun:
    """A run in the form for the checks.

    Attributes:
        history: everything; subscribers are incarnations, by name.
        incarnations: by name.
        resumed: the same, with all incarnations of a client as one subscriber; only clients that have several, all of
            them complete.
        counters: of each recorded publisher, which publishes are recorded.
    """

    history: History
    incarnations: dict[str, Incarnation]
    resumed: History
    counters: dict[Session, set[int]]

    @property
    def complete(self) -> History:
        """The history with only the completely recorded subscribers."""
        subscribers = self.history.subscribers
        complete = {
            name: subscribers[name] for name, incarnation in self.incarnations.items() if incarnation.is_complete
        }
        return replace(self.history, subscribers=complete)


class Histories:
    """Makes the history of one run.

    Args:
        linger: of the workers, s.
        is_damaged: files could not be read, so nobody's rows count as complete.
    """

    def __init__(self, run: Recorded, linger: float, *, is_damaged: bool = False) -> None:
        self._run, self._is_damaged = run, is_damaged
        self._history = History(linger)
        self._keys: dict[Topic, int] = {}
        self._counters: dict[Session, set[int]] = defaultdict(set)

    def made(self) -> JudgedRun:
        """Return the finished history."""
        incarnations = self._incarnations()
        accepted: dict[int, list[int]] = defaultdict(list)
        for row in self._run.published:
            self._publish(row, accepted)
        self._unrecorded()
        for incarnation in incarnations.values():
            self._subscriber(incarnation)
        self._spans(incarnations)
        history = self._history
        for topic in self._keys.values():
            known = Ranges((number, number) for number in accepted[topic])
            history.unknown += [(topic, *numbers) for numbers in known.missing(1, HIGHEST)]
        return JudgedRun(
            history,
            {incarnation.name: incarnation for incarnation in incarnations.values()},
            self._resumed(incarnations),
            self._counters,
        )

    # -- publishers ----------------------------------------------------------------------------------------------

    def _publish(self, row: Row, accepted: dict[int, list[int]]) -> None:
        if row.counter is None:
            return
        event = row.client, row.incarnation or 0, row.counter
        self._counters[event[:2]].add(row.counter)
        place = self._place(row)
        publish = self._history.publish(event, 0 if place is None else place[0])
        publish.outcome = "acknowledged" if row.outcome == "accepted" else "unknown"
        if place is None:
            return
        if row.outcome == "accepted":
            accepted[place[0]].append(place[1])
        when, error = self._when(row, row.published_at)
        stamped, _ = self._when(row, row.published_at if row.stamped_at is None else row.stamped_at)
        self._history.stamp(event, place, self._deps(row), when - error, stamped)

    def _unrecorded(self) -> None:
        """Add timestamps of events without a recorded publisher, which were made before the first arrival."""
        first: dict[Place, tuple[float, Row]] = {}
        for row in self._run.notifications:
            place = self._place(row)
            if place is not None and place not in self._history.places:
                when, _ = self._when(row, row.delivered_at if row.arrived_at is None else row.arrived_at)
                first[place] = min((when, row), first.get(place, (inf, row)), key=lambda each: each[0])
        for place, (when, row) in first.items():
            event = f"unrecorded publisher in {self._history.topics[place[0]]}", place[1], 0
            self._history.places[place] = event
            self._history.stamped[event] = Stamped(event, place, highest(self._deps(row)), -inf, when)

    # -- subscribers ---------------------------------------------------------------------------------------------

    def _incarnations(self) -> dict[Session, Incarnation]:
        run = self._run
        sessions = dict(run.sessions())
        several = {client for (client, _), order in sessions.items() if order}
        incarnations = {}
        for session, order in sessions.items():
            name = f"{session[0]} (start {order + 1})" if session[0] in several else session[0]
            incarnations[session] = Incarnation(
                session, name, run.modes.get(session), run.dropped[session], self._is_damaged
            )
        for row in (*run.told, *run.gaps):
            if row.delivery_index is not None:
                incarnations[row.client, row.incarnation or 0].rows.append(row)
        for incarnation in incarnations.values():
            incarnation.rows.sort(key=lambda row: row.delivery_index)
            indexes = {row.delivery_index for row in incarnation.rows}
            incarnation.holes = max(indexes, default=0) - len(indexes)
        return incarnations

    def _subscriber(self, incarnation: Incarnation) -> None:
        subscriber = self._history.subscriber(incarnation.name, incarnation.mode or "bounded")
        self._fill(subscriber, incarnation)

    def _fill(self, subscriber: SubscriberHistory, incarnation: Incarnation) -> None:
        for row in incarnation.rows:
            place = self._place(row)
            if row.kind == "gap":
                # of a store that was put back: numbers of the former domain, beside which nothing is in order any more
                if place is not None and row.detail != "restored":
                    last = place[1] if row.last_number is None else row.last_number
                    subscriber.report(place[0], place[1], last, row.detail or "")
                continue
            if row.verdict in _BESIDE or (row.verdict == "retained" and not incarnation.is_complete):
                continue
            if row.verdict not in NUMBERED:  # a number that it may have is one of another domain
                place = None
            event = None if place is None else self._history.places.get(place)
            when, _ = self._when(row, row.delivered_at)
            subscriber.notify(event, place, row.verdict or "", when, redelivered=bool(row.redelivered))

    def _spans(self, incarnations: dict[Session, Incarnation]) -> None:
        going: dict[tuple[str, int], Span] = {}
        order_of = self._run.order_of
        for row in sorted(self._run.changes, key=lambda row: (order_of(row), row.recorded_at or 0)):
            topic = topic_of(row)
            incarnation = incarnations[row.client, row.incarnation or 0]
            if topic is None:
                continue
            key = self._key(topic)
            when, error = self._when(row, row.recorded_at)
            before = going.pop((incarnation.name, key), None)
            if before is not None:
                ended = row.number if row.kind == "unsubscribed" else None
                before.end, before.dropped = before.start if ended is None else ended, when
            if row.kind == "subscribed" and row.number is not None:
                span = going[incarnation.name, key] = Span(key, row.number, when + error, when)
                self._history.subscribers[incarnation.name].spans.append(span)
        for (name, _), span in going.items():
            if self._history.subscribers[name].mode != "strict":
                span.dropped = inf  # where it stopped, numbers that it had jumped might still have come

    def _resumed(self, incarnations: dict[Session, Incarnation]) -> History:
        clients: dict[str, list[Incarnation]] = defaultdict(list)
        for incarnation in incarnations.values():
            clients[incarnation.session[0]].append(incarnation)
        resumed = replace(self._history, subscribers={})
        for client, each in clients.items():
            if len(each) < 2 or not all(incarnation.is_complete for incarnation in each):
                continue
            subscriber = resumed.subscriber(client, each[-1].mode or "bounded")
            for at, incarnation in enumerate(each):
                if at:
                    subscriber.resumes.append(Resume({}, len(subscriber.notified), len(subscriber.gaps), 0))
                self._fill(subscriber, incarnation)
        return resumed

    # -- names and times -----------------------------------------------------------------------------------------

    def _key(self, topic: Topic) -> int:
        key = self._keys.get(topic)
        if key is None:
            key = self._keys[topic] = len(self._keys) + 1
            self._history.topics[key] = self._run.label(topic)
        return key

    def _place(self, row: Row) -> Place | None:
        event = event_of(row)
        return None if event is None else (self._key(event[:2]), event[2])

    def _deps(self, row: Row) -> list[int]:
        flat = row.dependencies or []
        pairs = [(self._key((row.domain, topic)), number) for topic, number in zip(flat[::2], flat[1::2], strict=False)]
        return [part for pair in pairs for part in pair]

    def _when(self, row: Row, value: int | None) -> tuple[float, float]:
        """Return a row's time by the worker's clock, in s, with its error bound, which is infinite if unknown."""
        offset, error = self._run.clock_of(row)
        if value is None:
            return (row.recorded_at or 0) / 1e6, inf
        return (value + offset) / 1e6, inf if error is None else error / 1e6
