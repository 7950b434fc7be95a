"""What people reported of Redis pub/sub, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio
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
    times,
    until,
)
from tests.e2e.helpers import client

from inorder import Bounded, Gap, GapReason, Reconnected, Verdict
from inorder.errors import InvalidPayload
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, RedisServer, WorkerServer


@pytest.fixture
async def text_reader(redis_server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    """A client that decodes everything, as many applications use it."""
    async with redis.asyncio.Redis(port=redis_server.port, decode_responses=True) as plain:
        yield plain


async def test_a_cut_in_mid_stream(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B16: three hundred publishes and a cut: ``Reconnected`` before the first message after the gap, exact numbers,
    and the stream goes on from its position."""
    topic = unique("t")
    async with (
        FaultProxy(redis_server.port) as proxy,
        client(redis_server.url, worker) as publisher,
        client(f"redis://127.0.0.1:{proxy.port}", worker) as one,
    ):
        await one.subscribe(topic)
        await published(publisher, topic, 100)
        await take_events(one, 100)
        proxy.refuse()
        proxy.cut()
        await until(lambda: not one.stats().connected)
        await published(publisher, topic, 100, first=100)
        await proxy.heal()
        await until(lambda: one._links["redis"].is_restored)
        await published(publisher, topic, 100, first=200)
        seen = await take_through(one, b"299")
        assert seen[0] == Reconnected("redis")
        gaps = gaps_of(seen)
        assert [number for each in gaps for number in range(each.first, each.last + 1)] == list(range(101, 201))
        assert {each.reason for each in gaps} == {GapReason.LOST}
        assert keys(seen) == [(topic, number) for number in range(201, 301)]


