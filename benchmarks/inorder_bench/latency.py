"""From the publish call to the notification at 200 events/s, and what the worker's answer itself takes.

Round trips and commits are measured at the same pace: after a pause processors, disks and caches answer slower than
in the middle of a burst.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from inorder.protocol.wire import CreateTimestamps, NewEvent, Ping, Pong, Timestamps
from inorder_bench.commits import commit_times
from inorder_bench.match import Aim, Contender, Match, Played, Size, latencies, play
from inorder_bench.peer import Peer, connect, resolve
from inorder_bench.rows import Result, Row, Say, paired, spread
from inorder_bench.servers import Servers
from inorder_bench.throughput import MQTT5, MQTT311, REDIS, stamp_bytes, together

RATE = 200.0
SHARE = 0.05
"""Of a throughput run's events."""
AIM_MS = Aim("<=", 1.5)
"""Of the median, where the bare client's is 0.55 ms."""
AIM_ADDED = Aim("<=", 1.5)
ALLOWED = "a round trip and a commit"
_STREAM = Contender("Redis Stream, appendfsync always", "redis_streams", "redis, appendfsync always")


def _paced(match: Match, others: Sequence[Contender]) -> Match:
    """Return the match at a pace; what throughput is compared by is no aim here."""
    return replace(match, others=[replace(each, aim=None) for each in others], share=SHARE, aim=AIM_MS)


MATCHES = (
    _paced(MQTT5, [each for each in MQTT5.others if not each.settings]),
    _paced(MQTT311, MQTT311.others),
    _paced(REDIS, [REDIS.others[1], _STREAM]),
)


def paced(size: Size, say: Say) -> Result:
    """W2: 200 events/s, over MQTT 5, MQTT 3.1.1 and Redis."""
    small = replace(size, warm_up=size.warm_up // 10)
    with Servers() as servers, TemporaryDirectory() as folder:
        played = [play(match, servers, small, say, stamp=stamp_bytes(), rate=RATE) for match in MATCHES]
        port, asked = int(servers.url("worker").rpartition(":")[2]), size.share(SHARE / 5)
        times = []
        for repeat in range(size.repeats):
            trips = asyncio.run(_round_trips(port, f"round-trips-{repeat}", asked))
            times.append((*trips, _commit(Path(folder, f"commits-{repeat}.db"), asked)))
            say(f"repeat {repeat + 1} of {size.repeats}: ms of a ping, a timestamp, a commit: {times[-1]}")
    results = [latencies("W2", each) for each in played]
    pings, stamps, commits = (list(column) for column in zip(*times, strict=True))
    return together(
        [*results, Result(rows=_parts(pings, stamps, commits)), Result(rows=_added(played, pings, commits))]
    )


def _parts(pings: list[float], stamps: list[float], commits: list[float]) -> list[Row]:
    return [
        Row(workload="W2", name=name, unit="ms", value=spread(values))
        for name, values in (
            ("a round trip to the worker", pings),
            ("a commit of the store", commits),
            (ALLOWED, _sums(pings, commits)),
            ("a durable timestamp", stamps),
        )
    ]


def _sums(pings: list[float], commits: list[float]) -> list[float]:
    return [sum(pair) for pair in zip(pings, commits, strict=True)]


def _added(played: Sequence[Played], pings: list[float], commits: list[float]) -> list[Row]:
    """Return what order adds to the bare client that is the fastest, beside what it cannot do without."""
    rows = []
    for each in played:
        medians = {name: [run.percentile_ms(50) for run in runs] for name, runs in each.runs.items()}
        ours = each.match.ours.name
        bare = [other.name for other in each.match.others if not other.is_ordered]
        fastest = min(bare, key=lambda name: median(medians[name]))
        added = [mine - other for mine, other in zip(medians[ours], medians[fastest], strict=True)]
        ratio = paired(added, _sums(pings, commits))
        rows.append(
            Row(
                workload="W2",
                name=f"added by {ours} to {fastest}",
                unit="ms",
                value=spread(added),
                ratio=ratio,
                yardstick=f"added by {ours} to {fastest} / {ALLOWED}",
                aim=str(AIM_ADDED),
                reached=AIM_ADDED.is_reached(ratio.median),
            )
        )
    return rows


async def _round_trips(port: int, name: str, count: int) -> tuple[float, float]:
    """Return the medians of a ping and of one durable timestamp, in ms, each asked for when the one before has come."""
    peer = await connect(port, name)
    (topic,) = await resolve(peer, [name])
    pings, stamps = [], []
    for number in range(1, count + 1):
        await asyncio.sleep(1 / RATE)
        pings.append(await _timed(peer, Ping(number), Pong))
        await asyncio.sleep(1 / RATE)
        stamps.append(await _timed(peer, CreateTimestamps(0, number, [NewEvent(number, topic)]), Timestamps))
    peer.close()
    return median(pings), median(stamps)


async def _timed(peer: Peer, request: Ping | CreateTimestamps, answer: type[Pong] | type[Timestamps]) -> float:
    began = time.perf_counter()
    peer.send(request)
    await peer.next(answer)
    return (time.perf_counter() - began) * 1e3


def _commit(file: Path, count: int) -> float:
    """Return the median of one append to a journal of its own, in ms, at the pace of the events."""
    return median(commit_times(f"sqlite:///{file}", count, pause=1 / RATE)) * 1e3
