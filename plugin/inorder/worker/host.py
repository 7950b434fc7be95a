"""Hosts the stages of this worker: group commit, release of effects, recovery.

The order that everything rests on: a command is stepped in memory and encoded; its row is committed; only then its
effects leave. While one commit runs on the store's thread, the next rows collect. All stages share one transaction.
What ran ahead in memory when a commit fails is thrown away, and the stages are read again from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from inorder.core.commands import AnyCommand, Deliver, Reply, Send, Tick
from inorder.core.stage import Stage
from inorder.core.wire import Frame, TopicInfo
from inorder.errors import Fenced, InvalidOption, StoreError
from inorder.worker.hosted import HostedStage, recover
from inorder.worker.journal import Journal, StoreInfo
from inorder.worker.metrics import HostMetrics
from inorder.worker.settings import WorkerSettings
from inorder.worker.work import HostSink, Open, Session, StageBroken, Work

T = TypeVar("T")
log = logging.getLogger("inorder.worker")

FIRST_RETRY = 0.05
"""Seconds before the second attempt to recover; doubles up to the setting ``retry_max``."""

CLOSE_PATIENCE = 0.5
"""Seconds that a running call on the store's thread may still take at the end before it is interrupted."""
OWNER_LOOK_BEATS, OWNER_LOOK_MAX = 1.5, 5.0
"""Beat intervals, and at most seconds, that a start looks for a sign of life of the stages' owner."""
LOOK_INTERVAL = 0.01
"""Seconds between two looks at the stages' deadlines."""


