"""One stage alone, through TCP: durable timestamps, many in a frame and one at a time, on both kinds of stores.

Beside it a server of the same frames that only counts, and what the store's commits take by themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

from inorder.protocol.pairs import joined
from inorder.protocol.wire import CreateTimestamps, NewEvent, Settle, StampedEvent, Timestamps
from inorder.testing.services import PostgresServer, Server, WorkerServer
from inorder_bench.commits import commit_times
from inorder_bench.match import Aim, Size
from inorder_bench.peer import Peer, connect, resolve, subscribe
from inorder_bench.processes import RunFailed
from inorder_bench.rows import Result, Row, Say, paired, spread
from inorder_bench.servers import EchoServer

TOPICS = 2
"""As many as the throughput workload has: one dependency in each timestamp."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How timestamps are asked for.

    Attributes:
        name: in words.
        frame: events in one frame.
        under_way: frames that wait for their answers.
        share: of a throughput run's events.
        aim: of a worker on SQLite, timestamps per second.
        echo_aim: of its ratio to the server that only counts.
    """

    name: str
    frame: int
    under_way: int
    share: float
    aim: Aim | None = None
    echo_aim: Aim | None = None


PACES = (
    Pace("256 in a frame, 8 frames under way", 256, 8, 10.0, Aim(">=", 200_000), Aim(">=", 0.7)),
    Pace("one in a frame, 64 frames under way", 1, 64, 0.5),
    Pace("one at a time", 1, 1, 0.05, Aim(">=", 5_000)),
)
SQLITE, POSTGRESQL, ECHO = "worker, SQLite", "worker, PostgreSQL", "echo server"


def alone(size: Size, say: Say) -> Result:
    """W5: durable timestamps of one stage. Raises MissingBinary, ServerFailed, RunFailed."""
    figures: dict[tuple[str, str], list[Throughput]] = {}
    commits: dict[str, list[float]] = {SQLITE: [], POSTGRESQL: []}
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(durable=True))
        for repeat in range(size.repeats):
            servers: dict[str, Callable[[], Server]] = {
                SQLITE: WorkerServer,
                ECHO: EchoServer,
                POSTGRESQL: lambda: WorkerServer(store=postgres.database()),
            }
            for name in servers if repeat % 2 == 0 else list(servers)[::-1]:
                with servers[name]() as server:
                    for pace in PACES:
                        done = _ask(server.port, pace, size.share(pace.share))
                        figures.setdefault((name, pace.name), []).append(done)
                        say(f"repeat {repeat + 1} of {size.repeats}: {name}, {pace.name}: {done.per_s:,.0f} a second")
            with TemporaryDirectory() as folder:
                stores = {SQLITE: f"sqlite:///{Path(folder, 'commits.db')}", POSTGRESQL: postgres.database()}
                for name, url in stores.items():
                    commits[name].append(1 / median(commit_times(url, size.share(0.02))))
    return Result(rows=[*_rows(figures), *_commit_rows(commits, figures)])


@dataclass(frozen=True, slots=True)
class Throughput:
    """Timestamps that were asked for, per second, and the median time of a frame's answer, ms."""

    count: int
    per_s: float
    frame_ms: float


