"""A configuration as a transition system over the real core.

*Actors* are the stages, the publishers and the subscribers. Each is a deterministic machine: a state and one input
give a new state and outputs. States of actors are kept once, under small numbers, and each step of an actor is
computed once and remembered, however many global states it is a part of; a global state is a tuple of such numbers.

Between actors there are FIFO channels (requests, links, answers) and, for each subscriber, a bag: the ENS delivers in
any order. What is in the bag although the subscriber is not subscribed to its topic at the ENS is discarded when its
turn comes, so an ENS that is slow in either direction is covered.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from tests.core.clients import Client, Message, Question
from tests.core.cluster import wild
from tests.core.table import Table
from tests.explorer.configs import Again, Ask, Back, Cancel, Config, Cut, Hold, Publish
from tests.explorer.freeze import client_key
from tests.explorer.words import Words

from inorder.endpoint.publications import PublicationState
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.wire import Access, AskNumbers, Frame, NameTopics, Numbers, Opened, Topics
from inorder_worker.sequencer.commands import (
    AnyCommand,
    Deliver,
    LeaveSession,
    Reorder,
    Reply,
    Send,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.inputs import command_of, session_of
from inorder_worker.sequencer.stage import Stage

NOW_MS = 1000
LATER = 3.0
"""When readers ask, and hear the answers: after the gap timeout."""
EXPIRY_MS = 10_000
LINGER_MS = 40_000  # both together are below the confirm timeout: nothing is abandoned
_encode = msgspec.msgpack.Encoder().encode


def filters(text: str) -> set[Filter]:
    """Return the filters of a configuration's reader."""
    return {wild(each) if "+" in each else exact(each) for each in text.split()}


@dataclass(frozen=True, slots=True)
class Later:
    """Time passes at a stage: ``ms`` since the beginning."""

    ms: int

    def __str__(self) -> str:
        return f"{self.ms // 1000} s since the beginning"


class Asked(NamedTuple):
    """A question of an actor."""

    actor: int
    question: Question


class State(NamedTuple):
    """A global state, of numbers only.

    Attributes:
        actors: the state of each actor.
        channels: what is in each channel, next first.
        bags: what the ENS still has for each subscriber.
        done: how much of its script each actor has done.
    """

    actors: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    bags: tuple[tuple[int, ...], ...]
    done: tuple[int, ...]


class Move(NamedTuple):
    """An actor takes one input: the head of a channel, something of its bag (``channel`` -1), or its script (-2)."""

    actor: int
    channel: int
    item: int


class Step(NamedTuple):
    """What an actor does with an input: its new state, and what goes into channels and to the ENS."""

    actor: int
    sent: tuple[tuple[int, int], ...]
    published: tuple[int, ...]


@dataclass(slots=True)
class Known:
    """An actor's state, kept once. ``is_busy``: an answer is outstanding; ``is_queued``: something is not sent yet."""

    data: bytes
    is_busy: bool = False
    is_queued: bool = False


