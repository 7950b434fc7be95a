"""Hosts this worker's stages: the parts of a stage host, its life, and its recovery.

``commits`` is the loop that runs requests and commits; ``tenure`` says which stages are here; ``relay`` takes rides
from stage to stage; ``heartbeat`` shows the store that this worker lives. What they share is in ``context`` and
``hosted_stages``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from inorder.backoff import pause
from inorder.errors import Fenced, InvalidOption, StoreError
from inorder.logs import logger
from inorder.protocol.wire import ReadLog
from inorder_worker.sequencer.commands import Tick
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.alarm import LOOK_INTERVAL, Alarm
from inorder_worker.service.attesting import Standing
from inorder_worker.service.backlog import Backlog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.context import VOID, HostContext
from inorder_worker.service.event_logs import EventLogs
from inorder_worker.service.heartbeat import Heartbeat
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.hosted_stages import HostedStages
from inorder_worker.service.rates import TopicRates
from inorder_worker.service.relay import RideRelay
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.tenure import Tenure
from inorder_worker.service.work import ClientSink, HostSink, RideSink, Session, StageBroken
from inorder_worker.store.journal import Journal
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.store_info import StoreInfo

log = logger("inorder.worker")

FIRST_RETRY: Final = 0.05
"""Seconds before the second attempt to recover at most (see ``backoff``); doubles up to the setting ``retry_max``."""
TELL_INTERVAL: Final = 300.0
"""Seconds after which a failure of the store that goes on is logged again."""
DOUBTED: Final = 10.0
"""Seconds for which a worker is not ready after a failure, while nothing proves that it would not fail again."""
CLOSE_PATIENCE: Final = 0.5
"""Seconds that a running call on the store's thread may still take at the end before it is interrupted."""


