"""Plays a scenario: every line moves something on the table, or says what must be so.

At the end of each scenario the checks of :mod:`inorder_analytics.checks` judge the whole run, whatever it expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec

import msgspec
from tests.core.clients import Client
from tests.core.cluster import entries, wild
from tests.core.table import Table
from tests.scenarios.language import ScenarioError, ScenarioFailed, Verb, compiled, known, lines, verb_of

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode
from inorder.endpoint.publications import PublicationState
from inorder.protocol.names import Filter, exact
from inorder.protocol.pairs import firsts
from inorder.protocol.wire import Frame, OrderChanged, StampedEvent, Subscribed, Timestamps, Topics
from inorder_analytics.checks import violations
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    Pin,
    Send,
    SettleNumbers,
    StageSettings,
)
from inorder_worker.sequencer.rides import AnyRide, CompleteRide, StampRide, SubscribedRide, SubscriptionRide, TopicRide

P = ParamSpec("P")
VERBS: list[Verb] = []


def line(pattern: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Give a verb its line."""

    def register(does: Callable[P, None]) -> Callable[P, None]:
        VERBS.append(Verb(pattern, compiled(pattern), does))
        return does

    return register


class Player:
    """One scenario, as far as it was played."""

    def __init__(self) -> None:
        self.table: Table | None = None
        self.events: dict[str, str] = {}
        self.settings = StageSettings()

    # -- the names that lines use ------------------------------------------------------------------------------

    @property
    def on(self) -> Table:
        """The table. Raises ScenarioError before there is a topic order."""
        if self.table is None:
            raise ScenarioError("the scenario begins with its topics, highest first: order: a b | c | d")
        return self.table

    def client(self, name: str) -> str:
        return known("client", name, list(self.on.clients))

    def clients(self, names: str) -> list[str]:
        return list(self.on.clients) if names == "all" else [self.client(each) for each in names.split()]

    def publisher(self, event: str) -> Client:
        return self.on.clients[self.events[known("event", event, list(self.events))]]

    def role(self, name: str) -> Client:
        return self.on.clients[self.client(name)]

    def stage(self, text: str) -> int:
        return int(known("stage", text, [str(each) for each in range(len(self.on.stages))]))

    def topic(self, name: str) -> str:
        return known("topic", name, list(self.on.ids))

    def filters(self, names: str) -> set[Filter]:
        made = set()
        for name in names.split():
            # a name with a slash may be that of a topic yet to be created (R13)
            made.add(wild(name) if {"#", "+"} & set(name) else exact(name if "/" in name else self.topic(name)))
        return made

    # -- what is under way -------------------------------------------------------------------------------------

    def thing_of(self, item: AnyCommand | AnyRide | Frame, client: str = "") -> list[str]:
        """Return what a command, ride or answer is about, in the words of the scenario."""
        match item:
            case Create():
                return [self.event_of(item.client_id, item.incarnation, each.counter) for each in item.events]
            case ChangeSubscription() | SubscriptionRide() | SubscribedRide():
                return [item.client_id]
            case StampRide() | CompleteRide():
                return [self.event_of(item.client_id, item.incarnation, item.counter)]
            case TopicRide():
                return [each.name for each in item.topics]
            case Timestamps():
                counters = [each.counter for each in item.events] + item.forgotten + firsts(item.abandoned, 3)
                return [self.event_of(client, self.on.clients[client].incarnation, each) for each in counters]
            case Subscribed():
                return [client]
            case CreateTopics():
                return [name for _, name in item.topics]
            case Topics():
                return [each.name for each in item.topics]
            case SettleNumbers():
                return ["settle"]
        return [type(item).__name__.removesuffix("Ride").lower()]

    def event_of(self, client: str, incarnation: int, counter: int) -> str:
        return self.on.clients[client].labels[incarnation, counter]


def run(path: Path) -> None:
    """Play a scenario file. Raises ScenarioError or ScenarioFailed with its name and line."""
    play(path.read_text(), path.name)


