"""An endpoint, and what every test does with it: its effects are carried out, and what its application saw is kept.

The simulation moves clients by chance, the table by hand, the explorer by all interleavings; all of them drive
:class:`~inorder.endpoint.endpoint.Endpoint`, and nothing of what a client decides is written here again.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from inorder.endpoint.effects import (
    AskBroker,
    AskLease,
    Began,
    BeginBarrier,
    Effect,
    Ended,
    Expired,
    HandOver,
    Missed,
    Notify,
    Send,
)
from inorder.endpoint.endpoint import Endpoint, EndpointTimes
from inorder.endpoint.notifications import Event, Gap, Verdict
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode
from inorder.endpoint.publisher import Publisher
from inorder.endpoint.routing import Subscription
from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.names import Filter
from inorder.protocol.wire import Frame
from inorder_analytics.checks import EventId, Span, SubscriberHistory

SPACE = "m"
DOMAIN = 1
M = TypeVar("M")


def payload_of(event: EventId, label: str = "") -> bytes:
    """Return what an event carries: who it is, and how the test calls it."""
    name, incarnation, counter = event
    return f"{name} {incarnation} {counter} {label}".encode()


def event_of(payload: bytes) -> EventId:
    """Return who an event is."""
    name, incarnation, counter, _ = payload.decode().split(" ")
    return name, int(incarnation), int(counter)


def label_of(payload: bytes) -> str:
    """Return how the test calls an event."""
    return payload.decode().split(" ")[3]


def text_of(filter: Filter) -> str:
    """Return what filters are sorted by; sets of them have another order in each process."""
    return filter.text


class ClientClock:
    """What an endpoint reads of its client's clocks."""

    def __init__(self, client: Driven[Any]) -> None:
        self._client = client

    def now(self) -> float:
        """Return the event loop's time."""
        return self._client.now

    def uptime(self) -> float:
        """Return the same with the time that the machine slept."""
        return self._client.uptime


