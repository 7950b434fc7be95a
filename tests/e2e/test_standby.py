"""Standbys, as processes of their own over one store: the active worker is killed or stands still in mid-stream, and
clients go on by themselves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.client.helpers import times, until
from tests.e2e.helpers import STAGES
from tests.e2e.load import run

from inorder import Client
from inorder.client import worker_link
from inorder.errors import StoreError
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, PostgresServer, WorkerServer, free_port
from inorder_worker.store.sql_journal import SqlJournal

LEASE = 1.0


class Seat:
    """A worker, what clients reach it through, and what it reaches its store through (PostgreSQL)."""

    def __init__(self, store: str, name: str, options: Sequence[str]) -> None:
        self.store, self.name, self.options = store, name, options
        self.server: WorkerServer
        self.clients: FaultProxy
        self.database: FaultProxy | None = None

    @property
    def url(self) -> str:
        """Where clients and other workers reach it."""
        return f"127.0.0.1:{self.clients.port}"

    async def start(self, stack: AsyncExitStack) -> None:
        port, store = free_port(), self.store
        if found := re.search(r":(\d+)/", store):
            self.database = await stack.enter_async_context(FaultProxy(int(found[1])))
            store = store.replace(found[0], f":{self.database.port}/")
        self.clients = await stack.enter_async_context(FaultProxy(port))
        args = ["--name", self.name, "--advertise", self.url, *self.options]
        self.server = WorkerServer(store=store, port=port, args=args)
        await asyncio.to_thread(self.server.__enter__)
        stack.push_async_callback(asyncio.to_thread, self.server.__exit__, None, None, None)

    async def kill(self) -> None:
        """kill -9."""
        await asyncio.to_thread(self.server.kill)

    def says(self, event: str) -> bool:
        """Tell whether this stands in the log."""
        return f"event={event}" in self.server.log()


class Pool:
    """Workers that may all have each stage of a store; clients are given all of their addresses."""

    def __init__(self, store: str, stages: int, lease: float) -> None:
        self.store, self.options = store, ["--stages", str(stages), "--lease", str(lease)]
        self.seats: list[Seat] = []
        self._journal = SqlJournal(store)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start one more."""
        seat = Seat(self.store, f"worker-{len(self.seats)}", self.options)
        await seat.start(stack)
        self.seats.append(seat)

    async def address(self) -> str:
        """Return where the stage is now."""
        return (await asyncio.to_thread(self._journal.read_map))[0].address

    async def held(self) -> list[int]:
        """Return how many stages each worker that runs has; nothing before there is a store."""
        try:
            holders = await asyncio.to_thread(self._journal.read_map)
        except StoreError:
            return []
        addresses = [each.address for each in holders if each.owner]
        return [addresses.count(each.url) for each in self.seats if each.server.is_running]

    async def spread(self, *wanted: int) -> None:
        """Wait until the workers that run have so many stages, in any order."""
        async with asyncio.timeout(30):
            while sorted(await self.held()) != sorted(wanted):  # noqa: ASYNC110 (the store announces nothing)
                await asyncio.sleep(0.02)

    async def active(self) -> Seat:
        """Return the worker that has the only stage."""
        address = await self.address()
        return next(each for each in self.seats if each.url == address)

    async def taken_over(self, before: Seat) -> None:
        """Wait until another worker has the stage."""
        async with asyncio.timeout(30):
            while await self.address() == before.url:  # noqa: ASYNC110 (the store announces nothing)
                await asyncio.sleep(0.02)

    async def client(self, stack: AsyncExitStack, broker: str, name: str, at: int) -> Client:
        """Return an open client that tries the workers in another order than others."""
        urls = [each.url for each in self.seats]
        clock = times(gap_timeout=0.3, loss_timeout=5.0, heartbeat=0.5)
        workers = urls[at % len(urls) :] + urls[: at % len(urls)]
        return await stack.enter_async_context(Client(broker, workers=workers, client_id=name, times=clock))


@asynccontextmanager
async def pool(store: str, count: int, stages: int = 1, lease: float = LEASE) -> AsyncIterator[Pool]:
    made = Pool(store, stages, lease)
    async with AsyncExitStack() as stack:
        stack.callback(made._journal.close)
        for _ in range(count):
            await made.start(stack)
        yield made


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    monkeypatch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
    monkeypatch.setenv("INORDER_WORKER__BEAT_INTERVAL", "0.1")
    monkeypatch.setenv("INORDER_WORKER__SNAPSHOT_ROWS", "50")
    return [unique("standby") for _ in range(3)]


