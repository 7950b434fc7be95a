"""One run: stages, clients, a broker, and what happens to them at random."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from tests.endpoints import SPACE
from tests.simulation.clients import Client
from tests.simulation.ending import finish, unfinished
from tests.simulation.faults import Partitions, Process
from tests.simulation.hosts import Ask, Host
from tests.simulation.logs import trim, turn_on
from tests.simulation.messages import Message, wild
from tests.simulation.profiles import Profile

from inorder.endpoint.publications import Publication
from inorder.protocol.names import Filter, exact
from inorder.protocol.wire import Heads, LoggedEvent, NumberState, TopicInfo, decode_worker_frame, encode_frame
from inorder_analytics.checks import History
from inorder_worker.sequencer.commands import (
    AnyCommand,
    Configure,
    LeaveSession,
    Place,
    Release,
    Reorder,
    Reply,
    StageSettings,
    Tick,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper limits to what a run may draw, for making a failing one small."""

    stages: int = 99
    topics: int = 99
    clients: int = 99


class World:
    """One run: everything in it follows from the seed, the profile and the bounds."""

    def __init__(self, seed: int, profile: Profile, bounds: Bounds) -> None:
        self.profile = profile
        self.rng = rng = random.Random(f"{profile.name} {seed}")
        self.fate = random.Random(f"{profile.name} {seed} clocks and partitions")
        self.operators = random.Random(f"{profile.name} {seed} operators")
        self.ways = random.Random(f"{profile.name} {seed} connections")
        self.is_gradual = self.ways.random() < profile.gradual
        self.ended_kept = self.ways.choice(profile.ended_kept)
        self.released: set[tuple[int, int]] = set()
        self.now = 1.0
        self.steps = 0
        self.done: Counter[str] = Counter()
        self.partitions = Partitions()
        self.log: dict[int, dict[int, LoggedEvent]] = {}
        self.broker: dict[tuple[str, int], set[int]] = {}
        self.hosts: list[Host] = []
        count = min(rng.choice(profile.stages), bounds.stages)
        self.hosts = [Host(self, index, count) for index in range(count)]
        self.history = History(profile.linger / max(1.0, self.hosts[-1].clock.pace), is_direct=True)
        self._place(count, bounds)
        self.loss, self.reordering = rng.choice(profile.loss), rng.choice(profile.reordering)
        # runs differ in what happens often: rare combinations need a run that is full of one kind of event
        self.weights = list(
            accumulate(
                weight * _factor(profile, action.__name__.strip("_")) * each.choice(profile.spread)
                for each, weighted in ((rng, _WEIGHTED), (self.fate, _FAULTS), (self.operators, _OPERATORS))
                for action, weight in weighted
            )
        )
        self.clients: dict[str, Client] = {}
        modes = rng.choice(profile.modes)
        count = len(profile.roles) or rng.choice(profile.clients)
        for number in range(min(count, bounds.clients)):
            client = Client(self, f"c{number}", rng.choice(modes))
            self.clients[client.name] = client
            client.connect()

    def _place(self, count: int, bounds: Bounds) -> None:
        rng, profile = self.rng, self.profile
        self.retention = rng.choice(profile.retention)
        settings = StageSettings(
            linger_ms=int(profile.linger * 1000),
            number_retention=self.retention,
            numbers_kept=6 if self.retention < 100 else 0,
            number_age_ms=int(profile.linger * 1000) if self.retention < 100 else 0,
            popularity_window_ms=rng.choice(profile.popularity_window_ms),
            publisher_grace_ms=rng.choice(profile.publisher_grace_ms),
            session_timeout_ms=rng.choice(profile.session_timeout_ms),
            topic_ttl_ms=int(profile.topic_ttl * 1000),
            ended_kept_ms=int(self.ended_kept * 1000),
            answers_kept=profile.answers_kept,
        )
        self.names = [f"t/{number}" for number in range(min(rng.choice(profile.topics), bounds.topics))]
        self.new_names = [f"n/{number}" for number in range(rng.choice(profile.new_topics))]
        if profile.one_each:
            stages = [at * count // len(self.names) for at in range(len(self.names))]
        else:
            stages = sorted(rng.randrange(count) for _ in self.names)
        topics = [
            TopicInfo(number, SPACE, name, stage)
            for number, (name, stage) in enumerate(zip(self.names, stages, strict=True), start=1)
        ]
        for host in self.hosts:
            host.run(Configure(settings))
            host.run(Place(topics))
            host.commit()
        turn_on(self)
        self.possible = [] if profile.all_wild else [exact(each) for each in self.names + self.new_names]
        if rng.random() < profile.wildcards:
            self.possible += [wild("t/#"), wild("n/#"), wild("+/1"), wild("#")]

    # -- the broker --------------------------------------------------------------------------------------------

    def on_broker(self, client: Client) -> set[int]:
        return self.broker.setdefault((client.name, client.incarnation), set())

    def publish(self, client: Client, publication: Publication, stamp: bytes, faults: bool) -> None:
        self.on_broker(client).add(publication.counter)
        event = client.name, client.incarnation, publication.counter
        name = publication.topic[1]
        message = Message(event, name, publication.topic_id, stamp)
        for other in self.clients.values():
            if any(each.covers(name) for each in other.filters):
                copies = self.rng.choices((0, 1, 2), (self.loss, 1, 0.1))[0] if faults else 1
                other.arriving += [message] * copies

    def reply(self, stage: int, effect: Reply) -> None:
        client = self.clients.get(effect.client_id)
        if client is not None and client.incarnation == effect.incarnation and client.hears(stage, effect.frame):
            client.inbox[stage].append(encode_frame(effect.frame)[4:])

    # -- who can act, and on whom ------------------------------------------------------------------------------

    def passes(self, sender: Process, receiver: Process) -> bool:
        """Tell whether what one has sent can reach the other now."""
        return not self.partitions.is_cut(sender, receiver, self.now)

    def _awake(self) -> list[Client]:
        return [each for each in self.clients.values() if each.is_awake]

    def _boxes(self, client: Client) -> list[deque[bytes]]:
        """The connections on which a client hears of its stages now."""
        return [box for stage, box in enumerate(client.inbox) if box and self.passes(stage, client.name)]

    # -- random actions ----------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do one thing at random."""
        rng = self.rng
        self.steps += 1
        clients, hosts = self._awake(), [each for each in self.hosts if each.is_awake]
        if clients and hosts:
            client, host = rng.choice(clients), rng.choice(hosts)
            rng.choices(_ACTIONS, cum_weights=self.weights)[0](self, client, host)
        else:
            self._time()

    def _publish(self, client: Client, _host: Host) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 3))):
            client.publish(self.rng.choice(client.topics))
        if self.rng.random() < 0.7:
            client.pump()

    def _pump(self, client: Client, _: Host) -> None:
        client.pump()

    def _step(self, _: Client, host: Host) -> None:
        host.step(self.rng)
        if self.rng.random() < self.profile.commits:
            host.commit()

    def _commit(self, _: Client, host: Host) -> None:
        host.commit()

    def _receive(self, client: Client, _: Host) -> None:
        boxes = self._boxes(client)
        if boxes and not (self._is_deaf(client) and self.rng.random() < 0.9):
            client.take(decode_worker_frame(self.rng.choice(boxes).popleft()))
            if self.rng.random() < 0.7:
                client.pump()

    def _arrive(self, client: Client, _: Host) -> None:
        if client.arriving:
            at = self._any_of(client)
            if client.arriving[at].topic not in client.slow or self.rng.random() < 0.1:
                client.arrived(client.arriving.pop(at))

    def _any_of(self, client: Client) -> int:
        """What the broker delivers next."""
        return self.rng.randrange(len(client.arriving)) if self.rng.random() < self.reordering else 0

    def _hand_over(self, client: Client, _: Host) -> None:
        client.hand_over(self.rng, faults=True)

    def _accept(self, client: Client, _: Host) -> None:
        client.accept(self.rng, faults=True)

    def _flow(self, *_: object) -> None:
        """Everything under way gets through, but for what the broker delivers to slow clients and what deaf ones have
        to hear: the rest of the run is about these."""
        self._pass_on(self._is_deaf)
        if self.profile.slow_reader:
            for client in self._awake():
                while client.arriving and not client.slow:
                    client.arrived(client.arriving.pop(self._any_of(client)))

    @staticmethod
    def _is_deaf(client: Client) -> bool:
        return client.is_deaf and bool(client.module.clock)

    def _cancel(self, client: Client, _: Host) -> None:
        client.cancel(self.rng)

    def _change(self, client: Client, _: Host) -> None:
        client = self._changer(client)
        if client.subscriber.change is not None or client.is_resuming:
            return
        had: set[Filter] = {each.filter for each in client.subscriber.filters}
        wanted = self.profile.changes(self.rng, had, set(self.possible))
        if wanted == had:
            return
        self.done["unsubscribes"] += len(had - wanted)
        self.done["extensions"] += bool(had and wanted - had)
        client.change(wanted)

    def _time(self, *_: object) -> None:
        self.now += self.rng.choice((0.0078125, 0.125, 0.125, 0.5, 1.0))  # sums are exact

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

    def _changer(self, client: Client) -> Client:
        """The one client whose subscription changes, where there is one."""
        return self.clients.get(self.profile.changer or client.name, client)

    def _disconnect(self, client: Client, _: Host) -> None:
        client = self._changer(client)
        if client.is_up:
            self.done["disconnects"] += 1
            client.disconnect(self.rng)

    def _connect(self, client: Client, _: Host) -> None:
        client = self._changer(client)
        if not client.is_up:
            client.connect()

    def _restart(self, client: Client, _: Host) -> None:
        if client.is_up:
            client.disconnect(self.rng)
        self.done["restarts"] += 1
        client.restart()
        client.connect()

    def _snapshot(self, _: Client, host: Host) -> None:
        host.snapshot()

    def _crash(self, _: Client, host: Host) -> None:
        were_up = [client for client in self.clients.values() if client.is_up]
        for client in self.clients.values():
            host.queues.get(client.name, deque[AnyCommand | Ask]()).clear()
            client.hellos[host.index] = 0
            if client.is_up:
                client.disconnect(self.rng)
            else:
                host.queues.setdefault(client.name, deque()).append(LeaveSession(client.name, client.incarnation))
        self.done["crashes"] += 1
        self.done["crashes_while_sealed"] += any(each.stage.is_sealed for each in self.hosts)
        host.crash(self._while(0.5))
        for client in were_up:
            if self.rng.random() < self.profile.returns:
                client.connect()

    def _while(self, share: float) -> float:
        """Draw how long a fault lasts, s; no time at all but for this share."""
        fate = self.fate
        return fate.choice((0.5, 2.0, 5.0, 20.0, 40.0)) if fate.random() < share else 0.0

    def _partition(self, *_: object) -> None:
        """Nothing passes between some processes and others for a while, in one direction or both."""
        fate = self.fate
        processes: list[Process] = [*self.clients, *range(len(self.hosts))]
        ones = fate.sample(processes, min(fate.choice((1, 1, 1, 2)), len(processes)))
        others = [each for each in processes if each not in ones]
        if fate.random() < 0.5:
            others = fate.sample(others, min(1, len(others)))
        until = self.now + self._while(1.0)
        for senders, receivers in fate.choice((((ones, others),), ((others, ones),), ((ones, others), (others, ones)))):
            self.partitions.cut(senders, receivers, until)
        self.done["partitions"] += 1

    def _suspend(self, client: Client, host: Host) -> None:
        """A machine sleeps. A client's clock counts that, so it leaps; a stage's does or does not. The stages may find
        meanwhile that a client's connections are gone."""
        until = self.now + self._while(1.0)
        if self.fate.random() < 0.5:
            if client.is_up and self.fate.random() < 0.5:
                client.disconnect(self.fate)
            client.suspend(until)
        else:
            host.suspend(until, counts=self.fate.random() < 0.5)
        self.done["clock_jumps"] += 1

    def _set_back(self, _: Client, host: Host) -> None:
        """A stage's clock leaps backwards: its time stands still until the clock is where it was."""
        host.clock.show(max(0.0, host.clock.at(self.now) - self._while(1.0)), self.now)
        self.done["clock_jumps"] += 1

    def _reorder(self, *_: object) -> None:
        """R14: two topics change places, or all are placed anew."""
        bottom, rng = self.hosts[-1], self.rng
        if not (order := list(bottom.stage._state.order)):
            return  # all topics have ended
        homes = {topic: bottom.stage.stage_of(topic) for topic in order}
        if rng.random() < 0.3:
            homes = {topic: rng.randrange(len(self.hosts)) for topic in order}
        else:
            one, other = rng.choice(order), rng.choice(order)
            homes[one], homes[other] = homes[other], homes[one]
        stages = [[topic for topic in order if homes[topic] == at] for at in range(len(self.hosts))]
        bottom.run(Reorder("operator", 1, self.steps, bottom.stage.order_epoch + 1, stages))

    def _release(self, _: Client, host: Host) -> None:
        """R16: an operator settles numbers in place of their publishers, whatever became of the events."""
        rng, state = self.operators, host.stage._state
        places = sorted(place for session in state.sessions.values() for place in session.open)
        if not places:
            return
        topic, first = rng.choice(places)
        last = min(first + rng.choice((0, 0, 1, 5)), state.topics[topic].number)
        to = rng.choice((NumberState.VOID, NumberState.ABANDONED, NumberState.CONFIRMED))
        if to is NumberState.VOID:
            self.released |= {place for place in places if place[0] == topic and first <= place[1] <= last}
        self.done["releases"] += 1
        if to is NumberState.CONFIRMED:
            self.history.is_direct = False  # it may not have been handed over yet
        host.run(Release("operator", 1, self.steps, topic, first, last, to))

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self, actions: int) -> History:
        for at, client in enumerate(self.clients.values()):
            first = self.profile.roles[at] if self.profile.roles else self.rng.choice(self.profile.first)
            count = min(first, len(self.possible))
            client.change(set(self.rng.sample(self.possible, count)))
        if self.profile.durable:
            self._settle_first()
        for _ in range(actions):
            self.act()
        self.converge()
        return self.history

    def _settle_first(self) -> None:
        """All have what they subscribe to: before that one may be alone with it, and nothing tells an order."""
        for _ in range(12):
            self.now += 0.5
            self._pass_on(lambda _: False)

    def converge(self) -> None:
        """Faults stop: everything must arrive, be answered, and be notified or reported."""
        self.partitions.heal()
        for host in self.hosts:
            host.wake()
        for client in self.clients.values():
            client.wake()
        for client in self.clients.values():
            if not client.is_up:
                client.connect()
            client.reach(all_of_them=True)
        began = self.now
        while self.now < began + 90 and not (self.now > began + 30 and self._is_quiet()):
            self.now += 1.0
            for host in self.hosts:
                self._tick(next(iter(self.clients.values())), host)
                for client in self.clients.values():
                    self._heads(client, host)
            for _ in range(3):
                self._exchange()
        finish(self)

    def _pass_on(self, is_deaf: Callable[[Client], bool]) -> None:
        """Requests, rides, answers and hand-overs get through; what the broker delivers does not."""
        for client in self._awake():
            client.pump()
        for host in self.hosts:
            if host.is_awake:
                while host.step(self.rng):
                    pass
                host.commit()
        for client in self._awake():
            for box in self._boxes(client):
                while box and not is_deaf(client):
                    client.take(decode_worker_frame(box.popleft()))
            while client.hand_over(self.rng, faults=False) or client.accept(self.rng, faults=False):
                pass

    def _exchange(self) -> None:
        self._pass_on(lambda _: False)
        for client in self.clients.values():
            while client.arriving:
                client.arrived(client.arriving.pop(self._any_of(client)))

    def _is_quiet(self) -> bool:
        is_switching = any(host.stage._state.switch is not None for host in self.hosts)
        return not is_switching and not any(unfinished(client) for client in self.clients.values())


