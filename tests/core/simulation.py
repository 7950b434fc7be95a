"""A seeded simulation of the whole core: stages with journals that crash, links, clients, and a broker that delays,
reorders, repeats and loses. One seed decides everything, the topology too, and replays exactly.

First faults and work at random, then faults stop and everything must converge; :mod:`inorder_analytics.checks` judges.

    python -m tests.core.simulation --seed 1 --runs 1000
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from itertools import accumulate
from math import inf

import msgspec

from inorder.core.commands import (
    AnyCommand,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    Deliver,
    Effect,
    LeaveSession,
    OpenSession,
    Place,
    Reply,
    RestartTimers,
    Send,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder.core.lease import Lease
from inorder.core.names import Filter, FilterKind, exact
from inorder.core.notifications import Bounded, Verdict
from inorder.core.ordering import GapFound, Mode, OrderingModule, Output
from inorder.core.publisher import Publication, PublicationState, Publisher
from inorder.core.stage import Stage
from inorder.core.subscriber import Subscriber
from inorder.core.wire import (
    AskNumbers,
    ClientFrame,
    CreateTimestamps,
    Frame,
    Heads,
    NameTopics,
    Numbers,
    Opened,
    Renew,
    Renewed,
    Resolve,
    Settle,
    Settled,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    WorkerFrame,
    decode_client_frame,
    decode_worker_frame,
    encode_frame,
)
from inorder_analytics.checks import (
    EventId,
    History,
    Notified,
    Outcome,
    Span,
    SubscriberHistory,
    Unfinished,
    violations,
)

SPACE = "m"
LINGER = 20.0
Ask = tuple[int, AskNumbers | NameTopics | Renew]
"""A query of an incarnation."""
_encode = msgspec.msgpack.Encoder().encode
_commands: msgspec.msgpack.Decoder[AnyCommand] = msgspec.msgpack.Decoder(AnyCommand)


def _wild(text: str) -> Filter:
    return Filter(text, FilterKind.MQTT, text)


def _text_of(filter: Filter) -> str:
    return filter.text


class Host:
    """What a worker does for one stage: journal, then release. A crash forgets what was not committed."""

    def __init__(self, world: World, index: int, count: int) -> None:
        self.world, self.index, self.count = world, index, count
        self.stage = Stage(index, count)
        self.epoch = 0
        self.journal: list[tuple[bytes, int]] = []
        self.image: tuple[bytes, int] | None = None
        self.opened: list[tuple[bytes, int]] = []
        self.effects: list[Effect] = []
        self.links: dict[int, deque[Send]] = {}
        self.queues: dict[str, deque[AnyCommand | Ask]] = {}

    @property
    def now(self) -> int:
        return int(self.world.now * 1000)

    def run(self, command: AnyCommand) -> None:
        self.opened.append((_encode(command), self.now))
        self.effects += self.stage.step(command, self.now)
        self.note_states()

    def ask(self, name: str, ask: Ask) -> None:
        """A query's answer leaves after the commit of what it may have seen."""
        incarnation, frame = ask
        answer: Frame
        match frame:
            case AskNumbers():
                answer = self.stage.numbers(frame)
            case NameTopics():
                answer = self.stage.name_topics(frame)
            case Renew():
                answer = Renewed(frame.request, [self.index, self.epoch])
        self.effects.append(Reply(name, incarnation, answer))

    def step(self, rng: random.Random) -> bool:
        """Take one input: the next of a link or of a client's connection."""
        inputs: list[int | str] = [origin for origin, link in self.links.items() if link]
        inputs += [name for name, queue in self.queues.items() if queue]
        if not inputs:
            return False
        chosen = rng.choice(inputs)
        if isinstance(chosen, int):
            send = self.links[chosen].popleft()
            self.run(Deliver(chosen, send.number, send.ride))
        else:
            command = self.queues[chosen].popleft()
            if isinstance(command, tuple):
                self.ask(chosen, command)
            else:
                self.run(command)
        return True

    def commit(self) -> bool:
        if not (self.opened or self.effects):
            return False
        self.journal += self.opened
        effects, self.opened, self.effects = self.effects, [], []
        for effect in effects:
            if isinstance(effect, Send):
                self.world.hosts[effect.stage].links.setdefault(self.index, deque()).append(effect)
            else:
                self.world.reply(self.index, effect)
        for other in self.world.hosts:
            if other is not self:
                other.stage.acknowledge(self.index, self.stage.received(other.index))
        return True

    def note_states(self, always: bool = False) -> None:
        """Keep what became of numbers for the checks, before the stage forgets them."""
        if always or self.world.retention < 100:
            states, unheard = self.world.history.states, self.world.history.unheard
            for manager in self.stage._state.topics.values():
                for record in manager.records.values():
                    states[record.topic, record.number] = record.state.name
                    parts = iter(record.deps or ())
                    unheard[record.topic, record.number] = dict(zip(parts, parts, strict=True))

    def snapshot(self) -> None:
        if not self.opened:
            self.image = self.stage.snapshot(), len(self.journal)

    def crash(self) -> None:
        """Lose memory; recover from the last snapshot and the journal; links resend."""
        self.opened, self.effects = [], []
        start = 0
        if self.image is None:
            self.stage = Stage(self.index, self.count)
        else:
            data, start = self.image
            self.stage = Stage.restore(data)
        for data, now in self.journal[start:]:
            self.stage.step(_commands.decode(data), now)
        self.epoch += 1
        self.stage.epoch = self.epoch
        self.run(RestartTimers())
        for other in self.world.hosts:
            if other is not self:
                self.connect(other)
                other.connect(self)

    def connect(self, origin: Host) -> None:
        """The link begins anew: what is not durable here is sent again."""
        last = self.stage.received(origin.index)
        # what its origin has not committed yet leaves with its origin's commit
        held = {each.number for each in origin.effects if isinstance(each, Send) and each.stage == self.index}
        kept = [each for each in origin.stage.unacknowledged(self.index) if each.number > last]
        self.links[origin.index] = deque(each for each in kept if each.number not in held)