class StageHost:
    """Owns the stages of a worker: some or all of those of its store.

    Args:
        journal: used on one thread only, which this host owns.
        settings: see WorkerSettings.
        owner: unique to this process start; written into the store by a claim.
        sink: told of news.
        clients: where answers go.
        links: told of rides for stages of other workers.

    Attributes:
        context, hosted, commits, relay, heartbeat, tenure: its parts and what they share; see their classes.
        alarm: rings when a stage has something to do at that time, or a beat is due.
        metrics: what is counted.
        logs: answers questions to event logs, and keeps these within their bounds.
        rates: how many numbers each topic got of late.
    """

    def __init__(
        self,
        journal: Journal,
        settings: WorkerSettings,
        owner: str,
        sink: HostSink,
        clients: ClientSink,
        links: RideSink,
    ) -> None:
        self._journal, self._settings, self.owner, self._sink = journal, settings, owner, sink
        self._complaint, self._told_at, self._failed_at = Complaint(), 0.0, 0.0
        self.hosted = HostedStages(settings.stages)
        self.context = context = HostContext(journal, settings, owner, sink, clients, links, self.hosted)
        self.metrics = context.metrics
        self.alarm = Alarm(self.look)
        self._backlog = Backlog(sink, settings.max_queue_bytes)
        self.relay = RideRelay(context, self._backlog)
        self.heartbeat = Heartbeat(context, self.alarm)
        self.commits = CommitLoop(context, self._backlog, self.relay, self.heartbeat)
        self.tenure = Tenure(context, self.commits, self.relay, self.heartbeat)
        self.logs = EventLogs(context, self.commits)
        self.rates = TopicRates(lambda: self.stages)

    # -- life --------------------------------------------------------------------------------------------------

    async def open(self, address: str = "") -> StoreInfo:
        """Open the store. ``address``: where this worker is reached. Raises StoreErrors and InvalidOption."""
        settings, self.tenure.address = self._settings, address
        info = await self.context.in_store(lambda: self._journal.open(settings.stages, settings.topic_order))
        if info.stages != settings.stages:
            allowed = f"{info.stages}, the number that the store {self._journal.url} was made with"
            raise InvalidOption("stages", settings.stages, allowed)
        self.tenure.topic_order = info.topic_order
        return info

    async def begin(self) -> None:
        """Commit what the stages that have joined must be told first, and take work. Raises StoreErrors."""
        await self.heartbeat.look_around()
        await self.tenure.let_join()
        while not self.commits.collecting.is_empty:
            await self.commits.turn()
        self._take_work()
        self.context.wake.set()

    def _take_work(self) -> None:
        self.hosted.are_ready = True
        self.heartbeat.proven()

    async def run(self) -> None:
        """Commit until stopped. Stages that others take over are let go; without any this worker is a standby. Raises
        StoreReplaced and StoreVersionMismatch."""
        wake, stop = self.context.wake, self.context.stop
        while not (stop.is_set() and self.commits.is_idle):
            await wake.wait()
            wake.clear()
            try:
                await self.tenure.come_and_go()
                await self.commits.turn()
                if self._complaint.text and not self.commits.is_doubtful:
                    self._well_again()
                await self.heartbeat.beat_if_due()
            except VOID:
                raise
            except StoreError as error:
                await self._start_anew(error)
            # A commit may have set an earlier deadline. Looking asks every session, so it is not done at each commit.
            # After a failure too: one that has lost its stages still shows that it lives.
            self.alarm.set_soon()
            if not self.commits.is_idle:
                self.commits.go_on()

    def stop(self) -> None:
        """Let ``run`` end when all that was submitted is committed and answered."""
        self.context.stop.set()
        self.context.wake.set()

    async def close(self) -> None:
        """Let go of the store and its thread. No error."""
        is_ready, self.hosted.are_ready = self.hosted.are_ready, False
        self.alarm.cancel()
        self.commits.stop_waiting()

        def let_go() -> None:
            if is_ready:  # a store that failed is not waited for
                self.tenure.release()
            self._journal.close()

        closing = asyncio.ensure_future(self.context.in_store(let_go))
        if not (await asyncio.wait([closing], timeout=CLOSE_PATIENCE))[0]:
            self._journal.interrupt()
        await asyncio.wait([closing])
        self.context.thread.close()

    # -- time --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Step a Tick where one is due, wake up for a beat, and look again when the next is due."""
        if not self.hosted.are_ready:
            return
        loop = asyncio.get_running_loop()
        times = [self.heartbeat.due_at] if self.heartbeat.interval else []
        for hosted in self.hosted.values():
            deadline = hosted.stage.next_deadline()
            if deadline is not None and deadline <= hosted.now() and self.commits.takes_ticks:
                self._tick(hosted)
                deadline = hosted.stage.next_deadline()
            if deadline is not None:
                times.append(loop.time() + max(LOOK_INTERVAL, (deadline - hosted.now() + 1) / 1000))
        is_waiting = not self.commits.collecting.is_empty and not self.commits.is_unhurried
        if is_waiting or (times and min(times) <= loop.time()):
            self.context.wake.set()
        elif times:
            self.alarm.set(min(times))

    def _tick(self, hosted: HostedStage) -> None:
        with contextlib.suppress(StageBroken):
            self.commits.step(hosted.index, Tick())

    # -- recovery ----------------------------------------------------------------------------------------------

    async def _start_anew(self, error: StoreError) -> None:
        """Forget all work ahead of the store, and recover from it, however long it takes. Lost stages are let go."""
        self.hosted.are_ready = False
        self.commits.release()
        self.commits.discard()
        self.tenure.store_failed(error)
        self._tell(error)
        while not self.context.stop.is_set():
            await self._pause_before_retry()
            try:
                await self.tenure.take_again()
                await self.heartbeat.look_around()
            except VOID:
                raise
            except StoreError as again:
                self.commits.discard()
                self._tell(again)
                continue
            self._take_work()
            if not self.commits.is_doubtful:
                self._well_again()
            self._sink.store_recovered()
            self.context.clients.stages_changed()
            return

    def _well_again(self) -> None:
        """Take note that the store takes all again."""
        self._complaint.clear()
        log.info("event=recovered epochs=%s", self.epochs)

    @property
    def doubt(self) -> str:
        """Why the store failed of late, if it may do so again at the next event for a log; else an empty text."""
        is_late = asyncio.get_running_loop().time() - self._failed_at < DOUBTED
        return self._complaint.text if self.commits.is_doubtful and is_late else ""

    def _tell(self, error: StoreError) -> None:
        """Say why this worker starts anew. That another one has taken stages over is no failure of the store."""
        if isinstance(error, Fenced):
            self.metrics.fences += 1
            log.warning("event=fenced reason=%s", error)
        else:
            self.metrics.failures += 1
            now = self._failed_at = asyncio.get_running_loop().time()
            if self._complaint.is_news(error) or now - self._told_at >= TELL_INTERVAL:
                self._told_at = now
                log.error("event=store_failed error=%s", error)
        self._sink.store_failed(error)

    async def _pause_before_retry(self) -> None:
        """Wait longer after each failure since the last commit that succeeded; a stop ends the wait."""
        failures = self.commits.failures
        delay = pause(FIRST_RETRY, self._settings.retry_max, failures) if failures else 0.0
        self.commits.failures += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self.context.stop.wait()

    # -- the stages here, for read-only questions --------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Work is taken."""
        return self.hosted.are_ready

    @property
    def state(self) -> str:
        """``active`` with a stage, else ``standby``."""
        return "active" if self.hosted else "standby"

    @property
    def count(self) -> int:
        """The number of the store's stages; the last one is the bottom."""
        return self.hosted.count

    @property
    def stages(self) -> dict[int, Stage]:
        """The stages here, for read-only queries inside ``Work.run``."""
        return self.hosted.machines

    @property
    def epochs(self) -> dict[int, int]:
        """The epoch of each stage here."""
        return self.hosted.epochs

    @property
    def standings(self) -> dict[int, Standing]:
        """The positions of the journals of the stages here."""
        return self.hosted.standings

    def has(self, stage: int) -> bool:
        """Tell whether a stage is here."""
        return stage in self.hosted

    def stage(self, index: int) -> Stage:
        """Return a stage, for read-only queries inside ``Work.run``. Raises StageElsewhere."""
        return self.hosted.machine(index)

    def now(self, stage: int) -> int:
        """Return the time of a stage here, ms. Raises StageElsewhere."""
        return self.hosted.now(stage)

    def roles(self) -> dict[int, str]:
        """Return this worker's role for each stage: ``active``, ``standby`` for one that it follows and may take over,
        else ``elsewhere``."""
        others = {
            stage: "standby" if stage in self._settings.hosted_stages else "elsewhere" for stage in range(self.count)
        }
        return {**others, **dict.fromkeys(self.hosted, "active")}

    def read_log(self, session: Session, frame: ReadLog) -> None:
        """Answer a question to an event log of a stage here, when its turn comes."""
        holder = self.stage(frame.stage).holder_of(session[0])
        self.logs.ask(session, frame, "" if holder is None else holder.owner)

    # -- for operators -----------------------------------------------------------------------------------------

    @property
    def silence(self) -> float:
        """The seconds without an answer from the store; 0 without an open request."""
        return self.context.thread.silence

    @property
    def room(self) -> Room | None:
        """See Journal."""
        return self._journal.room()

    @property
    def beat_failure(self) -> Complaint:
        """Why this worker cannot show the store its life."""
        return self.heartbeat.complaint

    @property
    def queued(self) -> int:
        """The amount of work that waits for a commit."""
        return len(self._backlog)

    @property
    def queued_bytes(self) -> int:
        """The size of the work that waits for a commit, in bytes."""
        return self._backlog.bytes

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status."""
        return {
            "ready": self.is_ready,
            "state": self.state,
            "stages": [
                {"stage": hosted.index, "epoch": hosted.epoch, "rows": hosted.seq, "time_ms": hosted.now()}
                for hosted in self.hosted.values()
            ],
            "queued": self.queued,
            "queued_bytes": self.queued_bytes,
            "rides": len(self.relay.rides),
            "held": self.relay.held,
            **self.metrics.describe(),
        }
