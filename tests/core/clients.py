"""Clients by hand: the real endpoint, from which frames, questions and hand-overs go nowhere until they are taken.

:class:`Client` has connections that are there or not, and a broker that takes everything at once. What leaves is kept:
requests in ``outbox``, questions (R13, R17, R18) in ``questions``, events in ``handed``. The table
(:mod:`tests.core.table`) moves it to and fro; the explorer drives the same clients by all interleavings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec
from tests.core.readers import waiting_in
from tests.endpoints import DOMAIN, SPACE, Driven, label_of, payload_of

from inorder.endpoint.barriers import PRECISION
from inorder.endpoint.effects import AskLease, Effect, Failed, HandOver, LateConfirmation
from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.notifications import Event, Gap, Verdict
from inorder.endpoint.outputs import Mode
from inorder.endpoint.publications import Publication, PublicationState
from inorder.errors import Abandoned, Forgotten, Refused
from inorder.protocol.arrival import Arrival
from inorder.protocol.names import Filter
from inorder.protocol.pairs import joined
from inorder.protocol.wire import (
    AskNumbers,
    Frame,
    Hello,
    Logged,
    LoggedEvents,
    NameTopics,
    Numbers,
    Opened,
    ReadLog,
    Renewed,
    TopicInfo,
    Topics,
    Welcome,
    WorkerFrame,
    encode_logged,
)
from inorder_analytics.checks import EventId, Place
from inorder_worker.sequencer.inputs import Requested

Question = AskNumbers | NameTopics | ReadLog
Answer = Numbers | Topics | LoggedEvents
ROUNDS = 10
"""Questions after answers, at one moment."""


class Message(msgspec.Struct, frozen=True):
    """An event with its stamp, at the broker."""

    label: str
    event: EventId
    topic: int
    name: str
    number: int
    stamp: bytes


class Client(Driven[Message]):
    """A client by hand.

    Attributes:
        stages: how many there are.
        time: s; ``slept``: how much longer its machine runs, as it was suspended.
        outbox: (stage, frame) to be sent; ``questions``: the same, of what may be asked at any time.
        handed: what it handed over to the broker.
        publications: by label; ``labels``: the labels by incarnation and counter.
        stamped: (event, place, dependencies, when in s) of its timestamps, each as often as it got it.
        failed: why events were given up, by label.
        refused: labels that the broker will refuse.
        is_opening: it is connected again, and has not heard yet what is left of its subscription (R12).
        words: what its application saw, as short words.
    """

    _does: ClassVar[dict[type[Effect], str]] = {
        **Driven._does,
        Failed: "_failed",
        LateConfirmation: "_confirmed_late",
    }

    def __init__(self, name: str, mode: Mode, stages: int, time: float) -> None:
        super().__init__(name, mode)
        self.stages, self.time, self.slept = stages, time, 0.0
        self.publications: dict[str, Publication] = {}
        self.labels: dict[tuple[int, int], str] = {}
        self.stamped: list[tuple[EventId, Place, list[int], float]] = []
        self.failed: dict[str, str] = {}
        self.refused: set[str] = set()
        self.words: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self.outbox: list[tuple[int, Requested]] = []
        self.questions: list[tuple[int, Question]] = []
        self.handed: list[Message] = []
        self.is_opening = False
        self.begin(EndpointTimes(settle_delay=0.0))

    def restart(self) -> None:
        """A new process with the same client id; it knows nothing."""
        self.drop_spans()
        self._begin()

    @property
    def now(self) -> float:
        """See :class:`Driven`."""
        return self.time

    @property
    def uptime(self) -> float:
        """See :class:`Driven`."""
        return self.time + self.slept

    @property
    def when(self) -> tuple[float, float]:
        """See :class:`Driven`."""
        return 0, self.time

    # -- connections -------------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """A stage is reached."""
        return bool(self.endpoint.outbox.reached)

    def hello(self) -> Hello:
        """Return what it says to a worker."""
        return self.endpoint.greeting(Hello(1, 1, "", self.name, self.incarnation))

    def welcomed(self, order_epoch: int, topics: list[TopicInfo]) -> None:
        """A worker took it in; these topics it need not ask for."""
        self.endpoint.welcomed(Welcome(1, DOMAIN, "worker", order_epoch, [], 10_000))
        self.endpoint.receive(Topics(0, topics, order_epoch))

    def opened(self, frame: Opened, *, all_stages: bool = False) -> None:
        """A stage says that it took note, as soon as it had the hello. ``all_stages``: it speaks for all of them."""
        self.is_opening = False
        self.endpoint.reached(set(range(self.stages)) if all_stages else {frame.stage}, self.stages - 1)
        self.endpoint.opened(frame, self.uptime)
        self.tick()

    def reached(self) -> None:
        """The connections are there again, before any stage has noted that they were not."""
        self.endpoint.reached(set(range(self.stages)), self.stages - 1)
        self.pump()

    def lost(self) -> None:
        """The connections break, with what is under way."""
        self.outbox, self.questions = [], []
        self.endpoint.lost(range(self.stages))

    def sleep(self, seconds: float) -> None:
        """Its machine is suspended; no timer but the lease's counts that."""
        self.slept += seconds
        self.tick()

    def send(self, stage: int, frame: Frame) -> None:
        """See :class:`Driven`."""
        if stage not in self.endpoint.outbox.reached:
            return
        if isinstance(frame, Question):
            self.questions.append((stage, frame))
        else:
            assert isinstance(frame, Requested)
            self.outbox.append((stage, frame))

    def _ask_lease(self, effect: AskLease) -> None:
        """All stages of a connected client answer at once (R12)."""
        if self.is_connected:
            self.endpoint.receive(Renewed(effect.request, joined((at, 1) for at in range(self.stages))))

    # -- publishing --------------------------------------------------------------------------------------------

    def publish(self, label: str, topic: str) -> None:
        """Publish an event."""
        made = self.endpoint.publish((SPACE, topic), label, partial(self._logged, label))
        self.publications[label], self.labels[self.incarnation, made.counter] = made, label
        self.pump()

    def _logged(self, label: str) -> bytes:
        event = self.name, self.incarnation, self.publications[label].counter
        return encode_logged(Logged(payload_of(event, label), 0, []))

    def cancel(self, label: str) -> None:
        """Nobody wants the event any more."""
        self.endpoint.cancel(self.publications[label])
        self.pump()

    def accepted(self, label: str) -> None:
        """The broker accepted the event."""
        self.endpoint.accepted(self.publications[label])
        self.pump()

    def broker_restored(self) -> None:
        """The broker is back: are the numbers still good of what it may not have got (R16)?"""
        self.endpoint.broker_restored(SPACE)
        self.pump()

    def _stamped(self, effect: HandOver) -> None:
        each = effect.publication
        if each.state is not PublicationState.STAMPED:
            return
        label, event, place = each.content, (self.name, self.incarnation, each.counter), (each.topic_id, each.number)
        self.stamped.append((event, place, each.deps, self.time))
        if label in self.refused:
            self.endpoint.refused(each, Refused("the broker says no"))
        else:
            each.handed = True
            self.handed.append(Message(label, event, place[0], each.topic[1], each.number, effect.stamp))

    def _failed(self, effect: Failed) -> None:
        reason = {Forgotten: "forgotten", Abandoned: "abandoned"}.get(type(effect.error))
        if reason is not None:
            self.failed.setdefault(effect.publication.content, reason)

    def _confirmed_late(self, effect: LateConfirmation) -> None:
        place = effect.topic, effect.number
        for label, each in self.publications.items():
            if each.info is not None and (each.topic_id, each.number) == place:
                self.failed[label] = "late"

    # -- subscribing -------------------------------------------------------------------------------------------

    def arrived(self, message: Message, *, kept: bool = False) -> None:
        """The broker delivers an event. ``kept``: as it got the subscription (again), from its store (R5)."""
        for each in self.filters if kept else ():
            self.endpoint.kept_wanted(SPACE, each)
        payload = payload_of(message.event, message.label)
        self.endpoint.arrived(SPACE, Arrival(message.name, payload, message.stamp, retained=kept))
        self.pump()

    def arrived_unstamped(self, topic: str) -> None:
        """The broker delivers a message whose stamp was stripped (R17)."""
        self.endpoint.arrived(SPACE, Arrival(topic, b""))
        self.pump()

    def change(self, filters: set[Filter]) -> None:
        """See :class:`Driven`."""
        super().change(filters)
        self.pump()

    @property
    def waiting(self) -> list[str]:
        """Labels of the events (and holes) that wait."""
        entries = {(each.topic, each.number): each for each in waiting_in(self.module) if not each.done}
        return sorted(
            f"hole {each.number}" if each.is_hole else label_of(each.content[1].payload) for each in entries.values()
        )

    def told(self, item: Event | Gap) -> None:
        """See :class:`Driven`."""
        if isinstance(item, Gap):
            numbers = str(item.first) if item.first == item.last else f"{item.first}-{item.last}"
            self.words.append(f"gap {item.topic} {numbers} {item.reason}")
        else:
            tag = "" if item.verdict is Verdict.IN_ORDER else f" {item.verdict}"
            self.words.append(label_of(item.payload) + tag + (" repaired" if item.repaired else ""))

    def unordered(self, event: Event) -> None:
        """See :class:`Driven`."""

    # -- what happens ------------------------------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """A stage's answer arrives."""
        assert isinstance(frame, WorkerFrame)
        self.endpoint.receive(frame)
        self.pump()

    def put_questions(self, answer: Callable[[int, Question], Answer]) -> None:
        """What is to be asked by now is asked, and answered at once."""
        self.tick()
        for _ in range(ROUNDS):
            asked, self.questions = self.questions, []
            for stage, question in asked:
                self.receive(answer(stage, question))

    def wait(self, until: float) -> None:
        """Time passes; barriers come back when all is delivered that the broker had for the client then (R24)."""
        self._look()
        while (due := self.endpoint.next_deadline()) is not None and due - self.slept <= until + PRECISION:
            self.time = max(self.time, due - self.slept) + PRECISION / 1000  # sums are not exact
            self._look()
        self.time = max(self.time, until)
        self._look()

    def _look(self) -> None:
        self.tick()
        self.pass_barrier()
        self.pump()

    def tick(self) -> None:
        """Whatever is due happens."""
        self.endpoint.tick()
        self.pump()

    def pump(self) -> None:
        """Carry out, and send, all that is wanted now."""
        outbox, publishing = self.endpoint.outbox, self.endpoint.publishing
        self.perform()
        outbox.wants_flush = True
        while outbox.wants_flush or outbox.effects or publishing.settle_at is not None:
            self.endpoint.flush(settle=True)
            self.perform()
