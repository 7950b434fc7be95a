"""The runner of due and queued analyses, each in its own process, which also gives up runs whose owner is gone.

Several control planes may do so on one store. What is due makes one run, and a run has one owner, by conditional
updates; an owner shows with beats that it lives. Who is silent is taken for gone after a lease that was *seen* to pass,
by the clock of this process; a process of this machine that has ended is known to be gone.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from inorder.errors import InvalidOption, StoreError
from inorder.logs import logger
from inorder_controlplane.analysis_process import COMMAND, AnalysisProcess
from inorder_controlplane.context import Context
from inorder_controlplane.cron import Cron
from inorder_controlplane.path_allow_list import PathAllowList
from inorder_controlplane.problems import Problem
from inorder_worker.service.complaint import Complaint
from inorder_worker.store.analyses import Analyses, Outcome, Run, Word
from inorder_worker.store.identity import is_gone, new_owner
from inorder_worker.store.schedules import Schedule, Schedules
from inorder_worker.store.store import Store

BUSY_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 5.0
"""Between two looks, while an analysis runs here and while none does."""
BEAT_SECONDS: Final = 1.0
STOP_SECONDS: Final = 1.0
"""Between SIGTERM and SIGKILL when the control plane itself stops."""

STOPPED: Final = "the control plane was stopped"

log = logger("inorder.controlplane")
T = TypeVar("T")


@dataclass(slots=True)
class _OwnRun:
    """A run of this control plane. ``why``: what ends it before its time: the outcome and the reason for it."""

    run: Run
    process: AnalysisProcess
    task: asyncio.Task[None] | None = None
    why: tuple[Outcome, str] | None = None
    is_lost: bool = False


class Runner:
    """Starts and ends runs.

    Args:
        context: of the app.
        command: what is started, without the arguments of a job.
        clock: seconds that only rise.
    """

    def __init__(
        self, context: Context, command: Sequence[str] = COMMAND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._command, self._clock = context, command, clock
        self.owner = new_owner(socket.gethostname())
        self._own: dict[str, _OwnRun] = {}
        self._silence = SilenceWatch(context.settings.analysis_lease)
        self._woken = asyncio.Event()
        self._is_closing = False

    def wake(self) -> None:
        """Look soon, as there may be work."""
        self._woken.set()

    def begin_to_close(self) -> None:
        """Claim no more runs."""
        self._is_closing = True
        self.wake()

    async def run(self) -> None:
        """Look for work until the runner is closed."""
        complaint = Complaint()
        while not self._is_closing:
            self._woken.clear()
            try:
                await self.look()
                complaint.clear()
            except StoreError as error:
                if complaint.is_news(error):
                    log.warning("event=analyses_not_looked_at error=%s", error)
            except Exception as error:  # the next look may do
                log.error("event=analyses_failed error=%s", type(error).__name__, exc_info=error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), BUSY_SECONDS if self._own else IDLE_SECONDS)

    async def look(self) -> None:
        """Queue due runs, give up runs whose owner is gone, and start waiting ones. Raises StoreErrors."""
        await self._fire()
        await self._give_up()
        while len(self._own) < self._context.settings.analyses and not self._is_closing:
            run = await self._call(lambda store: Analyses(store).claim_next(self.owner))
            if run is None:
                break
            own = _OwnRun(run, AnalysisProcess(self._command))
            self._own[run.id] = own
            own.task = asyncio.create_task(self._perform(own), name=f"inorder-analysis-{run.id}")

    async def close(self) -> None:
        """End our own runs, which count as failed. No error."""
        self.begin_to_close()
        for own in self._own.values():
            own.why = own.why or ("failed", STOPPED)
            own.process.stop(STOP_SECONDS)
        await asyncio.gather(*(own.task for own in self._own.values() if own.task), return_exceptions=True)

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._context.database.call(work)

    # -- what is due, and who is gone ------------------------------------------------------------------------------

    async def _fire(self) -> None:
        now_ms = self._context.now_ms()
        for schedule in due(await self._call(lambda store: Schedules(store).list()), now_ms):
            run = await self._call(partial(_fired, schedule=schedule, now_ms=now_ms))
            log.info("event=schedule_due schedule=%s run=%s", schedule.id, run.id if run else "none")

    async def _give_up(self) -> None:
        running = [
            run
            for run in await self._call(lambda store: Analyses(store).open())
            if run.outcome == "running" and run.id not in self._own
        ]
        silent = self._silence.seen(running, self._clock())
        for run in running:
            if is_gone(run.owner):
                why = f"the process that ran it is gone ({run.owner})"
            elif run.id in silent:
                lease = self._context.settings.analysis_lease
                why = f"who ran it has shown no sign of life for {lease:g} s ({run.owner})"
            else:
                continue
            if await self._call(partial(_given_up, run=run, why=why)):
                log.warning("event=run_given_up run=%s reason=%s", run.id, why)

    # -- one run ---------------------------------------------------------------------------------------------------

    async def _perform(self, own: _OwnRun) -> None:
        outcome: Outcome = "failed"
        try:
            outcome, reason = await self._outcome(own)
        except Exception as error:
            reason = f"unexpected {type(error).__name__}: {error}"
            log.error("event=analysis_failed run=%s", own.run.id, exc_info=error)
        try:
            if not own.is_lost:
                await self._end(own, outcome, reason)
        finally:
            del self._own[own.run.id]
            self.wake()

    async def _outcome(self, own: _OwnRun) -> tuple[Outcome, str]:
        """Run an analysis; return its outcome and the reason."""
        job = own.run.job
        try:
            source, out = await self._call(
                lambda _: allow_list_of(self._context).check(job.source, job.out, job.master)
            )
            await own.process.start(job, source, out)
        except Problem as problem:
            return "failed", problem.detail
        except OSError as error:
            return "failed", f"the analysis could not be started: {error}"
        log.info("event=analysis_started run=%s", own.run.id)
        if self._is_closing:  # which began before there was anything to stop
            own.why = ("failed", STOPPED)
            own.process.stop(STOP_SECONDS)
        beats = asyncio.create_task(self._beat(own), name=f"inorder-analysis-beat-{own.run.id}")
        try:
            code = await own.process.wait()
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        if code == 0 and own.process.result is not None:
            return "done", ""
        if own.why is not None:
            return own.why
        return "failed", _reason(code, own.process.log)

    async def _beat(self, own: _OwnRun) -> None:
        """Show that a run goes on, and obey the store."""
        told: dict[str, Any] = {}
        complaint = Complaint()
        while True:
            now = {"progress": own.process.progress, "log": own.process.log}
            news = {name: value for name, value in now.items() if told.get(name) != value}
            try:
                word = await self._call(partial(_beaten, id_=own.run.id, owner=self.owner, news=news))
            except StoreError as error:
                if complaint.is_news(error):
                    log.warning("event=run_not_beaten run=%s error=%s", own.run.id, error)
            else:
                complaint.clear()
                told = now
                if word == "cancel":
                    own.why = own.why or ("cancelled", "")
                    own.process.stop(self._context.settings.cancel_grace)
                elif word == "lost":
                    log.warning("event=run_lost run=%s", own.run.id)
                    own.is_lost = True
                    own.process.stop(0)
            await asyncio.sleep(BEAT_SECONDS)

    async def _end(self, own: _OwnRun, outcome: Outcome, reason: str) -> None:
        """Store the outcome of a run, however long the store is away, unless we are to stop as well."""
        process = own.process

        def write(store: Store) -> None:
            end = partial(Analyses(store).end, own.run.id, self.owner, progress=process.progress, log=process.log)
            try:
                end(outcome, reason=reason, result=process.result if outcome == "done" else None)
            except ValueError as error:  # of its result
                end("failed", reason=str(error))
            Analyses(store).trim(self._context.settings.keep_runs)

        complaint = Complaint()
        while True:
            try:
                await self._call(write)
            except StoreError as error:
                if complaint.is_news(error):
                    log.warning("event=run_not_ended run=%s error=%s", own.run.id, error)
                if self._is_closing:
                    return
                await asyncio.sleep(BEAT_SECONDS)
            else:
                log.info("event=analysis_ended run=%s outcome=%s reason=%s", own.run.id, outcome, reason)
                return


class SilenceWatch:
    """Measures for how long each run's owner has shown no sign of life.

    Between two looks no more counts than twice the longest pause between them: if we stood still ourselves, maybe all
    did, and nobody is suspected for that.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked: float | None = None

    def seen(self, running: Sequence[Run], now: float) -> set[str]:
        """Take the present runs; return those whose owners have been silent for a lease."""
        passed = 0.0 if self._looked is None else min(now - self._looked, 2 * IDLE_SECONDS)
        self._looked = now
        before, self._seen = self._seen, {}
        for run in running:
            beat, silent = before.get(run.id, (run.beat, -passed))
            self._seen[run.id] = (run.beat, silent + passed if beat == run.beat else 0.0)
        return {id_ for id_, (_, silent) in self._seen.items() if silent >= self._lease}


