"""The half without inorder: the brokers' own client libraries, used as their manuals show."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from inorder.errors import BrokerUnreachable, MissingExtra
from inorder_cli.demo.plan import (
    QUIET_SECONDS,
    SETTLE_SECONDS,
    TICK_SECONDS,
    BrokerKind,
    Link,
    Pace,
    Recorder,
    SiteJob,
    SiteResult,
    make_payload,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from inorder.ports import Arrival

CONNECT_SECONDS = 10.0
Publish = Callable[[bytes], Any]
Saw = Callable[[str, bytes], None]


async def run_bare(job: SiteJob, link: Link) -> SiteResult:
    """Run one site of the half without inorder."""
    recorder, lock = Recorder(job), threading.Lock()

    def saw(topic: str, payload: bytes) -> None:
        with lock:
            recorder.saw(topic, payload)

    async with _connections(job, saw) as publish:
        start = await link.ready()
        recorder.last_arrival = start
        if job.kind == BrokerKind.MEMORY:
            publishing = asyncio.ensure_future(_publish_here(job, start, publish))
        else:
            publishing = asyncio.ensure_future(asyncio.to_thread(_publish_on_a_thread, job, start, publish))
        while not (publishing.done() and recorder.is_over(QUIET_SECONDS)):
            await asyncio.sleep(0.05)
            link.progress(len(recorder.distinct))
        await publishing
        await asyncio.sleep(SETTLE_SECONDS)
    return recorder.finished(start)


def _publish_on_a_thread(job: SiteJob, start: float, publish: Publish) -> None:
    pace = Pace(job, start)
    while not pace.is_done:
        for index in pace.due():
            publish(make_payload(index))
        time.sleep(TICK_SECONDS)


async def _publish_here(job: SiteJob, start: float, publish: Publish) -> None:
    pace = Pace(job, start)
    while not pace.is_done:
        for index in pace.due():
            publish(make_payload(index))
        await asyncio.sleep(TICK_SECONDS)


def _connections(job: SiteJob, saw: Saw) -> AbstractAsyncContextManager[Publish]:
    """Connect publisher and subscriber; yield the function that publishes a payload to the site's topic."""
    makers = {BrokerKind.MQTT: _mqtt, BrokerKind.REDIS: _redis, BrokerKind.MEMORY: _memory}
    return makers[BrokerKind(job.kind)](job, saw)


# -- MQTT: paho-mqtt, version 5, QoS 0 ------------------------------------------------------------------------------


@asynccontextmanager
async def _mqtt(job: SiteJob, saw: Saw) -> AsyncIterator[Publish]:
    publisher = await asyncio.to_thread(_paho_client, job.publishes.url)
    subscriber = await asyncio.to_thread(_paho_client, job.subscribes[0].url)
    subscribed = threading.Event()
    subscriber.on_subscribe = lambda *_: subscribed.set()
    subscriber.on_message = lambda _client, _data, message: saw(message.topic, message.payload)
    try:
        subscriber.subscribe([(channel.topic, 0) for channel in job.subscribes])
        if not await asyncio.to_thread(subscribed.wait, CONNECT_SECONDS):
            raise BrokerUnreachable(job.subscribes[0].url, "the subscription was not acknowledged")
        yield lambda payload: publisher.publish(job.publishes.topic, payload)
    finally:
        for client in (publisher, subscriber):
            client.disconnect()
            await asyncio.to_thread(client.loop_stop)


def _paho_client(url: str) -> Any:
    from urllib.parse import urlsplit

    try:
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        raise MissingExtra("the demo on MQTT", "mqtt") from None
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    address = urlsplit(url)
    client.connect(address.hostname or "localhost", address.port or 1883)
    client.loop_start()
    if not connected.wait(CONNECT_SECONDS):
        raise BrokerUnreachable(address.netloc, "no answer")
    return client


# -- Redis: redis-py, one connection and one thread for each server --------------------------------------------------


@asynccontextmanager
async def _redis(job: SiteJob, saw: Saw) -> AsyncIterator[Publish]:
    try:
        import redis
    except ImportError:
        raise MissingExtra("the demo on Redis", "redis") from None
    clients: dict[str, Any] = {
        url: redis.Redis.from_url(url) for url in {job.publishes.url, *(c.url for c in job.subscribes)}
    }
    subscribers = [(clients[channel.url].pubsub(), channel.topic) for channel in job.subscribes]
    threads = []
    try:
        for pubsub, topic in subscribers:
            handler = {topic: lambda message: saw(message["channel"].decode(), message["data"])}
            await asyncio.to_thread(pubsub.subscribe, **handler)
            if await asyncio.to_thread(pubsub.get_message, timeout=CONNECT_SECONDS) is None:
                raise BrokerUnreachable(str(pubsub), "the subscription was not acknowledged")
            threads.append(pubsub.run_in_thread(sleep_time=0.1, daemon=True))
        publisher = clients[job.publishes.url]
        yield lambda payload: publisher.publish(job.publishes.topic, payload)
    finally:
        for thread in threads:
            thread.stop()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        for client in clients.values():
            client.close()


# -- memory: the in-process broker, used without the ordering --------------------------------------------------------


class _MemorySink:
    """Passes arrivals on."""

    def __init__(self, saw: Saw) -> None:
        self._saw = saw

    def arrived(self, arrival: Arrival) -> None:
        self._saw(arrival.topic, arrival.payload)

    def malformed(self, reason: str) -> None:
        """Ignore it, as nothing malformed is published here."""

    def accepted(self, tokens: list[int]) -> None:
        """Ignore it, as nobody waits for it."""

    def refused(self, token: int, error: Exception) -> None:
        """Ignore it, as the in-process broker refuses only on demand."""

    def connection_lost(self, error: Exception) -> None:
        """Ignore it, as the in-process broker breaks connections only on demand."""


@asynccontextmanager
async def _memory(job: SiteJob, saw: Saw) -> AsyncIterator[Publish]:
    from importlib.metadata import entry_points

    from inorder.ports import Outgoing

    (entry,) = entry_points(group="inorder.adapters", name="memory")
    open_ens = entry.load()
    publisher = open_ens(job.publishes.url, client_id=f"bare-publisher-{job.name}", options={})
    subscriber = open_ens(job.subscribes[0].url, client_id=f"bare-subscriber-{job.name}", options={})
    try:
        await publisher.connect(_MemorySink(saw))
        await subscriber.connect(_MemorySink(saw))
        for channel in job.subscribes:
            await subscriber.subscribe(subscriber.parse_filter(channel.topic))
        yield lambda payload: publisher.publish(Outgoing(job.publishes.topic, payload), 0)
    finally:
        await publisher.close()
        await subscriber.close()
