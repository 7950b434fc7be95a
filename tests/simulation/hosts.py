"""What a worker does for its stage, without sockets and SQL."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

import msgspec
from tests.simulation.faults import Clock

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    AskDurable,
    AskNumbers,
    Frame,
    Heads,
    LoggedEvent,
    LoggedEvents,
    NameTopics,
    NumberState,
    ReadLog,
    Renew,
    Renewed,
)
from inorder_analytics.checks import EventId, Place, Unfinished, highest
from inorder_worker.sequencer.commands import (
    AnyCommand,
    Create,
    Deliver,
    Effect,
    LogDeps,
    LogEvent,
    LogTrim,
    OpenSession,
    Reply,
    RestartTimers,
    Send,
    Tick,
)
from inorder_worker.sequencer.event_log import split
from inorder_worker.sequencer.ride_check import check_ride
from inorder_worker.sequencer.rides import SessionKey
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.topic_manager import NumberRecord

if TYPE_CHECKING:
    from tests.simulation.world import World

Ask = tuple[int, AskDurable | AskNumbers | NameTopics | Renew | ReadLog]
"""A query of an incarnation."""
_encode = msgspec.msgpack.Encoder().encode
_commands: msgspec.msgpack.Decoder[AnyCommand] = msgspec.msgpack.Decoder(AnyCommand)


class Host:
    """What a worker does for one stage: journal, then release. A crash forgets what was not committed."""

    def __init__(self, world: World, index: int, count: int) -> None:
        self.world, self.index, self.count = world, index, count
        self.stage = Stage(index, count)
        self.epoch = 0
        self.order_epoch = 1  # the durable one, which a welcome tells
        self.journal: list[tuple[bytes, int]] = []
        self.image: tuple[bytes, int] | None = None
        self.opened: list[tuple[bytes, int]] = []
        self.effects: list[Effect] = []
        self.contents: dict[tuple[str, int, int], bytes] = {}
        self.links: dict[int, deque[Send]] = {}
        self.queues: dict[str, deque[AnyCommand | Ask]] = {}
        self.clock = Clock(0.0, world.now, world.fate.choice(world.profile.paces))
        self.awake_at = 0.0
        self._subscribed: set[SessionKey] = set()
        self._owners: dict[Place, EventId] = {}  # noted since the last commit
        self._open: list[NumberRecord] = []  # when states were noted last

    @property
    def now(self) -> int:
        return int(self.clock.at(self.world.now) * 1000)

    @property
    def is_awake(self) -> bool:
        """It is neither down nor suspended."""
        return self.awake_at <= self.world.now

    def run(self, command: AnyCommand) -> None:
        if isinstance(command, Create) and not self.stage.is_sealed:
            here = [each.topic for each in command.events if self.stage.stage_of(each.topic) == self.index]
            command, contents = split(command, here)
            key = command.client_id, command.incarnation
            self.contents.update(((*key, counter), content) for counter, content in contents.items())
        self.opened.append((_encode(command), self.now))
        lingering = len(self.stage._state.lingers)
        retired = self.stage.inspection.figures().retired if self.world.profile.topic_ttl else 0
        homes_epoch, topics = self.stage._state.homes_epoch, len(self.stage._state.topics)
        sessions = set(self.stage._state.sessions) if isinstance(command, Tick) else set[SessionKey]()
        self.effects += self._with_contents(command, self.stage.step(command, self.now))
        self.world.history.ended |= sessions - self.stage._state.sessions.keys()
        if self.stage._state.is_bottom:
            self.world.done["reorders"] += self.stage._state.homes_epoch > homes_epoch
        self.world.done["lingers_ended"] += max(0, lingering - len(self.stage._state.lingers))
        if self.world.profile.topic_ttl:
            self.world.done["retired"] += max(0, self.stage.inspection.figures().retired - retired)
            self.world.done["revived"] += max(0, retired - self.stage.inspection.figures().retired)
            self.world.done["ended"] += max(0, topics - len(self.stage._state.topics))
        self.note_states()

    def _with_contents(self, command: AnyCommand, effects: list[Effect]) -> list[Effect]:
        """Put what stood beside a command into the rows of the event log (R18)."""
        for effect in effects:
            if isinstance(effect, LogEvent) and effect.content == b"":
                assert isinstance(command, Create)
                effect.content = self.contents.pop((command.client_id, command.incarnation, effect.counter))
        self.contents.clear()
        return effects

    def ask(self, name: str, ask: Ask) -> None:
        """A query's answer leaves after the commit of what it may have seen."""
        incarnation, frame = ask
        answers: list[Frame | None]
        match frame:
            case AskNumbers():
                answers = [self.stage.numbers(frame), self.stage.moved(frame.topic)]
            case NameTopics():
                answers = [self.stage.name_topics(frame)]
            case AskDurable():
                answers = [self.stage.durable(frame, name)]
            case ReadLog():
                answers = [self._read_log(frame), self.stage.moved(frame.topic)]
            case Renew():
                answers = [Renewed(frame.request, [self.index, self.epoch])]
        self.effects += [Reply(name, incarnation, each) for each in answers if each is not None]

    def _read_log(self, frame: ReadLog) -> LoggedEvents:
        """What is durable, whichever stage wrote it."""
        rows = self.world.log.get(frame.topic, {})
        wanted = [number for first, last in pairs(frame.ranges) for number in range(first, last + 1)]
        complete = [rows[each] for each in wanted if each in rows and rows[each].stored_ms]
        page = complete[: self.world.rng.choice((1, 3, 100))]
        through = wanted[-1] if len(page) == len(complete) else page[-1].number
        return LoggedEvents(frame.request, frame.topic, frame.ranges, through, page, 0, 0)

    def _keep(self, effect: LogEvent | LogDeps | LogTrim) -> None:
        rows = self.world.log.setdefault(effect.topic, {})
        if isinstance(effect, LogEvent):
            assert effect.number not in rows, "a number gets one row"
            is_complete = effect.deps is not None
            rows[effect.number] = LoggedEvent(
                effect.number, int(is_complete), effect.deps or [], effect.content, effect.ticks
            )
        elif isinstance(effect, LogDeps):
            rows[effect.number] = LoggedEvent(effect.number, 1, effect.deps, rows[effect.number].content, effect.ticks)
        else:
            for number in [each for each in rows if each <= effect.through]:
                del rows[number]

    def step(self, rng: random.Random) -> bool:
        """Take one input: the next of a link or of a client's connection."""
        passes = self.world.passes
        inputs: list[int | str] = [each for each, link in self.links.items() if link and passes(each, self.index)]
        inputs += [name for name, queue in self.queues.items() if queue and passes(name, self.index)]
        if not inputs:
            return False
        chosen = rng.choice(inputs)
        if isinstance(chosen, int):
            send = self.links[chosen].popleft()
            if send.number > self.stage.received(chosen):
                check_ride(send.ride, chosen, self.stage)
            self.run(Deliver(chosen, send.number, send.ride))
        else:
            command = self.queues[chosen].popleft()
            if isinstance(command, tuple):
                self.ask(chosen, command)
            else:
                self.run(command)
        return True

    def suspend(self, until: float, *, counts: bool) -> None:
        """Its machine sleeps up to a time of the world; its clock goes on meanwhile, or stands still."""
        self.awake_at = until
        if not counts:
            self.clock.show(self.clock.at(self.world.now), until)

    def wake(self) -> None:
        """It is down or suspended no more, and its clock is as good as any."""
        self.clock.keep_pace(self.world.now)
        self.awake_at = self.world.now

    def notices(self, name: str) -> bool:
        """Tell whether it finds by itself that a client's connection is gone, of which nothing can reach it now."""
        queue = self.queues.get(name, ())
        is_cut = self.is_awake and not self.world.passes(name, self.index)
        return is_cut and not any(isinstance(each, OpenSession) for each in queue) and self.world.fate.random() < 0.5

    def commit(self) -> bool:
        if not (self.opened or self.effects):
            return False
        self.journal += self.opened
        self.order_epoch = self.stage.order_epoch
        self.world.history.owners.update(self._owners)
        self._owners.clear()
        if self.stage._state.is_bottom:
            self._note_ends()
        effects, self.opened, self.effects = self.effects, [], []
        for effect in effects:
            if isinstance(effect, Send):
                self.world.hosts[effect.stage].links.setdefault(self.index, deque()).append(effect)
            elif isinstance(effect, Reply):
                self._check_read(effect)
                self.world.reply(self.index, effect)
            else:
                self._keep(effect)
        for other in self.world.hosts:
            if other is not self and self.world.passes(self.index, other.index):
                other.stage.acknowledge(self.index, self.stage.received(other.index))
        return True

    def _check_read(self, effect: Reply) -> None:
        """A topic ends when whoever reads it has read, or reported, all of it."""
        client, history = self.world.clients.get(effect.client_id), self.world.history
        if isinstance(effect.frame, Heads) and client is not None and client.incarnation == effect.incarnation:
            for topic in effect.frame.ended:
                head, is_left = history.heads[topic], topic in client.module.left  # what was left is told to nobody
                if client.module.clock.get(topic, head) < head and not is_left:
                    history.unfinished.append(Unfinished(client.name, f"topic {topic} not read to its end"))

    def _note_ends(self) -> None:
        """Tell the run's clients whose subscriptions are over since the last commit; they know nothing of it."""
        subscribed = {(each.client_id, each.incarnation) for each in self.stage._state.overlaps if each.filters}
        for name, incarnation in sorted(self._subscribed - subscribed):
            self.world.clients[name].note_end(incarnation)
        self._subscribed = subscribed

    def note_states(self, always: bool = False) -> None:
        """Keep what became of numbers for the checks, before the stage forgets them."""
        if always or self.world.retention < 100 or self.world.profile.topic_ttl:
            was_open, self._open = self._open, []
            for record in was_open:
                if not record.is_open:  # what is settled may be forgotten in the same step
                    self._note(record)
            for manager in self.stage._state.topics.values():
                if manager.stage == self.index:
                    self.world.history.heads[manager.id] = manager.head
                for record in manager.records.values():
                    self._note(record)
                    if record.is_open:
                        self._open.append(record)
        if always:
            self.world.history.owners.update(self._owners)

    def _note(self, record: NumberRecord) -> None:
        history, place = self.world.history, (record.topic, record.number)
        is_released = record.state is NumberState.VOID and place in self.world.released
        history.states[place] = "RELEASED" if is_released else record.state.name
        history.unheard[place] = highest(record.deps or ())
        self._owners[place] = record.client_id, record.incarnation, record.counter

    def snapshot(self) -> None:
        if not self.opened:
            self.image = self.stage.snapshot(), len(self.journal)

    def crash(self, down: float) -> None:
        """Lose memory; recover from the last snapshot and the journal; links resend. It takes nothing while it is down
        (s); stage time stands still meanwhile, and goes on from the last step that was committed."""
        self.opened, self.effects, self._open = [], [], []
        self._owners.clear()
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
        self.awake_at = self.world.now + down
        self.clock.show(self.stage.now / 1000, self.awake_at)
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
        self.world.done["resends"] += len(self.links[origin.index])
