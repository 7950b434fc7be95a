"""The costs of a worker by its connected clients: processor time and memory of each, while they come, while nothing
happens, and while events are published; and what TLS adds to that.

The worker is a process of its own. Its clients are sockets in this one that say to it what an ``inorder.Client`` says,
as often, and do nothing else: each has four of 64 topics.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from inorder.backoff import pause
from inorder.errors import LinkError
from inorder.listening import raise_open_files
from inorder.protocol.names import exact
from inorder.protocol.pairs import joined
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    CreateTimestamps,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    NewEvent,
    Ping,
    Pong,
    Renew,
    Settle,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Timestamps,
    Welcome,
    decode_worker_frame,
    encode_frame,
)
from inorder.testing.services import Certificates, WorkerServer
from inorder_bench.machine import resident_bytes
from inorder_bench.rows import Row, Say, paired, spread

SIZES: Final = (100, 1_000, 5_000)
SECONDS: Final = 5.0
"""For which one figure is measured."""
TOPICS, OF_ONE, PUBLISHERS = 64, 4, 10
COMING, EVENTS = 500, 200
"""Clients that come, and events that are published, in a second."""
HALF_BEAT, RENEWED = 0.5, 10
"""Seconds after which a client asks a worker of which nothing came to answer; so many of these from one question for
the lease to the next."""
SLICES: Final = 50
"""Parts of the clients that look at their time one after the other."""
PATIENCE: Final = 120.0


class Guest(asyncio.Protocol):
    """A client's connection, from its hello on. ``subscribed``: done when it is; ``topics``: its ids then."""

    def __init__(self, number: int) -> None:
        self._number, self._splitter, self._beats = number, FrameSplitter(), number % RENEWED
        self._transport: asyncio.Transport
        self._is_heard = False
        self.subscribed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.topics: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(Hello(*PROTOCOL_VERSIONS, "", f"guest-{self._number}", 1, "inorder-bench"))

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits."""
        if not self.subscribed.done():
            self.subscribed.set_exception(LinkError(f"the worker left client {self._number}"))

    def data_received(self, data: bytes) -> None:
        """Do what a client does."""
        self._is_heard = True
        for body in self._splitter.feed(data):
            frame = decode_worker_frame(body)
            if isinstance(frame, Welcome):
                names = (f"t{(7 * self._number + 13 * each) % TOPICS}" for each in range(OF_ONE))
                self.send(Subscribe(1, [SpaceFilter("s", exact(name)) for name in names]))
            elif isinstance(frame, Subscribed):
                self.topics = [each.topic.id for each in frame.topics]
                self.subscribed.set_result(None)
            elif isinstance(frame, Ping):
                self.send(Pong(frame.nonce))
            elif isinstance(frame, Timestamps):
                confirmed = joined((each.topic, each.number, each.number) for each in frame.events)
                self.send(Settle(0, frame.events[-1].counter, confirmed))
            elif isinstance(frame, Failure):
                self.close()

    def send(self, *frames: Frame) -> None:
        """Send frames in one write."""
        self._transport.write(b"".join(map(encode_frame, frames)))

    def half_beat(self) -> None:
        """Ask what a client asks after half a heartbeat."""
        if not self._is_heard:
            self.send(Ping())
        self._is_heard = False
        self._beats += 1
        if self._beats % RENEWED == 0:
            self.send(Renew(self._beats))

    def close(self) -> None:
        """Cut the connection."""
        self._transport.abort()


class Crowd:
    """Clients of a worker that come, stay and publish. Attribute ``guests``: those that are subscribed."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port, self._tls = port, tls
        self.guests: list[Guest] = []
        self._numbers, self._counters = count(), [count(1) for _ in range(PUBLISHERS)]

    async def come(self, size: int) -> None:
        """Let clients come, ``COMING`` in a second, until there are so many. Returns when all are subscribed."""
        began, new = time.perf_counter(), list[asyncio.Task[None]]()
        async with asyncio.timeout(PATIENCE):
            for at in range(size - len(self.guests)):
                await asyncio.sleep(max(0.0, began + at / COMING - time.perf_counter()))
                new.append(asyncio.create_task(self._enter(next(self._numbers))))
            await asyncio.gather(*new)

    async def _enter(self, number: int) -> None:
        for failures in count():
            guest = Guest(number)
            try:
                connect = asyncio.get_running_loop().create_connection
                await connect(lambda: guest, "127.0.0.1", self._port, ssl=self._tls)  # noqa: B023
                await guest.subscribed
                break
            except (OSError, LinkError):  # a worker that starts, or a machine that is busy
                await asyncio.sleep(pause(0.05, 5.0, failures))
        self.guests.append(guest)

    async def stay(self) -> None:
        """Let the clients look at their time, for ever, one slice of them after the other."""
        began = time.perf_counter()
        for at in count():
            for guest in self.guests[at % SLICES :: SLICES]:
                guest.half_beat()
            await asyncio.sleep(max(0.0, began + at * HALF_BEAT / SLICES - time.perf_counter()))

    async def publish(self, seconds: float) -> None:
        """Publish ``EVENTS`` in a second, a few clients one after the other."""
        began = time.perf_counter()
        for at in range(int(EVENTS * seconds)):
            await asyncio.sleep(max(0.0, began + at / EVENTS - time.perf_counter()))
            guest, counter = self.guests[at % PUBLISHERS], next(self._counters[at % PUBLISHERS])
            topic = guest.topics[at // PUBLISHERS % OF_ONE]
            guest.send(CreateTimestamps(0, counter, [NewEvent(counter, topic)]))


def processor_seconds(pid: int) -> float:
    """Return what a process has worked so far, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


COME, IDLE, BUSY = "coming", "idle", f"at {EVENTS} events a second"
UNITS: Final = {COME: "us/client", IDLE: "us/s/client", BUSY: "us/s/client"}
WITH_TLS: Final = 1_000
"""Clients at most that come with TLS: their own side of it costs this process as much."""

Found = dict[str, list[tuple[float, float]]]
"""Kind -> for each number of clients, the µs (for each client, and second) and the KiB of each."""


def measure(sizes: Sequence[int], seconds: float, say: Say) -> list[Row]:
    """Measure a worker with more and more clients, and one with TLS with few. Raises LinkError, and TimeoutError where
    they do not come in."""
    raise_open_files()
    with WorkerServer() as server:
        rows = _rows("clients of a worker", sizes, asyncio.run(_measured(server, None, sizes, seconds, say)))
    few = [size for size in sizes if size <= WITH_TLS]
    with Certificates() as made, WorkerServer(args=tls_arguments(made)) as server:
        found = asyncio.run(_measured(server, made.client_context(), few, seconds, say))
    return [*rows, *_rows("clients of a worker with TLS", few, found)]


def tls_arguments(made: Certificates) -> tuple[str, ...]:
    """Return the arguments of a worker that has this certificate."""
    return "--tls-cert", str(made.certificate), "--tls-key", str(made.key)


def _rows(title: str, sizes: Sequence[int], found: Found) -> list[Row]:
    return [
        Row(
            workload=f"growth: {title}, {kind}",
            name=f"{size:,}",
            unit=unit,
            value=spread([cost]),
            ratio=paired([cost], [found[kind][0][0]]),
            yardstick=f"of {sizes[0]:,}",
            more={"KiB a client": memory} if memory else {},
        )
        for kind, unit in UNITS.items()
        for size, (cost, memory) in zip(sizes, found[kind], strict=True)
    ]


async def _measured(
    server: WorkerServer, tls: ssl.SSLContext | None, sizes: Sequence[int], seconds: float, say: Say
) -> Found:
    """Measure one worker with more and more clients."""
    crowd, found = Crowd(server.port, tls), defaultdict[str, list[tuple[float, float]]](list)
    await crowd.come(PUBLISHERS)
    staying, before = asyncio.create_task(crowd.stay()), resident_bytes(server.pid)

    async def cost(kind: str, work: Coroutine[Any, Any, None], units: float) -> None:
        began = processor_seconds(server.pid)
        await work
        spent = (processor_seconds(server.pid) - began) / units * 1e6
        memory = (resident_bytes(server.pid) - before) / 1024 / (len(crowd.guests) - PUBLISHERS)
        found[kind].append((spent, round(memory, 1)))
        with_tls = " with TLS" if tls is not None else ""
        say(f"growth: clients{with_tls}, {kind}: {len(crowd.guests):,}: {spent:.0f} us, {memory:.1f} KiB")

    for size in sizes:
        await cost(COME, crowd.come(size), size - len(crowd.guests))
        await cost(IDLE, asyncio.sleep(seconds), size * seconds)
        await cost(BUSY, crowd.publish(seconds), size * seconds)
    staying.cancel()
    for guest in crowd.guests:
        guest.close()
    await asyncio.sleep(0)
    return found