class StageHost:
    """Owns all stages of a worker.

    Args:
        journal: used on one thread only, which this host owns.
        settings: see WorkerSettings.
        owner: unique to this process start; written into the store by a claim.
        sink: where answers go.
    """

    def __init__(self, journal: Journal, settings: WorkerSettings, owner: str, sink: HostSink) -> None:
        self._journal, self._settings, self._owner, self._sink = journal, settings, owner, sink
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inorder-store")
        self._stages: list[HostedStage] = []
        self._open = Open()
        self._committed: Open | None = None  # durable, not released yet
        self._rides: deque[tuple[int, Send]] = deque()
        self._backlog: deque[Work] = deque()
        self._backlog_bytes = 0
        self._is_pressed = False
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._is_ready = False
        self._broken: StageBroken | None = None
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self._beat_at = 0.0
        self.metrics = HostMetrics()

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self) -> StoreInfo:
        """Open the store, claim and recover all stages, and commit what they must be told first. Raises
        StoreErrors and InvalidOption."""
        info = await self._in_store(lambda: self._journal.open(self._settings.stages))
        if info.stages != self._settings.stages:
            allowed = f"{info.stages}, the number that the store {self._journal.url} was made with"
            raise InvalidOption("stages", self._settings.stages, allowed)
        await self._warn_owner()
        await self._take_stages()
        while not self._open.is_empty:
            await self._turn()
        self._is_ready = True
        self._wake.set()
        return info

    async def run(self) -> None:
        """Commit until stopped. Raises Fenced when another worker took a stage over (place of step-down)."""
        while not (self._stop.is_set() and self._is_idle):
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._turn()
                await self._beat_if_due()
                self._look_soon()
            except Fenced:
                raise
            except StoreError as error:
                await self._start_anew(error)
            if not self._is_idle:
                self._wake.set()

    def stop(self) -> None:
        """Let ``run`` end when all that was submitted is committed and answered."""
        self._stop.set()
        self._wake.set()

    async def close(self) -> None:
        """Let go of the store and its thread. No error."""
        let_go = (
            self._release_stages if self._is_ready else self._journal.close
        )  # a store that failed is not waited for
        self._is_ready = False
        if self._timer is not None:
            self._timer.cancel()
        closing = asyncio.ensure_future(self._in_store(let_go))
        if not (await asyncio.wait([closing], timeout=CLOSE_PATIENCE))[0]:
            self._journal.interrupt()
        await asyncio.wait([closing])
        self._thread.shutdown(wait=False)

    def _release_stages(self) -> None:
        """On the store's thread: release the stages, so that the next worker need not look whether we live."""
        if owned := [(hosted.index, hosted.epoch) for hosted in self._stages]:
            try:
                self._journal.release(owned)
            except StoreError as error:
                log.info("event=not_released error=%s", error)
        self._journal.close()

    # -- work --------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Work is taken."""
        return self._is_ready

    @property
    def stages(self) -> list[Stage]:
        """The stages, for read-only queries inside ``Work.run``."""
        return [hosted.stage for hosted in self._stages]

    @property
    def epochs(self) -> list[int]:
        """The epoch of each stage."""
        return [hosted.epoch for hosted in self._stages]

    def submit(self, work: Work) -> None:
        """Take work: run it now if the collecting commit has room, else when one has."""
        if not self._is_ready:
            self._settle(work)
            return
        if self._backlog or self._rides or not self._has_room:
            self._backlog.append(work)
            self._backlog_bytes += work.size
            self._check_pressure()
        else:
            self._run_work(work)
        self._wake.set()

    def step(self, stage: int, command: AnyCommand) -> None:
        """Inside ``Work.run``: step a command; its effects leave after its commit."""
        try:
            effects, size = self._stages[stage].step(command)
        except Exception as error:
            log.exception("event=stage_broken stage=%d command=%s", stage, type(command).__name__)
            self._broken = StageBroken(self._journal.url, f"stage {stage} could not process a {type(command).__name__}")
            raise self._broken from error
        self._open.commands += 1
        self._open.size += size
        for effect in effects:
            if isinstance(effect, Reply):
                self._open.replies.append(effect)
            else:
                self._open.sends.append((stage, effect))

    def reply(self, session: Session, frame: Frame) -> None:
        """Inside ``Work.run``: answer after everything before it is committed."""
        self._open.replies.append(Reply(*session, frame))

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status."""
        return {
            "ready": self._is_ready,
            "stages": [
                {"stage": hosted.index, "epoch": hosted.epoch, "rows": hosted.seq, "time_ms": hosted.now()}
                for hosted in self._stages
            ],
            "queued": len(self._backlog),
            "queued_bytes": self._backlog_bytes,
            "rides": len(self._rides),
            **self.metrics.describe(),
        }

    @property
    def _is_idle(self) -> bool:
        return self._open.is_empty and not (self._backlog or self._rides or self._committed)

    @property
    def _has_room(self) -> bool:
        taken, bounds = self._open, self._settings
        return taken.commands < bounds.max_batch_commands and taken.size < bounds.max_batch_bytes

    def _run_work(self, work: Work) -> None:
        if (work.source is None or work.source.is_current) and self._broken is None:
            with contextlib.suppress(StageBroken):
                work.run()
        if work.source is not None:
            _, count, size = self._open.settled.get(id(work.source), (work.source, 0, 0))
            self._open.settled[id(work.source)] = (work.source, count + 1, size + work.size)

    def _settle(self, work: Work) -> None:
        if work.source is not None:
            work.source.settled(1, work.size)

    def _check_pressure(self) -> None:
        limit = self._settings.max_queue_bytes
        is_pressed = self._backlog_bytes > (limit // 2 if self._is_pressed else limit)
        if is_pressed != self._is_pressed:
            self._is_pressed = is_pressed
            self._sink.pressed(is_pressed)

    # -- commit ------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Commit what has collected; meanwhile release the commit before it, and step what waits."""
        if self._broken is not None:
            self._release()
            raise self._broken
        self._fill()
        batch, self._open = self._open, Open()
        rows = [row for hosted in self._stages if (row := hosted.close_row())]
        images = [
            (hosted, image) for hosted in self._stages if (image := hosted.due_snapshot(self._settings)) is not None
        ] if rows else []  # fmt: skip
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        append = loop.run_in_executor(self._thread, self._journal.append, rows) if rows else None
        self._release()
        self._fill()
        if append is not None:
            await append
            self.metrics.committed(time.perf_counter() - began, batch.commands)
            self._failures = 0
        self._committed = batch
        self._pass_on(batch)
        if self._open.is_empty:
            self._release()
        await self._save(images)

    def _fill(self) -> None:
        """Step rides first, then waiting work, as far as the collecting commit has room."""
        while self._rides and self._has_room and self._broken is None:
            origin, send = self._rides.popleft()
            try:
                self.step(send.stage, Deliver(origin, send.number, send.ride))
            except StageBroken:
                return
            self._open.delivered[send.stage, origin] = send.number
        while self._backlog and not self._rides and self._has_room:
            work = self._backlog.popleft()
            self._backlog_bytes -= work.size
            self._run_work(work)
        self._check_pressure()

    def _pass_on(self, batch: Open) -> None:
        """After its commit: what other stages got is off their origin's hands, and new rides are on their way."""
        for (stage, origin), number in batch.delivered.items():
            self._stages[origin].stage.acknowledge(stage, number)
        self._rides.extend(batch.sends)

    def _release(self) -> None:
        """Answer what the last commit made durable: all frames of one session together."""
        batch, self._committed = self._committed, None
        if batch is None:
            return
        by_session: dict[Session, list[Frame]] = {}
        for reply in batch.replies:
            by_session.setdefault((reply.client_id, reply.incarnation), []).append(reply.frame)
        for session, frames in by_session.items():
            self.metrics.answered(frames)
            self._sink.answer(session, frames)
        for source, count, size in batch.settled.values():
            source.settled(count, size)

    async def _save(self, images: list[tuple[HostedStage, bytes]]) -> None:
        """Save snapshots. A failure costs nothing but a longer replay; the next append shows what is wrong."""
        for hosted, image in images:
            index, epoch, seq = hosted.index, hosted.epoch, hosted.seq
            try:
                await self._in_store(partial(self._journal.save_snapshot, index, epoch, seq, image))
                self.metrics.snapshots += 1
            except StoreError as error:
                log.warning("event=snapshot_failed stage=%d row=%d error=%s", index, seq, error)

    async def _beat_if_due(self) -> None:
        interval, now = self._settings.beat_interval, asyncio.get_running_loop().time()
        if not interval or now < self._beat_at:
            return
        self._beat_at = now + interval
        owned = [(hosted.index, hosted.epoch) for hosted in self._stages]
        try:
            await self._in_store(lambda: self._journal.beat(owned))
        except Fenced:
            raise
        except StoreError as error:
            log.warning("event=beat_failed error=%s", error)

    async def _in_store(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # -- time --------------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        """A commit may have set an earlier deadline. Looking asks every session, so it is not done at each commit."""
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() > loop.time() + LOOK_INTERVAL:
            self._look_at(loop.time() + LOOK_INTERVAL)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        """Step a Tick where one is due, wake up for a beat, and look again when the next is due."""
        self._timer = None
        if not self._is_ready:
            return
        loop = asyncio.get_running_loop()
        times = [self._beat_at] if self._settings.beat_interval else []
        for hosted in self._stages:
            deadline = hosted.stage.next_deadline()
            if deadline is not None and deadline <= hosted.now():
                self._tick(hosted)
                deadline = hosted.stage.next_deadline()
            if deadline is not None:
                times.append(loop.time() + max(LOOK_INTERVAL, (deadline - hosted.now() + 1) / 1000))
        if not self._open.is_empty or (times and min(times) <= loop.time()):
            self._wake.set()
        elif times:
            self._look_at(min(times))

    def _tick(self, hosted: HostedStage) -> None:
        if self._broken is None:
            with contextlib.suppress(StageBroken):
                self.step(hosted.index, Tick())

    # -- recovery ----------------------------------------------------------------------------------------------

    async def _warn_owner(self) -> None:
        """Look whether the stages' owner lives, and if so say whom we are about to stop. Nothing is kept from it."""
        interval = self._settings.beat_interval
        before = {each.stage: each for each in await self._in_store(self._journal.holders)} if interval else {}
        loop = asyncio.get_running_loop()
        until = loop.time() + min(OWNER_LOOK_BEATS * interval, OWNER_LOOK_MAX)
        while before and loop.time() < until:
            await asyncio.sleep(min(interval, OWNER_LOOK_MAX) / 10)
            if not (holders := await self._in_store(self._journal.holders)):
                return
            for found in holders:
                if found != before.get(found.stage):
                    log.warning(
                        "event=taking_over store=%s stage=%d owner=%s: that worker is alive and stops now, because a "
                        "store serves one worker; give each a store of its own",
                        self._journal.url, found.stage, found.owner,
                    )  # fmt: skip
                    return

    async def _take_stages(self) -> None:
        """Claim, replay, tell each stage what it must know first, and send again what was under way."""
        count, owner = self._settings.stages, self._owner
        seen: list[int | None] = [hosted.epoch for hosted in self._stages] or [None] * count
        self._stages = await self._in_store(
            lambda: [recover(self._journal, index, count, owner, seen[index]) for index in range(count)]
        )
        topics = self._topics_in_order()
        for hosted in self._stages:
            for command in hosted.first_commands(self._settings.stage_settings(), topics):
                self.step(hosted.index, command)
        for origin in self._stages:
            for target in self._stages:
                if origin is not target:
                    origin.stage.acknowledge(target.index, target.stage.received(origin.index))
                    self._rides.extend((origin.index, send) for send in origin.stage.unacknowledged(target.index))

    def _topics_in_order(self) -> list[TopicInfo]:
        placed = [(stage, text) for stage, texts in enumerate(self._settings.topic_order) for text in texts]
        topics = []
        for number, (stage, text) in enumerate(placed, start=1):
            space, _, name = text.partition(":")
            topics.append(TopicInfo(number, space, name, stage))
        return topics

    async def _start_anew(self, error: StoreError) -> None:
        """Forget what ran ahead of the store, and recover from it, however long it takes. Raises Fenced."""
        log.error("event=store_failed error=%s", error)
        self._is_ready = False
        self._release()
        self._forget()
        self._sink.store_failed(error)
        while not self._stop.is_set():
            await self._pause_before_retry()
            try:
                await self._take_stages()
            except Fenced:
                raise
            except StoreError as again:
                log.error("event=store_still_failing error=%s", again)
                self._forget()
                continue
            self._is_ready = True
            self._sink.store_recovered()
            log.info("event=store_recovered epochs=%s", self.epochs)
            return

    async def _pause_before_retry(self) -> None:
        """Wait longer after each failure since the last commit that succeeded; a stop ends the wait."""
        delay = min(self._settings.retry_max, FIRST_RETRY * 2 ** min(self._failures, 16)) if self._failures else 0.0
        self._failures += 1
        try:
            async with asyncio.timeout(delay):
                await self._stop.wait()
        except TimeoutError:
            pass

    def _forget(self) -> None:
        self._broken = None
        self._rides.clear()
        waiting, self._backlog = self._backlog, deque()
        self._backlog_bytes = 0
        for work in waiting:
            self._settle(work)
        batch, self._open = self._open, Open()
        for source, count, size in batch.settled.values():
            source.settled(count, size)
        self._check_pressure()
