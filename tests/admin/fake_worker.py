"""A worker that has one stage and does what a test says: answers, closes the connection, or says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from inorder.core.wire import (
    Access,
    ClientFrame,
    Frame,
    FrameSplitter,
    Hello,
    Ping,
    Pong,
    StageInfo,
    Welcome,
    decode_client_frame,
    encode_frame,
)


class FakeWorker:
    """``answers`` returns what a frame is answered with; ``None``: the connection is closed.

    Attributes:
        asked: the frames that came, but for hellos and pings.
        connections: how many there were.
        takes: pings are answered, as a worker does that has stepped what came before.
        access: what the welcome says of the token.
    """

    def __init__(self, answers: Callable[[ClientFrame], list[Frame] | None], *, version: int = 2) -> None:
        self._answers, self._version = answers, version
        self.asked: list[ClientFrame] = []
        self.connections = 0
        self.takes = True
        self.access = Access()
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []
        self.stages = [StageInfo(0, 1, "")]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        self._serving.append(cast("asyncio.Task[None]", asyncio.current_task()))
        splitter = FrameSplitter()
        while data := await reader.read(2**16):
            for body in splitter.feed(data):
                answer = self._answer(decode_client_frame(body))
                if answer is None:
                    writer.close()
                    return
                writer.write(b"".join(map(encode_frame, answer)))

    def _answer(self, frame: ClientFrame) -> list[Frame] | None:
        if isinstance(frame, Hello):
            return [Welcome(self._version, 7, "fake", 1, self.stages, 10_000, address=self.address, access=self.access)]
        if isinstance(frame, Ping):
            return [Pong(frame.nonce)] if self.takes else []
        self.asked.append(frame)
        return self._answers(frame)
