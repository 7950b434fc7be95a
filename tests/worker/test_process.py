"""A real worker process on a real store: kill -9 in mid-stream, SIGTERM, a stage taken over, both stores."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker.helpers import settings
from tests.worker.processes import WorkerProcess, connected
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import CreateTimestamps, NewEvent, StampedEvent, Timestamps
from inorder.testing.services import FaultProxy, PostgresServer
from inorder_worker.service import Worker
from inorder_worker.store.sql_journal import SqlJournal


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/inorder.db"
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        yield postgres.database()


async def test_kill_9_in_mid_stream(store: str) -> None:
    """No number twice; a counter asked for again gets the number it had; and numbers go on without a hole."""
    answered: dict[int, StampedEvent] = {}
    asked = 0
    with WorkerProcess(store, snapshot_rows=20) as worker:
        for _ in range(4):
            async with connected(worker) as client:
                topic, *_ = await client.resolve("a")
                known = dict(answered)
                if asked:
                    for event in await client.create(topic, *range(1, asked + 1)):
                        answered.setdefault(event.counter, event)
                        assert answered[event.counter] == event
                assert known.items() <= answered.items()
                target = len(answered) + 150
                while len(answered) < target:
                    client.send(CreateTimestamps(0, 1, [NewEvent(c, topic.id) for c in range(asked + 1, asked + 11)]))
                    asked += 10
                    if asked - len(answered) > 50:
                        for event in (await client.next(Timestamps)).events:
                            answered[event.counter] = event
                worker.end(signal.SIGKILL)
                with contextlib.suppress(EOFError, ConnectionError):
                    while True:
                        for event in (await client.next(Timestamps)).events:
                            answered[event.counter] = event
            worker.start()
        async with connected(worker) as client:
            final = await client.create(topic, *range(1, asked + 1))
    assert {event.counter: event for event in final}.items() >= answered.items()
    assert sorted(event.number for event in final) == list(range(1, asked + 1))
    assert [event.number for event in final] == sorted(event.number for event in final)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    with WorkerProcess(f"sqlite:///{tmp_path}/inorder.db", token="hunter2") as worker:
        async with connected(worker, "hunter2") as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            code = asyncio.create_task(asyncio.to_thread(worker.end, number))
            assert (await client.failure()).code == "stopping"
        assert await code == 0
        assert loop.time() - began < 5
    assert re.search(r"event=started worker=process address=127\.0\.0\.1:\d+ store=sqlite", worker.log)
    assert "event=stopped worker=process" in worker.log
    assert "hunter2" not in worker.log


async def test_a_process_whose_stage_was_taken_over_is_a_standby(store: str) -> None:
    """The fence, over a real store: the old owner writes nothing, says so, and goes on without the stage."""
    with WorkerProcess(store, beat_interval=0, lease=60.0) as worker:
        async with connected(worker) as client:
            topic, *_ = await client.resolve("a")
            journal = SqlJournal(store)
            journal.open(1)
            journal.claim(0, "another")
            rows = len(list(journal.replay(0, 0)))
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            assert (await client.failure()).code == "moved"
            assert len(list(journal.replay(0, 0))) == rows
            journal.close()
        assert worker.end(signal.SIGTERM) == 0
        assert "event=stepped_down" in worker.log
        assert "was taken over by another worker" in worker.log


async def test_a_store_that_went_away_and_came_back() -> None:
    """PostgreSQL restarts under a running worker: clients are told, the process lives, no number is lost."""
    with PostgresServer() as server, WorkerProcess(server.database(), store_timeout=0.5, retry_max=0.1) as worker:
        async with connected(worker) as client:
            topic, *_ = await client.resolve("a")
            before = await client.create(topic, 1, 2, 3)
            server.kill()
            client.send(CreateTimestamps(0, 1, [NewEvent(4, topic.id)]))
            failure = await client.failure()
            assert failure.code == "store"
        server.start()
        async with connected(worker) as client:
            after = await client.create(topic, 1, 2, 3, 4)
        assert after[:3] == before
        assert [event.number for event in after] == [1, 2, 3, 4]
        assert worker.end(signal.SIGTERM) == 0


async def test_a_stop_does_not_wait_for_a_store_that_says_nothing() -> None:
    """A stalled network between worker and PostgreSQL: the clean stop gives up in time."""
    with PostgresServer() as server:
        async with FaultProxy(server.port) as proxy:
            url = server.database().replace(f":{server.port}/", f":{proxy.port}/")
            options = settings(store=url, stop_timeout=0.2, write_timeout=0.2, store_timeout=60.0)
            async with Worker(options) as worker, RawClient(worker.address) as client:
                topic, *_ = await client.resolve("a")
                proxy.stall()
                client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
                await client.writer.drain()
                began = asyncio.get_running_loop().time()
                worker.stop()
                await worker.wait_stopped()
                assert asyncio.get_running_loop().time() - began < 10


def test_without_sqlalchemy_the_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from inorder.errors import MissingExtra\n"
        "try:\n    import inorder_worker.service\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "the worker needs an optional part: pip install 'inorder[worker]'" in done.stdout