def play(text: str, name: str = "scenario") -> None:
    """Play a scenario."""
    player = Player()
    for number, each in lines(text):
        try:
            verb, arguments = verb_of(each, VERBS)
            verb.does(player, **arguments)
            if player.table is not None:
                player.table.collect()
        except (ScenarioError, ScenarioFailed) as error:
            raise type(error)(f"{name}, line {number}: {error}") from None
    broken = violations(player.on.history())
    if broken:
        raise ScenarioFailed(f"{name}, at its end: " + "; ".join(map(str, broken)))


# -- the beginning -------------------------------------------------------------------------------------------------


@line("setting NAME NUMBER")
def setting(player: Player, name: str, number: str) -> None:
    known("setting", name, StageSettings.__struct_fields__)
    player.settings = msgspec.structs.replace(player.settings, **{name: int(number)})
    for stage in range(len(player.table.stages) if player.table is not None else 0):
        player.on.step(stage, Configure(player.settings))


@line("order: STAGES")
def order(player: Player, stages: str) -> None:
    if player.table is not None:
        raise ScenarioError("there is a topic order already")
    names = {name: stage for stage, group in enumerate(stages.split("|")) for name in group.split()}
    player.table = Table(names, player.settings)


@line("client CLIENT")
def client(player: Player, client: str) -> None:
    if client in player.on.clients or client in player.events:
        raise ScenarioError(f"{client!r} is a name already")
    player.on.join(client)


@line("client CLIENT with TOPICS")
def client_with(player: Player, client: str, topics: str) -> None:
    _client_with(player, client, "strict", topics)


@line("tagging client CLIENT with TOPICS")
def tagging_client(player: Player, client: str, topics: str) -> None:
    _client_with(player, client, "tag", topics)


@line("client CLIENT with buffer NUMBER and TOPICS")
def bounded_client(player: Player, client: str, number: str, topics: str) -> None:
    _client_with(player, client, Bounded(buffer=int(number)), topics)


def _client_with(player: Player, client: str, mode: Mode, topics: str) -> None:
    if client in player.on.clients or client in player.events:
        raise ScenarioError(f"{client!r} is a name already")
    player.on.join(client, mode)
    subscribes(player, client, topics, "at once")


# -- publishing ----------------------------------------------------------------------------------------------------


@line("CLIENT publishes EVENT on TOPIC [at once]")
def publishes(player: Player, client: str, event: str, topic: str, flag: str) -> None:
    if event in player.events or event in player.on.clients:
        raise ScenarioError(f"{event!r} is a name already")
    if client not in player.on.clients:
        player.client(client)
    player.on.clients[client].publish(event, topic)
    player.events[event] = client
    player.on.collect()
    if flag:
        finish(player, event)


@line("CLIENT publishes NUMBER events on TOPIC")
def publishes_many(player: Player, client: str, number: str, topic: str) -> None:
    """At once; nobody needs their names."""
    for at in range(1, int(number) + 1):
        publishes(player, client, f"{topic}-{at}", topic, "at once")


@line("request EVENT")
def request(player: Player, event: str) -> None:
    """The request for an event, or of a client's subscription change, arrives at the stage where it enters."""
    for (client, stage), queue in player.on.requests.items():
        things = [player.thing_of(each) for each in queue]
        if any(event in each for each in things):
            if event not in things[0]:
                raise ScenarioError(f"before the request of {event} comes that of {' '.join(things[0])}")
            player.on.arrive_request(client, stage)
            return
    raise ScenarioError(f"no request of {event} is on its way; {_under_way(player)}")


@line("pass EVENT to STAGE")
def pass_(player: Player, event: str, stage: str) -> None:
    """A ride arrives at the next stage of its way."""
    target = player.stage(stage)
    for (origin, to), sends in player.on.links.items():
        things = [player.thing_of(each.ride) for each in sends]
        if to == target and any(event in each for each in things):
            if event not in things[0]:
                raise ScenarioError(f"on the link {origin} to {to}, {' '.join(things[0])} is before {event}")
            player.on.move(origin, to)
            return
    raise ScenarioError(f"{event} is not on its way to stage {stage}; {_under_way(player)}")


