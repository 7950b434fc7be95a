"""Bare redis-py (asyncio) subscribers, and publishers at a pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from inorder_bench.clocks import Arrivals, Payloads, at_pace, by_publisher, turns_of
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES, Turn

Ready = Callable[[], None]
Message = tuple[str, bytes]
"""Topic and payload."""
Publish = Callable[[Redis, str, bytes], Awaitable[Any]]
"""Publishes one, and waits for the reply."""
Fast = Callable[[Redis, Sequence[Message]], Awaitable[None]]
"""Publishes all, as fast as it can, and waits for all replies."""


async def receive_events(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    shape, arrivals = SHAPES[job.shape], Arrivals(job)
    clients = [Redis.from_url(job.url) for _ in shape.subscribers]
    streams = [client.pubsub() for client in clients]
    for number, stream in enumerate(streams):
        names = shape.names(number)
        await stream.subscribe(*names)
        for _ in names:
            await stream.get_message(timeout=10.0)
    await asyncio.to_thread(ready)
    await asyncio.gather(*(_take(stream, number, arrivals) for number, stream in enumerate(streams)))
    for stream, client in zip(streams, clients, strict=True):
        await stream.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()
    return arrivals.judged()


async def _take(stream: Any, number: int, arrivals: Arrivals) -> None:
    count = arrivals.count(number)
    async for message in stream.listen():
        arrivals.took(number, message["data"])
        count -= 1
        if not count:
            return


async def publish_events(job: Job, ready: Ready, fast: Fast, publish: Publish, clients: list[Redis]) -> Answer:
    """Publish from all clients: as fast as possible with ``fast``, or with ``publish`` at the job's rate."""
    for client in clients:
        await client.ping()
    await asyncio.to_thread(ready)
    if job.rate:
        answer = await _paced(job, clients, publish)
    else:
        warm_up, measured = turns_of(job)
        await _all(job, clients, warm_up, fast)
        answer, cpu = Answer(began=time.monotonic(), events=len(measured)), time.process_time()
        await _all(job, clients, measured, fast)
        answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
    for client in clients:
        await client.aclose()
    return answer


async def _all(job: Job, clients: list[Redis], turns: Sequence[Turn], fast: Fast) -> None:
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)
    parts = [[(topics[turn.topic], payloads.make(turn.number)) for turn in its] for its in by_publisher(job, turns)]
    await asyncio.gather(*(fast(client, its) for client, its in zip(clients, parts, strict=True)))


async def _paced(job: Job, clients: list[Redis], publish: Publish) -> Answer:
    answer = Answer(began=time.monotonic(), events=job.events)
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)
    open_calls: list[asyncio.Future[Any]] = []
    async for turn in at_pace(job, answer.began):
        call = publish(clients[turn.publisher], topics[turn.topic], payloads.make(turn.number))
        open_calls.append(asyncio.ensure_future(call))
    await asyncio.gather(*open_calls)
    answer.ended = time.monotonic()
    return answer
