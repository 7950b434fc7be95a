"""The HTTP port: health, metrics, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.worker.helpers import PATIENCE, TestJournal, disk_full, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption, PortInUse, StoreRefused, StoreUnreachable
from inorder.protocol.wire import (
    AskNumbers,
    CreateTimestamps,
    NewEvent,
    Numbers,
    Resolve,
    Settle,
    Settled,
    encode_frame,
)
from inorder_worker.service import Worker, WorkerSettings
from inorder_worker.service.exposition import METRICS, TOPIC_METRICS
from inorder_worker.service.monitor import MAX_CONNECTIONS, PATHS
from inorder_worker.store.journal import MemoryJournal, MemoryStore

OPERATIONS = Path(__file__).parents[2] / "docs" / "OPERATIONS.md"
HTTP: dict[str, Any] = {"http_port": 0}


async def exchange(worker: Worker, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request as it is; return status, headers and body, once the worker has closed."""
    host, _, port = worker.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENCE):
        writer.write(request)
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), dict(line.lower().split(": ", 1) for line in lines), body


async def get(worker: Worker, path: str) -> tuple[int, bytes]:
    status, headers, body = await exchange(worker, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert int(headers["content-length"]) == len(body)
    return status, body


async def ready(worker: Worker) -> tuple[int, dict[str, Any]]:
    status, body = await get(worker, "/health/ready")
    return status, json.loads(body)


async def families(worker: Worker, path: str = "/metrics") -> dict[str, Metric]:
    status, body = await get(worker, path)
    assert status == 200
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


async def samples(worker: Worker, path: str = "/metrics") -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, these in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in (await families(worker, path)).values()
        for sample in family.samples
    }


# -- metrics ---------------------------------------------------------------------------------------------------------


def documented() -> dict[str, tuple[str, tuple[str, ...], str]]:
    rows = re.findall(r"^\| `(inorder_\w+)` \| (\w+) \| ([^|]*)\| (.+) \|$", OPERATIONS.read_text(), re.MULTILINE)
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}


def test_the_document_lists_what_there_is() -> None:
    assert documented() == {each.name: (each.kind, each.labels, each.text) for each in (*METRICS, *TOPIC_METRICS)}