def _ask(port: int, pace: Pace, count: int) -> Throughput:
    """Ask for so many durable timestamps. Raises RunFailed where numbers are missing or come twice."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Asking(pace, count).run(port))


class _Asking:
    """A client that asks for timestamps on topics that two subscribers share, and confirms what it got."""

    def __init__(self, pace: Pace, count: int) -> None:
        self._pace, self._count = pace, count
        self._peer: Peer
        self._topics: list[int] = []
        self._counter = self._done = 0
        self._sent: list[float] = []
        self._times: list[float] = []
        self._numbers: dict[int, list[int]] = {}

    async def run(self, port: int) -> Throughput:
        """See _ask."""
        name = f"asking-{self._pace.frame}-{self._pace.under_way}"
        names = [f"{name}/{each}" for each in range(TOPICS)]
        self._peer = await connect(port, name)
        self._topics = await resolve(self._peer, names)
        readers = [await connect(port, f"{name}-reader-{each}") for each in range(2)]
        for reader in readers:
            await subscribe(reader, names)
        began = time.perf_counter()
        for _ in range(self._pace.under_way):
            self._ask()
        request = 0
        while self._done < self._count:
            request += 1
            self._took((await self._peer.next(Timestamps)).events, request)
        seconds = time.perf_counter() - began
        for each in (self._peer, *readers):
            each.close()
        self._check()
        return Throughput(self._done, self._done / seconds, median(self._times) * 1e3)

    def _ask(self) -> None:
        first, self._counter = self._counter + 1, min(self._count, self._counter + self._pace.frame)
        if first > self._counter:
            return
        low = max(1, first - self._pace.frame * (self._pace.under_way + 1))
        events = [NewEvent(number, self._topics[number % TOPICS]) for number in range(first, self._counter + 1)]
        self._sent.append(time.perf_counter())
        self._peer.send(CreateTimestamps(0, low, events))

    def _took(self, events: list[StampedEvent], request: int) -> None:
        found: dict[int, list[int]] = {}
        for event in events:
            found.setdefault(event.topic, []).append(event.number)
        for topic, numbers in found.items():
            self._numbers.setdefault(topic, []).extend(numbers)
        flat = joined((topic, numbers[0], numbers[-1]) for topic, numbers in found.items())
        self._peer.send(Settle(0, request, flat))
        self._done += len(events)
        while len(self._times) * self._pace.frame < self._done and len(self._times) < len(self._sent):
            if self._done < min(self._count, (len(self._times) + 1) * self._pace.frame):
                break  # of this frame, a part is still to come
            self._times.append(time.perf_counter() - self._sent[len(self._times)])
            self._ask()

    def _check(self) -> None:
        for topic, numbers in self._numbers.items():
            if numbers != list(range(1, len(numbers) + 1)):
                raise RunFailed(f"the numbers of topic {topic} are not 1 to {len(numbers)}, each once")
        if self._done != self._count:
            raise RunFailed(f"{self._done} timestamps came instead of {self._count}")


def _rows(figures: dict[tuple[str, str], list[Throughput]]) -> list[Row]:
    rows = []
    for pace in PACES:
        rates = {name: [each.per_s for each in figures[name, pace.name]] for name in (SQLITE, POSTGRESQL, ECHO)}
        for name, its in rates.items():
            ratio, aim = paired(rates[SQLITE], its), pace.echo_aim if name == ECHO else None
            value, reached = spread(its), None if aim is None else aim.is_reached(ratio.median)
            if name == SQLITE and pace.aim is not None:
                aim, reached = pace.aim, pace.aim.is_reached(value.median)
            done = figures[name, pace.name]
            rows.append(
                Row(
                    workload="W5",
                    name=f"{name}, {pace.name}",
                    unit="events/s",
                    value=value,
                    ratio=None if name == SQLITE else ratio,
                    yardstick="" if name == SQLITE else f"{SQLITE}, {pace.name} / {name}, {pace.name}",
                    aim="" if aim is None else str(aim),
                    reached=reached,
                    more={"events": float(done[0].count), "frame_ms": spread([each.frame_ms for each in done]).median},
                )
            )
    return rows


def _commit_rows(commits: dict[str, list[float]], figures: dict[tuple[str, str], list[Throughput]]) -> list[Row]:
    """Return how many commits a second the stores do, and how one timestamp at a time compares with that."""
    single, rows = PACES[-1].name, []
    for name, its in commits.items():
        row = f"commits of one row, {name.partition(', ')[2]}"
        rows.append(
            Row(
                workload="W5",
                name=row,
                unit="events/s",
                value=spread(its),
                ratio=paired([each.per_s for each in figures[name, single]], its),
                yardstick=f"{name}, {single} / {row}",
            )
        )
    return rows