async def test_the_active_worker_is_killed_twice(mosquitto: Mosquitto, store: str, names: Sequence[str]) -> None:
    """Two standbys bear two crashes; each time another one goes on."""
    async with pool(store, 3) as workers:

        async def kill(_: int) -> None:
            active = await workers.active()
            await active.kill()
            await workers.taken_over(active)

        await run(workers, mosquitto.url, names, [0, 1], kill, pause=0.01)


async def test_the_active_worker_stands_still_and_goes_on(
    mosquitto: Mosquitto, store: str, names: Sequence[str]
) -> None:
    """SIGSTOP beyond the lease, a standby takes over, SIGCONT: the old one steps down, and is a standby that takes over
    when the new one is killed."""
    async with pool(store, 2) as workers:

        async def stand_still(_: int) -> None:
            old = await workers.active()
            os.kill(old.server.pid, signal.SIGSTOP)
            try:
                await workers.taken_over(old)
            finally:
                os.kill(old.server.pid, signal.SIGCONT)
            await until(lambda: old.says("stepped_down") or not old.server.is_running, "the old owner to step down")
            if not old.server.is_running:  # SQLite, and it stood still in the middle of a write
                await asyncio.to_thread(old.server.start)

        async def kill(_: int) -> None:
            new = await workers.active()
            await new.kill()
            await workers.taken_over(new)

        trouble = [stand_still, kill]
        await run(workers, mosquitto.url, names, [0, 1], lambda at: trouble[at](at), pause=0.01)


async def test_clients_go_over_from_a_worker_that_stands_still(
    mosquitto: Mosquitto, store: str, names: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays as it is, and they never give it up: the other one tells that it has the stage."""
    monkeypatch.setattr(worker_link, "HALVES", 10**9)
    async with pool(store, 2) as workers:
        stopped: list[Seat] = []

        async def stand_still(_: int) -> None:
            stopped.append(await workers.active())
            os.kill(stopped[0].server.pid, signal.SIGSTOP)
            await workers.taken_over(stopped[0])

        try:
            await run(workers, mosquitto.url, names, [0], stand_still, pause=0.01)
        finally:
            for each in stopped:
                await each.kill()


@pytest.mark.parametrize(
    "cut_from", ["both", *(pytest.param(part, marks=pytest.mark.long) for part in ("store", "clients"))]
)
async def test_the_active_worker_is_cut_off(
    mosquitto: Mosquitto, postgres: PostgresServer, names: Sequence[str], cut_from: str
) -> None:
    """Networks that carry nothing for longer than the lease. Cut from the store it loses its stage, whoever still
    reaches it; cut from clients alone it keeps it, and they wait."""
    lease = 3 * LEASE if cut_from == "clients" else LEASE  # so that nobody is suspected because the machine is busy
    async with pool(postgres.database(), 2, lease=lease) as workers:

        async def partition(_: int) -> None:
            old = await workers.active()
            assert old.database is not None
            stalled = [old.database] * (cut_from != "clients") + [old.clients] * (cut_from != "store")
            for each in stalled:
                each.stall()
            if cut_from == "clients":
                await asyncio.sleep(1.5 * lease)
                assert await workers.active() is old
            else:
                await workers.taken_over(old)
            for each in stalled:
                await each.heal()
            if cut_from != "clients":
                await until(lambda: old.says("stepped_down"), "the old owner to step down")

        await run(workers, mosquitto.url, names, [0], partition, pause=0.01)


async def test_workers_share_the_stages_while_they_come_and_go(
    mosquitto: Mosquitto, postgres: PostgresServer, topics: Sequence[str]
) -> None:
    """Three stages under load: a third worker joins and is handed one; then one is killed."""
    async with AsyncExitStack() as stack, pool(postgres.database(), 2, STAGES) as workers:

        async def join() -> None:
            await workers.start(stack)
            await workers.spread(1, 1, 1)

        async def kill() -> None:
            await workers.seats[1].kill()
            await workers.spread(2, 1)

        await workers.spread(2, 1)
        trouble = [join, kill]
        await run(workers, mosquitto.url, topics, range(len(trouble)), lambda at: trouble[at](), pause=0.02)
