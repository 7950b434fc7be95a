"""Clients on the table: the real endpoints of :mod:`tests.core.clients`, and a broker (ENS) that delivers by hand.

:class:`Table` joins them to the stages of :class:`~tests.core.cluster.Cluster`; every request, ride, answer and
delivery stays where it is until it is moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tests.core.clients import Answer, Client, Message, Question
from tests.core.cluster import Cluster

from inorder.endpoint.outputs import Mode
from inorder.protocol.wire import Access, AskNumbers, Frame, Heads, NameTopics, Opened, Subscribed, TopicInfo, Topics
from inorder_analytics.checks import History
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
from inorder_worker.sequencer.inputs import command_of, session_of
from inorder_worker.sequencer.stage import Stage


def history_of(publishers: Iterable[Client], linger: float) -> History:
    """Return what was published, for the checks."""
    history = History(linger)
    for publisher in publishers:
        for event, place, deps, when in publisher.stamped:
            history.stamp(event, place, deps, 0, when)
    return history


class Table(Cluster):
    """Stages and clients. Requests, answers and deliveries wait until they are moved.

    Attributes:
        requests: what clients sent and stages did not get yet, by (client, stage).
        answers: what stages answered and clients did not get yet, by (stage, client).
        away: clients without a connection to the stages.
        slow: links on which nothing moves unless it is moved by name.
        messages: what the ENS was given, by label.
    """

    def __init__(self, topics: dict[str, int], settings: StageSettings | None = None) -> None:
        self.requests: dict[tuple[str, int], deque[AnyCommand]] = {}
        self.answers: dict[tuple[int, str], deque[Frame]] = {}
        self.clients: dict[str, Client] = {}
        self.away: set[str] = set()
        self.slow: set[tuple[int, int]] = set()
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
        """A client connects to all stages. It knows the names of the topics that there are."""
        self.clients[client] = Client(client, mode, len(self.stages), self.seconds)
        self._welcome(client)
        self._connect(client)

    def restart(self, client: str) -> None:
        """The client's process is replaced by a new one, which knows nothing but the topics."""
        self._cut(client)
        self.clients[client].restart()
        self._welcome(client)
        self._connect(client)

    def _welcome(self, client: str) -> None:
        self.clients[client].welcomed(self.stages[-1].order_epoch, self.infos)

    def leave(self, client: str) -> None:
        """The client's connection to the stages breaks, with what is under way."""
        self._cut(client)
        self.away.add(client)
        self.clients[client].lost()
        for stage in range(len(self.stages)):
            self.step(stage, LeaveSession(client, self.clients[client].incarnation))

    def reconnect(self, client: str) -> None:
        """The client is connected again, hears what stages still know of it, and asks again for all that is open."""
        self._cut(client)
        self.clients[client].lost()
        self._connect(client)
        self.collect()

    def reconnect_in_vain(self, client: str) -> None:
        """The client's hello arrives at the stages; its connection breaks before anything is answered."""
        for stage in range(len(self.stages)):
            self.step(stage, self._hello(client, stage))
        self.leave(client)

    def _hello(self, client: str, stage: int) -> OpenSession:
        return session_of(self.clients[client].hello(), stage, Access())

    def _connect(self, client: str) -> None:
        self.away.discard(client)
        for stage in range(len(self.stages)):
            for frame in self.step(stage, self._hello(client, stage)):
                if isinstance(frame, Opened):
                    self.answers[stage, client].remove(frame)
                    self.clients[client].opened(frame)

    def _cut(self, client: str) -> None:
        for stage in range(len(self.stages)):
            self.requests.pop((client, stage), None)
            self.answers.pop((stage, client), None)

    def collect(self) -> None:
        """Take what clients want to send and hand over: it is under way from now on."""
        for name, client in self.clients.items():
            for stage, frame in client.outbox:
                command = command_of(name, client.incarnation, frame)
                self.requests.setdefault((name, stage), deque()).append(command)
            for message in client.handed:
                if message.label not in self.messages:
                    self.messages[message.label] = message
                    self._hand_over(message)
            client.outbox, client.handed = [], []

    def _hand_over(self, message: Message) -> None:
        for client in self.clients.values():
            if any(each.covers(message.name) for each in client.filters):
                client.arriving.append(message)

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
            client = self.clients.get(effect.client_id)
            if client is not None and client.incarnation == effect.incarnation and client.name not in self.away:
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
        elif isinstance(frame, Topics):
            self.ids.update((each.name, each.id) for each in frame.topics)
        self.clients[client].receive(frame)
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

    def deliver(self, label: str, client: str, *, kept: bool = False) -> None:
        """The ENS delivers an event to a client; once delivered, it may deliver it again. ``kept``: see there."""
        message, role = self.messages[label], self.clients[client]
        if message in role.arriving:
            role.arriving.remove(message)
        role.arrived(message, kept=kept)

    def put_questions(self, client: str) -> None:
        """The client's questions go to the stages, and their answers return (R13, R17, R18)."""
        self.clients[client].put_questions(self._answer)

    def _answer(self, stage: int, question: Question) -> Answer:
        if isinstance(question, AskNumbers):
            return self.stages[stage].numbers(question)
        if isinstance(question, NameTopics):
            return self.stages[stage].name_topics(question)
        return self.read_log(question.topic, question.ranges)

    def tell_heads(self, client: str) -> None:
        """The stages tell a client the highest confirmed numbers of its topics (R17)."""
        for stage in self.stages:
            self.clients[client].receive(Heads(stage.heads(client, None)))

    def wait(self, seconds: float) -> None:
        """Time passes for everybody."""
        self.now += round(seconds * 1000)
        for stage in range(len(self.stages)):
            self.step(stage, Tick())
        for client in self.clients.values():
            client.wait(self.seconds)
        self.collect()

    def restore(self, stage: int) -> None:
        """A stage's process is replaced; the new one begins with its durable state."""
        self.stages[stage] = Stage.restore(self.stages[stage].snapshot())
        self.step(stage, RestartTimers())

    def history(self) -> History:
        """Return what happened, for the checks."""
        linger = self.stages[-1]._state.settings.linger_ms / 1000
        history = history_of(self.clients.values(), linger)
        for client in self.clients.values():
            client.end_spans()
            history.subscribers[client.name] = client.history
        history.topics = {number: name for name, number in self.ids.items()}
        for stage in self.stages:
            for manager in stage._state.topics.values():
                for record in manager.records.values() if manager.stage == stage.index else ():
                    history.states[record.topic, record.number] = record.state.name
        return history