@line("answer EVENT")
def answer(player: Player, event: str) -> None:
    """A timestamp arrives at its publisher, who hands the event to the ENS; or the answer to a subscription change."""
    for (stage, client), frames in player.on.answers.items():
        things = [player.thing_of(each, client) for each in frames]
        at = next((at for at, each in enumerate(things) if event in each), None)
        if at is not None:
            for _ in range(at + 1):
                player.on.arrive_answer(stage, client)
            return
    raise ScenarioError(f"no answer for {event} is on its way; {_under_way(player)}")


@line("finish EVENT")
def finish(player: Player, event: str) -> None:
    """All that is left of a request's way, and whatever is before it on its links."""
    for _ in range(1000):
        if _answer_is_there(player, event):
            answer(player, event)
            return
        unnamed = _unnamed(player, event)
        if unnamed and _answer_is_there(player, unnamed):
            answer(player, unnamed)
        elif not _advance(player, unnamed or event):
            raise ScenarioError(f"{event} cannot be finished; {_under_way(player)}")
    raise AssertionError(event)


def _unnamed(player: Player, event: str) -> str:
    """Return the event's topic if its publisher must ask for its id first (R13)."""
    if event not in player.events:
        return ""
    publication = player.publisher(event).publications[event]
    return publication.topic[1] if publication.info is None and publication.topic[1] not in player.on.ids else ""


def _answer_is_there(player: Player, event: str) -> bool:
    queues = player.on.answers.items()
    return any(event in player.thing_of(each, client) for (_, client), frames in queues for each in frames)


def _advance(player: Player, event: str) -> bool:
    table = player.on
    for (client, stage), queue in table.requests.items():
        if any(event in player.thing_of(each) for each in queue):
            table.arrive_request(client, stage)
            return True
    for (origin, to), sends in table.links.items():
        if any(event in player.thing_of(each.ride) for each in sends):
            table.move(origin, to)
            return True
    return False


def _under_way(player: Player) -> str:
    table = player.on
    parts = [
        f"{' '.join(player.thing_of(each))} from {client} to stage {stage}"
        for (client, stage), queue in table.requests.items()
        for each in queue
    ]
    parts += [f"{' '.join(player.thing_of(each.ride))} from stage {o} to {t}" for (o, t), each in _sends(table)]
    parts += [
        f"answer for {' '.join(player.thing_of(each, client))} to {client}"
        for (_, client), frames in table.answers.items()
        for each in frames
    ]
    return "under way: " + (", ".join(parts) or "nothing")


def _sends(table: Table) -> Sequence[tuple[tuple[int, int], Send]]:
    return [(link, send) for link, sends in table.links.items() for send in sends]


@line("cancel EVENT")
def cancel(player: Player, event: str) -> None:
    player.publisher(event).cancel(event)


@line("CLIENT asks again for EVENT [at once]")
def asks_again(player: Player, client: str, event: str, flag: str) -> None:
    """It asks the topic's home whether the number of a stamped event still stands (R16)."""
    player.role(client).broker_restored()
    player.on.collect()
    if flag:
        finish(player, event)


@line("the ENS refuses EVENT")
def refuse(player: Player, event: str) -> None:
    player.publisher(event).refused.add(event)


@line("the ENS accepts EVENTS")
def accept(player: Player, events: str) -> None:
    for event in events.split():
        player.publisher(event).accepted(event)


@line("deliver EVENT to CLIENTS")
def deliver(player: Player, event: str, clients: str) -> None:
    """The ENS delivers an event (for the first time, or once more)."""
    known("event at the ENS", event, list(player.on.messages))
    for each in clients.split():
        player.on.deliver(event, player.client(each))


@line("deliver retained EVENT to CLIENT")
def deliver_retained(player: Player, event: str, client: str) -> None:
    """The broker sends a copy that it kept (R5)."""
    known("event at the ENS", event, list(player.on.messages))
    player.on.deliver(event, player.client(client), kept=True)


