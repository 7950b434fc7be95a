"""Three workers with one stage each, as processes of their own over one store, and real brokers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.client.helpers import PATIENCE, take_events, times
from tests.client.recorder import Recorder
from tests.e2e.helpers import SHORT_ON_POSTGRESQL, STAGES, assert_one_order
from tests.e2e.load import run

from inorder import Client, Receipt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, PostgresServer, WorkerServer, free_port


class Workers:
    """One worker for each stage. Everybody reaches them through proxies only.

    Attributes:
        servers, proxies: by stage.
    """

    def __init__(self) -> None:
        self.servers: list[WorkerServer] = []
        self.proxies: list[FaultProxy] = []

    async def kill(self, stage: int) -> None:
        """kill -9, and a new start on the same store."""
        await asyncio.to_thread(self.servers[stage].kill)
        await asyncio.to_thread(self.servers[stage].start)

    async def cut(self, stage: int) -> None:
        """Reset all connections to a worker, and refuse new ones for a while."""
        self.proxies[stage].cut()
        self.proxies[stage].refuse()
        await asyncio.sleep(0.1)
        await self.proxies[stage].heal()

    async def client(self, stack: AsyncExitStack, broker: str, name: str, stage: int) -> Client:
        """Return an open client that was given the address of one worker only."""
        clock = times(gap_timeout=0.3, loss_timeout=5.0, heartbeat=1.0)
        address = f"127.0.0.1:{self.proxies[stage].port}"
        return await stack.enter_async_context(Client(broker, workers=[address], client_id=name, times=clock))


@asynccontextmanager
async def three_workers(store: str) -> AsyncIterator[Workers]:
    workers = Workers()
    async with AsyncExitStack() as stack:
        for stage in range(STAGES):
            port = free_port()
            proxy = await stack.enter_async_context(FaultProxy(port))
            args = ["--stages", str(STAGES), "--stage", str(stage), "--name", f"stage-{stage}"]
            args += ["--advertise", f"127.0.0.1:{proxy.port}"]
            server = WorkerServer(store=store, port=port, args=args)
            workers.servers.append(server)
            workers.proxies.append(proxy)
            await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
        yield workers


async def test_one_order_across_three_workers(mosquitto: Mosquitto, store: str, topics: list[str]) -> None:
    async with three_workers(store) as workers:
        await run(workers, mosquitto.url, topics, [], workers.kill)


@SHORT_ON_POSTGRESQL
async def test_workers_are_killed_in_mid_stream(mosquitto: Mosquitto, store: str, topics: list[str]) -> None:
    """kill -9 of each in turn, the top one, the middle one and the bottom one."""
    async with three_workers(store) as workers:
        await run(workers, mosquitto.url, topics, [0, 1, 2], workers.kill)


@SHORT_ON_POSTGRESQL
@pytest.mark.long
async def test_links_are_cut_in_mid_stream(mosquitto: Mosquitto, store: str, topics: list[str]) -> None:
    """Connections to each worker are reset, of clients and of other workers."""
    async with three_workers(store) as workers:
        await run(workers, mosquitto.url, topics, [0, 1, 2], workers.cut)


async def test_a_silent_worker_holds_back_only_what_needs_it(
    mosquitto: Mosquitto, postgres: PostgresServer, topics: list[str]
) -> None:
    """B59: the middle worker is silent for a while, then goes on; then it dies, and another one gets its stage. What
    does not pass it never waits for it, and its own topics, which are idle, hold nobody back. (On SQLite a worker may
    be stopped while it has the lock of the file.)"""
    store = postgres.database()
    top, bottom = topics[0], topics[-1]
    recorder = Recorder()
    async with asyncio.timeout(2 * PATIENCE), three_workers(store) as workers, AsyncExitStack() as stack:
        readers = [await workers.client(stack, mosquitto.url, unique("reader"), at) for at in (0, 2)]
        for each in readers:
            await recorder.subscribe(each, top, bottom)
        above, below = [await workers.client(stack, mosquitto.url, unique("writer"), at) for at in (0, 2)]
        await asyncio.gather(*_some(recorder, above, top, "a"), *_some(recorder, below, bottom, "b"))

        os.kill(workers.servers[1].pid, signal.SIGSTOP)
        waiting = _some(recorder, below, bottom, "c")
        await asyncio.gather(*_some(recorder, above, top, "d"))
        assert not any(each.done() for each in waiting)
        os.kill(workers.servers[1].pid, signal.SIGCONT)
        await asyncio.gather(*waiting)

        await asyncio.to_thread(workers.servers[1].kill)
        waiting = _some(recorder, below, bottom, "e")
        await asyncio.gather(*_some(recorder, above, top, "f"))
        assert not any(each.done() for each in waiting)
        other = WorkerServer(store=store, args=["--stages", str(STAGES), "--stage", "1", "--name", "another"])
        await asyncio.to_thread(other.start)
        stack.push_async_callback(asyncio.to_thread, other.close)
        await asyncio.gather(*waiting)

        seen = [await take_events(each, 60) for each in readers]
        for reader, taken in zip(readers, seen, strict=True):
            recorder.took(reader, taken)
        assert recorder.violations() == []
        assert_one_order(*seen)


def _some(recorder: Recorder, client: Client, topic: str, name: str) -> list[asyncio.Future[Receipt]]:
    return [recorder.publish(client, topic, f"{name}{at}".encode()) for at in range(10)]
