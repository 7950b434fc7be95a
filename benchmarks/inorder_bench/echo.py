"""The yardstick of one stage: a server of the same frames that only counts; no order, no journal, nothing durable.

``python -m inorder_bench.echo PORT``
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from inorder.protocol.wire import (
    ClientFrame,
    CreateTimestamps,
    Frame,
    FrameSplitter,
    Hello,
    Resolve,
    Settle,
    Settled,
    StampedEvent,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    Welcome,
    decode_client_frame,
    encode_frame,
)
from inorder.testing.services.server import HOST


class Echo(asyncio.Protocol):
    """Answers each frame at once. Timestamps are as long as real ones: one dependency on the topic before."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._numbers: dict[int, int] = {}
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        answers = [self._answer(decode_client_frame(body)) for body in self._splitter.feed(data)]
        self._transport.write(b"".join(map(encode_frame, answers)))

    def _answer(self, frame: ClientFrame) -> Frame:
        match frame:
            case CreateTimestamps():
                return self._timestamps(frame)
            case Settle():
                return Settled(frame.stage, 1, frame.request)
            case Hello():
                return Welcome(1, 1, "echo", 1, [], 1000)
            case Resolve():
                return Topics(frame.request, [TopicInfo(at + 1, *name, 0) for at, name in enumerate(frame.topics)])
            case Subscribe():
                return Subscribed(frame.version, [])
        raise SystemExit(f"unexpected: {frame}")

    def _timestamps(self, frame: CreateTimestamps) -> Timestamps:
        numbers, made = self._numbers, []
        for event in frame.events:
            number = numbers[event.topic] = numbers.get(event.topic, 0) + 1
            made.append(StampedEvent(event.counter, event.topic, number, [event.topic, number]))
        return Timestamps(frame.stage, 1, made)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
