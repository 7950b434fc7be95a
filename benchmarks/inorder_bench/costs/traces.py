"""What recording costs: bursts of clients with ``traces`` and of clients without, in turn, in one process.

Processes differ in where their memory lies, and a machine in what else it does, by more than recording costs. Within a
process, pairs of short bursts do not; and processor time does not depend on who else wants the processor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from inorder.testing.services import Mosquitto, WorkerServer
from inorder_bench.job import Answer, Burst, Job
from inorder_bench.match import WARM_UP
from inorder_bench.processes import run_roles
from inorder_bench.rows import Row, Say, interval, spread

AIM = 0.95
PAIRS = 30
"""Of bursts in one process."""


@dataclass(frozen=True, slots=True)
class Place:
    """A broker to measure it at."""

    title: str
    url: Callable[[ExitStack], str]


def _mosquitto(stack: ExitStack) -> str:
    return stack.enter_context(Mosquitto(max_queued=0)).url


PLACES = {
    "mqtt5": Place("recording, MQTT 5, all clients in one process", _mosquitto),
    "memory": Place("recording, in-process broker, all clients in one process", lambda _: "memory://bench"),
}


def measure(name: str, events: int, repeats: int, say: Say) -> list[Row]:
    """Measure in ``repeats`` processes, one after the other; ``events`` in all bursts of a kind in one of them."""
    place = PLACES[name]
    burst = max(2, events // PAIRS // 2 * 2)
    answers: list[Answer] = []
    with ExitStack() as stack:
        url = place.url(stack)
        worker = stack.enter_context(WorkerServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inorder-traces-")))
        for repeat in range(repeats):
            job = Job(
                client="inorder_bench.costs.bursts",
                url=url,
                workers=[worker.url],
                events=burst,
                warm_up=WARM_UP,
                pairs=PAIRS,
                name=str(repeat),
                traces=str(folder / str(repeat)),
            )
            answers += run_roles(job, ("alternate",))
            ratios = _ratios(answers[-1:], burst)
            say(f"{place.title}: process {repeat + 1}: {spread(ratios).median:.3f} of {len(ratios)} pairs")
        kept = sum(each.stat().st_size for each in folder.rglob("*.parquet"))
    return _rows(place, answers, burst, kept / repeats / (PAIRS * burst + WARM_UP))


def _writing_us(answer: Answer, burst: int) -> float:
    """Return what the recorders' threads take for an event; they work whenever they like, so every event bears it."""
    return answer.writing_s / (len(answer.recorded) * burst + WARM_UP) * 1e6


def _us(bursts: list[Burst], burst: int) -> list[float]:
    return [each.cpu_s / burst * 1e6 for each in bursts]


def _ratios(answers: list[Answer], burst: int) -> list[float]:
    """Return, pair by pair, the processor time of an event without recording to that with it, writing included: the
    share of throughput that is left where the processor is what bounds it."""
    return [
        plain / (recorded + _writing_us(each, burst))
        for each in answers
        for plain, recorded in zip(_us(each.plain, burst), _us(each.recorded, burst), strict=True)
    ]


def _rows(place: Place, answers: list[Answer], burst: int, kept: float) -> list[Row]:
    ratio = interval(_ratios(answers, burst))
    plain = [us for each in answers for us in _us(each.plain, burst)]
    recorded = [us + _writing_us(each, burst) for each in answers for us in _us(each.recorded, burst)]
    walls = interval(
        [one.wall_s / two.wall_s for each in answers for one, two in zip(each.plain, each.recorded, strict=True)]
    )
    writing = spread([_writing_us(each, burst) for each in answers]).median
    return [
        Row(workload=place.title, name="without traces", unit="cpu us per event", value=spread(plain)),
        Row(
            workload=place.title,
            name="with traces",
            unit="cpu us per event",
            value=spread(recorded),
            ratio=ratio,
            yardstick=f"left; 95 % interval of {len(plain)} pairs",
            aim=f">= {AIM}",
            reached=ratio.low >= AIM,
            more={
                "of it writing": writing,
                "bytes": kept,
                "rate left": walls.median,
                "rate left, low": walls.low,
                "rate left, high": walls.high,
            },
        ),
    ]