async def test_what_is_served_is_what_is_documented() -> None:
    """Names and types; the parser knows a counter by its name without ``_total``."""
    async with Worker(settings(**HTTP, stages=2), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        await client.create(topic, 1)
        served = {**await families(worker), **await families(worker, "/metrics/topics")}
    listed = {name.removesuffix("_total"): kind for name, (kind, _, _) in documented().items()}
    assert {name: family.type for name, family in served.items()} == listed
    for name, (_, labels, _) in documented().items():
        for sample in served[name.removesuffix("_total")].samples:
            assert set(sample.labels) - {"le"} == set(labels), name


async def test_metrics_count_what_happens() -> None:
    journal = TestJournal()
    options = settings(**HTTP, publisher_grace=0.01)
    async with Worker(options, journal=journal) as worker, RawClient(worker.address) as client:
        topic, other = await client.resolve("a", "b\n\"'")
        (first,) = await client.create(topic, 1)
        await client.confirm(first)
        (second,) = await client.create(topic, 2)
        client.send(Settle(0, 9, [], [topic.id, second.number, second.number]))
        await client.next(Settled)
        async with RawClient(worker.address, "gone") as gone:
            await gone.create(topic, 1, 2)
            await gone.create(other, 3)
        await until(lambda: worker._host.stage(0).tally.abandoned == 3)
        client.send(AskNumbers(1, 0, topic.id, [1, 3]))
        await client.next(Numbers)
        found = await samples(worker)
        topics = await samples(worker, "/metrics/topics")
        only = await samples(worker, "/metrics/topics?limit=1")
    assert found["inorder_ready",] == 1
    assert found["inorder_requests_total",] == found["inorder_timestamps_total",] == 5
    assert found["inorder_stage_numbers_total", "0"] == 5
    assert found["inorder_stage_void_total", "0"] == 1
    assert found["inorder_stage_confirmed_total", "0"] == 1
    assert found["inorder_stage_abandoned_total", "0"] == 3
    assert found["inorder_stage_pending_numbers", "0"] == 0
    assert found["inorder_gap_questions_total",] == 1
    assert found["inorder_stage_role", "active", "0"] == 1
    assert found["inorder_stage_epoch", "0"] == 1
    assert found["inorder_stage_topics", "0"] == 2
    assert found["inorder_sessions",] == found["inorder_connections",] == found["inorder_stage_sessions", "0"] == 1
    assert found["inorder_commit_seconds_count",] == found["inorder_commit_seconds_bucket", "+Inf"] >= 3
    assert topics["inorder_topic_numbers_total", "s", "0", "a"] == 4
    assert topics["inorder_topic_head", "s", "0", "a"] == 1
    assert topics["inorder_topic_numbers_total", "s", "0", "b\n\"'"] == 1
    assert {key[3] for key in only} == {"b\n\"'"}


async def test_a_late_confirmation_is_counted() -> None:
    async with (
        Worker(settings(**HTTP, confirm_timeout=0.05), journal=TestJournal()) as worker,
        RawClient(worker.address) as client,
    ):
        topic, *_ = await client.resolve("a")
        event, *_ = await client.create(topic, 1)
        await until(lambda: worker._host.stage(0).tally.abandoned == 1)
        assert (await client.confirm(event)).late == [topic.id, 1]
        assert (await samples(worker))["inorder_stage_late_confirmations_total", "0"] == 1


async def test_what_a_replay_does_again_is_not_counted_again() -> None:
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        await client.create(topic, 1, 2)
    async with Worker(settings(**HTTP), journal=TestJournal(journal.store)) as worker:
        found = await samples(worker)
        assert found["inorder_stage_numbers_total", "0"] == 0
        assert (await samples(worker, "/metrics/topics"))["inorder_topic_numbers_total", "s", "0", "a"] == 2


async def test_metrics_without_the_library(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The worker runs, its health is served, and metrics say what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    async with Worker(settings(**HTTP), journal=TestJournal()) as worker:
        assert (await ready(worker))[0] == 200
        status, body = await get(worker, "/metrics")
    assert status == 501
    assert "pip install 'inorder[worker]'" in json.loads(body)["error"]
    assert "event=no_metrics" in caplog.text


# -- health ----------------------------------------------------------------------------------------------------------


async def test_ready_from_start_to_stop() -> None:
    worker = Worker(settings(**HTTP), journal=TestJournal())
    await worker._monitor.start()
    try:
        status, facts = await ready(worker)
        assert (status, facts["status"]) == (503, "starting")
        assert (await get(worker, "/health/live"))[0] == 200
    finally:
        await worker._monitor.close()
    async with Worker(settings(**HTTP, stages=2), journal=TestJournal()) as worker:
        status, facts = await ready(worker)
        assert (status, facts["status"], facts["store_error"]) == (200, "ready", None)
        assert facts["stages"] == [
            {"stage": 0, "role": "active", "epoch": 1},
            {"stage": 1, "role": "active", "epoch": 1},
        ]
        worker._server.stop_accepting()
        status, facts = await ready(worker)
        assert (status, facts["status"]) == (503, "stopping")


async def test_a_standby_is_ready_while_it_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    options = {**HTTP, "beat_interval": 0.02, "lease": 60.0}
    async with (
        Worker(settings(**options, name="first"), journal=TestJournal(store)) as first,
        Worker(settings(**options, name="second"), journal=TestJournal(store)) as standby,
    ):
        status, facts = await ready(standby)
        assert (status, facts["state"]) == (200, "standby")
        assert facts["stages"] == [{"stage": 0, "role": "standby", "epoch": None}]
        with monkeypatch.context() as patch:

            def fail(stages: object) -> None:
                raise StoreUnreachable("memory", "the server is gone")

            patch.setattr(standby._standby._follower, "read", fail)
            patch.setattr(first._standby._follower, "read", fail)
            await until(lambda: "gone" in str(first.health()[1]["store_error"]))
            assert first.health()[0]  # numbers are given; to take stages over, or hand them over, it could not
            await until(lambda: not standby.health()[0])
            status, facts = await ready(standby)
            assert (status, facts["status"]) == (503, "store failed")
            assert "the server is gone" in facts["store_error"]
            assert (await samples(standby))["inorder_ready",] == 0
        await until(lambda: standby.health()[0])


async def test_a_standby_that_cannot_beat_says_so_once_and_asks_no_more_often_than_it_beats(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, failing, asked = MemoryStore(), TestJournal(), 0
    interval = 0.05

    def beat(owned: object, member: object = None) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnreachable("memory", "it turned read-only")

    options = {**HTTP, "beat_interval": interval, "lease": 60.0}
    failing.store = store
    async with (
        Worker(settings(**options, name="first"), journal=TestJournal(store)),
        Worker(settings(**options, name="second"), journal=failing) as standby,
    ):
        began = time.monotonic()
        monkeypatch.setattr(failing, "beat", beat)
        await until(lambda: asked >= 8)
        assert asked <= (time.monotonic() - began) / interval + 2
        assert "turned read-only" in str(standby.health()[1]["store_error"])
        assert not standby.health()[0]
        monkeypatch.undo()
        await until(lambda: standby.health()[0])
    assert sum("beat_failed" in each.getMessage() for each in caplog.records) == 1


async def test_an_owner_that_cannot_beat_says_so_and_is_not_ready_after_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It can claim its stages again, and each time it stands alone with them: others take it for dead all the same."""
    journal = TestJournal()

    def beat(owned: object, member: object = None) -> None:
        raise StoreRefused("memory", "there is no table of workers")

    async with Worker(settings(**HTTP, beat_interval=0.02, lease=0.2), journal=journal) as worker:
        monkeypatch.setattr(journal, "beat", beat)
        await until(lambda: "no table" in str(worker.health()[1]["store_error"]))
        await until(lambda: worker._host.metrics.failures > 0 and worker._host.is_ready and not worker.health()[0])
        assert worker.health()[1]["status"] == "store failed"
        monkeypatch.undo()
        await until(lambda: worker.health()[0])
        assert worker.health()[1]["store_error"] is None


async def test_a_store_that_does_not_answer_is_said() -> None:
    """After a lease, while the call is still out: nothing has failed yet, and nothing works."""
    journal = TestJournal()
    async with Worker(settings(**HTTP), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        journal.hold()
        client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: not worker.health()[0])
        status, facts = await ready(worker)
        assert (status, facts["status"]) == (503, "store failed")
        assert "has not answered for" in facts["store_error"]
        journal.let_go()
        await until(lambda: worker.health()[0])


async def test_a_beat_that_was_not_answered_for_a_lease_is_a_failure_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one, also where nobody asks for numbers: the worker is not ready again before the store answers."""
    journal, gate, asked = TestJournal(), threading.Event(), 0

    def beat(owned: object, member: object = None) -> None:
        nonlocal asked
        asked += 1
        assert gate.wait(PATIENCE)
        raise StoreUnreachable("memory", "no answer")

    async with Worker(settings(**HTTP, beat_interval=0.05), journal=journal) as worker:
        monkeypatch.setattr(journal, "beat", beat)
        await until(lambda: not worker.health()[0])
        journal.error, journal.claims_fail = disk_full(), True
        gate.set()
        await until(lambda: worker._host.metrics.failures > 0)
        assert (asked, worker.health()[0]) == (1, False)
        monkeypatch.undo()
        journal.error = None
        await until(lambda: worker.health()[0])


async def test_a_full_disk_is_said() -> None:
    """To clients in words, and by health; when there is room again, all goes on without a restart."""
    journal = TestJournal()
    async with Worker(settings(**HTTP), journal=journal) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            journal.error, journal.claims_fail = disk_full(), True
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            assert "disk is full" in (await client.failure()).message
        status, facts = await ready(worker)
        assert (status, facts["status"]) == (503, "store failed")
        assert "disk is full" in facts["store_error"]
        found = await samples(worker)
        assert found["inorder_ready",] == 0
        assert found["inorder_store_failures_total",] >= 1
        journal.error = None
        await until(lambda: worker.health()[0])
        assert (await ready(worker))[1]["store_error"] is None


async def test_a_fence_is_no_failure_of_the_store() -> None:
    """Of two stages one is taken over, and then the store fails: each is counted for what it is, and health says so."""
    journal = TestJournal()
    order = [["s:a"], ["s:b"]]
    async with Worker(settings(stages=2, topic_order=order, lease=60.0, **HTTP), journal=journal) as worker:
        MemoryJournal(journal.store).claim(0, "another", address="127.0.0.1:9")
        client = RawClient(worker.address)
        await client.connect()
        client.send(client.hello)
        assert (await client.failure()).code == "moved"
        await client.close()
        await until(lambda: worker.health()[0])
        found = await samples(worker)
        assert (found["inorder_fences_total",], found["inorder_store_failures_total",]) == (1, 0)
        assert (await ready(worker))[1]["store_error"] is None
        async with RawClient(worker.address) as client:
            journal.error, journal.claims_fail = disk_full(), True
            client.send(Resolve(0, [("s", "c")]))
            assert (await client.failure()).code == "store"
        found = await samples(worker)
        assert found["inorder_fences_total",] == 1
        assert found["inorder_store_failures_total",] >= 1
        assert (await ready(worker))[1]["status"] == "store failed"
        journal.error = None
        await until(lambda: worker.health()[0])


async def test_a_slow_client_is_named() -> None:
    """While it is slow, and after it was thrown out; the worker stays ready."""
    options = settings(**HTTP, max_requests=50, max_write_bytes=8_000_000, write_timeout=3600.0)
    async with Worker(options, journal=TestJournal()) as worker, RawClient(worker.address, "sluggish") as client:
        names = [f"topic/{index:030}" for index in range(200)]
        await client.resolve(*names)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = encode_frame(Resolve(1, [("s", name) for name in names]))
        async with asyncio.timeout(PATIENCE):
            while not worker._server.slow_clients():
                client.writer.write(request)
                await asyncio.sleep(0)
        status, facts = await ready(worker)
        assert status == 200
        assert [each["client"] for each in facts["slow_clients"]] == ["sluggish"]
        found = await samples(worker)
        assert found["inorder_slow_clients",] == 1
        assert found["inorder_slow_client_unread_bytes", "sluggish"] > 0
        assert facts["slow_clients"][0]["unread_bytes"] > 0  # at another moment
        (connection,) = worker._server._connections
        connection.cut_unread()
        await until(lambda: not worker._server._connections)
        _, facts = await ready(worker)
        assert facts["slow_clients"] == []
        assert [each["client"] for each in facts["slow_clients_disconnected"]] == ["sluggish"]
        assert (await samples(worker))["inorder_slow_client_disconnects_total",] == 1


# -- HTTP ------------------------------------------------------------------------------------------------------------


async def test_requests_that_are_none() -> None:
    async with Worker(settings(**HTTP), journal=TestJournal()) as worker:
        status, body = await get(worker, "/")
        assert (status, json.loads(body)) == (404, {"paths": PATHS})
        assert (await exchange(worker, b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert (await exchange(worker, b"HEAD /health/live HTTP/1.1\r\n\r\n"))[::2] == (200, b"")
        for query in ("limit=0", "limit=x", "limit=1000000", "limit"):
            status, body = await get(worker, f"/metrics/topics?{query}")
            assert (status, "1 to 10000" in json.loads(body)["error"]) == (400, True)
        assert (await get(worker, "//["))[0] == 400
        assert (await exchange(worker, b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n"))[0] == 431
        kind = (await exchange(worker, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n"))[1]
        assert kind["content-type"].startswith("application/openmetrics-text")


async def test_connections_are_bounded_and_cut_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder_worker.service.monitor.REQUEST_TIMEOUT", 3600.0)
    async with Worker(settings(**HTTP), journal=TestJournal()) as worker:
        host, _, port = worker.http_address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(MAX_CONNECTIONS)]
        await until(lambda: len(worker._monitor._tasks) == MAX_CONNECTIONS)
        for _ in range(2):  # at once, not when all were silent for too long
            assert (await get(worker, "/health/live"))[0] == 200
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                assert await silent[0][0].read() == b""
        await until(lambda: len(worker._monitor._tasks) < MAX_CONNECTIONS)
    for _, writer in silent:
        writer.close()


async def test_off_unless_a_port_is_set_and_a_taken_port() -> None:
    async with Worker(settings(), journal=TestJournal()) as worker:
        assert worker.http_address == ""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"127.0.0.1:{port}"):
            await Worker(settings(http_port=port), journal=TestJournal()).__aenter__()
    with pytest.raises(InvalidOption, match="http_host"):
        await Worker(settings(http_port=0, http_host="192.0.2.1"), journal=TestJournal()).__aenter__()
    with pytest.raises(InvalidOption, match="http_port"):
        WorkerSettings(http_port=70_000)
