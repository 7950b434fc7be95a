"""A connection to a worker that speaks its frames, without a client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TypeVar

from inorder.errors import PeerError
from inorder.protocol.names import exact
from inorder.protocol.wire import (
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    Resolve,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Topics,
    Welcome,
    decode_worker_frame,
    encode_frame,
)
from inorder.testing.services.server import HOST

FrameT = TypeVar("FrameT", bound=Frame)

PATIENCE_S = 20.0
SPACE = "bench"


class Peer(asyncio.Protocol):
    """A connection that hands frames to a queue."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.splitter = FrameSplitter()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        for body in self.splitter.feed(data):
            self.frames.put_nowait(decode_worker_frame(body))

    def close(self) -> None:
        """Close the connection."""
        assert self.transport is not None
        self.transport.close()

    def send(self, *frames: Frame) -> None:
        """Write frames."""
        assert self.transport is not None
        self.transport.write(b"".join(encode_frame(frame) for frame in frames))

    async def next(self, kind: type[FrameT]) -> FrameT:
        """Return the next frame of this kind; others are dropped. Raises PeerError, TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(frame := await self.frames.get(), kind):
                if isinstance(frame, Failure):
                    raise PeerError(f"the worker refused: {frame}")
        return frame


async def connect(port: int, name: str) -> Peer:
    """Connect as soon as the worker listens."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, peer = await loop.create_connection(Peer, HOST, port)
                break
            except OSError:
                await asyncio.sleep(0.02)
    peer.send(Hello(1, 1, "", name, os.getpid()))
    await peer.next(Welcome)
    return peer


async def resolve(peer: Peer, names: Sequence[str]) -> list[int]:
    """Return the ids of topics; those that are new are made."""
    peer.send(Resolve(1, [(SPACE, name) for name in names]))
    return [topic.id for topic in (await peer.next(Topics)).topics]


async def subscribe(peer: Peer, names: Sequence[str]) -> None:
    """Subscribe to topics, and wait for the answer."""
    peer.send(Subscribe(1, [SpaceFilter(SPACE, exact(name)) for name in names]))
    await peer.next(Subscribed)
