"""One order across brokers: bridged, of different kinds, and from many threads."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from tests.client.helpers import PATIENCE, events_of, payloads, take, take_events, until
from tests.e2e.helpers import assert_one_order, client

from inorder import Client, Receipt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Bridge, FaultProxy, Mosquitto, RedisServer, WorkerServer


async def test_two_bridged_brokers(bridged: tuple[Mosquitto, Mosquitto], worker: WorkerServer) -> None:
    """B01: one publisher alternates two topics; subscribers of both brokers emit identical sequences."""
    one, two = (each.url for each in bridged)
    topics = [unique("t/1"), unique("t/2")]
    async with client(one, worker) as left, client(two, worker) as right, client(one, worker) as publisher:
        for each in (left, right):
            await each.subscribe(*topics)
        futures = [publisher.publish(topics[at % 2], str(at).encode()) for at in range(1_000)]
        await asyncio.gather(*futures)
        events = assert_one_order(*[await take_events(each, 1_000) for each in (left, right)])
        assert payloads(events) == [str(at).encode() for at in range(1_000)]


async def test_publishers_on_both_sides_of_a_bridge(bridged: tuple[Mosquitto, Mosquitto], worker: WorkerServer) -> None:
    """B01: each broker's own events would overtake the other's; with filters and both qualities."""
    one, two = (each.url for each in bridged)
    root = unique("room")
    async with (
        client(one, worker) as left,
        client(two, worker) as right,
        client(one, worker) as here,
        client(two, worker) as there,
    ):
        for each in (left, right):
            await each.subscribe(f"{root}/#", qos=1)
        futures = []
        for at in range(300):
            futures.append(here.publish(f"{root}/{at % 3}", f"l{at}".encode(), qos=at % 2))
            futures.append(there.publish(f"{root}/{at % 2}", f"r{at}".encode(), qos=1))
            if at % 10 == 0:
                await asyncio.sleep(0.002)
        await asyncio.gather(*futures)
        events = assert_one_order(*[await take_events(each, 600) for each in (left, right)])
        for side in ("l", "r"):
            own = [each for each in payloads(events) if each.startswith(side.encode())]
            assert own == [f"{side}{at}".encode() for at in range(300)]


async def test_a_topic_on_mqtt_and_one_on_redis(
    mosquitto: Mosquitto, redis_server: RedisServer, worker: WorkerServer
) -> None:
    """Topic a on MQTT and b on Redis in one client: two subscribers, one order, the publisher's."""
    brokers = {"plant": mosquitto.url, "office": redis_server.url}
    topic = unique("t")
    async with client(brokers, worker) as left, client(brokers, worker) as right, client(brokers, worker) as publisher:
        for each in (left, right):
            for space in brokers:
                await each.subscribe(topic, space=space)
        futures = [publisher.publish(topic, str(at).encode(), space=("plant", "office")[at % 2]) for at in range(600)]
        await asyncio.gather(*futures)
        events = assert_one_order(*[await take_events(each, 600) for each in (left, right)])
        assert payloads(events) == [str(at).encode() for at in range(600)]
        assert {each.space for each in events} == {"plant", "office"}


async def test_many_threads_publish_through_one_client(redis_server: RedisServer, worker: WorkerServer) -> None:
    """B04: numbers rise within each thread, all subscribers emit one order, no number is used twice."""
    topics = [unique("a"), unique("b")]
    threads, each_publishes = 8, 100
    async with (
        client(redis_server.url, worker) as left,
        client(redis_server.url, worker) as right,
        client(redis_server.url, worker) as publisher,
    ):
        for each in (left, right):
            await each.subscribe(*topics)
        futures = await from_threads(publisher, topics, threads, each_publishes)
        receipts = await asyncio.gather(*futures)
        assert len({(each.topic, each.number) for each in receipts}) == threads * each_publishes
        seen = [await take_events(each, threads * each_publishes) for each in (left, right)]
        events = payloads(assert_one_order(*seen))
        for thread in range(threads):
            own = [each for each in events if each.startswith(b"%d/" % thread)]
            assert own == [b"%d/%d" % (thread, at) for at in range(each_publishes)]


async def from_threads(publisher: Client, topics: list[str], threads: int, count: int) -> list[asyncio.Future[Receipt]]:
    """Publish from threads of their own, at random moments; return all futures."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Receipt]] = []

    def publish(thread: int, at: int) -> None:
        futures.append(publisher.publish(topics[at % 2], b"%d/%d" % (thread, at)))

    def run(thread: int) -> None:
        chance = random.Random(thread)
        pause = threading.Event()
        for at in range(count):
            loop.call_soon_threadsafe(publish, thread, at)
            pause.wait(chance.uniform(0, 0.005))

    await asyncio.gather(*(asyncio.to_thread(run, thread) for thread in range(threads)))
    await until(lambda: len(futures) == threads * count)
    return futures


async def test_many_clients_publish_at_once(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B04: the same with a client for each, as pools have it."""
    topics = [unique("a"), unique("b")]
    async with client(mosquitto.url, worker) as left, client(mosquitto.url, worker) as right:
        for each in (left, right):
            await each.subscribe(*topics)
        publishers = [client(mosquitto.url, worker) for _ in range(8)]
        await asyncio.gather(*(each.__aenter__() for each in publishers))
        sent = [
            each.publish(topics[at % 2], b"%d/%d" % (number, at))
            for at in range(50)
            for number, each in enumerate(publishers)
        ]
        await asyncio.gather(*sent)
        await asyncio.gather(*(each.close() for each in publishers))
        events = payloads(assert_one_order(*[await take_events(each, 400) for each in (left, right)]))
        for number in range(8):
            assert [each for each in events if each.startswith(b"%d/" % number)] == [
                b"%d/%d" % (number, at) for at in range(50)
            ]


async def test_a_loop_of_bridges(worker: WorkerServer, caplog: pytest.LogCaptureFixture) -> None:
    """B11: two bridges carry everything both ways, so events go round for ever: each is delivered once, the copies
    are counted, the alarm comes once."""
    topic = unique("t")
    with Mosquitto() as first:
        async with FaultProxy(first.port) as proxy:
            bridges = [Bridge(proxy.port, options=["try_private false"]) for _ in range(2)]
            with Mosquitto(bridges=bridges) as second:
                async with client(first.url, worker) as subscriber, client(second.url, worker) as publisher:
                    await subscriber.subscribe(topic)
                    async with asyncio.timeout(PATIENCE):
                        while subscriber.stats().duplicates < 50:
                            await publisher.publish(topic, b"again")
                            await asyncio.sleep(0.05)
                    proxy.stall()
                    seen = events_of(await take(subscriber, subscriber.stats().undelivered))
                    assert len(seen) == len({each.number for each in seen})
                    alarms = [each for each in caplog.records if "in a loop" in each.message]
                    assert len(alarms) == 1
