"""The half with inorder: the same workload through ``inorder.Client``."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from contextlib import AsyncExitStack

import inorder
from inorder_cli.demo.plan import (
    QUIET_SECONDS_ORDERED,
    SETTLE_SECONDS,
    TICK_SECONDS,
    Channel,
    Link,
    Pace,
    Recorder,
    SiteJob,
    SiteResult,
    make_payload,
)

IN_FLIGHT = 5000
"""Publishes that may be unanswered; a machine that is slower than the rate then publishes as fast as it can."""


async def run_ordered(job: SiteJob, link: Link) -> SiteResult:
    """Run one site of the half with inorder."""
    recorder = Recorder(job)
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(_client(job, (job.publishes,), "publisher"))
        subscriber = await stack.enter_async_context(_client(job, job.subscribes, "subscriber"))
        for channel in job.subscribes:
            await subscriber.subscribe(channel.topic, space=channel.space)
        start = await link.ready()
        recorder.last_arrival = start
        consuming = asyncio.create_task(_consume(subscriber, recorder), name="demo-consume")
        publishing = asyncio.create_task(_publish(publisher, job, start), name="demo-publish")
        while not consuming.done() and not (publishing.done() and recorder.is_over(QUIET_SECONDS_ORDERED)):
            await asyncio.sleep(0.05)
            link.progress(len(recorder.distinct))
        recorder.result.problems += await publishing
        await asyncio.sleep(SETTLE_SECONDS)
        consuming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await consuming
    return recorder.finished(start)


def _client(job: SiteJob, channels: tuple[Channel, ...], role: str) -> inorder.Client:
    spaces = {channel.space: channel.url for channel in channels if channel.space is not None}
    brokers: str | dict[str, str] = spaces or channels[0].url
    traces = inorder.Traces(job.traces, run=job.run) if job.traces else None
    return inorder.Client(brokers, workers=list(job.workers), client_id=f"demo-{role}-{job.name}", traces=traces)


async def _publish(client: inorder.Client, job: SiteJob, start: float) -> list[str]:
    """Publish at the job's rate, many in flight; return the failures in words."""
    topic, space = job.publishes.topic, job.publishes.space
    pace, receipts = Pace(job, start), deque[asyncio.Future[inorder.Receipt]]()
    failures: Counter[str] = Counter()

    async def collect(most: int) -> None:
        """Look at receipts until at most so many are left, the oldest of them still open."""
        while receipts and (len(receipts) > most or receipts[0].done()):
            try:
                await receipts.popleft()
            except inorder.InorderError as error:
                failures[f"{type(error).__name__}: {error}"] += 1

    while not pace.is_done:
        receipts += [client.publish(topic, make_payload(index), space=space) for index in pace.due()]
        await collect(IN_FLIGHT)
        await asyncio.sleep(TICK_SECONDS)
    await collect(0)
    return [f"{count} publishes at {job.name} failed: {text}" for text, count in failures.items()]


async def _consume(client: inorder.Client, recorder: Recorder) -> None:
    """Record all notifications."""
    result = recorder.result
    async for item in client.events():
        if isinstance(item, inorder.Event):
            verdict = str(item.verdict)
            result.verdicts[verdict] = result.verdicts.get(verdict, 0) + 1
            recorder.saw(item.topic, item.payload)
        elif isinstance(item, inorder.Gap):
            result.gaps += item.last - item.first + 1
            result.problems.append(f"{recorder.job.name}: {item.topic} {item.first}-{item.last} {item.reason}")
        else:
            result.problems.append(f"{recorder.job.name}: a connection broke and came back")
