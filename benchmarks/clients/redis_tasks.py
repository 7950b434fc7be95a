"""Bare redis-py as applications use it: ``await publish()`` in concurrent tasks, one connection for each task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.asyncio import Redis

from benchmarks.clients.redis_common import publish_events, receive_events
from benchmarks.clocks import PLAIN
from benchmarks.job import TOPICS, Answer, Job

Ready = Callable[[], None]
TASKS = 16
"""Concurrent calls of one client; more were not faster."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from two clients."""
    clients = [Redis.from_url(job.url, max_connections=10_000) for _ in TOPICS]
    return asyncio.run(publish_events(job, ready, _fast, clients))


async def _fast(client: Redis, topic: str, count: int) -> None:
    async def some(number: int) -> None:
        for _ in range(number):
            await client.publish(topic, PLAIN)

    share = [count // TASKS + (each < count % TASKS) for each in range(TASKS)]
    await asyncio.gather(*map(some, share))


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with two clients."""
    return asyncio.run(receive_events(job, ready))
