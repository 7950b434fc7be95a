"""A client that speaks frames and nothing more: no retries, no reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from types import TracebackType
from typing import Self, TypeVar

from inorder.protocol.names import exact
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    CreateTimestamps,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    NewEvent,
    Opened,
    Ping,
    Pong,
    Resolve,
    Settle,
    Settled,
    SpaceFilter,
    StampedEvent,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    Welcome,
    WorkerFrame,
    decode_worker_frame,
    encode_frame,
)
from inorder.protocol.wire.parts import MAX_EVENTS

F = TypeVar("F", bound=Frame)
PATIENCE = 60.0
"""Seconds after which a test that waits for a frame fails."""


class RawClient:
    """One connection to a worker.

    Attributes:
        welcome: the answer to the hello. opened: what stages said of the session ahead of it.
        skipped: frames that arrived while another kind was waited for.
    """

    def __init__(
        self,
        address: str,
        client_id: str = "raw",
        incarnation: int = 1,
        *,
        token: str = "",
        versions: tuple[int, int] = PROTOCOL_VERSIONS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._place, self._tls = (host.strip("[]"), int(port)), tls
        self.hello = Hello(versions[0], versions[1], token, client_id, incarnation)
        self._frames: list[WorkerFrame] = []
        self._splitter = FrameSplitter()
        self._requests = itertools.count(1)
        self.skipped: list[WorkerFrame] = []

    async def connect(self) -> None:
        """Connect without saying hello."""
        self.reader, self.writer = await asyncio.open_connection(*self._place, ssl=self._tls)

    async def __aenter__(self) -> Self:
        await self.connect()
        self.send(self.hello)
        try:
            self.welcome = await self.next(Welcome)
        except ConnectionRefusedError:
            await self.close()
            raise
        self.opened, self.skipped = [each for each in self.skipped if isinstance(each, Opened)], []
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(encode_frame(frame) for frame in frames))

    async def read(self) -> WorkerFrame:
        """Return the next frame. Raises EOFError when the worker closed the connection."""
        async with asyncio.timeout(PATIENCE):
            while not self._frames:
                data = await self.reader.read(2**18)
                if not data:
                    raise EOFError
                self._frames += [decode_worker_frame(body) for body in self._splitter.feed(data)]
        return self._frames.pop(0)

    async def next(self, kind: type[F]) -> F:
        """Return the next frame of this kind; others are kept in ``skipped``. Raises ConnectionRefusedError by a worker
        that is starting."""
        while not isinstance(frame := await self.read(), kind):
            if isinstance(frame, Failure) and "is starting" in frame.message:
                raise ConnectionRefusedError(frame.message)
            assert not isinstance(frame, Failure), frame
            self.skipped.append(frame)
        return frame

    async def failure(self) -> Failure:
        """Return the Failure that ends this connection; it must really end."""
        frame = await self.failure_frame()
        assert await self.is_closed()
        return frame

    async def failure_frame(self) -> Failure:
        """Return the next Failure."""
        frame = await self.read()
        while not isinstance(frame, Failure):
            frame = await self.read()
        return frame

    async def is_closed(self) -> bool:
        """Wait for the end of the connection."""
        try:
            while True:
                await self.read()
        except (EOFError, ConnectionError):
            return True

    # -- requests ----------------------------------------------------------------------------------------------

    async def ping(self) -> None:
        nonce = next(self._requests)
        self.send(Ping(nonce))
        while (await self.next(Pong)).nonce != nonce:
            pass

    async def resolve(self, *names: str, space: str = "s") -> list[TopicInfo]:
        request = next(self._requests)
        self.send(Resolve(request, [(space, name) for name in names]))
        while (answer := await self.next(Topics)).request != request:
            pass
        return answer.topics

    async def subscribe(self, *names: str, version: int = 1, space: str = "s") -> Subscribed:
        self.send(Subscribe(version, [SpaceFilter(space, exact(name)) for name in names]))
        while (answer := await self.next(Subscribed)).version != version:
            pass
        return answer

    async def create(self, topic: TopicInfo, *counters: int) -> list[StampedEvent]:
        """Ask for timestamps and return them in the order of their counters."""
        self.send_create(topic, *(NewEvent(counter, topic.id) for counter in counters))
        return await self.stamped(*counters)

    def send_create(self, topic: TopicInfo, *events: NewEvent) -> None:
        """Ask for timestamps, of many events in several frames."""
        for at in range(0, len(events), MAX_EVENTS):
            self.send(CreateTimestamps(topic.stage, 1, list(events[at : at + MAX_EVENTS])))

    async def stamped(self, *counters: int) -> list[StampedEvent]:
        """Return timestamps that were asked for, in the order of their counters."""
        found: dict[int, StampedEvent] = {}
        while not found.keys() >= set(counters):
            answer = await self.next(Timestamps)
            assert not set(answer.forgotten) & set(counters)
            found.update((event.counter, event) for event in answer.events)
        return [found[counter] for counter in counters]

    async def confirm(self, event: StampedEvent, stage: int = 0) -> Settled:
        request = next(self._requests)
        self.send(Settle(stage, request, [event.topic, event.number, event.number]))
        while (answer := await self.next(Settled)).request != request:
            pass
        return answer
