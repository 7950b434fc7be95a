"""Stages on a table: every message between them is moved by hand, so a test can stop one wherever it likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import GapFound, Left, Mode, Output
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.pairs import pairs, raise_to
from inorder.protocol.wire import (
    AskNumbers,
    Frame,
    LoggedEvent,
    LoggedEvents,
    LogRule,
    NewEvent,
    Numbers,
    SpaceFilter,
    StampedEvent,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
)
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    Deliver,
    LogChange,
    LogDeps,
    LogEvent,
    OpenSession,
    Place,
    Reorder,
    Reply,
    Send,
    SetLogRule,
    SettleNumbers,
    StageSettings,
)
from inorder_worker.sequencer.open_numbers import OpenNumbers
from inorder_worker.sequencer.rides import AnyRide
from inorder_worker.sequencer.stage import Stage

SPACE = "m"


def wild(text: str) -> Filter:
    return Filter(text, FilterKind.MQTT, text)


class Cluster:
    """Stages with the topics given as ``{name: stage}``; ids from 1 in that order."""

    def __init__(self, topics: dict[str, int], *, stages: int | None = None, settings: StageSettings | None = None):
        count = stages or max(topics.values()) + 1
        self.stages = [Stage(index, count) for index in range(count)]
        self.links: dict[tuple[int, int], deque[Send]] = {}
        self.frames: list[tuple[str, Frame]] = []
        self.now = 1000
        self.ids = {name: number for number, name in enumerate(topics, start=1)}
        self.versions: dict[str, int] = {}
        self.log: dict[int, dict[int, LoggedEvent]] = {}
        self.counters: dict[str, int] = {}
        placed = [TopicInfo(self.ids[name], SPACE, name, stage) for name, stage in topics.items()]
        for stage in range(count):
            self.step(stage, Configure(settings or StageSettings()))
            self.step(stage, Place(placed))

    def step(self, stage: int, command: AnyCommand) -> list[Frame]:
        """Step a command; keep what leaves, return the frames for clients."""
        frames: list[Frame] = []
        state = self.stages[stage]._state
        for effect in self.stages[stage].step(command, self.now):
            if isinstance(effect, Reply):
                self.frames.append((effect.client_id, effect.frame))
                frames.append(effect.frame)
            elif isinstance(effect, LogChange):
                self.keep(effect)
            else:
                self.links.setdefault((stage, effect.stage), deque()).append(effect)
        assert state.open_numbers == OpenNumbers.of(state.sessions.values())
        return frames

    def keep(self, change: LogChange) -> None:
        """Write a row of the event log as a store does (R18)."""
        rows = self.log.setdefault(change.topic, {})
        if isinstance(change, LogEvent):
            rows[change.number] = LoggedEvent(change.number, self.now, change.deps or [], change.content, change.ticks)
        elif isinstance(change, LogDeps):
            rows[change.number].deps, rows[change.number].ticks = change.deps, change.ticks
        else:
            for number in [each for each in rows if each <= change.through]:
                del rows[number]

    def read_log(self, topic: int, ranges: list[int], limit: int = 1000) -> LoggedEvents:
        """Answer a question to the log."""
        rows = self.log.get(topic, {})
        wanted = [number for first, last in pairs(ranges) for number in range(first, last + 1)]
        found = [rows[number] for number in wanted if number in rows][:limit]
        through = found[-1].number if len(found) == limit else wanted[-1]
        return LoggedEvents(1, topic, ranges, through, found, min(rows, default=0), max(rows, default=0))

    def rule(self, *names: str, is_on: bool = True) -> None:
        """Give topics an event log, or take it from them."""
        for name in names:
            self.step(len(self.stages) - 1, SetLogRule("op", 1, 1, LogRule(SPACE, exact(name)), is_on))
        self.run()

    def move(self, origin: int, target: int, rides: int = 1) -> list[Frame]:
        """Let the next rides of one link arrive."""
        frames: list[Frame] = []
        for _ in range(rides):
            send = self.links[origin, target].popleft()
            frames += self.step(target, Deliver(origin, send.number, send.ride))
        return frames

    def waiting(self, origin: int, target: int) -> list[AnyRide]:
        return [each.ride for each in self.links.get((origin, target), ())]

    def run(self) -> list[Frame]:
        """Let everything arrive."""
        frames: list[Frame] = []
        while busy := [link for link, sends in self.links.items() if sends]:
            for link in busy:
                frames += self.move(*link)
        return frames

    # -- clients -----------------------------------------------------------------------------------------------

    def open(self, client: str, incarnation: int = 1, *, proves: bool = False) -> None:
        for stage in range(len(self.stages)):
            self.step(stage, OpenSession(client, incarnation, proves=proves))

    def open_all(self, *clients: str) -> None:
        for client in clients:
            self.open(client)

    def change(
        self,
        client: str,
        *names: str | Filter,
        bounded: bool = False,
        version: int = 0,
        incarnation: int = 1,
        anew: bool = False,
        durable: bool = False,
    ) -> list[Frame]:
        """A client's whole new subscription enters at the bottom stage."""
        self.versions[client] = version or self.versions.get(client, 0) + 1
        filters = [SpaceFilter(SPACE, exact(each) if isinstance(each, str) else each) for each in names]
        command = ChangeSubscription(client, incarnation, self.versions[client], filters, bounded, durable, anew)
        return self.step(len(self.stages) - 1, command)

    def number(self, name: str) -> int:
        """Return the last number of a topic."""
        return max(stage._state.topics[self.ids[name]].number for stage in self.stages)

    def subscribe(
        self,
        client: str,
        *names: str | Filter,
        bounded: bool = False,
        incarnation: int = 1,
        anew: bool = False,
        durable: bool = False,
    ) -> Subscribed:
        """Change a subscription and let it ride to its end."""
        frames = self.change(client, *names, bounded=bounded, incarnation=incarnation, anew=anew, durable=durable)
        frames += self.run()
        return next(each for each in reversed(frames) if isinstance(each, Subscribed))

    def all_subscribe(self, clients: Iterable[str], *names: str | Filter) -> None:
        """Each of these clients subscribes to the same."""
        for client in clients:
            self.subscribe(client, *names)

    def request(
        self,
        client: str,
        name: str,
        *,
        at: int | None = None,
        counter: int = 0,
        low: int = 0,
        after: list[int] = [],  # noqa: B006
        epoch: int = 0,
        content: bytes | None = None,
    ) -> list[StampedEvent]:
        """Ask for a timestamp at the topic's stage, or at the stage ``at``; planned for its order epoch by default."""
        counter = counter or self.counters.get(client, 0) + 1
        self.counters[client] = max(counter, self.counters.get(client, 0))
        topic = self.ids[name]
        stage = self.stages[0].stage_of(topic) if at is None else at
        assert stage is not None
        epoch = epoch or self.stages[stage].order_epoch
        command = Create(client, 1, low, [NewEvent(counter, topic, after, content)], epoch)
        return stamps(self.step(stage, command))

    def stamp(
        self,
        client: str,
        name: str,
        *,
        at: int | None = None,
        after: list[int] = [],  # noqa: B006
        content: bytes | None = None,
    ) -> StampedEvent:
        """Ask for a timestamp and let it ride to its end."""
        got = self.request(client, name, at=at, after=after, content=content) or stamps(self.run())
        return got[-1]

    def topic(self, client: str, name: str) -> int:
        """Create or look up a topic at the bottom stage."""
        frames = self.step(len(self.stages) - 1, CreateTopics(client, 1, 1, [(SPACE, name)]))
        self.ids[name] = next(each for each in frames if isinstance(each, Topics)).topics[0].id
        return self.ids[name]

    def reorder(self, *stages: str, epoch: int = 0) -> list[Frame]:
        """A change of the topic order enters: the topics of each stage, separated by spaces."""
        named = [[self.ids[name] for name in stage.split()] for stage in stages]
        bottom = self.stages[-1]
        return self.step(len(self.stages) - 1, Reorder("op", 1, 1, epoch or bottom.order_epoch + 1, named))

    def settle(self, client: str, name: str, confirmed: list[int] = [], void: list[int] = []) -> list[Frame]:  # noqa: B006
        topic = self.ids[name]
        stage = self.stages[-1].stage_of(topic)
        assert stage is not None
        done, gone = [(topic, each, each) for each in confirmed], [(topic, each, each) for each in void]
        command = SettleNumbers(client, 1, 1, [n for t in done for n in t], [n for t in gone for n in t])
        return self.step(stage, command)

    def ask(self, name: str, *ranges: int) -> Numbers:
        topic = self.ids[name]
        stage = self.stages[-1].stage_of(topic)
        assert stage is not None
        return self.stages[stage].numbers(AskNumbers(1, stage, topic, list(ranges)))


