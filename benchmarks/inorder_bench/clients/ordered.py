"""inorder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import inorder
from inorder_bench.clocks import Arrivals, Payloads, at_pace, by_publisher, turns_of, within
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES, Turn

Ready = Callable[[], None]


def make_client(job: Job, name: str) -> inorder.Client:
    """Make a client that is not open yet."""
    options = {"protocol": job.protocol} if job.url.startswith("mqtt") else {}
    client_id = f"{job.name}-{name}"
    traces = inorder.Traces(job.traces, flush_interval=job.flush_interval) if job.traces else None
    return inorder.Client(job.url, workers=job.workers, client_id=client_id, options=options, traces=traces)


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients."""
    return asyncio.run(_publish(job, ready))


async def _publish(job: Job, ready: Ready) -> Answer:
    async with AsyncExitStack() as stack:
        publishers = range(len(SHAPES[job.shape].publishers))
        clients = [await stack.enter_async_context(make_client(job, f"publisher-{each}")) for each in publishers]
        await asyncio.to_thread(ready)
        if job.rate:
            return await _paced(job, clients)
        warm_up, measured = turns_of(job)
        await _fast(job, clients, warm_up)
        answer, cpu = Answer(began=time.monotonic(), events=len(measured)), time.process_time()
        await _fast(job, clients, measured)
        answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
        return answer


async def _fast(job: Job, clients: list[inorder.Client], turns: Sequence[Turn]) -> None:
    parts = by_publisher(job, turns)
    await asyncio.gather(*(_publish_all(job, client, its) for client, its in zip(clients, parts, strict=True)))


async def _publish_all(job: Job, client: inorder.Client, turns: Sequence[Turn]) -> None:
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)
    opened = (client.publish(topics[turn.topic], payloads.make(turn.number)) for turn in turns)
    for receipt in within(job.window, opened):
        await receipt


async def _paced(job: Job, clients: list[inorder.Client]) -> Answer:
    answer = Answer(began=time.monotonic(), events=job.events)
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)
    receipts = [
        clients[turn.publisher].publish(topics[turn.topic], payloads.make(turn.number))
        async for turn in at_pace(job, answer.began)
    ]
    await asyncio.gather(*receipts)
    answer.ended = time.monotonic()
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients."""
    return asyncio.run(_receive(job, ready))


async def _receive(job: Job, ready: Ready) -> Answer:
    shape, arrivals = SHAPES[job.shape], Arrivals(job)
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(len(shape.subscribers)):
            clients.append(await stack.enter_async_context(make_client(job, f"subscriber-{number}")))
            await clients[-1].subscribe(*shape.names(number))
        await asyncio.to_thread(ready)
        await asyncio.gather(*(_take(client, number, arrivals) for number, client in enumerate(clients)))
    return arrivals.judged()


async def _take(client: inorder.Client, number: int, arrivals: Arrivals) -> None:
    count = arrivals.count(number)
    async for event in client.events():
        if not isinstance(event, inorder.Event) or event.verdict != inorder.Verdict.IN_ORDER:
            raise SystemExit(f"not in order: {event}")
        arrivals.took(number, event.payload)
        count -= 1
        if not count:
            return
