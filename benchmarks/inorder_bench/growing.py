"""Topics grow in number, all of them under the wildcards of one or two subscribers: how long timestamps are then, how
fast events go, and how much memory the worker has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from inorder.testing.services import WorkerServer
from inorder_bench.job import Job
from inorder_bench.machine import resident_bytes
from inorder_bench.match import Contender, Size, processor_time
from inorder_bench.processes import Run, run
from inorder_bench.rows import Result, Row, Say, paired, percentile, spread
from inorder_bench.servers import Servers
from inorder_bench.shapes import GROWING, WAYS, under_wildcard
from inorder_bench.stamps import observe

OBSERVED = 0.1
"""Of the events: so many have their timestamps read, in a run of its own."""
KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to have so many topics: with so many subscribers of ``#``, one publisher, published to in this way."""

    readers: int
    way: str

    def name(self, topics: int) -> str:
        """Return the name of its row."""
        readers = f"{self.readers} reader{'s' * (self.readers > 1)} of #"
        return f"{topics:,} topics, {readers}, {self.way}"

    def job(self, servers: Servers, worker: WorkerServer, topics: int, repeat: int, size: Size) -> Job:
        """Return the job of a run. ``worker`` is new, so that it has no other topics."""
        changes = {
            "events": size.events,
            "warm_up": size.warm_up,
            "shape": under_wildcard(topics, self.readers, self.way),
        }
        return Contender(self.name(topics), "ordered").job(servers, repeat, 0, changes, workers=[worker.url])


class Done(NamedTuple):
    """A run, and the bytes of memory that its worker had in the end (0: the system does not tell)."""

    run: Run
    memory: int


Lengths = dict[str, float]
"""How long timestamps are, by the name of the figure."""
KINDS = [Kind(readers, way) for readers in (1, 2) for way in WAYS]


def more_topics(size: Size, say: Say) -> Result:
    """W9: 10 to 10,000 topics, of which each has an event in the warm-up; with fewer events there are fewer topics."""
    sizes = sizes_of(size)
    # as many events for each size, so that what a worker has more is for the topics
    size = Size(size.events, size.repeats, max(size.warm_up, *sizes))
    rows = []
    with Servers() as servers:
        for kind in KINDS:
            lengths = {topics: _lengths(kind, servers, topics, size) for topics in sizes}
            runs: dict[int, list[Done]] = {topics: [] for topics in sizes}
            for repeat in range(size.repeats):
                for topics in sizes if repeat % 2 == 0 else sizes[::-1]:
                    runs[topics].append(_done(kind, servers, topics, repeat, size))
                    rate = runs[topics][-1].run.events_per_s
                    say(f"repeat {repeat + 1} of {size.repeats}: {kind.name(topics)}: {rate:,.0f} events/s")
            rows += rows_of(kind, runs, lengths)
    return Result(rows=rows)


def sizes_of(size: Size) -> list[int]:
    """Return how many topics there are, run by run: more events than twice as many."""
    return [topics for topics in GROWING if 2 * topics <= size.events]


def _lengths(kind: Kind, servers: Servers, topics: int, size: Size) -> Lengths:
    """Read the timestamps of a run of its own."""
    few = Size(size.share(OBSERVED), 1, size.warm_up)
    with WorkerServer() as worker:
        found = observe(kind.job(servers, worker, topics, size.repeats, few)).lengths
    first, later = found[:topics], found[few.warm_up :]
    return {
        "stamp_p50_bytes": percentile(later, 50),
        "stamp_p99_bytes": percentile(later, 99),
        "stamp_max_bytes": max(later),
        "first_stamp_max_bytes": max(first),
    }


def _done(kind: Kind, servers: Servers, topics: int, repeat: int, size: Size) -> Done:
    with WorkerServer() as worker:
        done = run(kind.job(servers, worker, topics, repeat, size))
        return Done(done, resident_bytes(worker.pid))


def rows_of(kind: Kind, runs: dict[int, list[Done]], lengths: dict[int, Lengths]) -> list[Row]:
    """Return a row for each number of topics: its rate to that of the fewest topics, and the memory of each further
    topic, repeat by repeat."""
    few = min(runs)
    rates = {topics: [each.run.events_per_s for each in done] for topics, done in runs.items()}
    rows = []
    for topics, done in runs.items():
        row = Row(
            workload="W9",
            name=kind.name(topics),
            unit="events/s",
            value=spread(rates[topics]),
            more={
                "events": float(done[0].run.publishers.events),
                "notifications": float(done[0].run.subscribers.events),
                **lengths[topics],
                **_memory(topics - few, done, runs[few]),
                **processor_time([each.run for each in done]),
            },
            ratio=paired(rates[topics], rates[few]) if topics > few else None,
            yardstick=f"{kind.name(topics)} / {kind.name(few)}" if topics > few else "",
        )
        rows.append(row)
    return rows


def _memory(more: int, done: Sequence[Done], fewest: Sequence[Done]) -> dict[str, float]:
    """Return the worker's memory, and of that what each topic has that there is ``more``."""
    if not all(each.memory for each in (*done, *fewest)):
        return {}
    found = {"worker_mib": round(median(each.memory for each in done) / MIB, 1)}
    if more:
        each = [(mine.memory - few.memory) / more / KIB for mine, few in zip(done, fewest, strict=True)]
        found["kib_a_topic"] = round(median(each), 2)
    return found
