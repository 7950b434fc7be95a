"""Contenders that do the same beside each other: inorder and what it is compared with, in turn, several times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from hdrh.histogram import HdrHistogram

from inorder_adapters.payload_form import join
from inorder_bench.job import PAYLOAD_BYTES, Job
from inorder_bench.processes import Run, run
from inorder_bench.rows import Result, Row, Say, Spread, paired, spread
from inorder_bench.servers import Servers

WARM_UP = 1_000
CLIENTS = "inorder_bench.clients"
LONGEST_US = 600_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes:
        events: of one throughput run; other workloads take a share of it.
        repeats: of each contender.
        warm_up: events before those that are measured.
    """

    events: int = 20_000
    repeats: int = 5
    warm_up: int = WARM_UP

    def share(self, part: float, least: int = 20) -> int:
        """Return a part of the events, even and not below ``least``."""
        return max(least, int(self.events * part) // 2 * 2)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure or a ratio should be."""

    how: Literal[">=", ">", "<="]
    value: float

    def is_reached(self, figure: float) -> bool:
        """Tell whether a figure is so."""
        return {">=": figure >= self.value, ">": figure > self.value, "<=": figure <= self.value}[self.how]

    def __str__(self) -> str:
        return f"{self.how} {self.value:,g}"


@dataclass(frozen=True, slots=True)
class Contender:
    """One client in one configuration.

    Attributes:
        name: of its row.
        client: the module of :mod:`inorder_bench.clients`.
        server: what it talks to, a kind of :mod:`inorder_bench.servers`.
        envelope: the stamp's place, for bare clients: they carry as many bytes there.
        aim: inorder's figure divided by this one's.
        settings: of its :class:`~inorder_bench.job.Job`.
        workers: a kind of servers, for inorder.
    """

    name: str
    client: str
    server: str = "mosquitto"
    envelope: Literal["", "property", "payload"] = ""
    aim: Aim | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    workers: str = "worker"

    @property
    def is_ordered(self) -> bool:
        """Whether it promises one order to all subscribers."""
        return self.client in ("ordered", "jetstream", "redis_streams")

    def job(
        self,
        servers: Servers,
        repeat: int,
        stamp: int,
        changes: Mapping[str, Any],
        *,
        workers: Sequence[str] | None = None,
    ) -> Job:
        """Return its job; ``stamp`` is the length of a timestamp on the wire, ``workers`` are others than its own."""
        settings: dict[str, Any] = {**changes, **self.settings}
        if self.envelope == "property":
            settings["property_value"] = "x" * stamp
        elif self.envelope == "payload":
            settings["payload_bytes"] = payload_bytes(stamp)
        return Job(
            client=f"{CLIENTS}.{self.client}",
            url=servers.url(self.server),
            workers=list(workers) if workers is not None else self._workers(servers),
            name=f"{re.sub('[^a-z0-9]+', '-', self.name.lower())}-{changes.get('shape', 'pair')}-{repeat}",
            is_ordered=self.is_ordered,
            **settings,
        )

    def _workers(self, servers: Servers) -> list[str]:
        return servers.workers(self.workers) if self.client == "ordered" else []


def payload_bytes(stamp: int) -> int:
    """Return the length of a payload with a stamp in front of it."""
    return len(join(b"x" * stamp, bytes(PAYLOAD_BYTES)))


@dataclass(frozen=True, slots=True)
class Match:
    """inorder, and who is measured beside it.

    Attributes:
        ours, others: the contenders.
        changes: settings that all of them have.
        share: of the size's events, for slow ones.
        aim: of inorder's own figure, events per second or ms.
    """

    ours: Contender
    others: Sequence[Contender]
    changes: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """What the contenders of a match did, repeat by repeat; who was left out, and why."""

    match: Match
    runs: Mapping[str, list[Run]]
    left_out: Mapping[str, str]


def play(match: Match, servers: Servers, size: Size, say: Say, *, stamp: int, rate: float = 0.0) -> Played:
    """Let all contenders run in turn, forwards and backwards. Raises RunFailed, MissingBinary, ServerFailed."""
    why = {each.name: servers.missing(each.server) for each in match.others}
    left_out = {name: text for name, text in why.items() if text}
    for name, text in left_out.items():
        say(f"left out: {name}: {text}")
    contenders = [match.ours, *(each for each in match.others if each.name not in left_out)]
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    changes = {"events": size.share(match.share), "warm_up": size.warm_up, "rate": rate, **match.changes}
    for repeat in range(size.repeats):
        for each in contenders if repeat % 2 == 0 else contenders[::-1]:
            done = run(each.job(servers, repeat, stamp, changes))
            runs[each.name].append(done)
            told = f"p50 {done.percentile_ms(50):.2f} ms" if rate else f"{done.events_per_s:,.0f} events/s"
            say(f"repeat {repeat + 1} of {size.repeats}: {each.name}: {told}")
    return Played(match, runs, left_out)


def rates(workload: str, played: Played) -> Result:
    """Return how many events a second each contender did, and how inorder's compare with them."""
    return _result(workload, played, "events/s", lambda run: run.events_per_s, processor_time)


def latencies(workload: str, played: Played) -> Result:
    """Return the median latency of each contender, and how inorder's compare with them."""
    return _result(workload, played, "ms", lambda run: run.percentile_ms(50), percentiles)


def longest(workload: str, played: Played) -> Result:
    """Return the longest latency of each contender, the median of its repeats, and how inorder's compare with them."""
    return _result(workload, played, "ms", lambda run: run.percentile_ms(100), percentiles)


def _result(
    workload: str,
    played: Played,
    unit: str,
    figure: Callable[[Run], float],
    more: Callable[[Sequence[Run]], dict[str, float]],
) -> Result:
    match, figures = played.match, {name: [figure(run) for run in runs] for name, runs in played.runs.items()}
    ours = figures[match.ours.name]
    rows = [_row(workload, played, match.ours, unit, spread(ours), more)]
    for each in match.others:
        if each.name in figures:
            row = _row(workload, played, each, unit, spread(figures[each.name]), more)
            ratio = paired(ours, figures[each.name])
            row = msgspec.structs.replace(row, ratio=ratio, yardstick=f"{match.ours.name} / {each.name}")
            if each.aim is not None:
                row = msgspec.structs.replace(row, aim=str(each.aim), reached=each.aim.is_reached(ratio.median))
            rows.append(row)
    return Result(rows=rows, left_out=dict(played.left_out))


def _row(
    workload: str,
    played: Played,
    contender: Contender,
    unit: str,
    value: Spread,
    more: Callable[[Sequence[Run]], dict[str, float]],
) -> Row:
    runs, aim = played.runs[contender.name], played.match.aim if contender is played.match.ours else None
    counts = {"events": float(runs[0].publishers.events), "notifications": float(runs[0].subscribers.events)}
    return Row(
        workload=workload,
        name=contender.name,
        unit=unit,
        value=value,
        aim="" if aim is None else f"{aim} {unit}",
        reached=None if aim is None else aim.is_reached(value.median),
        more=counts | more(runs),
    )


def processor_time(runs: Sequence[Run]) -> dict[str, float]:
    """Return what the two processes of a run work for an event, in µs, the median of all runs."""
    return {
        "publish_cpu_us": spread([run.publish_us for run in runs]).median,
        "receive_cpu_us": spread([run.receive_us for run in runs]).median,
    }


def percentiles(runs: Sequence[Run]) -> dict[str, float]:
    """Return percentiles over the latencies of all runs, in ms, as an HDR histogram of three digits has them."""
    histogram = HdrHistogram(1, LONGEST_US, 3)
    for each in runs:
        for latency in each.subscribers.latencies_us:
            histogram.record_value(min(LONGEST_US, max(1, round(latency))))
    found = {f"p{percent:g}_ms".replace(".", "_"): percent for percent in (90.0, 99.0, 99.9, 100.0)}
    return {name: histogram.get_value_at_percentile(percent) / 1e3 for name, percent in found.items()}
