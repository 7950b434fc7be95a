"""What recording costs: the same clients with ``traces`` and without, alternately, everything recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.job import Job
from benchmarks.processes import Run, run, run_together
from benchmarks.rows import Row, Say, paired, spread
from benchmarks.throughput import WARM_UP
from inorder.testing.services import Mosquitto, WorkerServer

AIM = 0.95


@dataclass(frozen=True, slots=True)
class Place:
    """Where it is measured: a broker, and how a job runs on it."""

    title: str
    url: Callable[[ExitStack], str]
    run: Callable[[Job], Run]


def _mosquitto(stack: ExitStack) -> str:
    return stack.enter_context(Mosquitto(max_queued=0)).url


PLACES = {
    "mqtt5": Place("recording, MQTT 5", _mosquitto, run),
    "memory": Place(
        "recording, in-process broker (all clients in one process)", lambda _: "memory://bench", run_together
    ),
}


def measure(name: str, events: int, repeats: int, say: Say) -> list[Row]:
    """Measure with recording and without in turn, forwards and backwards, ``repeats`` times."""
    place = PLACES[name]
    runs: dict[bool, list[Run]] = {False: [], True: []}
    with ExitStack() as stack:
        url = place.url(stack)
        worker = stack.enter_context(WorkerServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inorder-traces-")))
        for repeat in range(repeats):
            for is_on in (False, True) if repeat % 2 == 0 else (True, False):
                job = Job(
                    client="inorder",
                    role="",
                    url=url,
                    workers=[worker.url],
                    events=events,
                    warm_up=WARM_UP,
                    name=f"{repeat}-{is_on:d}",
                    traces=str(folder / str(repeat)) if is_on else "",
                )
                done = place.run(job)
                runs[is_on].append(done)
                say(f"{place.title}: {'with' if is_on else 'without'}: {done.events_per_s:,.0f} events/s")
        kept = sum(each.stat().st_size for each in folder.rglob("*.parquet")) / repeats / (events + WARM_UP)
    return _rows(place, runs, kept)


def _rows(place: Place, runs: dict[bool, list[Run]], kept: float) -> list[Row]:
    rates = {is_on: [each.events_per_s for each in its] for is_on, its in runs.items()}
    ratio = paired(rates[True], rates[False])
    rows = []
    for is_on, name in ((False, "without traces"), (True, "with traces")):
        more = {
            "publish cpu us": median(each.publish_us for each in runs[is_on]),
            "receive cpu us": median(each.receive_us for each in runs[is_on]),
        }
        if is_on:
            more["bytes per event"] = kept
        rows.append(
            Row(
                workload=place.title,
                name=name,
                unit="events/s",
                value=spread(rates[is_on]),
                ratio=ratio if is_on else None,
                yardstick="of without" if is_on else "",
                aim=f">= {AIM}" if is_on else "",
                reached=ratio.median >= AIM if is_on else None,
                more=more,
            )
        )
    return rows
