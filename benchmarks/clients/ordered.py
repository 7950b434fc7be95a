"""inorder."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

import inorder
from benchmarks.clocks import PLAIN, Arrivals, due_times, timed_payload
from benchmarks.job import SUBSCRIBERS, TOPICS, WINDOW, Answer, Burst, Job

Ready = Callable[[], None]


def _client(job: Job, name: str) -> inorder.Client:
    options = {"protocol": job.protocol} if job.url.startswith("mqtt") else {}
    # A subscriber that is the bottleneck lets events lie at the broker for seconds: they are late there, not lost.
    times = inorder.ClientTimes(loss_timeout=60.0)
    client_id = f"{job.name}-{name}"
    traces = inorder.Traces(job.traces, flush_interval=job.flush_interval) if job.traces else None
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


async def _fast(clients: list[inorder.Client], count: int, topics: Sequence[str] = TOPICS) -> None:
    await asyncio.gather(*map(_publish_all, clients, topics, [count] * len(clients)))


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


def alternate(job: Job, ready: Ready) -> Answer:
    """Let clients that record and clients that do not publish and receive in turn, all in one process."""
    return asyncio.run(_alternate(job, ready))


async def _alternate(job: Job, ready: Ready) -> Answer:
    answer = Answer()
    async with AsyncExitStack() as plain_stack, AsyncExitStack() as recorded_stack:
        plain = await _group(plain_stack, msgspec.structs.replace(job, name=f"{job.name}-plain", traces=""))
        recorded = await _group(recorded_stack, msgspec.structs.replace(job, name=f"{job.name}-recorded"))
        await asyncio.to_thread(ready)
        for group in (plain, recorded):
            await _burst(group, job.warm_up)
        writing = -_other_threads_s()
        for pair in range(job.pairs):
            turns = (plain, answer.plain), (recorded, answer.recorded)
            for group, bursts in turns if pair % 2 == 0 else turns[::-1]:
                bursts.append(await _burst(group, job.events))
        for stack, sign in ((plain_stack, -1), (recorded_stack, 1)):  # recording adds to what closing costs, too
            began = time.thread_time()
            await stack.aclose()
            writing += sign * (time.thread_time() - began)
    answer.writing_s = writing + _other_threads_s()
    return answer


def bursts(job: Job, ready: Ready) -> Answer:
    """Publish and receive in one process, and write what was recorded at the end."""
    return asyncio.run(_bursts(job, ready))


async def _bursts(job: Job, ready: Ready) -> Answer:
    async with AsyncExitStack() as stack:
        group = await _group(stack, job)
        await asyncio.to_thread(ready)
        await _burst(group, job.warm_up)
        return Answer(plain=[await _burst(group, job.events) for _ in range(job.pairs)])


def _other_threads_s() -> float:
    """Return the processor time of all threads but this one."""
    return time.process_time() - time.thread_time()


@dataclass(frozen=True, slots=True)
class _Group:
    """Clients that have topics of their own; ``job`` says how much each subscriber gets in a burst."""

    job: Job
    topics: list[str]
    publishers: list[inorder.Client]
    subscribers: list[inorder.Client]


async def _group(stack: AsyncExitStack, job: Job) -> _Group:
    topics = [f"{job.name}/{topic}" for topic in TOPICS]
    subscribers = [await stack.enter_async_context(_client(job, f"subscriber-{each}")) for each in range(SUBSCRIBERS)]
    publishers = [await stack.enter_async_context(_client(job, f"publisher-{topic[-3:]}")) for topic in TOPICS]
    for client in subscribers:
        await client.subscribe(*topics)
    return _Group(job, topics, publishers, subscribers)


async def _burst(group: _Group, events: int) -> Burst:
    arrivals = Arrivals(msgspec.structs.replace(group.job, events=events, warm_up=0), SUBSCRIBERS)
    began = Burst(time.thread_time(), time.monotonic())
    taking = asyncio.gather(*(_take(client, events, arrivals) for client in group.subscribers))
    await _fast(group.publishers, events // len(group.publishers), group.topics)
    await taking
    return Burst(time.thread_time() - began.cpu_s, time.monotonic() - began.wall_s)


async def _take(client: inorder.Client, count: int, arrivals: Arrivals) -> None:
    async for event in client.events():
        if not isinstance(event, inorder.Event) or event.verdict != inorder.Verdict.IN_ORDER:
            raise SystemExit(f"not in order: {event}")
        arrivals.took(event.payload)
        count -= 1
        if not count:
            return
