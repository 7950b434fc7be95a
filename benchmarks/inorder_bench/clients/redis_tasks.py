"""Bare redis-py as applications use it: ``await publish()`` in concurrent tasks, one connection for each task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from inorder_bench.clients.redis_common import Message, publish_events, receive_events
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]
TASKS = 16
"""Concurrent calls of one client; more were not faster."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients."""
    clients = [Redis.from_url(job.url, max_connections=10_000) for _ in SHAPES[job.shape].publishers]
    return asyncio.run(publish_events(job, ready, _fast, _publish, clients))


async def _publish(client: Redis, topic: str, payload: bytes) -> Any:
    return await client.publish(topic, payload)


async def _fast(client: Redis, messages: Sequence[Message]) -> None:
    async def some(mine: Sequence[Message]) -> None:
        for message in mine:
            await client.publish(*message)

    await asyncio.gather(*(some(messages[task::TASKS]) for task in range(TASKS)))


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    return asyncio.run(receive_events(job, ready))