async def test_a_publisher_that_is_cut_loses_nothing(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B54: what may not have arrived is published again under its number; the subscriber sees each event once."""
    topic = unique("t")
    async with FaultProxy(redis_server.port) as proxy, client(redis_server.url, worker) as one:
        await one.subscribe(topic)
        async with client(f"redis://127.0.0.1:{proxy.port}", worker) as publisher:
            futures = []
            for at in range(300):
                futures.append(publisher.publish(topic, str(at).encode()))
                if at % 100 == 50:
                    proxy.cut()
                await asyncio.sleep(0.001)
            async with asyncio.timeout(PATIENCE):
                receipts = await asyncio.gather(*futures)
            assert [each.number for each in receipts] == list(range(1, 301))
            seen = await take_events(one, 300)
            assert payloads(seen) == [str(at).encode() for at in range(300)]
            assert not gaps_of(seen)


async def test_readers_that_decode_everything_keep_working(
    redis_server: RedisServer, worker: WorkerServer, text_reader: redis.asyncio.Redis
) -> None:
    """B44: a stamped text is text on the wire; and a payload that is not UTF-8 does not stop our subscriber."""
    topic = unique("t")
    async with text_reader.pubsub() as plain, client(redis_server.url, worker) as one:
        await plain.subscribe(topic)
        await one.subscribe(topic)
        await one.publish(topic, "\u00e9t\u00e9 \U0001f600")
        await one.publish(topic, "fifo", order="fifo")
        await one.publish(topic, "plain", order="none")
        texts: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while len(texts) < 3:
                message = await plain.get_message(ignore_subscribe_messages=True, timeout=1.0)
                texts += [message["data"]] if message else []
        assert texts[0].endswith("\n\u00e9t\u00e9 \U0001f600")
        assert texts[1].endswith("\nfifo")
        assert texts[2] == "plain"
        await plain.unsubscribe(topic)
        await one.publish(topic, b"\xff\xfe")
        await one.publish(topic, b"after")
        seen = await take_through(one, b"after")
        assert sorted(payloads(seen)) == sorted(
            ["\u00e9t\u00e9 \U0001f600".encode(), b"fifo", b"plain", b"\xff\xfe", b"after"]
        )


async def test_messages_of_others(worker: WorkerServer) -> None:
    """B56: keyspace events and plain publishes beside ours: untouched, at once, counted."""
    with RedisServer(args=("--notify-keyspace-events", "KEA")) as server:
        topic = unique("t")
        async with client(server.url, worker) as one, redis.asyncio.Redis(port=server.port) as plain:
            await one.subscribe(topic, "__keyspace@0__:*")
            await plain.set("key", "value")
            assert await plain.publish(topic, b"\xffplain") == 1
            await one.publish(topic, b"ours")
            seen = {(each.topic, each.payload): each.verdict for each in events_of(await take(one, 3))}
            assert seen == {
                ("__keyspace@0__:key", b"set"): Verdict.UNSEQUENCED,
                (topic, b"\xffplain"): Verdict.UNSEQUENCED,
                (topic, b"ours"): Verdict.IN_ORDER,
            }
            assert one.stats().unsequenced == 2


async def test_a_channel_that_is_no_text(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B26 on Redis: counted as malformed, and the next message arrives."""
    topic = unique("t")
    async with client(redis_server.url, worker) as one, redis.asyncio.Redis(port=redis_server.port) as plain:
        await one.subscribe(f"{topic}*")
        await plain.publish(topic.encode() + b"\xff\xfe", b"lost")
        await one.publish(topic, b"good")
        assert payloads(await take(one, 1)) == [b"good"]
        assert one.stats().malformed == 1


async def test_patterns_and_channels_that_overlap(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B08 on Redis, where a message comes once for each pattern and once for the channel."""
    topic = unique("t")
    async with client(redis_server.url, worker) as one:
        await one.subscribe(f"{topic}*", f"{topic[:-1]}?", topic)
        await published(one, topic, 5)
        await one.publish(topic, b"plain", order="none")
        seen = await take_through(one, b"plain")
        assert payloads(seen) == [b"0", b"1", b"2", b"3", b"4", b"plain"]
        await until(lambda: one.stats().overlaps == 12)
        assert (one.stats().duplicates, one.stats().undelivered) == (0, 0)


async def test_payload_types(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B28: as redis-py takes and encodes them, byte for byte."""
    topic = unique("t")
    every = bytes(range(256))
    table: list[tuple[Any, bytes]] = [
        ("", b""), (b"", b""), (bytearray(b"1"), b"1"), (memoryview(b"2"), b"2"), (1, b"1"), (1.5, b"1.5"),
        (every, every),
    ]  # fmt: skip
    async with client(redis_server.url, worker) as one:
        await one.subscribe(topic)
        bad: Any
        for bad in (None, True, {}, []):
            with pytest.raises(InvalidPayload):
                one.publish(topic, bad)
        await asyncio.gather(*(one.publish(topic, given) for given, _ in table))
        assert payloads(await take(one, len(table))) == [encoded for _, encoded in table]


async def test_bounded_does_not_wait_for_what_a_cut_lost(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B57: the first limit reached lets events go, in order, with one gap."""
    topic = unique("t")
    clock = times(gap_timeout=10.0, loss_timeout=1.0)
    async with FaultProxy(redis_server.port) as proxy, client(redis_server.url, worker) as publisher:
        url = f"redis://127.0.0.1:{proxy.port}"
        async with client(url, worker, mode=Bounded(buffer=5), clock=clock) as one:
            await one.subscribe(topic)
            await published(publisher, topic, 10)
            await take_events(one, 10)
            proxy.refuse()
            proxy.cut()
            await until(lambda: not one.stats().connected)
            await published(publisher, topic, 1, first=10)
            await proxy.heal()
            await until(lambda: one._links["redis"].is_restored)
            await published(publisher, topic, 20, first=11)
            seen = await take(one, 22)
            assert seen[0] == Reconnected("redis")
            assert keys(seen) == [(topic, number) for number in range(12, 32)]
            assert gaps_of(seen) == [Gap("redis", topic, 11, 11, GapReason.SKIPPED)]