@line("deliver an unstamped message of TOPIC to CLIENT")
def deliver_unstamped(player: Player, topic: str, client: str) -> None:
    """A message without a stamp, as a bridge may leave it, arrives (R17)."""
    player.role(client).arrived_unstamped(player.topic(topic))


@line("deliver everything")
def deliver_everything(player: Player) -> None:
    for client, role in player.on.clients.items():
        for message in list(role.arriving):
            player.on.deliver(message.label, client)


@line("lose EVENT to CLIENTS")
def lose(player: Player, event: str, clients: str) -> None:
    message = player.on.messages[known("event at the ENS", event, list(player.on.messages))]
    for each in player.clients(clients):
        if message in player.on.clients[each].arriving:
            player.on.clients[each].arriving.remove(message)


# -- subscriptions -------------------------------------------------------------------------------------------------


@line("CLIENT subscribes TOPICS [at once]")
def subscribes(player: Player, client: str, topics: str, flag: str) -> None:
    role = player.role(client)
    _change(player, role, {each.filter for each in role.subscriber.filters} | player.filters(topics), flag)


@line("CLIENT unsubscribes TOPICS [at once]")
def unsubscribes(player: Player, client: str, topics: str, flag: str) -> None:
    role = player.role(client)
    _change(player, role, {each.filter for each in role.subscriber.filters} - player.filters(topics), flag)


@line("CLIENT subscribes TOPICS instead [at once]")
def instead(player: Player, client: str, topics: str, flag: str) -> None:
    _change(player, player.role(client), player.filters(topics), flag)


def _change(player: Player, role: Client, filters: set[Filter], flag: str) -> None:
    if role.subscriber.change is not None:
        raise ScenarioError(f"{role.name} has a subscription change on its way already (R11)")
    role.change(filters)
    player.on.collect()
    if flag:
        finish(player, role.name)


# -- time, connections, processes ----------------------------------------------------------------------------------


@line("wait NUMBER s")
def wait(player: Player, number: str) -> None:
    player.on.wait(float(number))


@line("run")
def run_all(player: Player) -> None:
    """Everything between clients and stages arrives, except over slow links; the ENS delivers nothing."""
    player.on.collect()
    player.on.settle_down()


@line("slow link FROM to TO")
def slow(player: Player, to: str, **origin: str) -> None:
    """From now on ``run`` moves nothing on this link; there need not be such a link."""
    player.on.slow.add((player.stage(origin["from"]), player.stage(to)))


@line("fast link FROM to TO")
def fast(player: Player, to: str, **origin: str) -> None:
    player.on.slow.discard((player.stage(origin["from"]), player.stage(to)))


@line("CLIENT asks")
def asks(player: Player, client: str) -> None:
    """Due questions about missing numbers and unknown topics are asked and answered."""
    player.on.put_questions(player.client(client))


@line("CLIENT hears heads")
def hears_heads(player: Player, client: str) -> None:
    player.on.tell_heads(player.client(client))


@line("CLIENT leaves")
def leaves(player: Player, client: str) -> None:
    player.on.leave(player.client(client))


@line("CLIENT reconnects")
def reconnects(player: Player, client: str) -> None:
    player.on.reconnect(player.client(client))


@line("CLIENT reconnects in vain")
def reconnects_in_vain(player: Player, client: str) -> None:
    """Its hello arrives; the answers are lost with the connection."""
    player.on.reconnect_in_vain(player.client(client))


@line("CLIENT restarts")
def restarts(player: Player, client: str) -> None:
    player.on.restart(player.client(client))


@line("stage STAGE restarts")
def stage_restarts(player: Player, stage: str) -> None:
    player.on.restore(player.stage(stage))


@line("the operator orders: STAGES")
def reorder(player: Player, stages: str) -> None:
    """A change of the topic order enters at the bottom stage (R14); its rides are flush, mark and switch."""
    names = [" ".join(player.topic(name) for name in group.split()) for group in stages.split("|")]
    refusals = [each.refusal for each in player.on.reorder(*names) if isinstance(each, OrderChanged)]
    if any(refusals):
        raise ScenarioError(refusals[0])


