"""Everything that runs: a broker, a store, workers in their seats, client processes, and meters in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.client import Role, new_client, opened
from tests.chaos.plan import SESSION_TIMEOUT, Shape
from tests.chaos.processes import ClientSeat, Seat
from tests.chaos.records import AnyRecord, Began
from tests.chaos.store import holders
from tests.chaos.writing import Writer

from inorder import Client
from inorder.errors import StoreError
from inorder.testing.services import FaultProxy, Mosquitto, PostgresServer, Server
from inorder_worker.store.journal import Holder

STAGES = 3
MAY_HAVE = ((0, 1), (1, 2), (2, 0), (0, 1, 2))
"""The stages of each worker: every stage has standbys, and who has which one changes with every take-over."""
TOPICS_PER_STAGE = 2
METER_PAUSE = 0.04
SETTINGS = {
    "BEAT_INTERVAL": "0.2", "HEADS_INTERVAL": "0.2", "SNAPSHOT_ROWS": "100", "PUBLISHER_GRACE": "2",
    "SESSION_TIMEOUT": str(SESSION_TIMEOUT), "RETRY_MAX": "0.3", "NUMBER_RETENTION": "200000", "STAGES": str(STAGES),
}  # fmt: skip
"""Of the workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is like.

    Attributes:
        seconds: how long faults come.
        store: ``sqlite`` or ``postgresql``.
        writers, readers: client processes; every second reader changes its subscription, the last one is bounded.
        durables: client processes that read, too; they keep their subscription while they are away (R18).
        pause: seconds between two faults, on average; ``pace``: between two publishes of a writer.
        patience: seconds for everything to converge in.
        planted: a bug to run with.
        log: topics have event logs, so nothing may be lost (R18).
        only: kinds of faults that may come; all of them if empty.
    """

    seconds: float = 20.0
    seed: int = 1
    store: str = "sqlite"
    writers: int = 2
    readers: int = 3
    durables: int = 1
    pause: float = 0.8
    pace: float = 0.02
    patience: float = 60.0
    planted: str = ""
    log: bool = False
    only: frozenset[str] = frozenset()

    @property
    def writer_names(self) -> tuple[str, ...]:
        return tuple(f"writer-{at}" for at in range(self.writers))

    @property
    def reader_names(self) -> tuple[str, ...]:
        return tuple(f"reader-{at}" for at in range(self.readers))

    @property
    def durable_names(self) -> tuple[str, ...]:
        return tuple(f"durable-{at}" for at in range(self.durables))

    @property
    def subscriber_names(self) -> tuple[str, ...]:
        return self.reader_names + self.durable_names

    def filters(self, subscriber: str) -> list[str]:
        """Return what one subscribes to: the first of each sort to everything that there will be."""
        is_first = subscriber in (*self.reader_names[:1], *self.durable_names[:1])
        return ["load/#"] if is_first else topic_names()

    @property
    def shape(self) -> Shape:
        """What there is to break."""
        return Shape(
            stages=STAGES,
            clients=self.writer_names + self.subscriber_names,
            wanderers=self.reader_names[1::2],
            durables=self.durable_names,
            has_store_way=self.store == "postgresql",
            only=self.only,
            pause=self.pause,
        )


def topic_names() -> list[str]:
    """Return the topics that clients publish to, two on each stage."""
    return [f"load/{at}" for at in range(STAGES * TOPICS_PER_STAGE)]


def meter_topic(stage: int) -> str:
    """Return the topic through which a stage's answers are timed; it never moves, and nobody shares it."""
    return f"meter/{stage}"


def _topic_order() -> str:
    names, order = topic_names(), []
    for stage in range(STAGES):
        own = names[stage * TOPICS_PER_STAGE : (stage + 1) * TOPICS_PER_STAGE]
        order.append([f"mqtt:{each}" for each in [*own, meter_topic(stage)]])
    return json.dumps(order)


class Meter:
    """Publishes to one topic of one stage, over a broker connection that nobody breaks: when it is answered the stage
    is there.

    Attributes:
        records: as a client process would write them.
    """

    def __init__(self, name: str, broker: str, workers: list[str]) -> None:
        self.name, self._broker, self._workers = name, broker, workers
        self.records: list[AnyRecord] = []
        self.client: Client
        self.writer: Writer

    async def open(self, topics: Sequence[str], seed: int) -> None:
        self.client = await opened(lambda: new_client(self.name, self._broker, self._workers))
        self.records.append(Began(incarnation=self.client.incarnation, mode="strict"))
        self.writer = Writer(self.client, self.name, topics, METER_PAUSE, seed, self.records.append)


