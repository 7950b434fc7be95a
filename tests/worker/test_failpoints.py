"""A real worker killed, stopped or made to fail before and after each durable step: what was acknowledged stays, and no
number is issued twice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.worker.helpers import settings, until
from tests.worker.processes import WorkerProcess, connected
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption
from inorder.protocol.names import exact
from inorder.protocol.wire import (
    AskNumbers,
    ClusterMap,
    CreateTimestamps,
    Failure,
    Frame,
    NewEvent,
    Numbers,
    NumberState,
    Settle,
    Settled,
    SpaceFilter,
    StageInfo,
    StampedEvent,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
)
from inorder.testing.services import PostgresServer, wait_until
from inorder_worker.service import Worker
from inorder_worker.store import failpoints
from inorder_worker.store.failpoints import POINTS
from inorder_worker.store.journal import Batch
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.verification import verify

F = TypeVar("F", bound=Frame)
ROUNDS = 80
"""More than any failpoint here waits for."""
SETTINGS: dict[str, Any] = {"stages": 2, "topic_order": [["s:top"], ["s:low"]], "snapshot_rows": 10, "retry_max": 0.05}


async def next_frame(client: RawClient, kind: type[F]) -> F:
    """Return the next frame of this kind. A Failure is the end of the connection, too."""
    while not isinstance(frame := await client.read(), kind):
        if isinstance(frame, Failure):
            raise ConnectionAbortedError(frame.message)
    return frame


class History:
    """What a client was told, over all its connections, and what it asked for."""

    def __init__(self) -> None:
        self.asked: dict[int, TopicInfo] = {}
        self.answered: dict[int, StampedEvent] = {}
        self.confirmed: set[tuple[int, int]] = set()
        self.taken: list[StampedEvent] = []
        self.checks = 0

    async def write(self, client: RawClient, rounds: int) -> None:
        """Ask for a number in each topic and confirm them, until so many rounds are over. Raises what ends the
        connection. Two subscribers of both topics make timestamps ride from stage to stage."""
        for name in ("reader", "other"):
            async with RawClient(client.address, name) as reader:
                reader.send(Subscribe(1, [SpaceFilter("s", exact(topic)) for topic in ("top", "low")]))
                await next_frame(reader, Subscribed)
        topics = await client.resolve("top", "low")
        for counter in itertools.count(len(self.asked) + 1, 2):
            if counter > 2 * rounds:
                return
            for offset, topic in enumerate(topics):
                self.asked[counter + offset] = topic
                client.send(CreateTimestamps(topic.stage, 1, [NewEvent(counter + offset, topic.id)]))
            while not {counter, counter + 1} <= self.answered.keys():
                self._take(await next_frame(client, Timestamps))
            for topic, event in zip(topics, (self.answered[counter], self.answered[counter + 1]), strict=True):
                client.send(Settle(topic.stage, counter, [topic.id, event.number, event.number]))
            for _ in topics:
                await next_frame(client, Settled)
            self.confirmed |= {(self.answered[c].topic, self.answered[c].number) for c in (counter, counter + 1)}

    def _take(self, frame: Timestamps) -> None:
        for event in frame.events:
            assert self.answered.setdefault(event.counter, event) == event

    async def check(self, client: RawClient) -> None:
        """Everything asked again: the same answers, each number once, none left out, and what was confirmed is. Another
        client asks first: it would get numbers that were answered and forgotten."""
        self.checks += 1
        async with RawClient(client.address, "other writer", self.checks) as other:
            for topic in set(self.asked.values()):
                self.taken += await other.create(topic, 1, 2)
        for counter, topic in self.asked.items():
            client.send(CreateTimestamps(topic.stage, 1, [NewEvent(counter, topic.id)]))
        final: dict[int, StampedEvent] = {}
        while final.keys() != self.asked.keys():
            frame = await next_frame(client, Timestamps)
            assert not frame.forgotten
            final.update((event.counter, event) for event in frame.events)
        assert final.items() >= self.answered.items()
        for topic in set(self.asked.values()):
            numbers = sorted(event.number for event in [*final.values(), *self.taken] if event.topic == topic.id)
            assert numbers == list(range(1, len(numbers) + 1))
            client.send(AskNumbers(1, topic.stage, topic.id, [1, len(numbers)]))
            states = {answer.number: answer.state for answer in (await next_frame(client, Numbers)).answers}
            kept = {number for at, number in self.confirmed if at == topic.id}
            assert {number for number, state in states.items() if state == NumberState.CONFIRMED} >= kept


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inorder.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


async def write_until_it_breaks(worker: WorkerProcess, history: History) -> None:
    """Returns also if the worker never was ready."""
    while worker.is_running:
        try:
            async with RawClient(worker.address) as client:
                await history.write(client, ROUNDS)
                raise AssertionError("the failpoint was not reached")
        except (OSError, EOFError):
            await asyncio.sleep(0.01)


# A snapshot is due every few rounds, a claim comes once for each stage at the start; of the others some pass first.
PASSES = {"snapshot": 3, "compaction": 2, "claim": 2, "commit": 40, "append": 40, "answers": 40, "rides": 30}
# The steps above the store are the same on both; a few places show that the store's are, too.
ON_POSTGRESQL = {"append.before", "commit.before", "commit.after", "snapshot.after", "compaction.after", "claim.after"}


def places(*without: str) -> list[Any]:
    return [
        pytest.param(store, point, id=f"{store}-{point}")
        for point in sorted(POINTS)
        for store in ("sqlite", "postgresql")
        if point.partition(".")[0] not in without and (store == "sqlite" or point in ON_POSTGRESQL)
    ]


@pytest.mark.parametrize(("store", "point"), places(), indirect=["store"])
async def test_killed_at_each_step(store: str, point: str) -> None:
    history = History()
    with WorkerProcess(store, f"{point}=kill@{PASSES[point.partition('.')[0]]}", **SETTINGS) as worker:
        await write_until_it_breaks(worker, history)
        assert worker.end(None) == -signal.SIGKILL, worker.log
        if not point.startswith("claim"):
            assert len(history.confirmed) >= 4
        assert verify(store).problems == []
        worker.start()
        async with connected(worker) as client:
            await history.check(client)
            await history.write(client, len(history.asked) // 2 + 5)
            await history.check(client)
        assert worker.end(signal.SIGTERM) == 0, worker.log
    assert verify(store).problems == []


@pytest.mark.parametrize(("store", "point"), places("claim"), indirect=["store"])
async def test_a_step_that_fails_is_made_good_without_a_restart(store: str, point: str) -> None:
    """Also when the recovery itself fails once."""
    history = History()
    armed = f"{point}=error@{PASSES[point.partition('.')[0]]},claim.before=error@3,claim.after=error@3"
    with WorkerProcess(store, armed, **SETTINGS) as worker:
        for _ in range(3):
            async with connected(worker) as client:
                with contextlib.suppress(EOFError, OSError):
                    await history.write(client, len(history.asked) // 2 + 25)
        async with connected(worker) as client:
            await history.check(client)
        assert worker.end(signal.SIGTERM) == 0, worker.log
    assert f"event=failpoint point={point}\n" in worker.log
    assert verify(store).problems == []


NOTHING = msgspec.msgpack.encode([])
"""A row without commands, which whoever follows can read."""


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
async def test_an_owner_that_stood_still_writes_nothing_afterwards(store: str) -> None:
    """All of the process is stopped on its way into an append, somebody else takes the stage, and it goes on."""
    with WorkerProcess(store, "append.before=stop@4", beat_interval=0, lease=60.0) as worker:
        async with connected(worker) as client:
            topic, *_ = await client.resolve("a")
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            await client.writer.drain()
            state = Path(f"/proc/{worker.pid}/stat")
            wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", what="the worker to stand still")
            journal = SqlJournal(store)
            journal.open(1)
            epoch = journal.claim(0, "another")
            seq = max(row.seq for row in journal.replay(0, 0))
            journal.append([Batch(0, epoch, seq + 1, NOTHING)])
            os.kill(worker.pid, signal.SIGCONT)
            assert (await client.failure()).code == "moved"
            assert [row.entries for row in journal.replay(0, seq)] == [NOTHING]
            journal.close()
        assert worker.end(signal.SIGTERM) == 0, worker.log
        assert "was taken over by another worker" in worker.log


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
async def test_an_owner_that_stands_still_inside_a_transaction_does_not_keep_the_store(store: str) -> None:
    """It holds the lock that its successor needs. On SQLite it is killed for that, on PostgreSQL the server ends its
    transaction; nobody else's process is touched."""
    quick = {"beat_interval": 0.05, "lease": 0.5}
    with WorkerProcess(store, "commit.before=stop@6", **quick) as owner:  # a beat: nothing else is written
        stat = Path(f"/proc/{owner.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", what="the owner to stand still")
        async with Worker(settings(store=store, store_timeout=5.0, **quick)) as successor:
            await until(lambda: successor.state == "active")
            async with RawClient(successor.address) as client:
                topic, *_ = await client.resolve("a")
                assert [each.number for each in await client.create(topic, 1)] == [1]
            if store.startswith("sqlite"):
                assert owner.end(None) == -signal.SIGKILL
                return
            os.kill(owner.pid, signal.SIGCONT)
            async with connected(owner) as client:
                client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
                assert (await client.next(ClusterMap)).stages == [StageInfo(0, 2, successor.address)]
            assert owner.end(signal.SIGTERM) == 0
            assert "event=stepped_down" in owner.log