_WEIGHTED: list[tuple[Callable[[World, Client, Host], None], float]] = [
    (World._publish, 10),
    (World._pump, 6),
    (World._step, 30),
    (World._commit, 12),
    (World._receive, 20),
    (World._arrive, 14),
    (World._hand_over, 10),
    (World._accept, 8),
    (World._flow, 1),
    (World._cancel, 0.7),
    (World._change, 4),
    (World._time, 6),
    (World._jump, 0.5),
    (World._tick, 2),
    (World._heads, 1),
    (World._disconnect, 0.5),
    (World._connect, 3),
    (World._restart, 0.15),
    (World._reorder, 0.5),
    (World._snapshot, 1),
    (World._crash, 0.4),
]
_FAULTS: list[tuple[Callable[[World, Client, Host], None], float]] = [
    (World._partition, 0.4),
    (World._suspend, 0.2),
    (World._set_back, 0.1),
]
_OPERATORS: list[tuple[Callable[[World, Client, Host], None], float]] = [(World._release, 1.0), (trim, 1.0)]
"""What is drawn apart, so that a profile without them runs as it would if there were none."""


def _factor(profile: Profile, action: str) -> float:
    return profile.weights.get(action, 0.0 if action in ("flow", "reorder", "release", "trim") else 1.0)


_ACTIONS = [action for action, _ in _WEIGHTED + _FAULTS + _OPERATORS]
