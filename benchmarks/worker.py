"""Durable timestamps per second of one worker through TCP, and the commit rate of its store.

    python benchmarks/worker.py [--seconds 5] [--events 256] [--in-flight 8] [--store URL]

The client asks for timestamps in frames of ``--events`` events, ``--in-flight`` frames at a time, spread over
``--topics`` topics that two subscribers share (so each timestamp carries dependencies), and confirms what it got.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from inorder.core.names import exact
from inorder.core.wire import (
    CreateTimestamps,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    NewEvent,
    Resolve,
    Settle,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Timestamps,
    Topics,
    Welcome,
    decode_worker_frame,
    encode_frame,
)
from inorder.worker.journal import Batch
from inorder.worker.sql_journal import SqlJournal

WORKER = """
import json, sys
from inorder.worker import WorkerSettings, run
settings = WorkerSettings(**json.loads(sys.argv[1]))
if len(sys.argv) > 2:
    import cProfile
    profile = cProfile.Profile()
    profile.runcall(run, settings)
    profile.dump_stats(sys.argv[2])
else:
    run(settings)
"""


class Peer(asyncio.Protocol):
    """A connection that hands frames to a queue."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.splitter = FrameSplitter()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        for body in self.splitter.feed(data):
            self.frames.put_nowait(decode_worker_frame(body))

    def send(self, *frames: Frame) -> None:
        assert self.transport is not None
        self.transport.write(b"".join(encode_frame(frame) for frame in frames))

    async def next(self, kind: type[Frame]) -> Frame:
        async with asyncio.timeout(20):
            while not isinstance(frame := await self.frames.get(), kind):
                if isinstance(frame, Failure):
                    raise SystemExit(f"the worker refused: {frame}")
        return frame


async def connect(port: int, name: str) -> Peer:
    """Connect as soon as the worker listens."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        while True:
            try:
                _, peer = await loop.create_connection(Peer, "127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.02)
    peer.send(Hello(1, 1, "", name, os.getpid()))
    await peer.next(Welcome)
    return peer


async def measure(port: int, options: argparse.Namespace) -> dict[str, float]:
    """Return timestamps per second and the round-trip time of a frame."""
    names = [f"t{index}" for index in range(options.topics)]
    peer = await connect(port, "publisher")
    peer.send(Resolve(1, [("s", name) for name in names]))
    answer = await peer.next(Topics)
    assert isinstance(answer, Topics)
    topics = [topic.id for topic in answer.topics]
    for index in range(2):
        subscriber = await connect(port, f"subscriber-{index}")
        subscriber.send(Subscribe(1, [SpaceFilter("s", exact(name)) for name in names]))
        await subscriber.next(Subscribed)
    counter = done = 0
    sent: list[float] = []
    times: list[float] = []

    def ask() -> None:
        nonlocal counter
        first = counter + 1
        counter += options.events
        low = max(1, first - options.events * (options.in_flight + 1))
        events = [NewEvent(number, topics[number % len(topics)]) for number in range(first, counter + 1)]
        sent.append(time.perf_counter())
        peer.send(CreateTimestamps(0, low, events))

    began = time.perf_counter()
    for _ in range(options.in_flight):
        ask()
    request = waiting = 0
    while time.perf_counter() - began < options.seconds:
        frame = await peer.next(Timestamps)
        assert isinstance(frame, Timestamps)
        done += len(frame.events)
        waiting += len(frame.events)
        numbers: dict[int, list[int]] = {}
        for event in frame.events:
            numbers.setdefault(event.topic, []).append(event.number)
        request += 1
        flat = [part for topic, found in numbers.items() for part in (topic, found[0], found[-1])]
        peer.send(Settle(0, request, flat))
        while waiting >= options.events:
            waiting -= options.events
            times.append(time.perf_counter() - sent[len(times)])
            ask()
    seconds = time.perf_counter() - began
    times.sort()
    return {
        "timestamps_per_second": round(done / seconds),
        "frame_ms_p50": round(times[len(times) // 2] * 1000, 2),
        "frame_ms_p99": round(times[int(len(times) * 0.99)] * 1000, 2),
    }


def commit_rate(url: str, row_bytes: int, count: int = 300) -> float:
    """Return appends per second of the bare journal, one row of so many bytes each."""
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "benchmark")
    seq = sum(1 for _ in journal.replay(0, 0))
    entries = os.urandom(row_bytes)
    began = time.perf_counter()
    for step in range(1, count + 1):
        journal.append([Batch(0, epoch, seq + step, entries)])
    rate = count / (time.perf_counter() - began)
    journal.close()
    return round(rate)


def run_worker(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Measure a worker in a process of its own."""
    from inorder.testing.services import free_port

    port = free_port()
    settings = {"store": options.store or f"sqlite:///{folder}/worker.db", "port": port, "name": "benchmark"}
    arguments = [sys.executable, "-c", WORKER, json.dumps(settings), *([options.profile] if options.profile else [])]
    worker = subprocess.Popen(arguments)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(measure(port, options))
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--events", type=int, default=256)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--topics", type=int, default=4)
    parser.add_argument("--store", default="", help="instead of a new SQLite file")
    parser.add_argument("--folder", default=None, help="where the SQLite files go (a real disk, not a RAM disk)")
    parser.add_argument("--profile", default="", help="write the worker's profile to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        result = {
            f"commits_per_second_{size}": commit_rate(f"sqlite:///{folder}/commits-{size}.db", size)
            for size in (100, 10_000)
        }
        result.update(run_worker(folder, options))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
