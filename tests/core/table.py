"""Clients on the table: the real publisher, subscriber and ordering module, and an ENS that delivers by hand.

:class:`PublisherRole` and :class:`SubscriberRole` are what a client does apart from connections: inputs in, frames and
hand-overs out. :class:`Table` joins them to the stages of :class:`~tests.core.cluster.Cluster`; every request, ride,
answer and delivery stays where it is until it is moved. The explorer drives the same roles by all interleavings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec
from tests.core.cluster import SPACE, Cluster
from tests.core.readers import waiting_in

from inorder.endpoint.barriers import PRECISION
from inorder.endpoint.lease import Lease
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, GapFound, Mode, OrderingTimes, Output
from inorder.endpoint.publications import Publication
from inorder.endpoint.publisher import Publisher
from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.names import Filter
from inorder.protocol.pairs import flat
from inorder.protocol.wire import (
    Access,
    AskNumbers,
    Frame,
    Hello,
    LoggedEvent,
    Moved,
    Numbers,
    Opened,
    Resolve,
    Settled,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
)
from inorder_analytics.checks import EventId, History, Notified, Place, Span, SubscriberHistory
from inorder_worker.sequencer.commands import (
    AnyCommand,
    LeaveSession,
    LogChange,
    OpenSession,
    Reply,
    RestartTimers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.inputs import Requested, command_of, session_of
from inorder_worker.sequencer.stage import Stage


class Message(msgspec.Struct, frozen=True):
    """An event with its timestamp, on the ENS."""

    label: str
    event: EventId
    topic: int
    name: str
    number: int
    deps: tuple[int, ...]


class PublisherRole:
    """A client as a publisher.

    Attributes:
        outbox: (stage, frame) to be sent; stage -1 is the bottom one.
        handed: what it handed over to the ENS.
        stamped: (event, place, dependencies, when in s) of its timestamps, each as often as it got it.
        failed: why events were given up, by label.
        refused: labels that the ENS will refuse.
        asked: the highest counter that each stage was asked for.
    """

    def __init__(self, name: str, topics: Iterable[TopicInfo] = (), incarnation: int = 1) -> None:
        self.name, self.incarnation = name, incarnation
        self.publisher = Publisher()
        self.publisher.named(topics)
        self.publications: dict[str, Publication] = {}
        self.outbox: list[tuple[int, Requested]] = []
        self.handed: list[Message] = []
        self.stamped: list[tuple[EventId, Place, list[int], float]] = []
        self.failed: dict[str, str] = {}
        self.refused: set[str] = set()
        self.asked: dict[int, int] = {}
        self._requests = 0

    def publish(self, label: str, topic: str) -> None:
        self.publications[label] = self.publisher.publish((SPACE, topic), label, label.encode)
        self.pump()

    def cancel(self, label: str) -> None:
        self.publisher.cancel(self.publications[label])
        self.pump()

    def accepted(self, label: str) -> None:
        self.publisher.accepted(self.publications[label])
        self.pump()

    def ask_again(self, label: str) -> None:
        """Ask whether the number of a stamped event still stands (R16)."""
        self.publisher.ask_again([self.publications[label]])
        self.pump()

    def reconnected(self) -> None:
        self.outbox = [(frame.stage, frame) for frame in self.publisher.connected()]
        self.pump()

    def take(self, frame: Frame, now: float) -> None:
        """A worker's answer arrived."""
        match frame:
            case Timestamps():
                answers = self.publisher.answered(frame)
                for each in answers.ready:
                    self._stamped(each, now)
                self.failed.update((each.content, "forgotten") for each in answers.forgotten)
                self.failed.update((each.content, "abandoned") for each in answers.abandoned)
            case Settled():
                late = self.publisher.settled(frame)
                self.failed.update(
                    (each.content, "late") for each in self.publications.values() if _place(each) in late
                )
            case Topics():
                self.publisher.named(frame.topics, frame.order_epoch)
            case Moved():
                self.publisher.moved(frame)
        self.pump()

    def _stamped(self, each: Publication, now: float) -> None:
        event = self.name, self.incarnation, each.counter
        self.stamped.append((event, _place(each), each.deps, now))
        if each.content in self.refused:
            self.publisher.refused(each)
            return
        each.handed = True
        message = Message(each.content, event, each.topic_id, each.topic[1], each.number, tuple(each.deps))
        self.handed.append(message)

    def pump(self) -> None:
        """Queue what is to be sent now."""
        if names := self.publisher.unnamed():
            self._requests += 1
            self.outbox.append((-1, Resolve(self._requests, names)))
        for request in self.publisher.requests():
            self.asked[request.stage] = max(self.asked.get(request.stage, 0), request.events[-1].counter)
            self.outbox.append((request.stage, request))
        self.outbox += [(frame.stage, frame) for frame in self.publisher.settlements()]


