"""A worker of one stage and without a store, on loopback: a real stage, and the test decides what of it gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tests.core.cluster import SPACE, Cluster, wild
from tests.loopback import FrameServer

from inorder.protocol.wire import (
    Access,
    AskDurable,
    AskHeads,
    AskNumbers,
    ClientFrame,
    Frame,
    Heads,
    Hello,
    LogRule,
    NameTopics,
    Ping,
    Pong,
    ReadLog,
    Renew,
    Renewed,
    StageInfo,
    Welcome,
    encode_frame,
)
from inorder_worker.sequencer.commands import LeaveSession, SetLogRule, StageSettings
from inorder_worker.sequencer.inputs import Requested, command_of, session_of


class StageWorker(FrameServer):
    """Answers clients as a worker does.

    Attributes:
        cluster: the stage, and the event logs.
        seen: all frames that came, in the order in which they came.
        lost: kinds of frames of which the next one breaks its connection; before it was taken, or only its answer is
            lost (``loses_answers``).
        is_deaf_to: kinds of frames that are taken, and not answered before :meth:`answer_late`.
        instead: by kind, what a frame is answered with instead of what the stage says.
    """

    def __init__(self, settings: StageSettings | None = None) -> None:
        super().__init__()
        self.cluster = Cluster({}, stages=1, settings=settings or StageSettings())
        self.cluster.stages[0].epoch = 1
        self.seen: list[ClientFrame] = []
        self.lost: set[type] = set()
        self.is_deaf_to: set[type] = set()
        self.loses_answers = False
        self.instead: dict[type, Callable[[Any], list[Frame]]] = {}
        self._hellos: dict[asyncio.StreamWriter, Hello] = {}
        self._unsaid: list[tuple[asyncio.StreamWriter, list[Frame]]] = []

    def count(self, kind: type) -> int:
        """Return how many frames of a kind came."""
        return sum(isinstance(each, kind) for each in self.seen)

    def log_all(self) -> None:
        """Give all topics an event log."""
        self._step(SetLogRule("", 0, 0, LogRule(SPACE, wild("#")), True))

    def tell_heads(self) -> None:
        """Tell all clients the highest confirmed numbers, as workers do once a second."""
        for writer, hello in self._hellos.items():
            self._say(writer, Heads(self.cluster.stages[0].heads(hello.client_id, None)))

    def answer_late(self) -> None:
        """Give the answers that were not given, on the connections on which they were asked for; be deaf to nothing."""
        self.is_deaf_to.clear()
        unsaid, self._unsaid = self._unsaid, []
        for writer, answers in unsaid:
            self._say(writer, *answers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super()._serve(reader, writer)
        finally:
            hello = self._hellos.pop(writer, None)
            if hello is not None:
                self._step(LeaveSession(hello.client_id, hello.incarnation))

    def _read(self, writer: asyncio.StreamWriter, frame: ClientFrame) -> None:
        self.seen.append(frame)
        is_lost = type(frame) in self.lost
        self.lost.discard(type(frame))
        if is_lost and not self.loses_answers:
            writer.close()
            return
        if isinstance(frame, Hello):
            self._hellos[writer] = frame
        hello = self._hellos[writer]
        answers = self._answers(hello, frame)
        if is_lost:
            writer.close()
        elif type(frame) in self.is_deaf_to:
            self._unsaid.append((writer, answers))
        else:
            self._say(writer, *answers)

    def _answers(self, hello: Hello, frame: ClientFrame) -> list[Frame]:
        stage = self.cluster.stages[0]
        if type(frame) in self.instead:
            return self.instead[type(frame)](frame)
        match frame:
            case Hello():
                opened = self._step(session_of(frame, 0, Access()), hello)
                welcome = Welcome(frame.highest_version, 1, "stub", stage.order_epoch, [StageInfo(0, 1, "")], 10_000)
                return [*opened, welcome]
            case Ping():
                return [Pong(frame.nonce)]
            case Renew():
                return [Renewed(frame.request, [0, 1])]
            case AskNumbers():
                return [stage.numbers(frame)]
            case NameTopics():
                return [stage.name_topics(frame)]
            case AskDurable():
                return [stage.durable(frame, hello.client_id)]
            case ReadLog():
                answer = self.cluster.read_log(frame.topic, frame.ranges)
                answer.request = frame.request
                return [answer]
            case AskHeads():
                return [Heads(stage.heads(hello.client_id, None))]
        return self._step(command_of(hello.client_id, hello.incarnation, cast(Requested, frame)), hello)

    def _step(self, command: Any, hello: Hello | None = None) -> list[Frame]:
        """Step a command; others' answers leave at once."""
        before = len(self.cluster.frames)
        self.cluster.step(0, command)
        mine = list[Frame]()
        for client, frame in self.cluster.frames[before:]:
            if hello is not None and client == hello.client_id:
                mine.append(frame)
            else:
                self._say(*[each for each, its in self._hellos.items() if its.client_id == client], frame)  # type: ignore[arg-type]
        return mine

    @staticmethod
    def _say(writer: asyncio.StreamWriter, *frames: Frame) -> None:
        writer.write(b"".join(map(encode_frame, frames)))
