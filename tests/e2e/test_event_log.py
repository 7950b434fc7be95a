"""Event logs on real brokers and stores (R18)."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.helpers import PATIENCE, events_of, gaps_of, take_events, times, until
from tests.client.recorder import Recorder
from tests.e2e.helpers import assert_one_order, client

from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, RedisServer, WorkerServer
from inorder_worker.store.verification import verify

EVENTS = 600


async def test_what_mosquitto_drops_the_log_repairs(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B15 with a log: the subscriber's socket is stalled until the broker's queue overflows. Nothing is lost: the rest
    comes from the log, in the order that another subscriber sees, and no word of a gap."""
    topics = [unique("logged/a"), unique("logged/b")]
    monkeypatch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
    monkeypatch.setenv("INORDER_WORKER__LOG_TOPICS", "mqtt:logged/#")
    recorder = Recorder()
    with Mosquitto(max_queued=100) as broker, WorkerServer(store=store) as worker:
        async with (
            FaultProxy(broker.port) as proxy,
            client(broker.url, worker, "two", clock=times(heartbeat=5.0)) as two,
            client(broker.url, worker, "p") as publisher,
            client(f"mqtt://127.0.0.1:{proxy.port}", worker, "one", clock=times(heartbeat=5.0)) as one,
        ):
            for each in (one, two):
                await recorder.subscribe(each, *topics, qos=1)
            proxy.stall("down")
            futures = [
                recorder.publish(publisher, topics[at % 2], b"%d" % at, qos=1, properties=[("at", str(at))])
                for at in range(EVENTS)
            ]
            await asyncio.wait_for(asyncio.gather(*futures), 2 * PATIENCE)
            await until(lambda: one.stats().repaired > EVENTS // 2, "repair while the broker delivers nothing")
            await proxy.heal()
            seen = [await take_events(each, EVENTS) for each in (one, two)]
        for each, taken in zip((one, two), seen, strict=True):
            recorder.took(each, taken)
        assert recorder.violations() == []
        events = assert_one_order(*seen)
        assert [each.payload for each in events] == [b"%d" % at for at in range(EVENTS)]
        assert all(each.properties == (("at", each.payload.decode()),) for each in events_of(seen[0]))
        assert one.stats().gaps == 0
    report = verify(store)
    assert report.is_ok
    assert sorted(report.logs.values()) == [EVENTS // 2, EVENTS // 2]


async def test_what_redis_loses_over_a_reconnection_the_log_repairs(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16 with a log: Redis keeps nothing for a subscriber that is away."""
    channel = unique("logged")
    monkeypatch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
    monkeypatch.setenv("INORDER_WORKER__LOG_TOPICS", f"redis:{channel}")
    with WorkerServer() as worker:
        async with (
            FaultProxy(redis_server.port) as proxy,
            client(redis_server.url, worker) as publisher,
            client(f"redis://127.0.0.1:{proxy.port}", worker) as one,
        ):
            await one.subscribe(channel)
            for at in range(300):
                await publisher.publish(channel, b"%d" % at)
                if at == 100:
                    proxy.cut()
            seen = await take_events(one, 300)
            assert [each.payload for each in events_of(seen)] == [b"%d" % at for at in range(300)]
            assert not gaps_of(seen)
