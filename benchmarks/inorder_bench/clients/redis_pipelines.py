"""Bare redis-py at its best: publishes in pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from inorder_bench.clients.redis_common import Message, publish_events, receive_events
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]
PIPELINE = 100
"""Publishes in one pipeline; longer ones were not faster."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients."""
    clients = [Redis.from_url(job.url) for _ in SHAPES[job.shape].publishers]
    return asyncio.run(publish_events(job, ready, _fast, _publish, clients))


async def _publish(client: Redis, topic: str, payload: bytes) -> Any:
    return await client.publish(topic, payload)


async def _fast(client: Redis, messages: Sequence[Message]) -> None:
    for first in range(0, len(messages), PIPELINE):
        pipeline = client.pipeline(transaction=False)
        for message in messages[first : first + PIPELINE]:
            pipeline.publish(*message)
        await pipeline.execute()


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    return asyncio.run(receive_events(job, ready))