def due(schedules: Sequence[Schedule], now_ms: int) -> Iterator[Schedule]:
    """Yield the schedules that are due. Of the times that were missed, no matter how many, one counts."""
    for schedule in schedules:
        if not schedule.is_on:
            continue
        try:
            at_ms = Cron(schedule.cron, schedule.timezone).next(schedule.after_ms)
        except InvalidOption as error:  # of a zone that this machine does not know
            log.error("event=schedule_not_understood schedule=%s error=%s", schedule.id, error)
            continue
        if at_ms is not None and at_ms <= now_ms:
            yield schedule


def _fired(store: Store, schedule: Schedule, now_ms: int) -> Run | None:
    return Schedules(store).fire(schedule, now_ms)


def _given_up(store: Store, run: Run, why: str) -> bool:
    return Analyses(store).give_up(run, why)


def _beaten(store: Store, id_: str, owner: str, news: dict[str, Any]) -> Word:
    return Analyses(store).beat(id_, owner, **news)


def allow_list_of(context: Context) -> PathAllowList:
    """Return the places that analyses may read and write."""
    return PathAllowList(context.settings.traces or (), context.settings.masters)


def runner_of(context: Context) -> Runner:
    """Return the app's own runner."""
    found: Runner = context.parts.get("runner") or context.parts.setdefault("runner", Runner(context))
    return found


@asynccontextmanager
async def running(context: Context) -> AsyncIterator[None]:
    """Run the runner during the app's life."""
    part = runner_of(context)
    task = asyncio.create_task(part.run(), name="inorder-controlplane-running")
    try:
        yield
    finally:
        # What was just claimed is not to be left behind.
        part.begin_to_close()
        await asyncio.wait((task,), timeout=STOP_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await part.close()


def _reason(code: int, lines: str) -> str:
    """Return why a process failed, by its own words, else by its exit code."""
    said = [line for line in lines.splitlines() if line.startswith("error: ")]
    if said:
        return said[-1].removeprefix("error: ")
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return "it ended without a result" if code == 0 else f"its process ended with exit code {code}"
