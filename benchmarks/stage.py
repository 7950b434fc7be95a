"""One stage through TCP: durable timestamps in batches, beside a server of the same frames that only counts."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks import worker
from benchmarks.rows import Row, Say, paired, spread
from inorder.testing.services import free_port

TITLE = "one stage, batches of 256 through TCP, SQLite with synchronous=FULL"
AIM = 100_000
TOPICS = 2
"""As many as the throughput workload has: one dependency in each timestamp."""


def measure(seconds: float, repeats: int, say: Say) -> list[Row]:
    """Measure the worker and the echo server in turn, each with its own process."""
    options = argparse.Namespace(seconds=seconds, events=256, in_flight=8, topics=TOPICS, store="", profile="")
    durable: list[dict[str, float]] = []
    echo: list[dict[str, float]] = []
    for _ in range(repeats):
        with TemporaryDirectory() as folder:
            durable.append(worker.run_worker(Path(folder), options))
        echo.append(_run_echo(options))
        rates = [each[-1]["timestamps_per_second"] for each in (durable, echo)]
        say(f"stage: worker {rates[0]:,.0f}/s, echo {rates[1]:,.0f}/s")
    return _rows(durable, echo)


def _run_echo(options: argparse.Namespace) -> dict[str, float]:
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.echo", str(port)])
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(worker.measure(port, options))
    finally:
        server.kill()
        server.wait()


def _rows(durable: list[dict[str, float]], echo: list[dict[str, float]]) -> list[Row]:
    rates = [[run["timestamps_per_second"] for run in runs] for runs in (durable, echo)]
    frames = [spread([run["frame_ms_p50"] for run in runs]).median for runs in (durable, echo)]
    value = spread(rates[0])
    return [
        Row(
            workload=TITLE,
            name="worker",
            unit="timestamps/s",
            value=value,
            ratio=paired(*rates),
            yardstick="of echo",
            aim=f">= {AIM:,}/s",
            reached=value.median >= AIM,
            more={"frame p50 ms": frames[0]},
        ),
        Row(workload=TITLE, name="echo", unit="timestamps/s", value=spread(rates[1]), more={"frame p50 ms": frames[1]}),
    ]