class Driven(Generic[M]):
    """A client: the real endpoint, between stages and a broker that are the test's.

    Attributes:
        endpoint: of the process that runs now.
        filters: what it is subscribed to at the broker.
        arriving: what the broker still has for it.
        behind: what a barrier waits for that is on its way (R24).
        history: what its application saw, of all its processes.
    """

    _does: ClassVar[dict[type[Effect], str]] = {
        Send: "_send",
        AskLease: "_ask_lease",
        AskBroker: "_ask_broker",
        BeginBarrier: "_begin_barrier",
        HandOver: "_stamped",
        Notify: "_notified",
        Missed: "_missed",
        Began: "_began_topic",
        Ended: "_ended_topic",
        Expired: "_expired",
    }
    """What is done with an effect; one that is not here needs nothing."""

    def __init__(self, name: str, mode: Mode, lapses: list[tuple[float, float]] | None = None) -> None:
        self.name, self.mode, self.incarnation = name, mode, 0
        self.history = SubscriberHistory(name, mode if isinstance(mode, str) else "bounded", lapses=lapses)

    def begin(self, times: EndpointTimes, *, durable: bool = False) -> None:
        """A process begins, which knows nothing."""
        self.incarnation += 1
        self.endpoint = Endpoint(self.mode, ClientClock(self), times, durable=durable)
        self.endpoint.watch()
        self.filters: set[Filter] = set()
        self.arriving: list[M] = []
        self.behind: list[M] | None = None
        self._after: set[int] = set()

    @property
    def publisher(self) -> Publisher:
        """The endpoint's."""
        return self.endpoint.publishing.publisher

    @property
    def subscriber(self) -> Subscriber:
        """The endpoint's."""
        return self.endpoint.subscriber

    @property
    def module(self) -> OrderingModule:
        """The endpoint's."""
        return self.endpoint.ordering

    # -- the test's --------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """What the event loop's clock shows."""
        raise NotImplementedError

    @property
    def uptime(self) -> float:
        """The same with the time that the machine slept."""
        raise NotImplementedError

    @property
    def when(self) -> tuple[float, float]:
        """The steps and the seconds of the run, for the checks."""
        raise NotImplementedError

    def send(self, stage: int, frame: Frame) -> None:
        """A frame leaves, if the stage is reached."""
        raise NotImplementedError

    def _ask_lease(self, effect: AskLease) -> None:
        raise NotImplementedError

    def _stamped(self, effect: HandOver) -> None:
        raise NotImplementedError

    def told(self, item: Event | Gap) -> None:
        """The application gets a notification."""

    def unordered(self, event: Event) -> None:
        """The application gets an event without a timestamp."""
        raise AssertionError(event)

    # -- what is asked of it -----------------------------------------------------------------------------------

    def change(self, filters: set[Filter]) -> None:
        """Change the subscription: the broker first, then the stages (R7); what is dropped is dropped at once (R11)."""
        had = {each.filter for each in self.subscriber.filters}
        adds = [Subscription(SPACE, each, "total", 0, False) for each in sorted(filters - had, key=text_of)]
        self.endpoint.change(adds, [(SPACE, each) for each in sorted(had - filters, key=text_of)])
        self.perform()

    # -- effects -----------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Carry out what the endpoint wants done."""
        while effects := self.endpoint.take():
            for effect in effects:
                if (does := self._does.get(type(effect))) is not None:
                    getattr(self, does)(effect)

    def _send(self, effect: Send) -> None:
        self.send(effect.stage, effect.frame)

    def _ask_broker(self, effect: AskBroker) -> None:
        change = effect.change
        for each in change.subscribes:
            self.endpoint.kept_wanted(each.space, each.filter)
        self.filters.update(each.filter for each in change.subscribes)
        self.filters.difference_update(filter for _, filter in change.unsubscribes)
        self.endpoint.broker_answered(change)

    def _begin_barrier(self, _: BeginBarrier) -> None:
        self.behind = list(self.arriving)

    def pass_barrier(self) -> None:
        """R24: a barrier comes back behind all that the broker had for the client when it began."""
        if self.behind is not None and not any(each in self.arriving for each in self.behind):
            self.behind = None
            self.endpoint.caught_up(SPACE)
            self.perform()

    # -- what the application sees -----------------------------------------------------------------------------

    def _notified(self, effect: Notify) -> None:
        event, entry = effect.event, effect.entry
        if entry is None:
            self.unordered(event)
            return
        if event.verdict is not Verdict.RETAINED:  # that is outside the order, and may come at any time
            place, (_, when) = (entry.topic, entry.number), self.when
            self.history.notify(event_of(event.payload), place, str(event.verdict), when, redelivered=event.redelivered)
        self.told(event)

    def _missed(self, effect: Missed) -> None:
        gap = effect.gap
        self.history.report(effect.topic, gap.first, gap.last, str(gap.reason))
        self.told(gap)

    def _expired(self, _: Expired) -> None:
        self.history.expiries += 1

    def open_spans(self) -> list[Span]:
        """Return the topics that it reads, as the checks see them."""
        return [each for each in self.history.spans if each.end is None]

    def end_spans(self) -> None:
        """The run is over: note how far it has got in each topic."""
        for span in self.open_spans():
            span.end = self.module.clock.get(span.topic, span.start)

    def drop_spans(self) -> None:
        """The process is gone, and so is all that it read."""
        for span in self.open_spans():
            self._drop(span, self.module.clock.get(span.topic, span.start))

    def _drop(self, span: Span, clock: int) -> None:
        span.end, (_, span.dropped) = clock, self.when

    def _began_topic(self, effect: Began) -> None:
        topic, (step, when) = effect.topic, self.when
        self.history.spans.append(Span(topic, effect.number, step, when, continues=topic in self._after))
        self._after.discard(topic)

    def _ended_topic(self, effect: Ended) -> None:
        """A topic is dropped, or it begins anew: then it ends where a gap will go on."""
        topic, interrupted = effect.topic, self.module.interrupted
        for span in self.open_spans():
            if span.topic == topic:
                self._drop(span, interrupted.get(topic, effect.number + 1) - 1)
        (self._after.add if topic in interrupted else self._after.discard)(topic)
