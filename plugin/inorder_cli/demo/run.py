"""The whole demo, from start to end."""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from inorder.errors import MissingExtra
from inorder.traces import Traces
from inorder.traces.options import RUN_VARIABLE
from inorder_cli.demo.brokers import Layout
from inorder_cli.demo.outcome import Half, Outcome, half
from inorder_cli.demo.plan import BrokerKind, SiteJob
from inorder_cli.demo.processes import Progress, run_here, run_in_processes

if TYPE_CHECKING:
    from inorder_worker.service import Worker


class Show(Protocol):
    """A display of progress."""

    def begin(self, text: str, total: int) -> Progress:
        """Begin the display of a half, of which ``total`` notifications are expected."""


class RunObserver(Protocol):
    """An observer of the half with inorder, during the run and afterwards."""

    def observe(self, worker: Worker) -> AbstractAsyncContextManager[None]:
        """Observe this worker while it runs."""

    async def finish(self, outcome: Outcome) -> None:
        """Show the outcome; everything is kept running until this returns."""


def demo_traces(url: str) -> Traces:
    """Return the place of a demo's traces, with a new run unless ``INORDER_RUN`` names one. Raises InvalidOption and
    MissingExtra, also where the place cannot be written."""
    run = os.environ.get(RUN_VARIABLE) or f"demo-{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}"
    traces = Traces(url, run=run)
    traces.check()
    return traces


async def run_demo(
    layout: Layout,
    *,
    events: int,
    rate: float,
    show: Show,
    observer: RunObserver | None = None,
    traces: Traces | None = None,
) -> Outcome:
    """Run both halves on running brokers, at ``rate`` events a second and publisher; the clients of the half with
    inorder record ``traces``."""
    count = events // 2
    without = await _run_half(layout.jobs(count, rate), "without inorder", show)
    async with _worker() as worker, observer.observe(worker) if observer else contextlib.nullcontext():
        jobs = layout.jobs(count, rate, (worker.address,))
        if traces is not None:
            jobs = [replace(job, traces=str(traces.url), run=traces.run_id) for job in jobs]
        ordered = await _run_half(jobs, "with inorder", show)
        outcome = Outcome(layout.kind, 2 * count, rate, without, ordered)
        if observer is not None:
            await observer.finish(outcome)
    return outcome


async def _run_half(jobs: list[SiteJob], text: str, show: Show) -> Half:
    progress = show.begin(text, sum(job.total for job in jobs))
    run = run_here if jobs[0].kind == BrokerKind.MEMORY else run_in_processes
    results = await run(jobs, progress)
    progress(sum(job.total for job in jobs))
    return half(jobs, results)


@contextlib.asynccontextmanager
async def _worker() -> AsyncIterator[Worker]:
    """Run a real worker on TCP that syncs every commit to disk; in this process, which only waits."""
    try:
        from inorder_worker.service import Worker, WorkerSettings
    except ImportError:
        raise MissingExtra("the ordering worker", "worker") from None
    with tempfile.TemporaryDirectory(prefix="inorder-demo-") as folder:
        settings = WorkerSettings(store=f"sqlite:///{Path(folder) / 'inorder.db'}", port=0)
        async with Worker(settings) as worker:
            yield worker