def _place(publication: Publication) -> Place:
    return (publication.topic_id, publication.number) if publication.info is not None else (0, 0)


class SubscriberRole:
    """A client as a subscriber.

    Attributes:
        outbox: frames to be sent to the bottom stage.
        ens: what it is subscribed to at the ENS.
        naming: ids of topics that it asked the names of (R13).
        is_opening: it is connected again, and has not heard yet what is left of its subscription (R12).
        words: what its application saw, as short words.
    """

    def __init__(self, name: str, mode: Mode = "strict", times: OrderingTimes | None = None) -> None:
        self.name, self.mode, self.incarnation = name, mode, 1
        self.history = SubscriberHistory(name, mode if isinstance(mode, str) else "bounded")
        self.words: list[str] = []
        self._times = times
        self._names: dict[int, str] = {}
        self._begin()

    def _begin(self) -> None:
        self.subscriber = Subscriber(bounded=self.mode != "strict")
        self.module = OrderingModule(self.mode, self._times)
        self.outbox: list[Subscribe] = []
        self.ens: set[Filter] = set()
        self.naming: set[int] = set()
        self.is_opening = False
        self._barrier: list[Message] | None = None

    def restart(self, now: float) -> None:
        """A new process with the same client id; it knows nothing."""
        self._close([each.topic for each in self._open_spans()], now)
        self.incarnation += 1
        self._begin()

    def change(self, filters: set[Filter], now: float) -> None:
        """R7: the ENS first, then the stages; R11: what is dropped is dropped at once."""
        added = filters - {each.filter for each in self.subscriber.filters}
        self.ens |= added
        wanted = [SpaceFilter(SPACE, each) for each in sorted(filters, key=lambda each: each.text)]
        dropped = self.subscriber.dropped(wanted)
        self._close(dropped, now)
        self._record(self.module.unsubscribed(dropped, now), now)
        self.subscriber.begin(wanted)
        if added:
            self.module.subscribing()
        self.request()

    def opened(self, frame: Opened, now: float) -> None:
        """The bottom stage tells what is left of the subscription; if it is dropped, it begins anew (R12)."""
        self.is_opening = False
        if self.subscriber.is_lost(known=frame.known, version=frame.version):
            self._expire(now)

    def _expire(self, now: float) -> None:
        self.history.expiries += bool(self.module.clock)
        self.subscriber.expired()
        self.module.subscribing()
        self._interrupted(self.module.expired(list(self.module.clock), now), now)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.subscriber.begin_anew()
        self.request()

    def _interrupted(self, outputs: list[Output], now: float) -> None:
        for span in self._open_spans():
            if span.topic in self.module.interrupted:
                span.end, span.dropped = self.module.interrupted[span.topic] - 1, now
        self._record(outputs, now)

    def hold_back(self, is_leased: bool, now: float) -> None:
        """Tell whether events may be notified in order (R12)."""
        if is_leased and not self.module.is_leased:
            self._record(self.module.renewed(now), now)
        elif not is_leased:
            self.module.lapse()

    def request(self) -> None:
        """Ask for the change on its way (again)."""
        request = self.subscriber.request()
        self.outbox = [] if request is None else [request]

    def take(self, frame: Subscribed, now: float) -> None:
        """The answer to the change arrived."""
        starts = self.subscriber.completed(frame)
        if starts is None:
            return
        for each in starts:
            self._names[each.topic.id] = each.topic.name
            if each.topic.id not in self.module.clock:
                self.history.spans.append(Span(each.topic.id, each.start, 0, now))
        self.ens &= {each.filter for each in self.subscriber.filters}
        self._record(self.module.subscribed(starts, now, filters=self.subscriber.has_wildcards), now)

    def unnamed(self) -> list[int]:
        """Return ids whose names are to be asked now (R13)."""
        ids = sorted(set(self.module.unnamed()) - self.naming)
        self.naming.update(ids)
        return ids

    def named(self, topics: list[TopicInfo], now: float) -> None:
        """Topics that held events were named (R13)."""
        mine, foreign = self.subscriber.named(topics)
        self._names.update((each.id, each.name) for each in topics)
        self.naming.difference_update(each.id for each in topics)
        self.history.spans += [Span(each, 0, 0, now) for each in mine if each not in self.module.clock]
        self._record(self.module.named(mine, foreign, now), now)

    def arrived(self, message: Message, now: float, *, retained: bool = False) -> None:
        """The ENS delivered an event; it passes on only what the client is subscribed to."""
        if self.subscriber.covers(TopicInfo(message.topic, SPACE, message.name, 0)):
            deps = list(message.deps)
            outputs = self.module.receive(message.topic, message.number, deps, message, 1, now, retained=retained)
            self._record(outputs, now)

    def wait(self, since: float, until: float, undelivered: list[Message]) -> None:
        """Time passes. A barrier comes back when all is delivered that the ENS had for the client then (R24)."""
        now = since
        self._look(now, undelivered)
        while (due := self.module.next_tick()) is not None and due <= until + PRECISION:
            now = min(max(now, due), until)
            self._look(now, undelivered)
        self._look(until, undelivered)

    def _look(self, now: float, undelivered: list[Message]) -> None:
        self._record(self.module.tick(now), now)
        if self.module.barriers(now):
            self._barrier = list(undelivered)
        if self._barrier is not None and not any(each in undelivered for each in self._barrier):
            self._barrier = None
            self._record(self.module.caught_up("", now), now)

    def questions(self, now: float) -> list[AskNumbers]:
        """Return what stages are to be asked now (R17)."""
        asked = self.module.questions(now)
        infos = self.subscriber.topics
        return [AskNumbers(1, infos[each.topic].stage, each.topic, each.ranges) for each in asked]

    def fetched(self, topic: int, ranges: list[int], through: int, found: list[Found], now: float) -> None:
        """The log of a topic answered (R18)."""
        before = len(self.module.interrupted)
        self._interrupted(self.module.fetched(topic, ranges, through, found, now), now)
        if len(self.module.interrupted) > before:
            self._begin_anew()

    def answered(self, frame: Numbers, now: float) -> None:
        before = len(self.module.interrupted)
        self._interrupted(self.module.answered(frame, now), now)
        if len(self.module.interrupted) > before:
            self._begin_anew()

    @property
    def waiting(self) -> list[str]:
        """Labels of the events (and holes) that wait."""
        entries = {(each.topic, each.number): each for each in waiting_in(self.module) if not each.done}
        return sorted(f"hole {each.number}" if each.is_hole else each.content.label for each in entries.values())

    def closed_history(self) -> SubscriberHistory:
        """Return what it was notified of, with the ends that its spans have reached."""
        for span in self._open_spans():
            if span.topic in self.module.clock:
                span.end = self.module.clock[span.topic]
        return self.history

    def _open_spans(self) -> list[Span]:
        return [each for each in self.history.spans if each.dropped is None]

    def _close(self, topics: list[int], now: float) -> None:
        for span in self._open_spans():
            if span.topic in topics:
                span.end, span.dropped = self.module.clock.get(span.topic, span.start), now

    def _record(self, outputs: list[Output], now: float) -> None:
        for each in outputs:
            if isinstance(each, GapFound):
                self.history.report(each.topic, each.first, each.last, str(each.reason))
                numbers = str(each.first) if each.first == each.last else f"{each.first}-{each.last}"
                self.words.append(f"gap {self._names[each.topic]} {numbers} {each.reason}")
            else:
                place = each.topic, each.number
                if each.verdict != "retained":  # that is outside the order, and may come at any time
                    self.history.notified.append(Notified(each.content.event, place, str(each.verdict), now))
                tag = "" if each.verdict == "in_order" else f" {each.verdict}"
                tag += " repaired" if each.repaired else ""
                self.words.append(each.content.label + tag)