class Message:
    """An event on the broker."""

    __slots__ = ("deps", "event", "name", "number", "topic")

    def __init__(self, event: EventId, name: str, topic: int, number: int, deps: list[int]) -> None:
        self.event, self.name, self.topic, self.number, self.deps = event, name, topic, number, deps


class Client:
    """The ordering module of one client, with its connections to the stages and to the broker."""

    def __init__(self, world: World, name: str, mode: Mode) -> None:
        self.world, self.name, self.mode = world, name, mode
        self.incarnation = 0
        kind = mode if isinstance(mode, str) else "bounded"
        self._lapses: list[tuple[float, float]] = []
        self.history = world.history.subscribers[name] = SubscriberHistory(name, kind, lapses=self._lapses)
        self.inbox: list[deque[bytes]] = [deque() for _ in world.hosts]
        self._begin_process()

    def restart(self) -> None:
        """A new process with the same client id; it knows nothing."""
        for span in self._open_spans():
            self._close(span, self.module.clock.get(span.topic, span.start))
        self.give_up(set())
        self._begin_process()

    def _begin_process(self) -> None:
        self.incarnation += 1
        self._began = self.world.now
        self._end_lapse()
        self._after: set[int] = set()
        self.publisher = Publisher()
        self.subscriber = Subscriber(bounded=self.mode != "strict")
        self.module = OrderingModule(self.mode)
        self.lease = Lease()
        self.lease.needs(range(len(self.world.hosts)))
        self.asked = [0] * len(self.world.hosts)
        self.greeted = self.renewed = self.world.now
        self.is_up = False
        self.filters: set[Filter] = set()
        self.arriving: list[Message] = []
        self.slow = {topic for topic in range(1, 9) if self.world.rng.random() < 0.2}
        self.leaving: deque[Publication] = deque()
        self.unknown: deque[Publication] = deque()
        self.published: dict[int, int] = {}
        self.naming: set[int] = set()
        self.asked_names: set[int] = set()
        self.requests = 0

    def _open_spans(self) -> list[Span]:
        return [each for each in self.history.spans if each.end is None]

    def _close(self, span: Span, clock: int) -> None:
        span.end, span.dropped = clock, self.world.now

    # -- connection --------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.is_up = True
        self.greeted = self.world.now
        for host in self.world.hosts:
            self._queue(host.index).append(OpenSession(self.name, self.incarnation, self.asked[host.index] + 1))
        self.naming.clear()
        self.asked_names.clear()
        for settle in self.publisher.connected():
            self.send(settle.stage, settle)
        request = self.subscriber.request()
        if request is not None:
            self.send(-1, request)

    def disconnect(self, rng: random.Random) -> None:
        """The connection breaks: some of what is under way still gets through, answers do not."""
        self.is_up = False
        for host in self.world.hosts:
            self.inbox[host.index].clear()
            queue = self._queue(host.index)
            opened = [at for at, each in enumerate(queue, start=1) if isinstance(each, OpenSession)]
            kept = rng.randint(max(opened, default=0), len(queue))
            while len(queue) > kept:
                queue.pop()
            queue.append(LeaveSession(self.name, self.incarnation))

    def _queue(self, stage: int) -> deque[AnyCommand | Ask]:
        return self.world.hosts[stage].queues.setdefault(self.name, deque())

    def send(self, stage: int, frame: Frame) -> None:
        if self.is_up:
            stage %= len(self.world.hosts)
            if isinstance(frame, CreateTimestamps):
                self.asked[stage] = max(self.asked[stage], frame.events[-1].counter)
            self._queue(stage).append(self._command(decode_client_frame(encode_frame(frame)[4:])))

    def _command(self, frame: ClientFrame) -> AnyCommand | Ask:
        session = self.name, self.incarnation
        match frame:
            case CreateTimestamps():
                return Create(*session, frame.low, frame.events)
            case Settle():
                return SettleNumbers(*session, frame.request, frame.confirmed, frame.void)
            case Resolve():
                return CreateTopics(*session, frame.request, frame.topics)
            case Subscribe():
                return ChangeSubscription(
                    *session, frame.version, frame.filters, frame.bounded, frame.durable, frame.anew
                )
            case AskNumbers() | NameTopics() | Renew():
                return self.incarnation, frame
        raise AssertionError(frame)

    # -- what leaves -------------------------------------------------------------------------------------------

    def publish(self, name: str) -> None:
        publication = self.publisher.publish((SPACE, name), None)
        self.published[publication.counter] = self.world.steps
        self.world.history.publish((self.name, self.incarnation, publication.counter), 0)

    def pump(self) -> None:
        """Send what is to be sent now, and let time act."""
        now = self.world.now
        self._check_lease()
        self.record(self.module.tick(now))
        if not self.is_up:
            return
        if self.lease.pause is not None and now >= self.renewed + self.lease.pause:
            self.renewed = now
            request = self.lease.ask(now)
            for host in self.world.hosts:
                self.send(host.index, Renew(request))
        if names := self.publisher.unnamed():
            self.requests += 1
            self.send(-1, Resolve(self.requests, names))
        for frame in self.publisher.requests():
            self.send(frame.stage, frame)
        for settle in self.publisher.settlements():
            self.send(settle.stage, settle)
        for question in self.module.questions(now):
            info = self.subscriber.topics[question.topic]
            self.requests += 1
            self.send(info.stage, AskNumbers(self.requests, info.stage, question.topic, question.ranges))
        if ids := [each for each in self.module.unnamed() if each not in self.asked_names]:
            self.asked_names.update(ids)
            self.requests += 1
            self.naming.add(self.requests)
            self.send(-1, NameTopics(self.requests, ids))

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def _check_lease(self) -> None:
        is_leased = self.world.now < self.lease.until
        if is_leased and not self.module.is_leased:
            self._end_lapse()
            self.record(self.module.renewed(self.world.now))
        elif not is_leased and self.module.is_leased:
            self._lapses.append((max(self.lease.until, self._began), inf))
            self.module.lapse()

    def _end_lapse(self) -> None:
        if self._lapses and self._lapses[-1][1] == inf:
            self._lapses[-1] = self._lapses[-1][0], self.world.now

    def _opened(self, frame: Opened) -> None:
        self.lease.opened(frame.stage, frame.session_timeout_ms / 1000, self.greeted)
        if not frame.known:
            self.publisher.forgotten_by(frame.stage)
        is_bottom = frame.stage == len(self.world.hosts) - 1
        if is_bottom and self.subscriber.is_lost(known=frame.known, version=frame.version):
            self.history.expiries += bool(self.module.clock)
            self.subscriber.expired()
            self.module.subscribing()
            self._interrupted(self.module.expired(list(self.module.clock), self.world.now), anew=True)

    def _interrupted(self, outputs: list[Output], *, anew: bool) -> None:
        """Topics lost their clocks: they begin anew."""
        for span in self._open_spans():
            if span.topic in self.module.interrupted:
                self._close(span, self.module.interrupted[span.topic] - 1)
                self._after.add(span.topic)
        self.record(outputs)
        if anew:
            self.subscriber.begin_anew()
            request = self.subscriber.request()
            assert request is not None
            self.send(-1, request)

    # -- subscription ------------------------------------------------------------------------------------------

    def change(self, filters: set[Filter]) -> None:
        """R7: the broker first, then the stages; R11: what is dropped is dropped at once."""
        added = filters - {each.filter for each in self.subscriber.filters}
        self.filters |= added
        wanted = [SpaceFilter(SPACE, each) for each in sorted(filters, key=_text_of)]
        dropped = self.subscriber.dropped(wanted)
        for span in self._open_spans():
            if span.topic in dropped:
                self._close(span, self.module.clock.get(span.topic, span.start))
        self._after.difference_update(dropped)
        self._check_lease()
        self.record(self.module.unsubscribed(dropped, self.world.now))
        self.subscriber.begin(wanted)
        if added:
            self.module.subscribing()
        request = self.subscriber.request()
        assert request is not None
        self.send(-1, request)

    def _subscribed(self, frame: Subscribed) -> None:
        starts = self.subscriber.completed(frame)
        if starts is None:
            return
        for each in starts:
            if each.topic.id not in self.module.clock:
                self._begin_span(each.topic.id, each.start)
        filters = {each.filter for each in self.subscriber.filters}
        self.filters &= filters
        self.record(self.module.subscribed(starts, self.world.now, filters=self.subscriber.has_wildcards))

    def _begin_span(self, topic: int, start: int) -> None:
        span = Span(topic, start, self.world.steps, self.world.now, continues=topic in self._after)
        self._after.discard(topic)
        self.history.spans.append(span)

    # -- what arrives ------------------------------------------------------------------------------------------

    def take(self, frame: WorkerFrame) -> None:
        now = self.world.now
        self._check_lease()
        match frame:
            case Timestamps():
                answers = self.publisher.answered(frame)
                for each in answers.ready:
                    self._stamped(each)
                self.leaving.extend(answers.ready)
            case Settled():
                self.publisher.settled(frame)
            case Topics() if frame.request in self.naming:
                self._named(frame.topics)
            case Topics():
                self.publisher.named(frame.topics)
            case Subscribed():
                self._subscribed(frame)
            case Numbers():
                before = len(self.module.interrupted)
                outputs = self.module.answered(frame, now)
                self._interrupted(outputs, anew=len(self.module.interrupted) > before)
            case Heads():
                self.module.heads(frame.heads, now)
            case Opened():
                self._opened(frame)
            case Renewed():
                self.lease.answered(frame.request, frame.stages[::2])
        self._check_lease()

    def _named(self, topics: list[TopicInfo]) -> None:
        mine, foreign = self.subscriber.named(topics)
        for topic in mine:
            if topic not in self.module.clock:
                self._begin_span(topic, 0)
        self.record(self.module.named(mine, foreign, self.world.now))
        self.asked_names.difference_update(each.id for each in topics)

    def _stamped(self, each: Publication) -> None:
        event = self.name, self.incarnation, each.counter
        place = each.topic_id, each.number
        self.world.history.stamp(event, place, each.deps, self.published[each.counter], self.world.now)

    def arrived(self, message: Message) -> None:
        self._check_lease()
        info = TopicInfo(message.topic, SPACE, message.name, 0)
        if self.subscriber.covers(info):
            self.record(
                self.module.receive(message.topic, message.number, list(message.deps), message.event, 1, self.world.now)
            )

    def _is_wanted(self, event: EventId) -> bool:
        topic = self.world.history.stamped[event].place[0]
        info = self.world.hosts[-1].stage._state.info(topic)
        return self.subscriber.covers(info)

    def record(self, outputs: list[Output]) -> None:
        for each in outputs:
            if isinstance(each, GapFound):
                self.history.report(each.topic, each.first, each.last, str(each.reason))
            else:
                if each.verdict is Verdict.UNSEQUENCED and not self._is_wanted(each.content):
                    continue  # it waited for the name of its topic, and was unsubscribed meanwhile
                place = each.topic, each.number
                self.history.notified.append(Notified(each.content, place, str(each.verdict), self.world.now))

    # -- the broker's answers to a publisher -------------------------------------------------------------------

    def hand_over(self, rng: random.Random, faults: bool) -> bool:
        """Hand the next stamped event to the broker, which may refuse it; or it is lost on the way."""
        if not self.leaving:
            return False
        publication = self.leaving.popleft()
        if publication.state is PublicationState.STAMPED:
            publication.handed = True
            if faults and rng.random() < 0.05:
                self.publisher.refused(publication)
                self._ended(publication, "void")
                return True
            if not (faults and rng.random() < 0.05):
                self.world.publish(self, publication, faults)
            self.unknown.append(publication)
        return True

    def accept(self, rng: random.Random, faults: bool) -> bool:
        """The broker acknowledges; or its connection is lost, and all that is open is handed over again (R16)."""
        if not self.unknown:
            return False
        publication = self.unknown.popleft()
        if publication.counter in self.world.on_broker(self) and not (faults and rng.random() < 0.1):
            self.publisher.accepted(publication)
            self._ended(publication, "acknowledged")
        else:
            self.publisher.ask_again(self.publisher.handed_over(SPACE))
            self.leaving.clear()
            self.unknown.clear()
        return True

    def give_up(self, left: set[int]) -> None:
        """What is open and not among the counters ``left`` ended without the broker's word."""
        for publish in self.world.history.publishes.values():
            client, _, counter = publish.event
            if client == self.name and publish.outcome == "open" and counter not in left:
                publish.outcome = "unknown"

    def _ended(self, publication: Publication, outcome: Outcome) -> None:
        self.world.history.publishes[self.name, self.incarnation, publication.counter].outcome = outcome

    def cancel(self, rng: random.Random) -> None:
        if self.publisher._open:
            publication = rng.choice(list(self.publisher._open.values()))
            self.publisher.cancel(publication)
            self._ended(publication, "unknown")


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 1.0
        self.steps = 0
        self.history = History(LINGER)
        self.broker: dict[tuple[str, int], set[int]] = {}
        self.hosts: list[Host] = []
        count = rng.choice((1, 2, 3, 3, 4))
        self.hosts = [Host(self, index, count) for index in range(count)]
        self._place(count)
        self.loss = rng.choice((0.0, 0.02, 0.1))
        self.reordering = rng.choice((0.0, 0.5, 1.0))
        # runs differ in what happens often: rare combinations need a run that is full of one kind of event
        churns = seed % 4 == 0
        self.weights = list(
            accumulate(
                weight * (_CHURN.get(action, 1.0) if churns else 1.0) * rng.choice((0.2, 1, 1, 4))
                for action, weight in _WEIGHTED
            )
        )
        self.clients: dict[str, Client] = {}
        for number in range(rng.randint(2, 5)):
            mode: Mode = rng.choice(("strict", "strict", "tag", Bounded(buffer=3), Bounded(max_wait=2.0)))
            if seed % 2:
                mode = "strict"
            client = Client(self, f"c{number}", mode)
            self.clients[client.name] = client
            client.connect()

    def _place(self, count: int) -> None:
        rng = self.rng
        self.retention = rng.choice((10_000, 10_000, 4))
        settings = StageSettings(
            linger_ms=int(LINGER * 1000),
            number_retention=self.retention,
            publisher_grace_ms=rng.choice((10_000, 2_000)),
            session_timeout_ms=rng.choice((30_000, 4_000)),
        )
        self.names = [f"t/{number}" for number in range(rng.choice((2, 3, 3, 4, 6)))]
        self.new_names = [f"n/{number}" for number in range(rng.choice((0, 0, 2)))]
        stages = sorted(rng.randrange(count) for _ in self.names)
        topics = [
            TopicInfo(number, SPACE, name, stage)
            for number, (name, stage) in enumerate(zip(self.names, stages, strict=True), start=1)
        ]
        for host in self.hosts:
            host.run(Configure(settings))
            host.run(Place(topics))
            host.commit()
        self.possible = [exact(each) for each in self.names + self.new_names]
        if rng.random() < 0.5:
            self.possible += [_wild("t/#"), _wild("n/#"), _wild("+/1"), _wild("#")]

    # -- the broker --------------------------------------------------------------------------------------------

    def on_broker(self, client: Client) -> set[int]:
        return self.broker.setdefault((client.name, client.incarnation), set())

    def publish(self, client: Client, publication: Publication, faults: bool) -> None:
        self.on_broker(client).add(publication.counter)
        event = client.name, client.incarnation, publication.counter
        name = publication.topic[1]
        message = Message(event, name, publication.topic_id, publication.number, publication.deps)
        for other in self.clients.values():
            if any(each.covers(name) for each in other.filters):
                copies = self.rng.choices((0, 1, 2), (self.loss, 1, 0.1))[0] if faults else 1
                other.arriving += [message] * copies

    def reply(self, stage: int, effect: Reply) -> None:
        client = self.clients.get(effect.client_id)
        if client is not None and client.is_up and client.incarnation == effect.incarnation:
            client.inbox[stage].append(encode_frame(effect.frame)[4:])

    # -- random actions ----------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do one thing at random."""
        rng = self.rng
        self.steps += 1
        client, host = rng.choice(list(self.clients.values())), rng.choice(self.hosts)
        rng.choices(_ACTIONS, cum_weights=self.weights)[0](self, client, host)

    def _publish(self, client: Client, _host: Host) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 3))):
            client.publish(self.rng.choice(self.names + self.new_names))
        if self.rng.random() < 0.7:
            client.pump()

    def _pump(self, client: Client, _: Host) -> None:
        client.pump()

    def _step(self, _: Client, host: Host) -> None:
        host.step(self.rng)
        if self.rng.random() < 0.6:
            host.commit()

    def _commit(self, _: Client, host: Host) -> None:
        host.commit()

    def _receive(self, client: Client, _: Host) -> None:
        boxes = [box for box in client.inbox if box]
        if boxes:
            client.take(decode_worker_frame(self.rng.choice(boxes).popleft()))
            if self.rng.random() < 0.7:
                client.pump()

    def _arrive(self, client: Client, _: Host) -> None:
        if client.arriving:
            at = self.rng.randrange(len(client.arriving)) if self.rng.random() < self.reordering else 0
            if client.arriving[at].topic not in client.slow or self.rng.random() < 0.1:
                client.arrived(client.arriving.pop(at))

    def _hand_over(self, client: Client, _: Host) -> None:
        client.hand_over(self.rng, faults=True)

    def _accept(self, client: Client, _: Host) -> None:
        client.accept(self.rng, faults=True)

    def _cancel(self, client: Client, _: Host) -> None:
        client.cancel(self.rng)

    def _change(self, client: Client, _: Host) -> None:
        if client.subscriber.change is not None:
            return
        filters: set[Filter] = {each.filter for each in client.subscriber.filters}
        if filters and self.rng.random() < 0.4:
            filters.remove(self.rng.choice(sorted(filters, key=_text_of)))
        if self.rng.random() < 0.8:
            filters |= set(self.rng.sample(self.possible, self.rng.randint(1, 2)))
        client.change(filters)

    def _time(self, *_: object) -> None:
        self.now += self.rng.choice((0.01, 0.1, 0.1, 0.5, 1.0))

    def _jump(self, *_: object) -> None:
        self.now += self.rng.choice((3.0, 8.0, 15.0, 30.0, 70.0))

    def _tick(self, _: Client, host: Host) -> None:
        due = host.stage.next_deadline()
        if due is not None and due <= host.now:
            host.run(Tick())

    def _heads(self, client: Client, host: Host) -> None:
        heads = host.stage.heads(client.name, None)
        if heads:
            host.effects.append(Reply(client.name, client.incarnation, Heads(heads)))

    def _disconnect(self, client: Client, _: Host) -> None:
        if client.is_up:
            client.disconnect(self.rng)

    def _connect(self, client: Client, _: Host) -> None:
        if not client.is_up:
            client.connect()

    def _restart(self, client: Client, _: Host) -> None:
        if client.is_up:
            client.disconnect(self.rng)
        client.restart()
        client.connect()

    def _snapshot(self, _: Client, host: Host) -> None:
        host.snapshot()

    def _crash(self, _: Client, host: Host) -> None:
        for client in self.clients.values():
            host.queues.get(client.name, deque[AnyCommand | Ask]()).clear()
            if client.is_up:
                client.disconnect(self.rng)
            else:
                host.queues.setdefault(client.name, deque()).append(LeaveSession(client.name, client.incarnation))
        host.crash()

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self, actions: int) -> History:
        for client in self.clients.values():
            self._change(client, self.hosts[0])
        for _ in range(actions):
            self.act()
        self.converge()
        return self.history

    def converge(self) -> None:
        """Faults stop: everything must arrive, be answered, and be notified or reported."""
        for client in self.clients.values():
            if not client.is_up:
                client.connect()
        began = self.now
        while self.now < began + 90 and not (self.now > began + 30 and self._is_quiet()):
            self.now += 1.0
            for host in self.hosts:
                self._tick(next(iter(self.clients.values())), host)
                for client in self.clients.values():
                    self._heads(client, host)
            for _ in range(3):
                self._exchange()
        self._finish()

    def _exchange(self) -> None:
        for client in self.clients.values():
            client.pump()
        for host in self.hosts:
            while host.step(self.rng):
                pass
            host.commit()
        for client in self.clients.values():
            for box in client.inbox:
                while box:
                    client.take(decode_worker_frame(box.popleft()))
            while client.hand_over(self.rng, faults=False) or client.accept(self.rng, faults=False):
                pass
        for client in self.clients.values():
            while client.arriving:
                client.arrived(client.arriving.pop(0))

    def _is_quiet(self) -> bool:
        return not any(self._unfinished(client) for client in self.clients.values())

    @staticmethod
    def _unfinished(client: Client) -> str:
        module = client.module
        if client.publisher.pending:
            return f"{client.publisher} {list(client.publisher._open.values())[:3]}"
        if client.subscriber.change is not None:
            return "a subscription change"
        if module.waiting or module._held or module._parked:
            waiting = [entry for topic in module.clock for entry in module._room.topic(topic).values()]
            return f"waiting {waiting}, held {module._held}, parked {module._parked}, clock {module.clock}"
        return ""

    def _finish(self) -> None:
        history = self.history
        for client in self.clients.values():
            if left := self._unfinished(client):
                history.unfinished.append(Unfinished(client.name, f"{left} ({client.history.mode})"))
            client.give_up(set(client.publisher._open))
            for span in client._open_spans():
                span.end = client.module.clock.get(span.topic, span.start)
        for host in self.hosts:
            host.note_states(always=True)
            for manager in host.stage._state.topics.values():
                if manager.stage == host.index:
                    history.heads[manager.id] = manager.head