@line("the operator logs TOPICS")
def log(player: Player, topics: str) -> None:
    """The topics get an event log (R18); publishers hear of it at once."""
    player.on.rule(*topics.split())
    player.on.settle_down()


@line("the operator pins TOPICS")
def pin(player: Player, topics: str) -> None:
    """The topics stay on their stages, whatever their popularity (R15)."""
    ids = [player.on.ids[player.topic(each)] for each in topics.split()]
    player.on.step(len(player.on.stages) - 1, Pin("op", 1, 1, ids, True))


@line("expect order: STAGES")
def expect_order(player: Player, stages: str) -> None:
    """All stages agree on where each topic is."""
    wanted = {name: at for at, group in enumerate(stages.split("|")) for name in group.split()}
    for stage in player.on.stages:
        got = {name: stage.stage_of(number) for name, number in player.on.ids.items()}
        _expect(f"topic order at stage {stage.index}", got, wanted)


# -- what must be so -----------------------------------------------------------------------------------------------


def _expect(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise ScenarioFailed(f"{what}: expected {wanted}, got {got}")


@line("expect CLIENT waits: ITEMS")
def expect_waits(player: Player, client: str, items: str) -> None:
    _expect(f"{client} waits", player.role(client).waiting, sorted(_items(items)))


@line("expect CLIENT has not asked for EVENT")
def expect_not_requested(player: Player, client: str, event: str) -> None:
    publication = player.publisher(event).publications[event]
    _expect(f"{event} of {client}", publication.state, PublicationState.QUEUED)


@line("expect EVENT is TOPIC NUMBER")
def expect_number(player: Player, event: str, topic: str, number: str) -> None:
    stamp = _stamp_of(player, event)
    _expect(event, (stamp.topic, stamp.number), (player.on.ids[player.topic(topic)], int(number)))


@line("expect EVENT after ENTRIES")
def expect_after(player: Player, event: str, entries: str) -> None:
    """Its timestamp has just these entries beside its own."""
    names = {number: name for name, number in player.on.ids.items()}
    got = {f"{names[topic]} {number}" for topic, number in _entries(player, event).items()}
    _expect(f"{event} after", got, set(_items(entries)))


def _entries(player: Player, event: str) -> dict[int, int]:
    return entries(_stamp_of(player, event))


def _stamp_of(player: Player, event: str) -> StampedEvent:
    role = player.publisher(event)
    publication = role.publications[event]
    if not publication.number:
        raise ScenarioFailed(f"{event} has no timestamp")
    return StampedEvent(publication.counter, publication.topic_id, publication.number, publication.deps)


@line("expect EVENT has no timestamp")
def expect_none(player: Player, event: str) -> None:
    _expect(f"{event}'s number", player.publisher(event).publications[event].number, 0)


@line("expect EVENT failed: REASON")
def expect_failed(player: Player, event: str, reason: str) -> None:
    known("reason", reason, ["forgotten", "abandoned", "late"])
    _expect(event, player.publisher(event).failed.get(event), reason)


@line("expect number NUMBER of TOPIC is STATE")
def expect_state(player: Player, number: str, topic: str, state: str) -> None:
    answers = player.on.ask(player.topic(topic), int(number), int(number)).answers
    _expect(f"number {number} of {topic}", [each.state.name.lower() for each in answers], [state])


@line("expect CLIENT starts TOPIC at NUMBER")
def expect_start(player: Player, client: str, topic: str, number: str) -> None:
    reader = player.role(client).module.describe()["readers"].get(player.on.ids[player.topic(topic)])
    _expect(f"start of {topic} at {client}", reader and reader["start"], int(number))


@line("expect CLIENT: ITEMS")
def expect(player: Player, client: str, items: str) -> None:
    """All that the client's application saw so far."""
    _expect(client, player.role(client).words, _items(items))


def _items(text: str) -> list[str]:
    return [] if text.strip() == "nothing" else [" ".join(each.split()) for each in text.split(",")]
