"""Hosts this worker's stages: group commit, release of effects, recovery.

The order that everything rests on: a command is stepped in memory and encoded; its row is committed; only then its
effects leave. While one commit runs on the store's thread, the next rows collect. All stages here share one
transaction. What ran ahead in memory when a commit fails is thrown away, and the stages are read again from the store.

Rides between two stages here are passed on in memory; those for other workers' stages wait in their own stage's state
for the links (see ``links``), which take them from there and say what has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TypeVar

from inorder.errors import Fenced, InvalidOption, StoreError, StoreOutdated, StoreReplaced, StoreVersionMismatch
from inorder.logs import logger
from inorder.protocol.wire import Frame, LogRule, ReadLog, TopicInfo
from inorder_worker.sequencer.commands import (
    AnyCommand,
    AnyRide,
    Create,
    Deliver,
    LogChange,
    LogEvent,
    Reply,
    Send,
    SettleNumbers,
    Tick,
)
from inorder_worker.sequencer.event_log import split
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.attesting import Standing
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.event_logs import EventLogs, stored_now_ms
from inorder_worker.service.following import recover
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.metrics import HostMetrics
from inorder_worker.service.rates import TopicRates
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.work import HostSink, Open, RideSink, Session, StageBroken, StageElsewhere, Work
from inorder_worker.store.failpoints import reach
from inorder_worker.store.history import OrderRow
from inorder_worker.store.journal import Holder, Journal, Member, StoreInfo, TopicOrder
from inorder_worker.store.log_rows import LogRow
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.store_thread import StoreThread

T = TypeVar("T")
log = logger("inorder.worker")

FIRST_RETRY = 0.05
"""Seconds before the second attempt to recover; doubles up to the setting ``retry_max``."""

CLOSE_PATIENCE = 0.5
"""Seconds that a running call on the store's thread may still take at the end before it is interrupted."""
SETTLE_WAIT = 0.002
"""Seconds for which what nobody waits for (confirms and voids, R16) is not committed by itself. A publisher that waits
for each timestamp confirms one and asks for the next; without this that request would wait for the confirm's commit."""
LOOK_INTERVAL = 0.01
"""Seconds between two looks at the stages' deadlines."""
VOID = (StoreReplaced, StoreVersionMismatch)
"""What this process has read of the store, or can write to it, is of no use any more: it has to be started again."""
MAP_INTERVAL = 1.0
"""Seconds between two looks at where the other stages are, for a worker that shows no beats."""
MAP_PAUSE = 0.05
"""Seconds between two such looks at least, however often somebody asks for one."""