@pytest.mark.parametrize("point", ["rides.before", "rides.after", "append.before", "append.after"])
async def test_the_worker_above_killed_while_rides_are_under_way(tmp_path: Path, point: str) -> None:
    """Two processes with a stage each: the one above is gone before or after it said that a ride is durable. Its
    rides come again, and none counts twice; the client below sees a pause."""
    url = f"sqlite:///{tmp_path}/inorder.db"
    below = WorkerProcess(url, **SETTINGS, hosted=[1])
    with WorkerProcess(url, armed=f"{point}=kill@12", **SETTINGS, hosted=[0]) as above, below:
        restarted = asyncio.create_task(asyncio.to_thread(end_and_start, above))
        async with connected(below) as client:
            for name in ("reader", "other"):
                async with RawClient(below.address, name) as reader:
                    await reader.subscribe("top", "low")
            _, low = await client.resolve("top", "low")
            answered = [(await client.create(low, counter))[0] for counter in range(1, 41)]
            assert await restarted == -signal.SIGKILL
            assert [event.number for event in answered] == list(range(1, 41))
            assert await client.create(low, *range(1, 41)) == answered
        assert below.end(signal.SIGTERM) == above.end(signal.SIGTERM) == 0
    assert verify(url).problems == []


def end_and_start(worker: WorkerProcess) -> int:
    """Wait for the end of a worker, and start it again; return how it ended."""
    code = worker.end(None)
    worker.start()
    return code


# -- the failpoints themselves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["append=kill", "append.before", "append.before=explode", "append.before=kill@x"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    try:
        with pytest.raises(InvalidOption, match="INORDER_FAILPOINTS"):
            failpoints.arm(text)
    finally:
        failpoints.arm("")


def test_they_are_off_by_default() -> None:
    environment = {name: value for name, value in os.environ.items() if name != failpoints.VARIABLE}
    code = "from inorder_worker.store import failpoints; print(failpoints._armed)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"


def test_each_place_is_in_the_code() -> None:
    """And nowhere is one reached that cannot be armed."""
    sources = Path(failpoints.__file__).parents[1].rglob("*.py")
    reached = {name for path in sources for name in re.findall(r'reach\("([a-z.]+)"\)', path.read_text())}
    assert reached == POINTS
