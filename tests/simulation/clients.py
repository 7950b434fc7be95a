"""A client: the core's publisher, subscriber, ordering module and lease, with connections that break."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.simulation.faults import Clock
from tests.simulation.hosts import SPACE, Ask, Host

from inorder.endpoint.asked import Asked
from inorder.endpoint.lease import Lease
from inorder.endpoint.notifications import Verdict
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, GapFound, Mode, Output
from inorder.endpoint.publisher import Publication, PublicationState, Publisher
from inorder.endpoint.subscriber import Subscriber
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    Access,
    AskNumbers,
    ClientFrame,
    CreateTimestamps,
    Frame,
    Heads,
    Hello,
    LoggedEvent,
    LoggedEvents,
    Moved,
    NameTopics,
    Numbers,
    Opened,
    ReadLog,
    Renew,
    Renewed,
    Resolve,
    Settled,
    SpaceFilter,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    WorkerFrame,
    decode_client_frame,
    encode_frame,
)
from inorder_analytics.checks import EventId, Notified, Outcome, Span, SubscriberHistory
from inorder_worker.sequencer.commands import (
    AnyCommand,
    LeaveSession,
    OpenSession,
)
from inorder_worker.sequencer.inputs import Requested, command_of, session_of

if TYPE_CHECKING:
    from tests.simulation.world import World

LIAR = "c0"
"""Who lies, where somebody does (``Profile.lies``)."""


def wild(text: str) -> Filter:
    """Return an MQTT filter."""
    return Filter(text, FilterKind.MQTT, text)


def text_of(filter: Filter) -> str:
    """Return what filters are sorted by; sets of them have another order in each process."""
    return filter.text


def _event_of(logged: LoggedEvent) -> EventId | None:
    """Return the event whose id the log has as its content."""
    if logged.content is None:
        return None
    name, incarnation, counter = logged.content.decode().split()
    return name, int(incarnation), int(counter)


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
        self._gone_since: float | None = None
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
        self._began = self.awake_at = self.world.now
        self.hellos = [0] * len(self.world.hosts)
        self.has_greeted = [False] * len(self.world.hosts)
        self.wanted: set[int] = set()
        self.is_open = [False] * len(self.world.hosts)
        fate = self.world.fate
        started = fate.randrange(100_000)
        self._proves = self._lies or bool(started & 1)  # workers say so of whoever is no administrator
        self._loop = Clock(float(started), self.world.now)
        self._boot = Clock(float(fate.randrange(100_000)), self.world.now)
        self._end_lapse()
        self.learn_end()
        self._after: set[int] = set()
        self.publisher = Publisher()
        self.subscriber = Subscriber(bounded=self.mode != "strict")
        self.module = OrderingModule(self.mode)
        self.lease = Lease()
        self.lease.needs(range(len(self.world.hosts)))
        self.asked = Asked(self.world.ended_kept / 12)
        self.lied: set[int] = set()
        self.greeted = [self.uptime] * len(self.world.hosts)
        self.renewed = self.uptime
        self.is_up = False
        self.filters: set[Filter] = set()
        self.arriving: list[Message] = []
        self.behind: list[Message] | None = None
        rng, profile = self.world.rng, self.world.profile
        self.slow = {topic for topic in range(1, 9) if rng.random() < self._slowness()}
        self.is_deaf = rng.random() < profile.deaf
        names = self.world.names + self.world.new_names
        at = int(self.name[1:]) % len(names)
        self.topics = names[at : at + 1] if profile.one_topic else names
        self.leaving: deque[Publication] = deque()
        self.unknown: deque[Publication] = deque()
        self.published: dict[int, int] = {}
        self.naming: set[int] = set()
        self.asked_names: set[int] = set()
        self.requests = 0

    def _slowness(self) -> float:
        profile = self.world.profile
        return float(self.name == "c0") if profile.slow_reader else profile.slow

    def _open_spans(self) -> list[Span]:
        return [each for each in self.history.spans if each.end is None]

    def _close(self, span: Span, clock: int) -> None:
        """A span ends; one that has expired ended when the bottom stage said so, and its linger began (R10)."""
        span.end, span.dropped = clock, self.world.now if self._gone_since is None else self._gone_since

    # -- time --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """What the event loop's clock shows; it does not count the time that the machine sleeps."""
        return self._loop.at(self.world.now)

    @property
    def uptime(self) -> float:
        """The same with that time: what the lease needs."""
        return self._boot.at(self.world.now)

    @property
    def is_awake(self) -> bool:
        """Its machine is not suspended."""
        return self.awake_at <= self.world.now

    def suspend(self, until: float) -> None:
        """Its machine sleeps up to a time of the world."""
        self.awake_at = until
        self._loop.show(self.now, until)

    def wake(self) -> None:
        """Its machine sleeps no more."""
        self._loop.show(self.now, self.world.now)
        self.awake_at = self.world.now

    # -- connection --------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to all stages; in some runs to the bottom one only, and to others when it needs them."""
        self.is_up = True
        self.wanted.clear()
        self.publisher.welcomed(self.world.rng.choice(self.world.hosts).order_epoch)
        if self.world.is_gradual:
            self._greet(self.world.ways.sample(self.world.hosts, 1) + self.world.hosts[-1:])
        else:
            self._greet(self.world.hosts)

    def reach(self, *, all_of_them: bool) -> None:
        """Say hello to the workers of stages that are needed, which may have others as well; or to all."""
        ways = self.world.ways
        missing = [host for host in self.world.hosts if not self.has_greeted[host.index]]
        needed = [host for host in missing if host.index in self.wanted]
        if all_of_them:
            self._greet(missing)
        elif needed and ways.random() < 0.5:
            self._greet(needed + [host for host in missing if ways.random() < 0.5])

    def _greet(self, hosts: Iterable[Host]) -> None:
        for host in {each.index: each for each in hosts}.values():
            self.has_greeted[host.index] = True
            self.greeted[host.index] = self.uptime
            if self.world.is_gradual:
                self.publisher.welcomed(host.order_epoch)
            hello = Hello(
                *PROTOCOL_VERSIONS, "", self.name, self.incarnation, asked=self.asked.pairs(),
                asked_epoch=self.publisher.asked_epoch, recent=self.asked.recent(self.uptime),
            )  # fmt: skip
            command = session_of(hello, host.index, Access("client" if self._proves else "admin"))
            self._queue(host.index).append(command)
            self.hellos[host.index] += 1

    def disconnect(self, rng: random.Random) -> None:
        """The connection breaks: some of what is under way still gets through, answers do not."""
        self.is_up = False
        for host in self.world.hosts:
            self.inbox[host.index].clear()
            self.is_open[host.index] = self.has_greeted[host.index] = False
            self.publisher.lost(host.index)
            queue = self._queue(host.index)
            if host.notices(self.name):
                queue.clear()
                host.run(LeaveSession(self.name, self.incarnation))
                continue
            opened = [at for at, each in enumerate(queue, start=1) if isinstance(each, OpenSession)]
            kept = rng.randint(max(opened, default=0), len(queue))
            while len(queue) > kept:
                queue.pop()
            queue.append(LeaveSession(self.name, self.incarnation))

    def _queue(self, stage: int) -> deque[AnyCommand | Ask]:
        return self.world.hosts[stage].queues.setdefault(self.name, deque())

    def hears(self, stage: int, frame: Frame) -> bool:
        """Tell whether an answer of a stage reaches it. What is left of older connections does not: the first frame of
        this one is what the stage says to its last hello."""
        if isinstance(frame, Opened):
            self.hellos[stage] -= 1
        return self.has_greeted[stage] and not self.hellos[stage]

    def send(self, stage: int, frame: Frame) -> None:
        stage %= len(self.world.hosts)
        if not isinstance(frame, Renew):
            self.wanted.add(stage)
        if self.is_open[stage]:
            if isinstance(frame, CreateTimestamps):
                self.asked.note(stage, frame.events[-1].counter, self.uptime)
            self._queue(stage).append(self._command(decode_client_frame(encode_frame(frame)[4:])))

    def _command(self, frame: ClientFrame) -> AnyCommand | Ask:
        if isinstance(frame, AskNumbers | NameTopics | Renew | ReadLog):
            return self.incarnation, frame
        assert isinstance(frame, Requested)
        return command_of(self.name, self.incarnation, frame)

    # -- what leaves -------------------------------------------------------------------------------------------

    def publish(self, name: str) -> None:
        counter = self.publisher._next_counter
        to_log = (lambda: f"{self.name} {self.incarnation} {counter}".encode()) if self.world.profile.logged else None
        publication = self.publisher.publish((SPACE, name), None, to_log)
        self.published[publication.counter] = self.world.steps
        self.world.history.publish((self.name, self.incarnation, publication.counter), 0)

    def pump(self) -> None:
        """Send what is to be sent now, and let time act."""
        now = self.now
        self._check_lease()
        self.record(self.module.tick(now))
        if self.module.barriers(now):
            self.behind = list(self.arriving)
        self.pass_barrier()
        if not self.is_up:
            return
        if self.world.is_gradual:
            self.reach(all_of_them=False)
        if self.lease.pause is not None and self.uptime >= self.renewed + self.lease.pause:
            self.renewed = self.uptime
            request = self.lease.ask(self.uptime)
            for host in self.world.hosts:
                self.send(host.index, Renew(request))
        if names := self.publisher.unnamed():
            self.requests += 1
            self.send(-1, Resolve(self.requests, names))
        for frame in self.publisher.requests():
            self.send(frame.stage, self._lying(frame) if self._lies else frame)
        for settle in self.publisher.settlements():
            self.send(settle.stage, settle)
        for question in self.module.questions(now):
            info = self.subscriber.topics[question.topic]
            self.requests += 1
            self.send(info.stage, AskNumbers(self.requests, info.stage, question.topic, question.ranges))
        for fetch in self.module.fetches(now):
            info = self.subscriber.topics[fetch.topic]
            self.requests += 1
            self.send(info.stage, ReadLog(self.requests, info.stage, fetch.topic, fetch.ranges))
        if ids := [each for each in self.module.unnamed() if each not in self.asked_names]:
            self.asked_names.update(ids)
            self.requests += 1
            self.naming.add(self.requests)
            self.send(-1, NameTopics(self.requests, ids))

    @property
    def _lies(self) -> bool:
        return self.world.profile.lies > 0 and self.name == LIAR

    def _lying(self, frame: CreateTimestamps) -> CreateTimestamps:
        """R19: some of the events are said to follow one that is about to be published, or that was."""
        ways, events = self.world.ways, list(frame.events)
        for at, event in enumerate(events):
            topic = ways.randrange(1, len(self.world.names) + 1)
            if ways.random() < self.world.profile.lies and topic != event.topic and topic not in event.after[::2]:
                home = self.world.hosts[-1].stage.stage_of(topic)
                assert home is not None, "topics of a new store are on every stage"
                last = self.world.hosts[home].stage._state.topics[topic].number
                self.lied.add(event.counter)
                events[at] = replace(event, after=[*event.after, topic, last + ways.randrange(1, 4)])
        return replace(frame, events=events)

    def pass_barrier(self) -> None:
        """R24: a barrier comes back behind all that the broker had for the client when it began."""
        if self.behind is not None and not any(each in self.arriving for each in self.behind):
            self.behind = None
            self.record(self.module.caught_up("", self.now))

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def _check_lease(self) -> None:
        is_leased = self.uptime < self.lease.until
        if is_leased and not self.module.is_leased:
            self._end_lapse()
            self.record(self.module.renewed(self.now))
        elif not is_leased and self.module.is_leased:
            self._lapses.append((max(self._boot.when(self.lease.until), self._began), inf))
            self.module.lapse()

    def _end_lapse(self) -> None:
        self._lapses[:] = [(since, min(until, self.world.now)) for since, until in self._lapses]

    def note_end(self, incarnation: int) -> None:
        """The bottom stage keeps no subscription any more. A client that has not asked for that has expired: whatever
        its lease says, it may notify of nothing in order before it has learnt that."""
        if incarnation == self.incarnation and self.subscriber.filters and self._gone_since is None:
            self._gone_since = self.world.now

    def learn_end(self) -> None:
        """If its subscription has expired, it has begun anew by now."""
        if self._gone_since is not None:
            self._lapses.append((self._gone_since, self.world.now))
            self._gone_since = None

    def _opened(self, frame: Opened) -> None:
        """A stage is reached; from now on it can be asked, and everything unanswered there is asked again."""
        self.is_open[frame.stage] = True
        self.lease.opened(frame.stage, frame.session_timeout_ms / 1000, self.greeted[frame.stage])
        for settle in self.publisher.connected([frame.stage]):
            self.send(settle.stage, settle)
        if frame.stage == len(self.world.hosts) - 1:
            self.naming.clear()
            self.asked_names.clear()
            if self.subscriber.is_lost(known=frame.known, version=frame.version):
                self._expired()
            elif (request := self.subscriber.request()) is not None:
                self.send(-1, request)

    def _expired(self) -> None:
        self.history.expiries += bool(self.module.clock)
        self.subscriber.expired()
        self.module.subscribing()
        self._interrupted(self.module.expired(list(self.module.clock), self.now), anew=True)
        self.learn_end()

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
        wanted = [SpaceFilter(SPACE, each) for each in sorted(filters, key=text_of)]
        dropped = self.subscriber.dropped(wanted)
        for span in self._open_spans():
            if span.topic in dropped:
                self._close(span, self.module.clock.get(span.topic, span.start))
        self._after.difference_update(dropped)
        self._check_lease()
        self.record(self.module.unsubscribed(dropped, self.now))
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
        if not self.module.clock:
            self.learn_end()  # it had nothing of what expired
        for each in starts:
            if each.topic.id not in self.module.clock:
                self._begin_span(each.topic.id, each.start)
        filters = {each.filter for each in self.subscriber.filters}
        self.filters &= filters
        self.record(self.module.subscribed(starts, self.now, filters=self.subscriber.has_wildcards))

    def _begin_span(self, topic: int, start: int) -> None:
        span = Span(topic, start, self.world.steps, self.world.now, continues=topic in self._after)
        self._after.discard(topic)
        self.history.spans.append(span)

    # -- what arrives ------------------------------------------------------------------------------------------

    def take(self, frame: WorkerFrame) -> None:
        now = self.now
        self._check_lease()
        match frame:
            case Timestamps():
                answers = self.publisher.answered(frame)
                for each in answers.ready:
                    self._stamped(each)
                self.leaving.extend(answers.ready)
                refused = {each.counter for each in answers.forgotten} - self.lied
                forgotten = [(self.name, self.incarnation, counter) for counter in sorted(refused)]
                self.world.history.forgotten += forgotten
                self.world.done["forgotten"] += len(forgotten)
            case Settled():
                self._settled(frame)
            case Topics() if frame.request in self.naming:
                self._named(frame.topics)
            case Topics():
                self.publisher.named(frame.topics, frame.order_epoch)
            case Moved():
                self.publisher.moved(frame)
                self.subscriber.moved(frame)
            case Subscribed():
                self._subscribed(frame)
            case Numbers() | LoggedEvents():
                self._repair(frame)
            case Heads():
                self.module.heads(frame.heads, now)
            case Opened():
                self._opened(frame)
            case Renewed():
                self.lease.answered(frame.request, frame.stages[::2])
        self._check_lease()

    def _repair(self, frame: Numbers | LoggedEvents) -> None:
        before = len(self.module.interrupted)
        if isinstance(frame, Numbers):
            outputs = self.module.answered(frame, self.now)
        else:
            found = [Found(each.number, each.deps, _event_of(each), 1) for each in frame.events]
            outputs = self.module.fetched(frame.topic, frame.ranges, frame.through, found, self.now)
        self.world.done["repaired"] += sum(isinstance(each, Sequenced) and each.repaired for each in outputs)
        self._interrupted(outputs, anew=len(self.module.interrupted) > before)

    def _named(self, topics: list[TopicInfo]) -> None:
        mine, foreign = self.subscriber.named(topics)
        for topic in mine:
            if topic not in self.module.clock:
                self._begin_span(topic, 0)
        self.record(self.module.named(mine, foreign, self.now))
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
                self.module.receive(message.topic, message.number, list(message.deps), message.event, 1, self.now)
            )
        self.pass_barrier()

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
                is_void = not (publication.doubtful or self.world.profile.logged)
                self._ended(publication, "void" if is_void else "unknown")
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

    def _settled(self, frame: Settled) -> None:
        """Of a number that was given up the publisher hears that, although the broker had accepted the event (R16)."""
        history = self.world.history
        for place in self.publisher.settled(frame):
            if place in history.places:  # else it was void before anybody got its timestamp
                history.publishes[history.places[place]].outcome = "unknown"

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
