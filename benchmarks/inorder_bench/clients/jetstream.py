"""nats-py on JetStream: one stream for all topics, an ordered consumer for each subscriber."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

from inorder_bench.clocks import Arrivals, Payloads, at_pace, by_publisher, turns_of
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES, Turn

Ready = Callable[[], None]
_MAX_PENDING = 100_000
"""The window is ours; nats-py's own must not be met before."""


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients; each event is acknowledged when it is in the stream."""
    return asyncio.run(_publish(job, ready))


async def _publish(job: Job, ready: Ready) -> Answer:
    connections = [await nats.connect(job.url) for _ in SHAPES[job.shape].publishers]
    streams = [each.jetstream(publish_async_max_pending=_MAX_PENDING) for each in connections]
    await asyncio.to_thread(ready)
    if job.rate:
        answer = await _paced(job, streams)
    else:
        warm_up, measured = turns_of(job)
        await _fast(job, streams, warm_up)
        answer, cpu = Answer(began=time.monotonic(), events=len(measured)), time.process_time()
        await _fast(job, streams, measured)
        answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
    await _close(connections)
    return answer


async def _fast(job: Job, streams: list[JetStreamContext], turns: Sequence[Turn]) -> None:
    parts = by_publisher(job, turns)
    await asyncio.gather(*(_publish_all(job, stream, its) for stream, its in zip(streams, parts, strict=True)))


async def _publish_all(job: Job, stream: JetStreamContext, turns: Sequence[Turn]) -> None:
    subjects, payloads = _subjects(job), Payloads(job)
    if job.window == 1:
        for turn in turns:
            await stream.publish(subjects[turn.topic], payloads.make(turn.number))
        return
    opened: deque[asyncio.Future[Any]] = deque()
    for turn in turns:
        if len(opened) >= job.window:
            await opened.popleft()
        opened.append(await stream.publish_async(subjects[turn.topic], payloads.make(turn.number)))
    for acknowledgement in opened:
        await acknowledgement


async def _paced(job: Job, streams: list[JetStreamContext]) -> Answer:
    answer = Answer(began=time.monotonic(), events=job.events)
    subjects, payloads = _subjects(job), Payloads(job)
    opened = [
        await streams[turn.publisher].publish_async(subjects[turn.topic], payloads.make(turn.number))
        async for turn in at_pace(job, answer.began)
    ]
    await asyncio.gather(*opened)
    answer.ended = time.monotonic()
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    return asyncio.run(_receive(job, ready))


async def _receive(job: Job, ready: Ready) -> Answer:
    shape, arrivals = SHAPES[job.shape], Arrivals(job)
    connections = [await nats.connect(job.url) for _ in shape.subscribers]
    manager = connections[0].jetstream()
    await manager.add_stream(name=job.name, subjects=[f"{job.name}.>"])
    consumers = [await each.jetstream().subscribe(f"{job.name}.>", ordered_consumer=True) for each in connections]
    await asyncio.to_thread(ready)
    await asyncio.gather(*(_take(consumer, number, arrivals) for number, consumer in enumerate(consumers)))
    await manager.delete_stream(job.name)
    await _close(connections)
    return arrivals.judged()


async def _take(consumer: Any, number: int, arrivals: Arrivals) -> None:
    count = arrivals.count(number)
    async for message in consumer.messages:
        arrivals.took(number, message.data)
        count -= 1
        if not count:
            return


def _subjects(job: Job) -> list[str]:
    return [f"{job.name}.{topic.replace('/', '.')}" for topic in SHAPES[job.shape].topics]


async def _close(connections: Sequence[Client]) -> None:
    for connection in connections:
        await connection.close()
