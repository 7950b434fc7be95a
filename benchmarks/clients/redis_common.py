"""Bare redis-py (asyncio) subscribers, and publishers at a pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from benchmarks.clocks import Arrivals, due_times, timed_payload
from benchmarks.job import SUBSCRIBERS, TOPICS, Answer, Job

Ready = Callable[[], None]


async def receive_events(job: Job, ready: Ready) -> Answer:
    """Receive with two clients."""
    arrivals = Arrivals(job, SUBSCRIBERS)
    clients = [Redis.from_url(job.url) for _ in range(SUBSCRIBERS)]
    streams = [client.pubsub() for client in clients]
    for stream in streams:
        await stream.subscribe(*TOPICS)
        for _ in TOPICS:
            await stream.get_message(timeout=10.0)
    await asyncio.to_thread(ready)
    await asyncio.gather(*(_take(stream, job.expected, arrivals) for stream in streams))
    for stream, client in zip(streams, clients, strict=True):
        await stream.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()
    return arrivals.answer


async def _take(stream: Any, count: int, arrivals: Arrivals) -> None:
    async for message in stream.listen():
        arrivals.took(message["data"])
        count -= 1
        if not count:
            return


async def publish_events(
    job: Job, ready: Ready, fast: Callable[[Redis, str, int], Any], clients: list[Redis]
) -> Answer:
    """Publish from two clients, each by ``fast(client, topic, count)``, or at the job's rate."""
    for client in clients:
        await client.ping()
    await asyncio.to_thread(ready)
    if job.rate:
        answer = await _paced(job, clients)
    else:
        await asyncio.gather(*(fast(*pair, job.warm_up // 2) for pair in zip(clients, TOPICS, strict=True)))
        answer, cpu = Answer(began=time.monotonic()), time.process_time()
        await asyncio.gather(*(fast(*pair, job.events // 2) for pair in zip(clients, TOPICS, strict=True)))
        answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
    for client in clients:
        await client.aclose()
    return answer


async def _paced(job: Job, clients: list[Redis]) -> Answer:
    answer = Answer(began=time.monotonic())
    open_calls: list[asyncio.Future[Any]] = []
    for number, due in enumerate(due_times(job, answer.began)):
        if (pause := due - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        which = number % len(clients)
        open_calls.append(asyncio.ensure_future(clients[which].publish(TOPICS[which], timed_payload())))
    await asyncio.gather(*open_calls)
    answer.ended = time.monotonic()
    return answer
