"""Standbys, as processes of their own over one store: the active worker is killed or stands still in mid-stream, and
clients go on by themselves."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.client.helpers import times, until
from tests.e2e.load import run

from inorder import Client
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto, WorkerServer, free_port
from inorder.worker.journal import Holder
from inorder.worker.sql_journal import SqlJournal

LEASE = 1.0


class Pool:
    """Workers that may all have the only stage of a store; clients know all of their addresses.

    Attributes:
        servers: the workers.
        paused: those that stand still.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self.servers: list[WorkerServer] = []
        self._journal = SqlJournal(store)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start one more."""
        args = ["--name", f"worker-{len(self.servers)}", "--lease", str(LEASE)]
        server = WorkerServer(store=self.store, port=free_port(), args=args)
        self.servers.append(server)
        await asyncio.to_thread(server.__enter__)
        stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)

    async def holder(self) -> Holder:
        """Return who has the stage now."""
        return (await asyncio.to_thread(self._journal.read_map))[0]

    async def active(self) -> WorkerServer:
        """Return the worker that has the stage."""
        holder = await self.holder()
        return next(each for each in self.servers if each.url == holder.address)

    async def taken_over(self, before: WorkerServer) -> None:
        """Wait until another worker has the stage."""
        async with asyncio.timeout(30):
            while (await self.holder()).address == before.url:  # noqa: ASYNC110 (the store announces nothing)
                await asyncio.sleep(0.02)

    async def client(self, stack: AsyncExitStack, broker: str, name: str, at: int) -> Client:
        """Return an open client that tries the workers in another order than others."""
        urls = [each.url for each in self.servers]
        clock = times(gap_timeout=0.3, loss_timeout=5.0, heartbeat=0.5)
        workers = urls[at % len(urls) :] + urls[: at % len(urls)]
        return await stack.enter_async_context(Client(broker, workers=workers, client_id=name, times=clock))


@asynccontextmanager
async def pool(store: str, count: int) -> AsyncIterator[Pool]:
    made = Pool(store)
    async with AsyncExitStack() as stack:
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
            await asyncio.to_thread(active.kill)
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
            os.kill(old.pid, signal.SIGSTOP)
            try:
                await workers.taken_over(old)
            finally:
                os.kill(old.pid, signal.SIGCONT)
            await until(lambda: "event=stepped_down" in old.log() or not old.is_running, "the old owner to step down")
            if not old.is_running:  # SQLite, and it stood still in the middle of a write
                await asyncio.to_thread(old.start)

        async def kill(_: int) -> None:
            new = await workers.active()
            await asyncio.to_thread(new.kill)
            await workers.taken_over(new)

        trouble = [stand_still, kill]
        await run(workers, mosquitto.url, names, [0, 1], lambda at: trouble[at](at))
