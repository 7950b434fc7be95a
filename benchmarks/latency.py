"""From the publish call to the notification at 200 events/s, and what the worker's answer itself takes.

Round trips and commits are measured at the same pace: after a pause processors, disks and caches answer slower than
in the middle of a burst.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.processes import Run, run
from benchmarks.rows import Row, Say, spread
from benchmarks.throughput import MATCHES, Match, make_job, start_broker
from benchmarks.worker import Peer, connect
from inorder.core.wire import CreateTimestamps, NewEvent, Ping, Pong, Resolve, Timestamps, Topics
from inorder.testing.services import WorkerServer
from inorder.worker.journal import Batch
from inorder.worker.sql_journal import SqlJournal

RATE = 200.0
WARM_UP = 100
ROUND_TRIPS = COMMITS = 200
COMMIT_BYTES = 100
AIM = 1.5


def measure(name: str, events: int, repeats: int, say: Say) -> list[Row]:
    """Measure inorder and the bare clients in turn; then the worker's round trip and the store's commit."""
    match = MATCHES[name]
    contenders = [each for each in match.contenders if each.is_yardstick or each.client == "inorder"]
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    trips: list[float] = []
    answers: list[float] = []
    commits: list[float] = []
    with ExitStack() as stack:
        broker = start_broker(match, stack)
        worker = stack.enter_context(WorkerServer())
        folder = Path(stack.enter_context(TemporaryDirectory()))
        for repeat in range(repeats):
            for contender in contenders if repeat % 2 == 0 else contenders[::-1]:
                job = make_job(
                    match, contender, broker.url, worker.url, repeat, events=events, warm_up=WARM_UP, rate=RATE
                )
                done = run(job)
                runs[contender.name].append(done)
                say(f"latency, {name}: {contender.name}: p50 {percentile(done, 50):,.0f} us")
            trip, answer = asyncio.run(_round_trips(worker.port, f"round-trips-{repeat}"))
            trips.append(trip)
            answers.append(answer)
            commits.append(_commit(f"sqlite:///{folder}/commits-{repeat}.db"))
    return _rows(match, runs, trips, answers, commits)


def percentile(run: Run, percent: float) -> float:
    """Return a percentile of a run's latencies, in microseconds."""
    values = sorted(run.subscribers.latencies_us)
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


async def _round_trips(port: int, name: str) -> tuple[float, float]:
    """Return the medians of a ping and of one durable timestamp, each asked for when the one before has come."""
    peer = await connect(port, name)
    peer.send(Resolve(1, [("bench", name)]))
    topics = await peer.next(Topics)
    assert isinstance(topics, Topics)
    topic = topics.topics[0].id
    pings, stamps = [], []
    for number in range(1, ROUND_TRIPS + 1):
        await asyncio.sleep(1 / RATE)
        pings.append(await _timed(peer, Ping(number), Pong))
        await asyncio.sleep(1 / RATE)
        stamps.append(await _timed(peer, CreateTimestamps(0, number, [NewEvent(number, topic)]), Timestamps))
    assert peer.transport is not None
    peer.transport.close()
    return median(pings), median(stamps)


async def _timed(peer: Peer, request: Ping | CreateTimestamps, answer: type[Pong] | type[Timestamps]) -> float:
    began = time.perf_counter()
    peer.send(request)
    await peer.next(answer)
    return (time.perf_counter() - began) * 1e6


def _commit(url: str) -> float:
    """Return the median of one append to a journal of its own."""
    journal = SqlJournal(url)
    journal.open(1)
    epoch, times = journal.claim(0, "benchmark"), []
    for seq in range(1, COMMITS + 1):
        time.sleep(1 / RATE)
        began = time.perf_counter()
        journal.append([Batch(0, epoch, seq, bytes(COMMIT_BYTES))])
        times.append((time.perf_counter() - began) * 1e6)
    journal.close()
    return median(times)


def _rows(
    match: Match, runs: dict[str, list[Run]], trips: list[float], answers: list[float], commits: list[float]
) -> list[Row]:
    title = f"latency at {RATE:.0f} events/s, {match.title.removeprefix('throughput, ')}"
    medians = {name: [percentile(each, 50) for each in its] for name, its in runs.items()}
    bare = min((name for name in medians if name != "inorder"), key=lambda name: median(medians[name]))
    rows = [
        Row(
            workload=title,
            name=name,
            unit="us (p50)",
            value=spread(medians[name]),
            more={"p99 us": median([percentile(each, 99) for each in its])},
        )
        for name, its in runs.items()
    ]
    added = [ours - theirs for ours, theirs in zip(medians["inorder"], medians[bare], strict=True)]
    allowed = [trip + commit for trip, commit in zip(trips, commits, strict=True)]
    ratio = spread([one / other for one, other in zip(added, allowed, strict=True)])
    rows += [
        Row(workload=title, name="one worker round trip (ping)", unit="us (p50)", value=spread(trips)),
        Row(workload=title, name="one commit", unit="us", value=spread(commits)),
        Row(workload=title, name="one durable timestamp", unit="us (p50)", value=spread(answers)),
        Row(
            workload=title,
            name=f"added by inorder to {bare}",
            unit="us (p50)",
            value=spread(added),
            ratio=ratio,
            yardstick="of round trip + commit",
            aim=f"<= {AIM}",
            reached=ratio.median <= AIM,
        ),
    ]
    return rows
