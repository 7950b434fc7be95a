"""A worker that has one stage and does what a test says: answers, closes the connection, or says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.loopback import FrameServer

from inorder.protocol.wire import (
    Access,
    ClientFrame,
    Frame,
    Hello,
    Ping,
    Pong,
    StageInfo,
    Welcome,
    encode_frame,
)


class FakeWorker(FrameServer):
    """``answers`` returns what a frame is answered with; ``None``: the connection is closed.

    Attributes:
        asked: the frames that came, but for hellos and pings.
        takes: pings are answered, as a worker does that has stepped what came before.
        access: what the welcome says of the token.
    """

    def __init__(self, answers: Callable[[ClientFrame], list[Frame] | None], *, version: int = 1) -> None:
        super().__init__()
        self._answers, self._version = answers, version
        self.asked: list[ClientFrame] = []
        self.takes = True
        self.access = Access()
        self.stages = [StageInfo(0, 1, "")]

    def _read(self, writer: asyncio.StreamWriter, frame: ClientFrame) -> None:
        answer = self._answer(frame)
        if answer is None:
            writer.close()
        else:
            writer.write(b"".join(map(encode_frame, answer)))

    def _answer(self, frame: ClientFrame) -> list[Frame] | None:
        if isinstance(frame, Hello):
            return [Welcome(self._version, 7, "fake", 1, self.stages, 10_000, address=self.address, access=self.access)]
        if isinstance(frame, Ping):
            return [Pong(frame.nonce)] if self.takes else []
        self.asked.append(frame)
        return self._answers(frame)