class Site:
    """See module. ``async with site(options, folder)`` makes one.

    Attributes:
        url: the store, as this process reaches it.
        server_lock: held by whoever stops or starts the broker or the database.
    """

    def __init__(self, options: Options, folder: Path, broker: Mosquitto) -> None:
        self.options, self.folder, self.broker = options, folder, broker
        self.postgres: PostgresServer | None = None
        self.url = f"sqlite:///{folder}/inorder.db"
        self.server_lock = asyncio.Lock()
        self.seats: list[Seat] = []
        self.clients: dict[str, ClientSeat] = {}
        self.meters: list[Meter] = []

    @property
    def addresses(self) -> list[str]:
        return [each.address for each in self.seats]

    async def holders(self) -> dict[int, Holder]:
        """Return who has which stage, as soon as the store says."""
        while True:
            try:
                return await asyncio.to_thread(holders, self.url)
            except StoreError:
                await asyncio.sleep(0.1)

    def seat_of(self, holder: Holder) -> Seat:
        return next(each for each in self.seats if each.address == holder.address)

    # -- making it ---------------------------------------------------------------------------------------------

    async def start_store(self, stack: AsyncExitStack) -> None:
        if self.options.store == "postgresql":
            self.postgres = PostgresServer()
            await _start(stack, self.postgres)
            self.url = await asyncio.to_thread(self.postgres.database)

    async def start_workers(self, stack: AsyncExitStack) -> None:
        store_port = None if self.postgres is None else self.postgres.port
        settings = {f"INORDER_WORKER__{name}": value for name, value in SETTINGS.items()}
        settings["INORDER_WORKER__TOPIC_ORDER"] = _topic_order()
        if self.options.log:
            settings["INORDER_WORKER__LOG_TOPICS"] = "mqtt:load/#"
        for at, stages in enumerate(MAY_HAVE):
            seat = await Seat.make(f"worker-{at}", stages, self.url, settings, self.options.planted, store_port)
            stack.push_async_callback(seat.leave)
            self.seats.append(seat)
        group = await stack.enter_async_context(_cancelled_at_the_end())
        for seat in self.seats:
            group.append(asyncio.create_task(seat.supervise(), name=f"supervise {seat.name}"))
        for seat in self.seats:
            seat.is_wanted = True
            while not seat.is_up:  # noqa: ASYNC110 (one after the other, so that no worker has all stages)
                await asyncio.sleep(0.02)

    async def start_clients(self, stack: AsyncExitStack) -> None:
        for at, name in enumerate(self.options.shape.clients):
            way = await stack.enter_async_context(FaultProxy(self.broker.port))
            seat = ClientSeat(self._role_of(name, at, way), self.folder, way)
            stack.push_async_callback(seat.close, 0.0)
            self.clients[name] = seat
            seat.start()

    def _role_of(self, name: str, at: int, way: FaultProxy) -> Callable[[int, Path], Role]:
        options = self.options
        is_writer = name in options.writer_names

        def role(life: int, folder: Path) -> Role:
            own = f"{name}/{life}"
            return Role(
                client_id=name,
                name=own,
                broker=f"mqtt://127.0.0.1:{way.port}",
                workers=self.addresses,
                records=str(folder / f"{name}.{life}.jsonl"),
                topics=topic_names() if is_writer else options.filters(name),
                seed=options.seed * 1_000 + at * 100 + life,
                pause=options.pace if is_writer else 0.0,
                mode="bounded" if name == options.reader_names[-1] else "strict",
                durable=name in options.durable_names,
                planted=options.planted,
            )

        return role

    async def start_meters(self, stack: AsyncExitStack) -> None:
        for stage in range(STAGES):
            meter = Meter(f"meter-{stage}", self.broker.url, self.addresses)
            await meter.open([meter_topic(stage)], stage)
            stack.push_async_callback(meter.client.close)
            self.meters.append(meter)


@asynccontextmanager
async def site(options: Options, folder: Path) -> AsyncIterator[Site]:
    """Start everything, and leave nothing running at the end; the folder keeps what was recorded and logged."""
    async with AsyncExitStack() as stack:
        broker = Mosquitto(max_queued=0)
        await _start(stack, broker)
        made = Site(options, folder, broker)
        await made.start_store(stack)
        await made.start_workers(stack)
        await made.start_clients(stack)
        await made.start_meters(stack)
        yield made


async def _start(stack: AsyncExitStack, server: Server) -> None:
    await asyncio.to_thread(server.start)
    stack.push_async_callback(asyncio.to_thread, server.close)


@asynccontextmanager
async def _cancelled_at_the_end() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
