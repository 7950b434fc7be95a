"""A server on a free port of loopback, whose connections a test's double answers."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self, cast

from inorder.protocol.wire import ClientFrame, FrameSplitter, decode_client_frame


class LoopbackServer(ABC):
    """Serves each connection in a task; none is left when it is over.

    Attributes:
        address, port: where it listens.
        accepted, open: connections, ever and now.
        tls: of the server, where it speaks TLS.
    """

    def __init__(self) -> None:
        self.address, self.port = "", 0
        self.tls: ssl.SSLContext | None = None
        self.accepted = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []

    @property
    def open(self) -> int:
        return len(self._writers)

    def hang_up(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        self._serving.append(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # a client that gives a connection up resets it
        finally:
            self._writers.remove(writer)
            writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        host, self.port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.hang_up()
        await asyncio.gather(*self._serving)


class FrameServer(LoopbackServer):
    """Reads what clients say to a worker."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        while data := await reader.read(2**16):
            for body in splitter.feed(data):
                self._read(writer, decode_client_frame(body))
                if writer.is_closing():
                    return

    @abstractmethod
    def _read(self, writer: asyncio.StreamWriter, frame: ClientFrame) -> None:
        """Answer a frame, or not."""
