"""Turns what real clients publish and are notified of into a history for the checks of the protocol.

Publish, subscribe and read through a :class:`Recorder`; at the end :meth:`Recorder.violations` judges. Events are told
apart by their payloads, so each payload is used once in a topic. Where a subscription starts is not told to an
application; taken is the latest start that what it saw and R7 allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.client.helpers import Notification

from inorder import Client, Event, Gap, Receipt
from inorder.protocol.names import mqtt_covers
from inorder_analytics.checks import EventId, History, Place, Span, Violation, violations

Name = tuple[str, str]
"""(space, topic)"""


@dataclass(slots=True)
class _Held:
    """A filter that a client has subscribed to, from one time to another."""

    client: str
    filter: str
    since: float
    until: float | None = None


@dataclass(slots=True)
class Recorder:
    """Records a run of real clients.

    Attributes:
        linger: of the workers, s.
        history: what was recorded so far; spans and heads come with :meth:`violations`.
    """

    linger: float = 60.0
    history: History = field(init=False)
    _topics: dict[Name, int] = field(default_factory=dict)
    _events: dict[tuple[int, bytes], EventId] = field(default_factory=dict)
    _published: dict[EventId, float] = field(default_factory=dict)
    _counters: dict[tuple[str, int], int] = field(default_factory=dict)
    _held: list[_Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin."""
        self.history = History(self.linger)

    # -- clients -----------------------------------------------------------------------------------------------

    def publish(
        self, client: Client, topic: str, payload: bytes, *, space: str | None = None, order: str = "total", **how: Any
    ) -> asyncio.Future[Receipt]:
        """Publish, and note what becomes of it."""
        now = asyncio.get_running_loop().time()
        future = client.publish(topic, payload, space=space, order=order, **how)  # type: ignore[arg-type]
        session = client.client_id, client.incarnation
        counter = self._counters[session] = self._counters.get(session, 0) + 1
        event = *session, counter
        number = self._topic(client._link(space).space, topic)
        assert (number, payload) not in self._events, f"{payload!r} was published before"
        self._events[number, payload] = event
        self._published[event] = now
        self.history.publish(event, number, order)
        future.add_done_callback(lambda done: self._published_so(event, done))
        return future

    def _published_so(self, event: EventId, done: asyncio.Future[Receipt]) -> None:
        publish = self.history.publishes[event]
        if done.cancelled() or done.exception() is not None:
            publish.outcome = "unknown"
            return
        publish.outcome = "acknowledged"
        receipt = done.result()
        if receipt.number is not None:
            place = self._topic(receipt.space, receipt.topic), receipt.number
            deps = self._deps(receipt.deps)
            self.history.stamp(event, place, deps, self._published[event], done.get_loop().time())

    async def subscribe(self, client: Client, *filters: str, space: str | None = None, **how: Any) -> None:
        """Subscribe; filters are topics, or as MQTT writes them."""
        await client.subscribe(*filters, space=space, **how)
        self.history.subscriber(client.client_id, _kind(client))
        if how.get("ordering", "total") == "total":
            now = asyncio.get_running_loop().time()
            self._held += [_Held(client.client_id, each, now) for each in filters]

    async def unsubscribe(self, client: Client, *filters: str, space: str | None = None) -> None:
        """Unsubscribe from what was subscribed through here."""
        await client.unsubscribe(*filters, space=space)
        for each in self._held:
            if each.client == client.client_id and each.filter in filters and each.until is None:
                each.until = asyncio.get_running_loop().time()

    async def events(self, client: Client) -> AsyncIterator[Notification]:
        """Return the client's stream; what is taken of it is recorded."""
        async for each in client.events():
            self.took(client, [each])
            yield each

    def took(self, client: Client, taken: Iterable[Notification]) -> None:
        """A client's next notifications were taken, in this order."""
        now = asyncio.get_running_loop().time()
        subscriber = self.history.subscriber(client.client_id, _kind(client))
        for each in taken:
            if isinstance(each, Gap):
                subscriber.report(self._topic(each.space, each.topic), each.first, each.last, str(each.reason))
            elif isinstance(each, Event):
                topic = self._topic(each.space, each.topic)
                place = None if each.number is None else (topic, each.number)
                event = self._events.get((topic, each.payload))
                subscriber.notify(event, place, str(each.verdict), now, redelivered=each.redelivered)

    # -- names -------------------------------------------------------------------------------------------------

    def _topic(self, space: str, name: str) -> int:
        number = self._topics.setdefault((space, name), len(self._topics) + 1)
        self.history.topics[number] = name
        return number

    def _deps(self, deps: tuple[tuple[str, int], ...]) -> list[int]:
        """Return dependencies as flat pairs, those on topics whose name says which they are."""
        flat: list[int] = []
        for name, number in deps:
            known = [topic for (_, each), topic in self._topics.items() if each == name]
            if len(known) == 1:
                flat += (known[0], number)
        return flat

    # -- the end -----------------------------------------------------------------------------------------------

    def violations(self, *, everything: bool = True) -> list[Violation]:
        """Judge the run. ``everything``: all that was published has been read to its end by everybody; else nothing is
        said about what was not read."""
        history = self.history
        history.heads = {}
        if everything:
            for topic, number in history.places:
                history.heads[topic] = max(number, history.heads.get(topic, 0))
        for subscriber in history.subscribers.values():
            subscriber.spans = [
                self._span(held, topic, everything)
                for held in self._held
                for (_, name), topic in self._topics.items()
                if held.client == subscriber.name and mqtt_covers(held.filter, name)
            ]
        return violations(history)

    def _span(self, held: _Held, topic: int, everything: bool) -> Span:
        owed = [
            each.place[1]
            for each in self.history.stamped.values()
            if each.place[0] == topic and each.published > held.since and held.until is None
        ]
        subscriber = self.history.subscribers[held.client]
        owed += [each.first for each in subscriber.gaps if each.topic == topic]
        owed += [number for of, number in self._notified(held.client) if of == topic]
        start = min(owed, default=self.history.heads.get(topic, 0) + 1) - 1
        dropped = held.until if held.until is not None or everything else held.since
        return Span(topic, start, held.since, held.since, None, dropped)

    def _notified(self, client: str) -> list[Place]:
        return [
            each.place
            for each in self.history.subscribers[client].notified
            if each.place is not None and each.verdict in ("in_order", "late")
        ]


def _kind(client: Client) -> str:
    mode = client._tracing._mode
    return mode if isinstance(mode, str) else "bounded"