def history_of(publishers: Iterable[PublisherRole], subscribers: Iterable[SubscriberRole], linger: float) -> History:
    """Return what happened, for the checks."""
    history = History(linger)
    for publisher in publishers:
        for event, place, deps, when in publisher.stamped:
            history.stamp(event, place, deps, 0, when)
    for subscriber in subscribers:
        history.subscribers[subscriber.name] = subscriber.closed_history()
    return history


class Table(Cluster):
    """Stages and clients. Requests, answers and deliveries wait until they are moved.

    Attributes:
        requests: what clients sent and stages did not get yet, by (client, stage).
        answers: what stages answered and clients did not get yet, by (stage, client).
        ens: by subscriber, what the ENS still has for it.
        leases: how long each client may count on its subscription (R12).
        away: clients without a connection to the stages.
        slow: links on which nothing moves unless it is moved by name.
    """

    def __init__(self, topics: dict[str, int], settings: StageSettings | None = None) -> None:
        self.requests: dict[tuple[str, int], deque[AnyCommand]] = {}
        self.answers: dict[tuple[int, str], deque[Frame]] = {}
        self.publishers: dict[str, PublisherRole] = {}
        self.subscribers: dict[str, SubscriberRole] = {}
        self.past: list[PublisherRole] = []
        self.leases: dict[str, Lease] = {}
        self.away: set[str] = set()
        self.slow: set[tuple[int, int]] = set()
        self.ens: dict[str, list[Message]] = {}
        self.messages: dict[str, Message] = {}
        super().__init__(topics, settings=settings)

    @property
    def seconds(self) -> float:
        return self.now / 1000

    @property
    def infos(self) -> list[TopicInfo]:
        return [self.stages[-1]._state.info(topic) for topic in self.ids.values()]

    # -- clients -----------------------------------------------------------------------------------------------

    def join(self, client: str, mode: Mode = "strict") -> None:
        """A client connects to all stages."""
        self.publishers[client] = PublisherRole(client, self.infos)
        self.subscribers[client] = SubscriberRole(client, mode)
        self.ens[client] = []
        self._connect(client)

    def restart(self, client: str) -> None:
        """The client's process is replaced by a new one, which knows nothing."""
        self._cut(client)
        del self.leases[client]
        self.past.append(self.publishers[client])
        role = self.subscribers[client]
        role.restart(self.seconds)
        self.publishers[client] = PublisherRole(client, self.infos, role.incarnation)
        self.ens[client] = []
        self._connect(client)

    def leave(self, client: str) -> None:
        """The client's connection to the stages breaks, with what is under way."""
        self._cut(client)
        self.away.add(client)
        for stage in range(len(self.stages)):
            self.publishers[client].publisher.lost(stage)
            self.step(stage, LeaveSession(client, self.subscribers[client].incarnation))

    def reconnect(self, client: str) -> None:
        """The client is connected again, hears what stages still know of it, and asks again for all that is open."""
        self._cut(client)
        self.publishers[client].reconnected()
        self.subscribers[client].request()
        self._connect(client)
        self.collect()

    def reconnect_in_vain(self, client: str) -> None:
        """The client's hello arrives at the stages; its connection breaks before anything is answered."""
        for stage in range(len(self.stages)):
            self.step(stage, self._hello(client, stage))
        self.leave(client)

    def _hello(self, client: str, stage: int) -> OpenSession:
        asked = flat(self.publishers[client].asked)
        hello = Hello(1, 1, "", client, self.subscribers[client].incarnation, asked=asked)
        return session_of(hello, stage, Access())

    def _connect(self, client: str) -> None:
        self.away.discard(client)
        subscriber = self.subscribers[client]
        lease = self.leases.setdefault(client, Lease())
        lease.bottom = len(self.stages) - 1
        lease.needs(range(len(self.stages)))
        for stage in range(len(self.stages)):
            for frame in self.step(stage, self._hello(client, stage)):
                assert isinstance(frame, Opened)
                self.answers[stage, client].remove(frame)
                lease.opened(stage, frame.session_timeout_ms / 1000, self.seconds)
                if stage == lease.bottom:
                    subscriber.opened(frame, self.seconds)
        self._check_lease(client)

    def _check_lease(self, client: str) -> None:
        self.subscribers[client].hold_back(self.seconds < self.leases[client].until, self.seconds)

    def _cut(self, client: str) -> None:
        for stage in range(len(self.stages)):
            self.requests.pop((client, stage), None)
            self.answers.pop((stage, client), None)

    def collect(self) -> None:
        """Take what clients want to send and hand over: it is under way from now on."""
        bottom = len(self.stages) - 1
        for name, publisher in self.publishers.items():
            for stage, frame in publisher.outbox:
                self._queue(name, bottom if stage < 0 else stage, command_of(name, publisher.incarnation, frame))
            for message in publisher.handed:
                if message.label not in self.messages:
                    self.messages[message.label] = message
                    self._hand_over(message)
            publisher.outbox, publisher.handed = [], []
        for name, subscriber in self.subscribers.items():
            for request in subscriber.outbox:
                self._queue(name, bottom, command_of(name, subscriber.incarnation, request))
            subscriber.outbox = []

    def _queue(self, client: str, stage: int, command: AnyCommand) -> None:
        self.requests.setdefault((client, stage), deque()).append(command)

    def _hand_over(self, message: Message) -> None:
        for name, subscriber in self.subscribers.items():
            if any(each.covers(message.name) for each in subscriber.ens):
                self.ens[name].append(message)

    # -- moves -------------------------------------------------------------------------------------------------

    def step(self, stage: int, command: AnyCommand) -> list[Frame]:
        """Step a command; answers are under way to their clients if those are still the same process."""
        frames: list[Frame] = []
        effects = self.stages[stage].step(command, self.now)
        for effect in effects:
            if isinstance(effect, LogChange):
                self.keep(effect)
                continue
            if not isinstance(effect, Reply):
                self.links.setdefault((stage, effect.stage), deque()).append(effect)
                continue
            frames.append(effect.frame)
            role = self.subscribers.get(effect.client_id)
            if role is not None and role.incarnation == effect.incarnation:
                self.answers.setdefault((stage, effect.client_id), deque()).append(effect.frame)
        return frames

    def arrive_request(self, client: str, stage: int) -> None:
        """The next request of a client arrives at a stage."""
        self.step(stage, self.requests[client, stage].popleft())

    def arrive_answer(self, stage: int, client: str) -> None:
        """The next answer of a stage arrives at a client."""
        frame = self.answers[stage, client].popleft()
        if isinstance(frame, Subscribed):
            self.ids.update((each.topic.name, each.topic.id) for each in frame.topics)
            self.subscribers[client].take(frame, self.seconds)
        elif isinstance(frame, Numbers):
            self.subscribers[client].answered(frame, self.seconds)
        else:
            if isinstance(frame, Moved):
                self.subscribers[client].subscriber.moved(frame)
            if isinstance(frame, Topics):
                self.ids.update((each.name, each.id) for each in frame.topics)
            self.publishers[client].take(frame, self.seconds)
        self.collect()

    def settle_down(self) -> None:
        """Let everything between stages and clients arrive, except over slow links; the ENS delivers nothing."""
        moved = True
        while moved:
            moved = False
            for client, stage in [key for key, queue in self.requests.items() if queue]:
                self.arrive_request(client, stage)
                moved = True
            for link in [key for key, sends in self.links.items() if sends and key not in self.slow]:
                self.move(*link)
                moved = True
            for stage, client in [key for key, queue in self.answers.items() if queue]:
                self.arrive_answer(stage, client)
                moved = True

    def deliver(self, label: str, client: str, *, retained: bool = False) -> None:
        """The ENS delivers an event to a client; once delivered, it may deliver it again."""
        message = self.messages[label]
        if message in self.ens[client]:
            self.ens[client].remove(message)
        self._check_lease(client)
        self.subscribers[client].arrived(message, self.seconds, retained=retained)

    def put_questions(self, client: str) -> None:
        """The client's due questions go to the stages, and their answers return (R17, R13)."""
        role, now = self.subscribers[client], self.seconds
        for question in role.questions(now):
            role.answered(self.stages[question.stage].numbers(question), now)
        for wanted in role.module.fetches(now):
            answer = self.read_log(wanted.topic, wanted.ranges)
            found = [Found(each.number, each.deps, self._logged(each), 1) for each in answer.events]
            role.fetched(wanted.topic, wanted.ranges, answer.through, found, now)
        if ids := role.unnamed():
            role.named([each for each in self.infos if each.id in ids], now)

    def _logged(self, event: LoggedEvent) -> Message | None:
        """Return the event that the log has; it need never have been handed over to the ENS."""
        if event.content is None:
            return None
        for role in [*self.past, *self.publishers.values()]:
            publication = role.publications.get(event.content.decode())
            if publication is not None:
                place = publication.topic_id, publication.topic[1], event.number
                return Message(publication.content, (role.name, role.incarnation, publication.counter), *place, ())
        raise AssertionError(event)

    def tell_heads(self, client: str) -> None:
        """The stages tell a client the highest confirmed numbers of its topics (R17)."""
        for stage in self.stages:
            self.subscribers[client].module.heads(stage.heads(client, None), self.seconds)

    def wait(self, seconds: float) -> None:
        """Time passes for everybody."""
        before = self.seconds
        self.now += round(seconds * 1000)
        for stage in range(len(self.stages)):
            self.step(stage, Tick())
        for client, subscriber in self.subscribers.items():
            if client not in self.away:  # a connected client renews its lease every few seconds
                lease = self.leases[client]
                lease.answered(lease.ask(self.seconds), range(len(self.stages)))
            self._check_lease(client)
            subscriber.wait(before, self.seconds, self.ens[client])
        self.collect()

    def restore(self, stage: int) -> None:
        """A stage's process is replaced; the new one begins with its durable state."""
        self.stages[stage] = Stage.restore(self.stages[stage].snapshot())
        self.step(stage, RestartTimers())

    def history(self) -> History:
        """Return what happened, for the checks."""
        linger = self.stages[-1]._state.settings.linger_ms / 1000
        history = history_of([*self.past, *self.publishers.values()], self.subscribers.values(), linger)
        history.topics = {number: name for name, number in self.ids.items()}
        for stage in self.stages:
            for manager in stage._state.topics.values():
                for record in manager.records.values() if manager.stage == stage.index else ():
                    history.states[record.topic, record.number] = record.state.name
        return history
