"""inorder."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack

import inorder
from benchmarks.clocks import PLAIN, Arrivals, due_times, timed_payload
from benchmarks.job import SUBSCRIBERS, TOPICS, WINDOW, Answer, Job

Ready = Callable[[], None]


def _client(job: Job, name: str) -> inorder.Client:
    options = {"protocol": job.protocol} if job.url.startswith("mqtt") else {}
    # A subscriber that is the bottleneck lets events lie at the broker for seconds: they are late there, not lost.
    times = inorder.ClientTimes(loss_timeout=60.0)
    client_id = f"{job.name}-{name}"
    traces = job.traces or None
    return inorder.Client(
        job.url, workers=job.workers, client_id=client_id, options=options, times=times, traces=traces
    )


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from two clients."""
    return asyncio.run(_publish(job, ready))


async def _publish(job: Job, ready: Ready) -> Answer:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(job, f"publisher-{topic[-3:]}")) for topic in TOPICS]
        await asyncio.to_thread(ready)
        if job.rate:
            return await _paced(job, clients)
        await _fast(clients, job.warm_up // len(clients))
        answer, cpu = Answer(began=time.monotonic()), time.process_time()
        await _fast(clients, job.events // len(clients))
        answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
        return answer


async def _fast(clients: list[inorder.Client], count: int) -> None:
    await asyncio.gather(*map(_publish_all, clients, TOPICS, [count] * len(clients)))


async def _publish_all(client: inorder.Client, topic: str, count: int) -> None:
    opened: deque[asyncio.Future[inorder.Receipt]] = deque()
    for _ in range(count):
        if len(opened) >= WINDOW:
            await opened.popleft()
        opened.append(client.publish(topic, PLAIN))
    for receipt in opened:
        await receipt


async def _paced(job: Job, clients: list[inorder.Client]) -> Answer:
    answer = Answer(began=time.monotonic())
    receipts = []
    for number, due in enumerate(due_times(job, answer.began)):
        if (pause := due - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        which = number % len(clients)
        receipts.append(clients[which].publish(TOPICS[which], timed_payload()))
    await asyncio.gather(*receipts)
    answer.ended = time.monotonic()
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with two clients."""
    return asyncio.run(_receive(job, ready))


async def _receive(job: Job, ready: Ready) -> Answer:
    arrivals = Arrivals(job, SUBSCRIBERS)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(job, f"subscriber-{each}")) for each in range(SUBSCRIBERS)]
        for client in clients:
            await client.subscribe(*TOPICS)
        await asyncio.to_thread(ready)
        await asyncio.gather(*(_take(client, job.expected, arrivals) for client in clients))
    return arrivals.answer


def together(job: Job, ready: Ready) -> Answer:
    """Publish and receive in one process, as the in-process broker needs it."""
    return asyncio.run(_together(job, ready))


async def _together(job: Job, ready: Ready) -> Answer:
    arrivals = Arrivals(job, SUBSCRIBERS)
    async with AsyncExitStack() as stack:
        subscribers = [
            await stack.enter_async_context(_client(job, f"subscriber-{each}")) for each in range(SUBSCRIBERS)
        ]
        publishers = [await stack.enter_async_context(_client(job, f"publisher-{topic[-3:]}")) for topic in TOPICS]
        for client in subscribers:
            await client.subscribe(*TOPICS)
        await asyncio.to_thread(ready)
        taking = asyncio.gather(*(_take(client, job.expected, arrivals) for client in subscribers))
        await _fast(publishers, job.warm_up // len(publishers))
        began = time.monotonic()
        await _fast(publishers, job.events // len(publishers))
        await taking
    arrivals.answer.began = began
    return arrivals.answer


async def _take(client: inorder.Client, count: int, arrivals: Arrivals) -> None:
    async for event in client.events():
        if not isinstance(event, inorder.Event) or event.verdict != inorder.Verdict.IN_ORDER:
            raise SystemExit(f"not in order: {event}")
        arrivals.took(event.payload)
        count -= 1
        if not count:
            return
