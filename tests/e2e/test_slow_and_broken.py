"""Slow and failing applications, damaged stamps, connections that are open at one end only: on real brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from paho.mqtt import publish as paho
from paho.mqtt.client import MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.client.helpers import (
    PATIENCE,
    events_of,
    gaps_of,
    keys,
    payloads,
    published,
    take,
    take_events,
    take_through,
    until,
)
from tests.e2e.helpers import client

from inorder import GapReason, Reconnected, Verdict
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, RedisServer, WorkerServer


async def test_a_slow_application_keeps_its_connection(worker: WorkerServer) -> None:
    """B22: it takes the first of four events and is busy over two keepalives; the broker is answered meanwhile, and
    the others wait. (A bounded stream that is full gives up the oldest: see the tests of delivery.)"""
    topic, name = unique("t"), unique("slow")
    with Mosquitto(extra=["log_type all"]) as broker:
        async with client(broker.url, worker, name, keepalive=2) as one, client(broker.url, worker) as publisher:
            await one.subscribe(topic)
            await published(publisher, topic, 4)
            seen = await take(one, 1)
            pings = f"PINGREQ from {name}"
            await until(lambda: broker.log().count(pings) >= 2, "two keepalives")
            assert one.stats().connected
            seen += await take_events(one, 3)
            assert payloads(seen) == [b"0", b"1", b"2", b"3"]
            assert not [each for each in seen if isinstance(each, Reconnected)]


async def test_an_application_that_raises_misses_nothing(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B24: four events, the second makes it raise; its stream goes on behind that one, on the same connection."""
    topic = unique("t")

    async def handle() -> list[bytes]:
        handled: list[bytes] = []
        async for each in one.events():
            assert each.payload != b"1", "the application's own mistake"  # type: ignore[union-attr]
            handled.append(each.payload)  # type: ignore[union-attr]
            if each.payload == b"3":  # type: ignore[union-attr]
                break
        return handled

    async with client(mosquitto.url, worker) as one, client(mosquitto.url, worker) as publisher:
        await one.subscribe(topic)
        await published(publisher, topic, 4)
        with pytest.raises(AssertionError, match="own mistake"):
            await handle()
        assert one.stats().connected
        assert await handle() == [b"2", b"3"]


async def test_damaged_stamps_on_the_wire(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B24: whatever another client writes into our property, the event is delivered as it is, counted, and the next
    ones are in order."""
    topic = unique("t")
    async with client(mosquitto.url, worker) as one, client(mosquitto.url, worker) as publisher:
        await one.subscribe(topic)
        await published(publisher, topic, 1)
        values = ["", "!", "AAAA", "x" * 5_000, "\u00e9\U0001f600"]
        await asyncio.to_thread(_publish_raw, mosquitto.port, topic, values)
        await published(publisher, topic, 1, first=1)
        seen = events_of(await take_through(one, b"1"))
        assert [each.number for each in seen if each.verdict == Verdict.IN_ORDER] == [1, 2]
        assert [each.payload for each in seen if each.verdict == Verdict.UNSEQUENCED] == [b"raw"] * 5
        stats = one.stats()
        assert (stats.corrupt, stats.unsequenced, stats.malformed) == (5, 5, 0)


def _publish_raw(port: int, topic: str, values: list[str]) -> None:
    messages = []
    for value in values:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = ("inorder", value)
        messages.append({"topic": topic, "payload": b"raw", "qos": 1, "properties": properties})
    paho.multiple(messages, hostname="127.0.0.1", port=port, protocol=MQTTv5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["mqtt", "redis"])
async def test_a_half_open_connection(
    mosquitto: Mosquitto, redis_server: RedisServer, worker: WorkerServer, kind: str
) -> None:
    """B49: nothing comes through any more, and nobody says so. The client notices, connects anew as soon as it can, and
    reports what it missed; no ping or pong is seen."""
    topic = unique("t")
    server: Any = mosquitto if kind == "mqtt" else redis_server
    options = {"keepalive": 2} if kind == "mqtt" else {"health_check_interval": 1.0}
    async with (
        FaultProxy(server.port) as proxy,
        client(server.url, worker) as publisher,
        client(f"{kind}://127.0.0.1:{proxy.port}", worker, connect_timeout=0.5, **options) as one,
    ):
        await one.subscribe(topic)
        await published(publisher, topic, 10)
        seen = await take_events(one, 10)
        proxy.stall()
        before = proxy.accepted
        await until(lambda: not one.stats().connected, "the end of the silence to be noticed")
        await published(publisher, topic, 10, first=10)
        await until(lambda: proxy.accepted > before, "another attempt")
        await proxy.heal()
        await until(lambda: one._links[kind].is_restored)
        await published(publisher, topic, 10, first=20)
        seen += await take_through(one, b"29")
        assert seen[10] == Reconnected(kind)
        assert {each.reason for each in gaps_of(seen)} == {GapReason.LOST}
        missing = {number for each in gaps_of(seen) for number in range(each.first, each.last + 1)}
        assert keys(seen) == [(topic, number) for number in range(1, 31) if number not in missing]
        assert missing == set(range(11, 21))
        assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}


@pytest.mark.parametrize("kind", ["mqtt", "redis"])
async def test_a_reply_that_is_lost(
    mosquitto: Mosquitto, redis_server: RedisServer, worker: WorkerServer, kind: str
) -> None:
    """B54: the broker has the event and its answer never comes, so it is handed over once more: under the same number,
    and the subscriber counts the second copy."""
    topic = unique("t")
    server: Any = mosquitto if kind == "mqtt" else redis_server
    options = {"keepalive": 2} if kind == "mqtt" else {"health_check_interval": 1.0}
    async with (
        FaultProxy(server.port) as proxy,
        client(server.url, worker) as one,
        client(f"{kind}://127.0.0.1:{proxy.port}", worker, connect_timeout=0.5, **options) as publisher,
    ):
        await one.subscribe(topic)
        await publisher.publish(topic, b"first")
        proxy.stall("down")
        future = publisher.publish(topic, b"once", qos=1 if kind == "mqtt" else 0)
        seen = await take_events(one, 2)
        await until(lambda: not publisher.stats().connected, "the silence to be noticed")
        assert not future.done()
        await proxy.heal()
        async with asyncio.timeout(PATIENCE):
            assert (await future).number == 2
        await publisher.publish(topic, b"last")
        seen += await take_through(one, b"last")
        assert payloads(seen) == [b"first", b"once", b"last"]
        assert [each.number for each in events_of(seen)] == [1, 2, 3]
        assert (one.stats().duplicates, gaps_of(seen)) == (1, [])
