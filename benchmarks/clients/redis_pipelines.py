"""Bare redis-py at its best: publishes in pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.asyncio import Redis

from benchmarks.clients.redis_common import publish_events, receive_events
from benchmarks.clocks import PLAIN
from benchmarks.job import TOPICS, Answer, Job

Ready = Callable[[], None]
PIPELINE = 100
"""Publishes in one pipeline; longer ones were not faster."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from two clients."""
    return asyncio.run(publish_events(job, ready, _fast, [Redis.from_url(job.url) for _ in TOPICS]))


async def _fast(client: Redis, topic: str, count: int) -> None:
    while count > 0:
        pipeline = client.pipeline(transaction=False)
        for _ in range(min(PIPELINE, count)):
            pipeline.publish(topic, PLAIN)
        await pipeline.execute()
        count -= PIPELINE


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with two clients."""
    return asyncio.run(receive_events(job, ready))