def stamps(frames: list[Frame]) -> list[StampedEvent]:
    return [event for frame in frames if isinstance(frame, Timestamps) for event in frame.events]


def entries(event: StampedEvent) -> dict[int, int]:
    found = dict(pairs(event.deps))
    assert len(event.deps) == 2 * len(found), "a timestamp names no topic twice"
    return found


def reader(answer: Subscribed, mode: Mode = "strict", now: float = 0.0) -> OrderingModule:
    """An ordering module that begins where a subscription does."""
    module = OrderingModule(mode)
    module.subscribed(answer.topics, now, filters=False, bases=answer.bases)
    return module


def base_of(answer: Subscribed, topic: int) -> dict[int, int]:
    """What the first event of a topic depends on beside its own dependencies (R8)."""
    base = dict[int, int]()
    for start in answer.topics:
        if start.topic.id == topic:
            raise_to(base, start.base)
    for shared in answer.bases:
        if topic in shared.topics:
            raise_to(base, shared.numbers)
    return base


def arrive(module: OrderingModule, event: StampedEvent, now: float = 0.0, *, retained: bool = False) -> list[str]:
    return seen(module.receive(event.topic, event.number, event.deps, None, 1, now, retained=retained))


def wait(module: OrderingModule, now: float, end: float) -> list[Output]:
    """Let time pass at a client that reads all that its broker has at once (R24); nobody answers questions."""
    outputs = module.tick(now)
    while True:
        spaces = module.barriers(now)
        for space in spaces:
            outputs += module.caught_up(space, now)
        due = module.next_tick()
        if due is None or due > end:
            return outputs + module.tick(end)
        now = max(now, due)
        outputs += module.tick(now)


def seen(outputs: list[Output]) -> list[str]:
    """Outputs as short words: ``1:2``, ``1:2 late``, ``gap 1:2-3 lost``."""
    words: list[str] = []
    for each in outputs:
        if isinstance(each, GapFound):
            words.append(f"gap {each.topic}:{each.first}-{each.last} {each.reason}")
        elif isinstance(each, Left):
            words.append(f"{each.topic} let go")
        else:
            words.append(f"{each.topic}:{each.number}" + ("" if each.verdict == "in_order" else f" {each.verdict}"))
    return words
