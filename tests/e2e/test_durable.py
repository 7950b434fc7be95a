"""A durable subscriber that is killed and started again, on real brokers and stores (R18)."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.helpers import PATIENCE, events_of, take_events, until
from tests.client.recorder import Recorder
from tests.e2e.helpers import client

from inorder import Client, Event, Verdict
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto, WorkerServer

EVENTS, KILLS = 300, 3


@dataclass(slots=True)
class Desk:
    """``inorder sub --durable`` in a process of its own, again and again."""

    broker: Mosquitto
    worker: WorkerServer
    topics: list[str]
    client_id: str = "desk"
    _tracing: Any = field(default_factory=lambda: SimpleNamespace(_mode="strict"))
    runs: list[list[Event]] = field(default_factory=list)
    process: Any = None
    reading: Any = None

    async def start(self) -> None:
        command = [
            "-m", "inorder", "sub", *self.topics, "--durable", "--client-id", self.client_id, "--qos", "1", "--json",
            "--broker", self.broker.url, "--worker", self.worker.url,
        ]  # fmt: skip
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        self.runs.append([])
        self.reading = asyncio.create_task(self._read(self.process.stdout, self.runs[-1]))
        line = await asyncio.wait_for(self.process.stderr.readline(), PATIENCE)
        assert b"subscribed" in line, line

    async def _read(self, stdout: asyncio.StreamReader, run: list[Event]) -> None:
        async for line in stdout:
            shown = json.loads(line)
            assert shown["type"] == "event", shown
            run.append(
                Event(
                    shown["space"], shown["topic"], shown["payload"].encode(), Verdict(shown["verdict"]),
                    shown["number"], redelivered=shown["redelivered"], repaired=shown["repaired"],
                )
            )  # fmt: skip

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        await self.reading

    @property
    def seen(self) -> set[bytes]:
        return {each.payload for run in self.runs for each in run}


async def test_killed_and_started_again_it_misses_nothing(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 three times while events flow, the worker killed once as well: history and live events merge into the
    order that another subscriber sees; everything comes at least once, and what may be a repetition says so."""
    topics = [unique("logged/a"), unique("logged/b")]
    monkeypatch.setenv("INORDER_WORKER__LOG_TOPICS", "mqtt:logged/#")
    monkeypatch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
    recorder = Recorder()
    with Mosquitto(max_queued=0) as broker, WorkerServer(store=store) as worker:
        desk = Desk(broker, worker, topics)
        async with client(broker.url, worker, "witness") as witness, client(broker.url, worker, "p") as publisher:
            await recorder.subscribe(witness, *topics, qos=1)
            await desk.start()
            publishing = asyncio.create_task(publish(recorder, publisher, topics))
            for at in range(KILLS):
                await until(lambda at=at: len(desk.seen) > at * EVENTS // 5, "events at the desk")  # type: ignore[misc]
                await desk.kill()
                if at == 1:
                    await asyncio.to_thread(worker.kill)
                    await asyncio.to_thread(worker.start)
                await asyncio.sleep(0.1)  # it misses something
                await desk.start()
            await asyncio.wait_for(publishing, 2 * PATIENCE)
            seen = await take_events(witness, EVENTS)
            recorder.took(witness, seen)
            order = [each.payload for each in events_of(seen)]
            await until(lambda: desk.seen >= set(order), "the rest at the desk")
            await desk.kill()
            judged: Any = desk
            for at, run in enumerate(desk.runs):
                if at:
                    recorder.history.subscriber("desk", "strict").resume({})
                recorder.took(judged, run)
        assert recorder.violations() == []
    assert len(order) == EVENTS
    place = {payload: at for at, payload in enumerate(order)}
    before: set[bytes] = set()
    for run in desk.runs:
        places = [place[each.payload] for each in run]
        assert places == sorted(set(places)), "one order, and nothing twice in one process"
        assert {each.verdict for each in run} <= {Verdict.IN_ORDER}
        assert [each.payload for each in run if each.payload in before and not each.redelivered] == []
        before |= {each.payload for each in run}
    assert any(each.repaired for run in desk.runs for each in run)


async def publish(recorder: Recorder, publisher: Client, topics: list[str]) -> None:
    futures = []
    for at in range(EVENTS):
        futures.append(recorder.publish(publisher, topics[at % 2], b"%d" % at, qos=1))
        await asyncio.sleep(0.02)
    await asyncio.gather(*futures)