class StageHost:
    """Owns the stages of a worker: some or all of those of its store.

    Args:
        journal: used on one thread only, which this host owns.
        settings: see WorkerSettings.
        owner: unique to this process start; written into the store by a claim.
        sink: where answers go.
        links: told of rides for stages of other workers.
    """

    def __init__(self, journal: Journal, settings: WorkerSettings, owner: str, sink: HostSink, links: RideSink) -> None:
        self._journal, self._settings, self.owner, self._sink, self._links = journal, settings, owner, sink, links
        self._thread = StoreThread("inorder-store")
        self._address = ""
        self._topic_order: TopicOrder = ()
        self._stages: dict[int, HostedStage] = {}
        self.member: Callable[[], Member] | None = None  # what a beat says of this worker
        self._leaving: set[int] = set()
        self._claimed: dict[int, int] = {}  # ours in the store, and not here yet -> epoch
        self._joining: deque[tuple[HostedStage, float | None]] = deque()
        self._is_holding = False
        self._exits: dict[int, int] = {}  # own stage -> the one through which its rides leave this worker upwards
        self._sent: dict[tuple[int, int], int] = {}  # (own stage, another's) -> last durable ride
        self._held: dict[int, deque[Work]] = {}  # by exit: what would add to a full outbox
        self._open = Open()
        self._committed: Open | None = None  # durable, not released yet
        self._unproven: list[Reply] = []  # leave once the store has confirmed that the stages are ours
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
        self._waiting: asyncio.TimerHandle | None = None  # ends the wait of what is not urgent
        self._beat_at = 0.0
        self._complaint = Complaint()  # of beats
        self._looked_at = 0.0
        self._proven_at = 0.0  # when the store last confirmed that our stages are ours
        self._order_epoch = 0  # the one that the history has
        self._rows: dict[int, int] = {}  # stage -> the highest row that we know was durable, whoever had the stage then
        self._doubt = ""  # why the store must be an older copy
        self.metrics = HostMetrics()
        self.logs = EventLogs(journal, self, sink, settings.log_trim_interval)
        self.rates = TopicRates(lambda: self.stages)

    # -- life --------------------------------------------------------------------------------------------------

    async def open(self, address: str = "") -> StoreInfo:
        """Open the store. ``address``: where this worker is reached. Raises StoreErrors and InvalidOption."""
        settings, self._address = self._settings, address
        info = await self._in_store(lambda: self._journal.open(settings.stages, settings.topic_order))
        if info.stages != self._settings.stages:
            allowed = f"{info.stages}, the number that the store {self._journal.url} was made with"
            raise InvalidOption("stages", self._settings.stages, allowed)
        self._topic_order = info.topic_order
        return info

    async def begin(self) -> None:
        """Commit what the stages that have joined must be told first, and take work. Raises StoreErrors."""
        await self._look_around()
        await self._let_join()
        while not self._open.is_empty:
            await self._turn()
        self._is_ready = True
        self._proven_at = asyncio.get_running_loop().time()
        self._wake.set()

    async def run(self) -> None:
        """Commit until stopped. Stages that others take over are let go; without any this worker is a standby. Raises
        StoreReplaced and StoreVersionMismatch."""
        while not (self._stop.is_set() and self._is_idle):
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._doubt:
                    await self._give_up(self._doubt)
                if self._joining:
                    await self._let_join()
                if self._leaving:
                    await self._let_leave()
                await self._turn()
                await self._beat_if_due()
            except VOID:
                raise
            except StoreError as error:
                await self._start_anew(error)
            self._look_soon()  # after a failure too: one that has lost its stages still shows that it lives
            if not self._is_idle:
                self._go_on()

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
        for timer in (self._timer, self._waiting):
            if timer is not None:
                timer.cancel()
        closing = asyncio.ensure_future(self._in_store(let_go))
        if not (await asyncio.wait([closing], timeout=CLOSE_PATIENCE))[0]:
            self._journal.interrupt()
        await asyncio.wait([closing])
        self._thread.close()

    def _release_stages(self) -> None:
        """On the store's thread: release the stages, so that a successor need not look whether we live."""
        try:
            # By what the store says: the answer to a claim may have been lost, or come too late.
            found = self._journal.read_map()
            self._journal.release([(each.stage, each.epoch) for each in found if each.owner == self.owner])
            if self._settings.beat_interval:
                self._journal.forget_members([self.owner])
        except StoreError as error:
            log.info("event=not_released error=%s", error)
        self._journal.close()

    # -- work --------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Work is taken."""
        return self._is_ready

    @property
    def silence(self) -> float:
        """Seconds for which the store has not answered what it is asked; 0 while it is asked nothing."""
        return self._thread.silence

    @property
    def room(self) -> Room | None:
        """See Journal."""
        return self._journal.room()

    @property
    def beat_failure(self) -> str:
        """Why this worker cannot show the store that it lives; empty while it can."""
        return self._complaint.text

    @property
    def state(self) -> str:
        """``active`` with a stage, else ``standby``."""
        return "active" if self._stages else "standby"

    @property
    def count(self) -> int:
        """How many stages the store has; the last one is the bottom."""
        return self._settings.stages

    @property
    def stages(self) -> dict[int, Stage]:
        """The stages here, for read-only queries inside ``Work.run``."""
        return {index: hosted.stage for index, hosted in self._stages.items()}

    @property
    def epochs(self) -> dict[int, int]:
        """The epoch of each stage here."""
        return {index: hosted.epoch for index, hosted in self._stages.items()}

    @property
    def _owned(self) -> dict[int, int]:
        """The epoch of each stage that is ours in the store."""
        return {**self._claimed, **self.epochs}

    @property
    def standings(self) -> dict[int, Standing]:
        """Where the journals of the stages here are."""
        return {index: hosted.standing for index, hosted in self._stages.items()}

    def doubt(self, reason: str) -> None:
        """There is proof that the store is an older copy: take no more work."""
        self._doubt = self._doubt or reason
        self._is_ready = False
        self._wake.set()

    def has(self, stage: int) -> bool:
        """Tell whether a stage is here."""
        return stage in self._stages

    def owns(self, stage: int) -> bool:
        """See standby.Claims."""
        return stage in self._stages or stage in self._claimed

    def stage(self, index: int) -> Stage:
        """Return a stage, for read-only queries inside ``Work.run``. Raises StageElsewhere."""
        if index not in self._stages:
            raise StageElsewhere
        return self._stages[index].stage

    def now(self, stage: int) -> int:
        """Return the time of a stage here, ms. Raises StageElsewhere."""
        if stage not in self._stages:
            raise StageElsewhere
        return self._stages[stage].now()

    def submit(self, work: Work) -> None:
        """Take work: run it now if the collecting commit has room, else when one has."""
        if not self._is_ready:
            self._settle(work)
            return
        if self._backlog or self._rides or self._is_holding or not self._has_room:
            self._backlog.append(work)
            self._backlog_bytes += work.size
            self._check_pressure()
        else:
            self._run_work(work)
        self._go_on()

    def _go_on(self) -> None:
        """Have what collected committed: at once, or, where nobody waits for it, within ``SETTLE_WAIT``."""
        if not self._is_unhurried:
            self._wake.set()
        elif self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(SETTLE_WAIT, self._wake.set)

    @property
    def _is_unhurried(self) -> bool:
        """What collects may wait for company; whatever else there is to do here ends that."""
        is_busy = self._open.is_urgent or self._backlog or self._rides or self._broken
        return not (is_busy or self._stop.is_set())

    def create(self, stage: int, command: Create) -> None:
        """Inside ``Work.run``: step requests for timestamps. What they bring for the event logs of topics that are here
        goes into the rows of these, and not into the journal (R18)."""
        if stage not in self._stages:
            raise StageElsewhere
        contents: dict[int, bytes] = {}
        machine = self._stages[stage].stage
        if not machine.is_sealed and any(event.content for event in command.events):
            here = [event.topic for event in command.events if machine.stage_of(event.topic) == stage]
            command, contents = split(command, here)
        self.step(stage, command, contents)

    def settle(self, stage: int, command: SettleNumbers) -> None:
        """Inside ``Work.run``: step confirms and voids; nobody waits for the commit of these. Raises StageElsewhere."""
        self._step(stage, command, {})

    def step(self, stage: int, command: AnyCommand, contents: dict[int, bytes] | None = None) -> None:
        """Inside ``Work.run``: step a command; its effects leave after its commit. ``contents``: what was taken out of
        the command for event logs, by counter. Raises StageElsewhere."""
        self._open.is_urgent = True
        self._step(stage, command, contents or {})

    def _step(self, stage: int, command: AnyCommand, contents: dict[int, bytes]) -> None:
        if stage not in self._stages:
            raise StageElsewhere
        try:
            effects, size = self._stages[stage].step(command)
        except Exception as error:
            log.exception("event=stage_broken stage=%d command=%s", stage, type(command).__name__)
            self._broken = StageBroken(self._journal.url, f"stage {stage} could not process a {type(command).__name__}")
            raise self._broken from error
        self._open.commands += 1
        self._open.size += size
        if stage == self.count - 1:
            self._note_order(self._stages[stage].stage)
        for effect in effects:
            if isinstance(effect, Reply):
                self._open.replies.append(effect)
            elif isinstance(effect, Send):
                self._open.sends.append((stage, effect))
            else:
                self._log(effect, contents)

    def _note_order(self, bottom: Stage) -> None:
        """The commit in which the bottom stage gets into a new topic order (R14) has it in the history, too."""
        if bottom.order_epoch != self._order_epoch:
            self._keep_order(bottom, "manual" if bottom.order_by else "automatic")

    def _keep_order(self, bottom: Stage, kind: str) -> None:
        self._order_epoch = bottom.order_epoch
        row = OrderRow(bottom.order_epoch, stored_now_ms(), kind, bottom.order_by, bottom.topic_order())
        self._open.log.append(row)

    def _log(self, change: LogChange, contents: dict[int, bytes]) -> None:
        """A change of an event log is made by the commit of the command that caused it."""
        if not isinstance(change, LogEvent):
            self._open.log.append(change)
            return
        content = change.content
        if content is not None and not content:
            content = contents.get(change.counter)
            self._open.size += len(content or b"")
        self._open.log.append(LogRow(change.topic, change.number, stored_now_ms(), change.deps, content))

    def deliver(self, stage: int, origin: int, number: int, ride: AnyRide) -> None:
        """Inside ``Work.run``: step the next ride from another stage; it is acknowledged after its commit."""
        self.step(stage, Deliver(origin, number, ride))
        self._open.delivered[stage, origin] = number

    def reply(self, session: Session, frame: Frame) -> None:
        """Inside ``Work.run``: answer after everything before it is committed."""
        self._open.is_urgent = True
        self._open.replies.append(Reply(*session, frame))

    def reply_as_owner(self, session: Session, frame: Frame) -> None:
        """Inside ``Work.run``: answer once the store has confirmed, after this call, that all stages here are ours: by
        a commit that takes in every one of them, or by the next beat (R12). A worker that was paused and fenced, or is
        cut from its store, goes on reading its clients' questions, but none of these answers leaves it."""
        self._open.is_urgent = True
        self._open.proofs.append(Reply(*session, frame))

    def after_commit(self, call: Callable[[], None]) -> None:
        """Inside ``Work.run``: call this after everything before it is committed; not at all if that fails."""
        self._open.is_urgent = True
        self._open.after.append(call)

    def roles(self) -> dict[int, str]:
        """Tell what this worker is to each stage: ``active``, ``standby`` for one that it follows and may take over, or
        ``elsewhere`` for another one."""
        others = {
            stage: "standby" if stage in self._settings.hosted_stages else "elsewhere" for stage in range(self.count)
        }
        return {**others, **dict.fromkeys(self._stages, "active")}

    @property
    def queued(self) -> int:
        """How much work waits for a commit."""
        return len(self._backlog)

    @property
    def queued_bytes(self) -> int:
        """What it costs."""
        return self._backlog_bytes

    @property
    def held(self) -> int:
        """How much work is held because the stage above is away (``max_outbox``)."""
        return sum(map(len, self._held.values()))

    @property
    def has_logs(self) -> bool:
        """Some topic has an event log, or may have had one."""
        return any(stage.has_logs for stage in self.stages.values())

    def home_of(self, topic: int) -> int | None:
        """Return the stage of a topic, if it is here."""
        for index, hosted in self._stages.items():
            if hosted.stage.stage_of(topic) == index:
                return index
        return None

    def log_bounds(self, topic: int) -> LogRule | None:
        """Return what the log of a topic of a stage here may hold; ``None``: it has none, or is elsewhere."""
        home = self.home_of(topic)
        return None if home is None else self.stage(home).log_bounds(topic)

    def read_log(self, session: Session, frame: ReadLog) -> None:
        """Answer a question to an event log, when its turn comes."""
        self.logs.ask(session, frame)

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status."""
        return {
            "ready": self._is_ready,
            "state": self.state,
            "stages": [
                {"stage": hosted.index, "epoch": hosted.epoch, "rows": hosted.seq, "time_ms": hosted.now()}
                for hosted in self._stages.values()
            ],
            "queued": self.queued,
            "queued_bytes": self.queued_bytes,
            "rides": len(self._rides),
            "held": self.held,
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
        if self._exits and self._hold(work):
            return
        if (work.source is None or work.source.is_current) and self._broken is None:
            try:
                work.run()
            except StageElsewhere:
                work.elsewhere()
            except StageBroken:
                pass
        if work.source is not None:
            _, count, size = self._open.settled.get(id(work.source), (work.source, 0, 0))
            self._open.settled[id(work.source)] = (work.source, count + 1, size + work.size)

    def _hold(self, work: Work) -> bool:
        """Keep what would add to the rides for a stage above that is away, behind what is kept already."""
        way_out = None if work.entry is None else self._exits.get(work.entry)
        if way_out is None:
            return False
        held = self._held.get(way_out)
        if not held and self._stages[way_out].stage.waiting(way_out - 1) < self._settings.max_outbox:
            return False
        self._held.setdefault(way_out, deque()).append(work)
        return True

    def _let_go(self, way_out: int) -> None:
        """Take up again what was held, before everything that came later."""
        held = self._held.get(way_out)
        if held and self._stages[way_out].stage.waiting(way_out - 1) <= self._settings.max_outbox // 2:
            del self._held[way_out]
            self._backlog.extendleft(reversed(held))
            self._backlog_bytes += sum(work.size for work in held)
            self._check_pressure()
            self._wake.set()

    def _settle(self, work: Work) -> None:
        if work.source is not None:
            work.source.settled(1, work.size)

    def _check_pressure(self) -> None:
        limit = self._settings.max_queue_bytes
        is_pressed = self._backlog_bytes > (limit // 2 if self._is_pressed else limit)
        if is_pressed != self._is_pressed:
            self._is_pressed = is_pressed
            self._sink.pressed(is_pressed)

    # -- rides for other workers -------------------------------------------------------------------------------

    def sent(self, origin: int, target: int) -> int:
        """Return the last ride of a stage here for another worker's stage that is durable and may leave."""
        return self._sent.get((origin, target), 0)

    def outgoing(self, origin: int, target: int, after: int, limit: int) -> list[Send]:
        """Return the next rides that may leave."""
        hosted = self._stages.get(origin)
        through = min(self.sent(origin, target), after + limit)
        return [] if hosted is None else hosted.stage.unacknowledged(target, after, through)

    def acknowledge(self, origin: int, target: int, number: int) -> None:
        """The other worker made rides up to this number durable."""
        hosted = self._stages.get(origin)
        if hosted is not None:
            hosted.stage.acknowledge(target, number)
            if self._held:
                self._let_go(origin)

    # -- commit ------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Commit what has collected; meanwhile release the commit before it, and step what waits."""
        if self._broken is not None:
            self._release()
            raise self._broken
        self._fill()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        batch, self._open = self._open, Open()
        own = self._stages.values()
        rows = [row for hosted in own if (row := hosted.close_row())]
        images = [
            (hosted, image) for hosted in own if (image := hosted.due_snapshot(self._settings)) is not None
        ] if rows else []  # fmt: skip
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        append = self._thread.call(self._journal.append, rows, batch.log) if rows else None
        self._release()
        self._fill()
        if append is None:
            self._open.log[:0] = batch.log  # goes along with the next row
        else:
            await append
            for row in rows:
                self._stages[row.stage].durable = self._rows[row.stage] = row.seq
            self.metrics.committed(time.perf_counter() - began, batch.commands)
            self._failures = 0
            self._proven_at = loop.time()
        if len(rows) == len(self._stages):
            batch.replies += batch.proofs
        else:
            self._unproven += batch.proofs
        self._committed = batch
        self._pass_on(batch)
        if self._open.is_empty or self._is_unhurried:
            self._release()
        await self._save(images)

    def _fill(self) -> None:
        """Step rides first, then waiting work, as far as the collecting commit has room."""
        if self._is_holding:
            return
        while self._rides and self._has_room and self._broken is None:
            origin, send = self._rides.popleft()
            try:
                self.deliver(send.stage, origin, send.number, send.ride)
            except StageBroken:
                return
        while self._backlog and not self._rides and self._has_room:
            work = self._backlog.popleft()
            self._backlog_bytes -= work.size
            self._run_work(work)
        self._check_pressure()

    def _pass_on(self, batch: Open) -> None:
        """After its commit: what stages got is off their origin's hands, and new rides are on their way."""
        for (stage, origin), number in batch.delivered.items():
            reach("rides.before")
            if origin in self._stages:
                self._stages[origin].stage.acknowledge(stage, number)
            else:
                self._sink.made_durable(stage, origin, number)
            reach("rides.after")
        if len(self._stages) == self.count:
            self._rides.extend(batch.sends)
            return
        targets = set()
        for origin, send in batch.sends:
            if send.stage in self._stages:
                self._rides.append((origin, send))
            else:
                self._sent[origin, send.stage] = send.number
                targets.add(send.stage)
        for target in targets:
            self._links.rides_ready(target)

    def _release(self) -> None:
        """Answer what the last commit made durable: all frames of one session together."""
        if self._committed is None:
            return
        reach("answers.before")
        batch, self._committed = self._committed, None
        by_session: dict[Session, list[Frame]] = {}
        for reply in batch.replies:
            by_session.setdefault((reply.client_id, reply.incarnation), []).append(reply.frame)
        for session, frames in by_session.items():
            self.metrics.answered(frames)
            self._sink.answer(session, frames)
        for call in batch.after:
            call()
        for source, count, size in batch.settled.values():
            source.settled(count, size)
        reach("answers.after")

    async def _save(self, images: list[tuple[HostedStage, bytes]]) -> None:
        """Save snapshots. A failure costs nothing but a longer replay; the next append shows what is wrong."""
        for hosted, image in images:
            index, epoch, seq = hosted.index, hosted.epoch, hosted.seq
            try:
                await self._in_store(partial(self._journal.save_snapshot, index, epoch, seq, image))
                self.metrics.snapshots += 1
            except StoreError as error:
                log.warning("event=snapshot_failed stage=%d row=%d error=%s", index, seq, error)

    @property
    def _beat_interval(self) -> float:
        """Seconds between two beats or looks around; 0 for a worker that needs neither."""
        return self._settings.beat_interval or (0.0 if len(self._stages) == self.count else MAP_INTERVAL)

    async def _beat_if_due(self) -> None:
        interval, now = self._beat_interval, asyncio.get_running_loop().time()
        is_due, shows_beats = bool(interval) and now >= self._beat_at, bool(self._settings.beat_interval)
        if not is_due and (shows_beats or not self._unproven):
            return
        try:
            if shows_beats or self._unproven:
                await self._show_ownership()
            if is_due:
                self._beat_at = now + interval
                await self._look_around()
            self._complaint.clear()
        except (Fenced, StoreOutdated, *VOID):
            raise
        except StoreError as error:
            now = asyncio.get_running_loop().time()  # it may have taken long to fail
            self._beat_at = now + interval  # else again at once
            if self._complaint.is_news(error):
                log.warning("event=beat_failed error=%s", error)
            if self._stages and now - self._proven_at >= self._settings.lease:
                raise  # others take us for dead by now, and clients are better off with them

    async def _show_ownership(self) -> None:
        """Beat, and send what waited for the store to confirm that the stages are ours."""
        owned, proven = list(self._owned.items()), self._unproven
        self._unproven = []
        member = self.member() if self.member is not None and self._settings.beat_interval else None
        await self._in_store(partial(self._journal.beat, owned, member))
        self._proven_at = asyncio.get_running_loop().time()
        for reply in proven:
            self._sink.answer((reply.client_id, reply.incarnation), [reply.frame])

    async def _look_around(self) -> None:
        """See where the stages of other workers are."""
        if len(self._stages) < self.count:
            self._looked_at = asyncio.get_running_loop().time()
            self.map_read(await self._in_store(self._journal.read_map), None)

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """See standby.Claims."""
        self._sink.map_read(rows, workers)

    def look_around_soon(self) -> None:
        """Somebody has a hint that a stage is elsewhere now, or that we lost one."""
        loop = asyncio.get_running_loop()
        soon = max(loop.time() + LOOK_INTERVAL, self._looked_at + MAP_PAUSE)
        if self._is_ready and soon < self._beat_at:
            self._beat_at = soon
            self._look_at(soon)

    async def _in_store(self, call: Callable[[], T]) -> T:
        return await self._thread.call(call)

    # -- time --------------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        """A commit may have set an earlier deadline. Looking asks every session, so it is not done at each commit."""
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() > loop.time() + LOOK_INTERVAL:
            self._look_at(loop.time() + LOOK_INTERVAL)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # not at once: what uvloop returns for a moment that is (nearly) here has no ``when``
        self._timer = loop.call_at(max(when, loop.time() + LOOK_INTERVAL), self._look)

    def _look(self) -> None:
        """Step a Tick where one is due, wake up for a beat, and look again when the next is due."""
        self._timer = None
        if not self._is_ready:
            return
        loop = asyncio.get_running_loop()
        times = [self._beat_at] if self._beat_interval else []
        for hosted in self._stages.values():
            deadline = hosted.stage.next_deadline()
            if deadline is not None and deadline <= hosted.now() and not self._is_holding:
                self._tick(hosted)
                deadline = hosted.stage.next_deadline()
            if deadline is not None:
                times.append(loop.time() + max(LOOK_INTERVAL, (deadline - hosted.now() + 1) / 1000))
        if (not self._open.is_empty and not self._is_unhurried) or (times and min(times) <= loop.time()):
            self._wake.set()
        elif times:
            self._look_at(min(times))

    def _tick(self, hosted: HostedStage) -> None:
        if self._broken is None:
            with contextlib.suppress(StageBroken):
                self.step(hosted.index, Tick())

    # -- stages come and go ------------------------------------------------------------------------------------

    async def claim(self, stage: int, seen: int | None, beat: int | None) -> int:
        """See standby.Claims. From now on the beat holds the stage for us. Raises StoreError."""
        call = partial(self._journal.claim, stage, self.owner, seen, self._address, beat)
        epoch = self._claimed[stage] = await self._in_store(call)
        return epoch

    def join(self, hosted: HostedStage, began: float | None) -> None:
        """See standby.Claims."""
        self._joining.append((hosted, began))
        self._wake.set()

    def row(self, stage: int) -> int | None:
        """See standby.Claims."""
        hosted = self._stages.get(stage)
        return None if hosted is None else hosted.seq

    def hand_over(self, stage: int) -> None:
        """See standby.Claims."""
        self._leaving.add(stage)
        self._wake.set()

    async def _let_leave(self) -> None:
        """Let go of stages that are to be handed over: what was stepped is committed and answered, the rest is for
        their next owner. Raises StoreError."""
        async with self._quiet():
            leaving = {stage: self._stages[stage].epoch for stage in self._leaving if stage in self._stages}
            await self._in_store(partial(self._journal.release, list(leaving.items())))
            self._leaving.clear()
            self._unproven.clear()  # they name stages that are not ours any more; who asked asks again
            for stage, epoch in leaving.items():
                del self._stages[stage]
                log.info("event=handed_over stage=%d epoch=%d", stage, epoch)
            self._arrange()
        self._sink.stages_changed()

    async def _let_join(self) -> None:
        """Take in the stages that were claimed and read. Raises StoreError."""
        joined: list[HostedStage] = []
        async with self._quiet():
            while self._joining:
                hosted, began = self._joining.popleft()
                epoch = self._claimed.pop(hosted.index, None)
                if epoch is None:  # lost again, or let go meanwhile
                    continue
                await self._check_end(hosted)
                hosted.own(epoch)
                self._stages[hosted.index] = hosted
                joined.append(hosted)
                if began is not None:
                    self.metrics.took_over(time.monotonic() - began)
                if self._is_ready or began is not None:
                    log.info("event=took_stage stage=%d epoch=%d row=%d", hosted.index, epoch, hosted.seq)
            self._arrange()
            self._brief(joined)
        self._sink.stages_changed()

    @contextlib.asynccontextmanager
    async def _quiet(self) -> AsyncIterator[None]:
        """Commit and release all that was stepped; inside, nothing is under way, and nothing new is stepped. Raises
        StoreError."""
        self._is_holding = True
        try:
            while self._committed is not None or not self._open.is_empty:
                await self._turn()
            yield
        finally:
            self._is_holding = False
            self._wake.set()

    def _brief(self, stages: Iterable[HostedStage]) -> None:
        """Tell stages that came here what they must know first; not before ``_arrange``, which takes all rides that it
        finds for durable ones."""
        settings, rules, topics = self._settings.stage_settings(), self._settings.log_rules(), self._topics_in_order()
        for hosted in stages:
            is_bottom = hosted.index == self.count - 1
            if is_bottom:
                self._order_epoch = hosted.stage.order_epoch
            for command in hosted.first_commands(settings, topics, rules):
                self.step(hosted.index, command)
            if is_bottom:
                self._keep_order(hosted.stage, "start")

    def _arrange(self) -> None:
        """The stages here are others than before, and all that they have is durable: find out through which of them
        rides leave, and what is to be sent again."""
        held = [work for waiting in self._held.values() for work in waiting]
        self._held.clear()
        self._backlog.extendleft(reversed(held))
        self._backlog_bytes += sum(work.size for work in held)
        self._exits = _exits(set(self._stages))
        self._sent = {
            (index, target): hosted.stage.sent(target)
            for index, hosted in self._stages.items() for target in range(self.count) if target not in self._stages
        }  # fmt: skip
        self._rides.clear()
        for origin in self._stages.values():
            for target in self._stages.values():
                if origin is not target:
                    origin.stage.acknowledge(target.index, target.stage.received(origin.index))
                    self._rides.extend((origin.index, send) for send in origin.stage.unacknowledged(target.index))
        self._links.stages_changed()

    async def _take_again(self) -> None:
        """Claim our stages anew, by the epochs that we know of ours, and read them from the store."""
        if self._doubt:
            await self._give_up(self._doubt)
        epochs = await self._in_store(partial(self._claim_again, self.epochs))
        self._stages = await self._in_store(partial(self._recover, epochs))
        for hosted in self._stages.values():
            await self._check_end(hosted)
        self._arrange()
        self._brief(self._stages.values())

    def _claim_again(self, wanted: dict[int, int]) -> dict[int, int]:
        """On the store's thread: claim stages, all of them before the first is read. One that another worker took
        meanwhile is let go; the others go on."""
        epochs: dict[int, int] = {}
        for stage, seen in wanted.items():
            try:
                epochs[stage] = self._journal.claim(stage, self.owner, seen, self._address)
            except Fenced as error:
                log.warning("event=lost_stage stage=%d reason=%s", stage, error)
        if wanted and not epochs:  # a standby has none before
            log.warning("event=stepped_down hint=%s", "other workers have all stages; this one is a standby now")
        return epochs

    def _recover(self, epochs: dict[int, int]) -> dict[int, HostedStage]:
        """On the store's thread: bring stages that were claimed to where their journals end."""
        stages = {stage: recover(self._journal, stage, self.count) for stage in epochs}
        for stage, epoch in epochs.items():
            stages[stage].own(epoch)
        return stages

    async def _check_end(self, hosted: HostedStage) -> None:
        """A journal only gets longer: one that ends before what this process has read or written of it belongs to an
        older copy, which was put back under us. Raises StoreOutdated."""
        last = await self._in_store(partial(self._journal.last_row, hosted.index))
        known = max(hosted.seq, self._rows.get(hosted.index, 0))
        if last < known:
            await self._give_up(
                f"stage {hosted.index} had row {known} when this worker saw it last, and ends at {last}"
            )
        self._rows[hosted.index] = last

    async def _give_up(self, reason: str) -> None:
        """Let go of our stages, and tell all workers that nobody may go on with this store. Raises StoreOutdated."""
        self._doubt = reason
        await self._in_store(partial(self._journal.release, list(self._owned.items())))
        await self._in_store(partial(self._journal.mark_outdated, reason))
        raise StoreOutdated(self._journal.url, reason)

    def _topics_in_order(self) -> list[TopicInfo]:
        placed = [(stage, text) for stage, texts in enumerate(self._topic_order) for text in texts]
        topics = []
        for number, (stage, text) in enumerate(placed, start=1):
            space, _, name = text.partition(":")
            topics.append(TopicInfo(number, space, name, stage))
        return topics

    async def _start_anew(self, error: StoreError) -> None:
        """Forget what ran ahead of the store, and recover from it, however long it takes. What is not ours any more is
        let go."""
        self._is_ready = False
        self._release()
        self._forget()
        self._leaving.clear()
        if isinstance(error, Fenced):
            self._claimed.clear()
        self._tell(error)
        while not self._stop.is_set():
            await self._pause_before_retry()
            try:
                await self._take_again()
                await self._look_around()
            except VOID:
                raise
            except StoreError as again:
                self._forget()
                self._tell(again)
                continue
            self._is_ready = True
            self._proven_at = asyncio.get_running_loop().time()
            self._sink.store_recovered()
            self._sink.stages_changed()
            log.info("event=recovered epochs=%s", self.epochs)
            return

    def _tell(self, error: StoreError) -> None:
        """Say why this worker starts anew. That another one has taken stages over is no failure of the store."""
        if isinstance(error, Fenced):
            self.metrics.fences += 1
            log.warning("event=fenced reason=%s", error)
        else:
            self.metrics.failures += 1
            log.error("event=store_failed error=%s", error)
        self._sink.store_failed(error)

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
        self._unproven.clear()
        self._rides.clear()
        waiting = [*self._backlog, *(work for held in self._held.values() for work in held)]
        self._backlog.clear()
        self._held.clear()
        self._backlog_bytes = 0
        for work in waiting:
            self._settle(work)
        batch, self._open = self._open, Open()
        for source, count, size in batch.settled.values():
            source.settled(count, size)
        self._check_pressure()


def _exits(own: set[int]) -> dict[int, int]:
    """Return through which of our stages the rides of each leave this worker upwards; none where they do not."""
    exits: dict[int, int] = {}
    for stage in sorted(own):
        if stage:
            way_out = exits.get(stage - 1) if stage - 1 in own else stage
            if way_out is not None:
                exits[stage] = way_out
    return exits