_WEIGHTED: list[tuple[Callable[[World, Client, Host], None], float]] = [
    (World._publish, 10),
    (World._pump, 6),
    (World._step, 30),
    (World._commit, 12),
    (World._receive, 20),
    (World._arrive, 14),
    (World._hand_over, 10),
    (World._accept, 8),
    (World._cancel, 0.7),
    (World._change, 4),
    (World._time, 6),
    (World._jump, 0.5),
    (World._tick, 2),
    (World._heads, 1),
    (World._disconnect, 0.5),
    (World._connect, 3),
    (World._restart, 0.15),
    (World._snapshot, 1),
    (World._crash, 0.4),
]
_CHURN = {World._change: 5.0, World._jump: 0.1, World._crash: 0.0, World._disconnect: 0.0, World._restart: 0.0}
"""Factors for runs that are full of subscription changes and poor in faults."""
_ACTIONS = [action for action, _ in _WEIGHTED]


def simulate(seed: int) -> list[str]:
    """Run one seed; return what it broke. An exception of the core is a violation too."""
    try:
        world = World(seed)
        return [str(each) for each in violations(world.run(random.Random(seed).randint(200, 800)))]
    except Exception:
        return [traceback.format_exc()]


def main() -> int:
    """Run seeds from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1000, help="how many seeds from there")
    options = parser.parse_args()
    failed, began = 0, time.perf_counter()
    for seed in range(options.seed, options.seed + options.runs):
        found = simulate(seed)
        if found:
            failed += 1
            print(f"seed {seed}: {len(found)} violations", *found[:3], sep="\n  ")  # noqa: T201
    print(f"{options.runs} runs, {failed} failed, {time.perf_counter() - began:.0f} s")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
