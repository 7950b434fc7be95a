"""A client: the real endpoint, with connections that break."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from tests.endpoints import DOMAIN, SPACE, Driven, payload_of
from tests.simulation.faults import Clock
from tests.simulation.hosts import Ask, Host
from tests.simulation.messages import Message

from inorder.endpoint.effects import (
    AskLease,
    Effect,
    Expired,
    Failed,
    HandOver,
    LateConfirmation,
    LeaseTurned,
    Need,
    Published,
    Resumed,
)
from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.notifications import Event, Gap
from inorder.endpoint.outputs import Mode
from inorder.endpoint.publications import Publication, PublicationState
from inorder.endpoint.routing import Subscription
from inorder.errors import Forgotten, Refused
from inorder.protocol.arrival import Arrival
from inorder.protocol.names import Filter
from inorder.protocol.pairs import firsts
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    Access,
    AskDurable,
    AskNumbers,
    ClientFrame,
    CreateTimestamps,
    Frame,
    Hello,
    Logged,
    NameTopics,
    Opened,
    ReadLog,
    Renew,
    Subscribed,
    Welcome,
    WorkerFrame,
    decode_client_frame,
    encode_frame,
    encode_logged,
)
from inorder_analytics.checks import Outcome, Span
from inorder_worker.sequencer.commands import AnyCommand, LeaveSession, OpenSession
from inorder_worker.sequencer.inputs import Requested, command_of, session_of

if TYPE_CHECKING:
    from tests.simulation.world import World

LIAR = "c0"
"""Who lies, where somebody does (``Profile.lies``)."""


class Client(Driven[Message]):
    """One client: an endpoint, with its connections to the stages and to the broker."""

    _does: ClassVar[dict[type[Effect], str]] = {
        **Driven._does,
        Need: "_needed",
        Published: "_published",
        Failed: "_failed",
        LateConfirmation: "_confirmed_late",
        LeaseTurned: "_lease_turned",
        Resumed: "_resumed",
    }

    def __init__(self, world: World, name: str, mode: Mode) -> None:
        self._lapses: list[tuple[float, float]] = []
        super().__init__(name, mode, self._lapses)
        self.world = world
        self._gone_since: float | None = None
        world.history.subscribers[name] = self.history
        self.inbox: list[deque[bytes]] = [deque() for _ in world.hosts]
        self._saved: dict[int, int] = {}
        self._wanted_filters: set[Filter] = set()
        self._begin_process()

    def restart(self) -> None:
        """A new process with the same client id; it knows nothing."""
        self.drop_spans()
        self.give_up(set())
        self._begin_process()
        if self.endpoint.durable is not None:
            self.history.resume(self._saved)

    def _begin_process(self) -> None:
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
        self._is_expiring = False
        self._leased_at = self.world.now
        times = EndpointTimes(settle_delay=0.0, recent=self.world.ended_kept / 12)
        is_durable = self.world.profile.durable and (self.name != "c1" or not self.world.profile.some_logs)
        self.begin(times, durable=is_durable)
        self.unread: deque[Event | Gap] = deque()
        self.is_resuming = is_durable
        self.endpoint.resume()
        self.lied: set[int] = set()
        self.greeted = [self.uptime] * len(self.world.hosts)
        self.is_up = False
        rng, profile = self.world.rng, self.world.profile
        self.slow = {topic for topic in range(1, 9) if rng.random() < self._slowness()}
        self.is_deaf = rng.random() < profile.deaf
        names = self.world.names + self.world.new_names
        at = int(self.name[1:]) % len(names)
        self.topics = names[at : at + 1] if profile.one_topic else names
        self.leaving: deque[HandOver] = deque()
        self.unknown: deque[Publication] = deque()
        self.published: dict[int, int] = {}

    def _slowness(self) -> float:
        profile = self.world.profile
        return float(self.name == "c0") if profile.slow_reader else profile.slow

    def _drop(self, span: Span, clock: int) -> None:
        """See :class:`Driven`; what has expired ended when the bottom stage said so, and its linger began (R10)."""
        super()._drop(span, clock)
        if self._gone_since is not None:
            span.dropped = self._gone_since

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
    def when(self) -> tuple[float, float]:
        """See :class:`Driven`."""
        return self.world.steps, self.world.now

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
        self._welcomed(self.world.rng.choice(self.world.hosts))
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
                self._welcomed(host)
            hello = self.endpoint.greeting(Hello(*PROTOCOL_VERSIONS, "", self.name, self.incarnation))
            command = session_of(hello, host.index, Access("client" if self._proves else "admin"))
            self._queue(host.index).append(command)
            self.hellos[host.index] += 1

    def _welcomed(self, host: Host) -> None:
        grace = host.stage._state.settings.publisher_grace_ms
        self.endpoint.welcomed(Welcome(PROTOCOL_VERSIONS[1], DOMAIN, "worker", host.order_epoch, [], grace))

    def disconnect(self, rng: random.Random) -> None:
        """The connection breaks: some of what is under way still gets through, answers do not."""
        self.is_up = False
        for host in self.world.hosts:
            self.inbox[host.index].clear()
            self.is_open[host.index] = self.has_greeted[host.index] = False
            self.endpoint.lost([host.index])
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
            if isinstance(frame, CreateTimestamps) and self._lies:
                frame = self._lying(frame)
            self._queue(stage).append(self._command(decode_client_frame(encode_frame(frame)[4:])))

    def _command(self, frame: ClientFrame) -> AnyCommand | Ask:
        if isinstance(frame, AskDurable | AskNumbers | NameTopics | Renew | ReadLog):
            return self.incarnation, frame
        assert isinstance(frame, Requested)
        return command_of(self.name, self.incarnation, frame)

    # -- what leaves -------------------------------------------------------------------------------------------

    def publish(self, name: str) -> None:
        to_log = (lambda: encode_logged(Logged(payload_of(event), 0, []))) if self.world.profile.has_logs else None
        publication = self.endpoint.publish((SPACE, name), None, to_log)
        event: tuple[str, int, int] = self.name, self.incarnation, publication.counter
        self.published[publication.counter] = self.world.steps
        self.world.history.publish(event, 0)

    def pump(self) -> None:
        """Let time act, and send what is to be sent."""
        while self.unread and self.world.ways.random() < 0.8:
            self.endpoint.done_with(self.unread.popleft())
        self.endpoint.tick()
        self.perform()
        self.pass_barrier()
        if self.is_up and self.world.is_gradual:
            self.reach(all_of_them=False)

    def perform(self) -> None:
        """Carry out what the endpoint wants done."""
        if self.uptime < self.endpoint.lease.until:
            self._leased_at = self.world.now
        super().perform()
        if self._is_expiring:
            self._is_expiring = False
            self.learn_end()

    def _needed(self, effect: Need) -> None:
        self.wanted.update(effect.stages)

    def _ask_lease(self, effect: AskLease) -> None:
        for host in self.world.hosts:
            self.send(host.index, Renew(effect.request))

    @property
    def _lies(self) -> bool:
        return self.world.profile.lies > 0 and self.name == LIAR

    def _lying(self, frame: CreateTimestamps) -> CreateTimestamps:
        """R19: some of the events are said to follow one that is about to be published, or that was."""
        ways, events = self.world.ways, list(frame.events)
        for at, event in enumerate(events):
            topic = ways.randrange(1, len(self.world.names) + 1)
            if ways.random() < self.world.profile.lies and topic != event.topic and topic not in firsts(event.after):
                home = self.world.hosts[-1].stage.stage_of(topic)
                assert home is not None, "topics of a new store are on every stage"
                last = self.world.hosts[home].stage._state.topics[topic].number
                self.lied.add(event.counter)
                events[at] = replace(event, after=[*event.after, topic, last + ways.randrange(1, 4)])
        return replace(frame, events=events)

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def _lease_turned(self, effect: LeaseTurned) -> None:
        if effect.is_leased:
            self._end_lapse()
        else:
            self._lapses.append((max(self._boot.when(self.endpoint.lease.until), self._leased_at), inf))

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
        self.endpoint.reached({frame.stage}, len(self.world.hosts) - 1)
        self.endpoint.opened(frame, self.greeted[frame.stage])

    def _expired(self, effect: Expired) -> None:
        super()._expired(effect)
        self._is_expiring = True

    # -- subscription ------------------------------------------------------------------------------------------

    def change(self, filters: set[Filter]) -> None:
        """See :class:`Driven`."""
        self._wanted_filters = filters
        if not self.is_resuming:
            super().change(filters)

    def _resumed(self, effect: Resumed) -> None:
        """R18: what a durable client had before, or what it begins with."""
        self.is_resuming = False
        adds = [Subscription(SPACE, each.filter, "total", 0, False) for each in effect.filters]
        if adds:
            self.world.done["resumes"] += 1
            self.endpoint.change(adds)
        elif self._wanted_filters:
            self.change(self._wanted_filters)

    # -- what arrives ------------------------------------------------------------------------------------------

    def take(self, frame: WorkerFrame) -> None:
        if isinstance(frame, Opened):
            self._opened(frame)
        else:
            if isinstance(frame, Subscribed) and not self.module.clock:
                self.learn_end()  # it had nothing of what expired
            saving = {} if self.endpoint.durable is None else self.endpoint.durable.saving
            self.endpoint.receive(frame)
            if saving and self.endpoint.durable is not None and not self.endpoint.durable.saving:
                self._saved.update(saving)
        self.perform()

    def arrived(self, message: Message) -> None:
        self.endpoint.arrived(SPACE, Arrival(message.name, payload_of(message.event), message.stamp))
        self.perform()
        self.pass_barrier()

    def told(self, item: Event | Gap) -> None:
        """See :class:`Driven`."""
        self.world.done["repaired"] += isinstance(item, Event) and item.repaired
        if self.endpoint.durable is not None:
            self.unread.append(item)

    # -- the broker's answers to a publisher -------------------------------------------------------------------

    def _stamped(self, effect: HandOver) -> None:
        each = effect.publication
        event, place = (self.name, self.incarnation, each.counter), (each.topic_id, each.number)
        assert self._lies or 2 * len(set(firsts(each.deps))) == len(each.deps), f"{event} names a topic twice"
        self.world.history.stamp(event, place, each.deps, self.published[each.counter], self.world.now)
        self.leaving.append(effect)

    def _published(self, effect: Published) -> None:
        self._ended(effect.publication, "acknowledged")

    def _failed(self, effect: Failed) -> None:
        event = self.name, self.incarnation, effect.publication.counter
        # of one that is asked about again the number may have been settled, and forgotten since
        is_new = not effect.publication.number and effect.publication.counter not in self.lied
        if isinstance(effect.error, Forgotten) and is_new and not self._is_let_go(effect.publication):
            self.world.history.forgotten.append(event)
            self.world.done["forgotten"] += 1
        if self.world.history.publishes[event].outcome == "open":
            self._ended(effect.publication, "unknown")

    def _is_let_go(self, publication: Publication) -> bool:
        """R1: a stage that keeps few answers has let this one go, or a later one, as it may."""
        sessions = (host.stage._state.sessions.get((self.name, self.incarnation)) for host in self.world.hosts)
        is_let_go = any(each is not None and publication.counter < each.floor for each in sessions)
        self.world.done["let_go"] += is_let_go
        return is_let_go

    def _confirmed_late(self, effect: LateConfirmation) -> None:
        """Of a number that was given up the publisher hears that, although the broker had accepted the event (R16)."""
        history, place = self.world.history, (effect.topic, effect.number)
        if place in history.places:  # else it was void before anybody got its timestamp
            history.publishes[history.places[place]].outcome = "unknown"

    def hand_over(self, rng: random.Random, faults: bool) -> bool:
        """Hand the next stamped event to the broker, which may refuse it; or it is lost on the way."""
        if not self.leaving:
            return False
        effect = self.leaving.popleft()
        publication = effect.publication
        if publication.state is PublicationState.STAMPED:
            publication.handed = True
            if faults and rng.random() < 0.05:
                is_void = not (publication.doubtful or self.world.profile.has_logs)
                self._ended(publication, "void" if is_void else "unknown")
                self.endpoint.refused(publication, Refused("the broker says no"))
                self.perform()
                return True
            if not (faults and rng.random() < 0.05):
                self.world.publish(self, publication, effect.stamp, faults)
            self.unknown.append(publication)
        return True

    def accept(self, rng: random.Random, faults: bool) -> bool:
        """The broker acknowledges; or its connection is lost, and all that is open is handed over again (R16)."""
        if not self.unknown:
            return False
        publication = self.unknown.popleft()
        if publication.counter in self.world.on_broker(self) and not (faults and rng.random() < 0.1):
            self.endpoint.accepted(publication)
        else:
            self.leaving.clear()
            self.unknown.clear()
            self.endpoint.broker_restored(SPACE)
        self.perform()
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
        if self.publisher.pending:
            publication = rng.choice(list(self.publisher.publications))
            self._ended(publication, "unknown")
            self.endpoint.cancel(publication)
            self.perform()
