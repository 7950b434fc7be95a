"""Bursts of inorder's clients, all in one process: of those that record and of those that do not, in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

import inorder
from inorder_bench.clients.ordered import make_client
from inorder_bench.clocks import within
from inorder_bench.job import PAYLOAD_BYTES, SUBSCRIBERS, WINDOW, Answer, Burst, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]
PLAIN = b"x" * PAYLOAD_BYTES


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
    topics = [f"{job.name}/{topic}" for topic in SHAPES["pair"].topics]
    subscribers = [
        await stack.enter_async_context(make_client(job, f"subscriber-{each}")) for each in range(SUBSCRIBERS)
    ]
    publishers = [await stack.enter_async_context(make_client(job, f"publisher-{topic[-3:]}")) for topic in topics]
    for client in subscribers:
        await client.subscribe(*topics)
    return _Group(job, topics, publishers, subscribers)


async def _burst(group: _Group, events: int) -> Burst:
    began = Burst(time.thread_time(), time.monotonic())
    taking = asyncio.gather(*(_take(client, events) for client in group.subscribers))
    each = events // len(group.publishers)
    await asyncio.gather(*(_publish(*pair, each) for pair in zip(group.publishers, group.topics, strict=True)))
    await taking
    return Burst(time.thread_time() - began.cpu_s, time.monotonic() - began.wall_s)


async def _publish(client: inorder.Client, topic: str, count: int) -> None:
    for receipt in within(WINDOW, (client.publish(topic, PLAIN) for _ in range(count))):
        await receipt


async def _take(client: inorder.Client, count: int) -> None:
    async for event in client.events():
        if not isinstance(event, inorder.Event) or event.verdict != inorder.Verdict.IN_ORDER:
            raise SystemExit(f"not in order: {event}")
        count -= 1
        if not count:
            return
