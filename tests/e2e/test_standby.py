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
from tests.e2e.load import run

from inorder import Client
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, PostgresServer, WorkerServer, free_port
from inorder.worker.sql_journal import SqlJournal

LEASE = 1.0


class Seat:
    """A worker, what clients reach it through, and what it reaches its store through (PostgreSQL)."""

    def __init__(self, store: str, name: str) -> None:
        self.store, self.name = store, name
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
        args = ["--name", self.name, "--lease", str(LEASE), "--advertise", self.url]
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
    """Workers that may all have the only stage of a store; clients are given all of their addresses."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.seats: list[Seat] = []
        self._journal = SqlJournal(store)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start one more."""
        seat = Seat(self.store, f"worker-{len(self.seats)}")
        await seat.start(stack)
        self.seats.append(seat)

    async def address(self) -> str:
        """Return where the stage is now."""
        return (await asyncio.to_thread(self._journal.read_map))[0].address

    async def active(self) -> Seat:
        """Return the worker that has the stage."""
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
async def pool(store: str, count: int) -> AsyncIterator[Pool]:
    made = Pool(store)
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

        await run(workers, mosquitto.url, names, [0, 1], kill)


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
        await run(workers, mosquitto.url, names, [0, 1], lambda at: trouble[at](at))


@pytest.mark.parametrize("cut_from", ["store", "clients", "both"])
async def test_the_active_worker_is_cut_off(
    mosquitto: Mosquitto, postgres: PostgresServer, names: Sequence[str], cut_from: str
) -> None:
    """Networks that carry nothing for longer than the lease. Cut from the store it loses its stage, whoever still
    reaches it; cut from clients alone it keeps it, and they wait."""
    async with pool(postgres.database(), 2) as workers:

        async def partition(_: int) -> None:
            old = await workers.active()
            assert old.database is not None
            stalled = [old.database] * (cut_from != "clients") + [old.clients] * (cut_from != "store")
            for each in stalled:
                each.stall()
            if cut_from == "clients":
                await asyncio.sleep(2 * LEASE)
                assert await workers.active() is old
            else:
                await workers.taken_over(old)
            for each in stalled:
                await each.heal()
            if cut_from != "clients":
                await until(lambda: old.says("stepped_down"), "the old owner to step down")

        await run(workers, mosquitto.url, names, [0, 1], partition)