class Model:
    """A configuration, ready to be explored."""

    def __init__(self, config: Config) -> None:
        self.config = config
        table = Table(config.topics, StageSettings(linger_ms=LINGER_MS, session_timeout_ms=EXPIRY_MS))
        for name, reader in config.readers.items():
            table.join(name, reader.mode)
            if reader.holds:
                table.clients[name].change(filters(reader.holds))
                table.collect()
                table.settle_down()
        for name in config.writers:
            table.join(name)
        table.settle_down()
        self.stages = len(table.stages)
        self.writers, self.readers = list(config.writers), list(config.readers)
        self.names = [f"stage {at}" for at in range(self.stages)] + self.writers + self.readers
        self.first_reader = self.stages + len(self.writers)
        self.known: list[Known] = []
        self.items: list[Any] = []
        self._ids: dict[Any, int] = {}
        self._item_ids: dict[Any, int] = {}
        self._steps: dict[tuple[int, int], Step] = {}
        self._channels: dict[tuple[int, int], int] = {}
        self._inputs: list[list[int]] = [[] for _ in self.names]
        self._connect()
        self._scripts = [self._script(name) for name in self.names]
        self._interest = [self._filters_ever(name) for name in self.readers]
        self._words = Words(config)
        self.topics = self._words.topics
        self.start = self._first(table)

    # -- construction ------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        bottom, stages = self.stages - 1, range(self.stages)
        pairs = [(one, two) for one in stages for two in stages if one != two]
        writers, readers = range(self.stages, self.first_reader), range(self.first_reader, len(self.names))
        pairs += [pair for each in writers for stage in stages for pair in ((each, stage), (stage, each))]
        pairs += [pair for each in readers for stage in stages for pair in ((each, stage), (stage, each))]
        self.pairs = [*pairs, (len(self.names), bottom)]  # the last one: the clock
        for at, (_, target) in enumerate(self.pairs):
            self._channels[self.pairs[at]] = at
            self._inputs[target].append(at)

    def _script(self, name: str) -> list[int]:
        script: Iterable[Any] = ()
        if name in self.config.writers:
            script = self.config.writers[name]
        elif name in self.config.readers:
            script = self.config.readers[name].does
        return [self._item(each, each) for each in script]

    def _filters_ever(self, name: str) -> set[Filter]:
        reader = self.config.readers[name]
        held = [reader.holds, *(each.topics for each in reader.does if isinstance(each, Hold))]
        return filters(" ".join(held))

    def _first(self, table: Table) -> State:
        actors = [self._stage_state(stage) for stage in table.stages]
        actors += [self._client_state(table.clients[name]) for name in (*self.writers, *self.readers)]
        channels: list[tuple[int, ...]] = [()] * len(self.pairs)
        clock = [self._item("linger", Later(EXPIRY_MS + LINGER_MS))] if self.config.lingers_end else []
        for epoch, order in enumerate(self.config.reorders, start=2):
            stages = [[table.ids[name] for name in group.split()] for group in order.split("|")]
            clock.append(self._item(order, Reorder("operator", 1, epoch, epoch, stages)))
        channels[-1] = tuple(clock)
        return State(tuple(actors), tuple(channels), ((),) * len(self.readers), (0,) * len(self.names))

    # -- what is kept once -------------------------------------------------------------------------------------

    def _item(self, key: Any, item: Any) -> int:
        at = self._item_ids.get(key)
        if at is None:
            at = self._item_ids[key] = len(self.items)
            self.items.append(item)
        return at

    def _state(self, key: Any, known: Known) -> int:
        at = self._ids.get(key)
        if at is None:
            at = self._ids[key] = len(self.known)
            self.known.append(known)
        return at

    def _stage_state(self, stage: Stage) -> int:
        data = stage.snapshot()
        return self._state((stage.index, data), Known(data))

    def _client_state(self, client: Client) -> int:
        key = client_key(client)
        if (at := self._ids.get(key)) is not None:
            return at
        states = {each.state for each in client.publications.values()}
        known = Known(pickle.dumps(client), client.is_opening, PublicationState.QUEUED in states)
        known.is_busy |= bool(states & {PublicationState.QUEUED, PublicationState.REQUESTED, PublicationState.SETTLING})
        if client.is_connected:
            said = client.module.describe()["readers"].values() if client.filters else ()
            known.is_busy |= any(each["missing"]["asked"] for each in said)
            known.is_busy |= client.subscriber.change is not None or bool(client.endpoint.asking.naming)
        return self._state(key, known)

    def stage(self, at: int) -> Stage:
        """Return the stage of an actor's state."""
        return Stage.restore(self.known[at].data)

    def client(self, at: int) -> Client:
        """Return the client of an actor's state."""
        client: Client = pickle.loads(self.known[at].data)
        return client

    # -- moves -------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        """Return moves that are enough to explore from here.

        Two moves of different actors commute, and none disables the other: each takes the head of a channel that only
        its actor reads, and appends where only it writes, or to a bag, which has no order. So a set of moves of some
        actors suffices (is *persistent*) if nothing that the others do, now or later, gives these actors further
        inputs. What is checked stays broken once it is broken, and every run ends, so all ends are enough:

        - where the topic order stays, a writer that waits for no answer: its next publish alone;
        - there, a writer whose script is done and sent: its next answer alone (what it hands over goes into bags);
        - readers whose script is done, and who have no filters, send nothing any more: after all others, and one
          reader after the other.
        """
        for actor in range(self.stages, self.first_reader):
            if (move := self._writer_alone(state, actor)) is not None:
                return [move]
        moves: list[Move] = []
        for actor in range(len(self.names)):
            if actor < self.first_reader or not self._is_sink(state, actor):
                moves += self._moves_of(state, actor)
        if moves:
            return moves
        for actor in range(self.first_reader, len(self.names)):
            if moves := self._moves_of(state, actor):
                return moves
        return []

    def all_moves(self, state: State) -> list[Move]:
        """Return every move there is, to check the reduction against."""
        return [move for actor in range(len(self.names)) for move in self._moves_of(state, actor)]

    def _writer_alone(self, state: State, actor: int) -> Move | None:
        known, script = self.known[state.actors[actor]], self._scripts[actor]
        heads = [Move(actor, at, state.channels[at][0]) for at in self._inputs[actor] if state.channels[at]]
        if state.done[actor] < len(script):
            return None if heads or known.is_busy else Move(actor, -2, script[state.done[actor]])
        cancels = any(not isinstance(self.items[each], Publish) for each in script)
        if self.config.reorders:
            return None  # a stage may tell it of that at any moment
        return heads[0] if heads and not known.is_queued and not cancels else None

    def _is_sink(self, state: State, actor: int) -> bool:
        if state.done[actor] < len(self._scripts[actor]) or self.known[state.actors[actor]].is_busy:
            return False
        return all(each.kind is FilterKind.EXACT for each in self._interest[actor - self.first_reader])

    def _moves_of(self, state: State, actor: int) -> list[Move]:
        moves = [Move(actor, at, state.channels[at][0]) for at in self._inputs[actor] if state.channels[at]]
        script, done = self._scripts[actor], state.done[actor]
        if actor >= self.first_reader:
            moves += [Move(actor, -1, item) for item in state.bags[actor - self.first_reader]]
            if self.known[state.actors[actor]].is_busy:
                return moves  # R11: one change at a time; and one question
        if done < len(script):
            moves.append(Move(actor, -2, script[done]))
        return moves

    def apply(self, state: State, move: Move) -> State:
        """Return the state after a move."""
        actor, channel, item = move
        step = self.step(actor, state.actors[actor], item)
        channels, bags, done = list(state.channels), list(state.bags), state.done
        if channel == -2:
            done = (*done[:actor], done[actor] + 1, *done[actor + 1 :])
        elif channel == -1:
            bag = list(bags[actor - self.first_reader])
            bag.remove(item)
            bags[actor - self.first_reader] = tuple(bag)
        else:
            channels[channel] = channels[channel][1:]
        for to, sent in step.sent:
            channels[to] = (*channels[to], sent)
        for published in step.published:
            for at, wanted in enumerate(self._interest):
                if any(each.covers(self.items[published].name) for each in wanted):
                    bags[at] = tuple(sorted((*bags[at], published)))
        actors = (*state.actors[:actor], step.actor, *state.actors[actor + 1 :])
        return State(actors, tuple(channels), tuple(bags), done)

    def step(self, actor: int, known: int, item: int) -> Step:
        """Return what an actor does with an input; computed once."""
        found = self._steps.get((known, item))
        if found is None:
            if actor < self.stages:
                found = self._step_stage(actor, known, self.items[item])
            else:
                found = self._step_client(actor, known, self.items[item])
            self._steps[known, item] = found
        return found

    def _step_stage(self, actor: int, known: int, command: AnyCommand | Asked | Later) -> Step:
        stage = Stage.restore(self.known[known].data)
        if isinstance(command, Asked):
            answer = self.answer(stage, command.question)
            return Step(known, ((self._channels[actor, command.actor], self._item(_encode(answer), answer)),), ())
        sent: list[tuple[int, int]] = []
        effects = stage.step(Tick(), NOW_MS + command.ms) if isinstance(command, Later) else stage.step(command, NOW_MS)
        for effect in effects:
            if isinstance(effect, Reply):
                if effect.client_id not in self.names:
                    continue  # the operator
                is_reader = effect.client_id in self.readers
                names, base = (self.readers, self.first_reader) if is_reader else (self.writers, self.stages)
                target = base + names.index(effect.client_id)
                sent.append((self._channels[actor, target], self._item(_encode(effect.frame), effect.frame)))
            elif isinstance(effect, Send):
                stage.acknowledge(effect.stage, effect.number)  # nothing is lost here
                deliver = Deliver(actor, effect.number, effect.ride)
                sent.append((self._channels[actor, effect.stage], self._item(_encode(deliver), deliver)))
        return Step(self._stage_state(stage), tuple(sent), ())

    @staticmethod
    def answer(stage: Stage, question: Question) -> Numbers | Topics:
        """Return what a stage says to a question; nothing here has a log."""
        assert isinstance(question, AskNumbers | NameTopics)
        return stage.numbers(question) if isinstance(question, AskNumbers) else stage.name_topics(question)

    def _step_client(self, actor: int, known: int, item: Any) -> Step:
        client = self.client(known)
        sent = self._connection(actor, client, item) if isinstance(item, Cut | Back) else []
        self._take(client, item)
        frames, questions, handed = client.outbox, client.questions, client.handed
        client.outbox, client.questions, client.handed = [], [], []
        for stage, frame in frames:
            sent.append(self._to_stage(actor, stage, command_of(client.name, 1, frame)))
        for stage, question in questions:
            sent.append(self._to_stage(actor, stage, Asked(actor, question)))
        return Step(self._client_state(client), tuple(sent), tuple(self._item(each, each) for each in handed))

    @staticmethod
    def _take(client: Client, item: Any) -> None:
        match item:
            case Message():
                if any(each.covers(item.name) for each in client.filters):
                    client.arrived(item)
            case Opened():
                client.opened(item, all_stages=True)
            case Frame():
                client.receive(item)
            case Publish():
                client.publish(item.label, item.topic)
            case Cancel():
                client.cancel(item.label)
            case Again():
                client.lost()
                client.reached()
            case Hold():
                client.change(filters(item.topics))
            case Ask():
                client.time = LATER
                client.tick()

    def _connection(self, actor: int, client: Client, item: Cut | Back) -> list[tuple[int, int]]:
        """R12: the stages drop a subscription when its client has stopped counting on it long ago."""
        bottom = self.stages - 1
        if isinstance(item, Back):
            client.is_opening = True
            return [self._to_stage(actor, bottom, session_of(client.hello(), bottom, Access()))]
        client.lost()
        client.sleep(EXPIRY_MS / 1000)
        sent = [self._to_stage(actor, bottom, LeaveSession(client.name, 1))]
        return [*sent, (sent[0][0], self._item("expiry", Later(EXPIRY_MS)))] if item.expires else sent

    def _to_stage(self, actor: int, stage: int, item: AnyCommand | Asked) -> tuple[int, int]:
        return self._channels[actor, stage], self._item((actor, _encode(item)), item)

    def describe(self, move: Move) -> str:
        """Return a move as a sentence."""
        actor, channel, item = self.names[move.actor], move.channel, self.items[move.item]
        if channel == -2:
            return f"{actor} {item}"
        if channel == -1:
            return f"the ENS delivers {item.label} to {actor}"
        origin = self.pairs[channel][0]
        source = self.names[origin] if origin < len(self.names) else "the clock"
        item = item.question if isinstance(item, Asked) else item
        return f"{actor} takes from {source}: {self._words.of(item, actor if move.actor >= self.stages else source)}"
