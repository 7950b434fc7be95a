"""redis-py on Redis Streams: one stream for all topics, which each subscriber reads from its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from inorder_bench.clients.redis_common import Message, publish_events
from inorder_bench.clients.redis_pipelines import PIPELINE
from inorder_bench.clocks import Arrivals
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]
_BLOCK_MS = 1_000
_READ = 1_000
"""Entries in one answer, at most."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients: in pipelines, or, with a window of 1, one entry and its reply after the other."""

    async def add(client: Redis, topic: str, payload: bytes) -> Any:
        return await client.xadd(job.name, {"topic": topic, "payload": payload})

    async def fast(client: Redis, messages: Sequence[Message]) -> None:
        size = min(PIPELINE, job.window)
        for first in range(0, len(messages), size):
            pipeline = client.pipeline(transaction=False)
            for topic, payload in messages[first : first + size]:
                pipeline.xadd(job.name, {"topic": topic, "payload": payload})
            await pipeline.execute()

    clients = [Redis.from_url(job.url) for _ in SHAPES[job.shape].publishers]
    return asyncio.run(publish_events(job, ready, fast, add, clients))


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    return asyncio.run(_receive(job, ready))


async def _receive(job: Job, ready: Ready) -> Answer:
    shape, arrivals = SHAPES[job.shape], Arrivals(job)
    clients = [Redis.from_url(job.url, protocol=2) for _ in shape.subscribers]
    for client in clients:
        await client.ping()
    await asyncio.to_thread(ready)
    await asyncio.gather(*(_take(client, job.name, number, arrivals) for number, client in enumerate(clients)))
    await clients[0].delete(job.name)
    for client in clients:
        await client.aclose()
    return arrivals.judged()


async def _take(client: Redis, stream: str, number: int, arrivals: Arrivals) -> None:
    count, last = arrivals.count(number), b"0"
    while count > 0:
        answer: Any = await client.xread({stream: last}, count=_READ, block=_BLOCK_MS)
        for _, entries in answer:
            for _, fields in entries:
                arrivals.took(number, fields[b"payload"])
            count, last = count - len(entries), entries[-1][0]
