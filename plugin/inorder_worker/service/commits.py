"""Group commit: the order that everything rests on.

A command is stepped in memory and encoded; its row is committed; only then its effects leave. While one commit runs on
the store's thread, the next rows collect. All stages here share one transaction. What ran ahead in memory when a commit
fails is thrown away, and the stages are read again from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from inorder.errors import StoreError
from inorder.logs import logger
from inorder.protocol.wire import Frame
from inorder_worker.sequencer.commands import AnyCommand, Create, Deliver, Reply, SettleNumbers
from inorder_worker.sequencer.event_log import split
from inorder_worker.sequencer.rides import AnyRide
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.backlog import Backlog
from inorder_worker.service.context import HostContext
from inorder_worker.service.heartbeat import Heartbeat
from inorder_worker.service.open_commit import OpenCommit
from inorder_worker.service.relay import RideRelay
from inorder_worker.service.work import Session, StageBroken, StageElsewhere, Work
from inorder_worker.store.failpoints import reach
from inorder_worker.store.history import OrderRow
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.records import now_ms

SETTLE_WAIT: Final = 0.002
"""Seconds for which what nobody waits for (confirms and voids, R16) is not committed by itself. A publisher that waits
for each timestamp confirms one and asks for the next; without this that request would wait for the confirm's commit."""

log = logger("inorder.worker")


class CommitLoop:
    """Runs requests, commits their rows, and releases durable effects.

    A command and its effects are at any moment in one of three places: in ``collecting``, in the commit that runs on
    the store's thread, or in the commit that is durable and not released. They only go forward, and in order.

    Args:
        context: see HostContext.
        backlog: requests that wait; everything in it is younger than what was run of the same client.
        relay: takes rides when they are durable.
        heartbeat: takes answers that need a proof that our stages are ours.
    """

    def __init__(self, context: HostContext, backlog: Backlog, relay: RideRelay, heartbeat: Heartbeat) -> None:
        self._context, self._stages, self._settings = context, context.stages, context.settings
        self._backlog, self._relay, self._heartbeat = backlog, relay, heartbeat
        self.collecting = OpenCommit()
        """What the next commit will hold."""
        self._durable: OpenCommit | None = None
        """The last commit, which succeeded, until it is released. It is released before the next one succeeds."""
        self.is_holding = False
        """Nothing is stepped, because stages come or go: requests wait in the backlog."""
        self._broken: StageBroken | None = None
        """A stage is not what its journal says any more: nothing is stepped or committed until the recovery."""
        self.failures = 0
        """Recoveries that were begun since the last commit that succeeded, and left no doubt."""
        self.is_doubtful = False
        """A commit failed that wrote to an event log, and none such has succeeded since: to have claimed and read the
        stages again proves little then."""
        self.order_epoch = 0
        """Of the topic order that the store's history has last."""
        self.clock: Callable[[], float] = time.thread_time
        """Says how much this thread has worked, in seconds."""
        self.wrote: Callable[[Sequence[LogWrite]], None] = lambda changes: None
        """Told of what a commit has written beside the journal's rows."""
        self._waiting: asyncio.TimerHandle | None = None
        """Ends the wait of what is not urgent."""

    @property
    def is_idle(self) -> bool:
        """Tell whether no work waits or collects, and all durable effects were released."""
        return self.collecting.is_empty and not (self._backlog or self._relay.rides or self._durable)

    @property
    def is_unhurried(self) -> bool:
        """Tell whether the collected work may wait for more; any other work here ends this."""
        is_busy = self.collecting.is_urgent or self._backlog or self._relay.rides or self._broken
        return not (is_busy or self._context.stop.is_set())

    @property
    def takes_ticks(self) -> bool:
        """Tell whether a stage's timed work may be stepped now."""
        return not self.is_holding and self._broken is None

    def submit(self, work: Work) -> None:
        """Take work: run it now if the collecting commit has room, else when one has."""
        if not self._stages.are_ready:
            _drop(work)
            return
        if self._backlog or self._relay.rides or self.is_holding or not self._has_room:
            self._backlog.put(work)
        else:
            self._run(work)
        self.go_on()

    def go_on(self) -> None:
        """Have what collected committed: at once, or, where nobody waits for it, within ``SETTLE_WAIT``."""
        if not self.is_unhurried:
            self._context.wake.set()
        elif self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(SETTLE_WAIT, self._context.wake.set)

    def stop_waiting(self) -> None:
        """Let what nobody waits for go alone."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    # -- inside ``Work.run`` -----------------------------------------------------------------------------------

    def create(self, stage: int, command: Create) -> None:
        """Step requests for timestamps. What they bring for the event logs of topics that are here goes into the rows
        of these, and not into the journal (R18). Raises StageElsewhere."""
        machine = self._stages.machine(stage)
        contents: dict[int, bytes] = {}
        if not machine.is_sealed and any(event.content for event in command.events):
            here = [event.topic for event in command.events if machine.stage_of(event.topic) == stage]
            command, contents = split(command, here)
        self.step(stage, command, contents)

    def settle(self, stage: int, command: SettleNumbers) -> None:
        """Step confirms and voids; nobody waits for the commit of these. Raises StageElsewhere."""
        self._step(stage, command, {})

    def step(self, stage: int, command: AnyCommand, contents: dict[int, bytes] | None = None) -> None:
        """Step a command; its effects leave after its commit. ``contents``: what was taken out of the command for event
        logs, by counter. Raises StageElsewhere."""
        self.collecting.is_urgent = True
        self._step(stage, command, contents or {})

    def _step(self, stage: int, command: AnyCommand, contents: dict[int, bytes]) -> None:
        if stage not in self._stages:
            raise StageElsewhere
        try:
            effects, size = self._stages[stage].step(command)
        except Exception as error:
            log.exception("event=stage_broken stage=%d command=%s", stage, type(command).__name__)
            reason = f"stage {stage} could not process a {type(command).__name__}"
            self._broken = StageBroken(self._context.journal.url, reason)
            raise self._broken from error
        if stage == self._stages.count - 1:
            self._note_order(self._stages[stage].stage)
        self.collecting.take(stage, effects, size, contents)

    def _note_order(self, bottom: Stage) -> None:
        """The commit in which the bottom stage gets into a new topic order (R14) has it in the history, too."""
        if bottom.order_epoch != self.order_epoch:
            self.keep_order(bottom, "manual" if bottom.order_by else "automatic")

    def keep_order(self, bottom: Stage, kind: str) -> None:
        """Write the bottom stage's topic order into the history, with what collects. ``kind``: see OrderRow."""
        self.order_epoch = bottom.order_epoch
        row = OrderRow(bottom.order_epoch, now_ms(), kind, bottom.order_by, bottom.topic_order())
        self.collecting.log.append(row)

    def deliver(self, stage: int, origin: int, number: int, ride: AnyRide) -> None:
        """Step the next ride from another stage; it is acknowledged after its commit. Raises StageElsewhere."""
        self.step(stage, Deliver(origin, number, ride))
        self.collecting.delivered[stage, origin] = number

    def reply(self, session: Session, frame: Frame) -> None:
        """Answer after everything before it is committed."""
        self.collecting.is_urgent = True
        self.collecting.replies.append(Reply(*session, frame))

    def reply_as_owner(self, session: Session, frame: Frame) -> None:
        """Answer once the store has confirmed, after this call, that all stages here are ours: by a commit of all of
        them, or by the next beat (R12). A worker that was paused and fenced, or is cut from its store, goes on reading
        its clients' questions, but none of these answers leaves it."""
        self.collecting.is_urgent = True
        self.collecting.proofs.append(Reply(*session, frame))

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this after everything before it is committed; not at all if that fails."""
        self.collecting.is_urgent = True
        self.collecting.after.append(call)

    # -- what is run -------------------------------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        return self.collecting.has_room(self._settings.max_batch_commands, self._settings.max_batch_bytes)

    def _run(self, work: Work) -> None:
        if self._relay.exits and self._relay.hold(work):
            return
        if (work.source is None or work.source.is_current) and self._broken is None:
            with contextlib.suppress(StageBroken):
                self.collecting.run(work, self.clock)
        self.collecting.settle_with(work)

    def _fill(self) -> None:
        """Step rides first, then waiting work, as far as the collecting commit has room."""
        if self.is_holding:
            return
        backlog, rides = self._backlog, self._relay.rides
        while rides and self._has_room and self._broken is None:
            origin, send = rides.popleft()
            try:
                self.deliver(send.stage, origin, send.number, send.ride)
            except StageBroken:
                return
        while backlog and not rides and self._has_room:
            work, spent = backlog.take(), self.collecting.spent
            self._run(work)
            backlog.charge(work, self.collecting.spent - spent)
        backlog.check_pressure()

    # -- commit ------------------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Commit the collected work; meanwhile release the last commit, and step waiting work. Raises StoreError."""
        if self._broken is not None:
            self.release()
            raise self._broken
        self._fill()
        self.stop_waiting()
        batch, self.collecting = self.collecting, OpenCommit()
        rows = self._close_rows()
        began, thread = time.perf_counter(), self._context.thread
        append = thread.call(self._context.journal.append, rows, batch.log) if rows else None
        self.release()
        self._fill()
        if append is None:
            self.collecting.log[:0] = batch.log  # goes along with the next row
            await asyncio.sleep(0)  # others have a turn, where many questions wait
        else:
            await self._done(append, any(not isinstance(each, OrderRow) for each in batch.log))
            self._stages.became_durable(rows)
            self.wrote(batch.log)
            self._context.metrics.committed(time.perf_counter() - began, batch.commands)
            self._heartbeat.proven()
        if len(rows) == len(self._stages):
            batch.replies += batch.proofs
        else:
            self._heartbeat.wait_for_proof(batch.proofs)
        self._durable = batch
        self._relay.pass_on(batch)
        if self.collecting.is_empty or self.is_unhurried:
            self.release()
        await self._go_on_with_snapshots()

    async def _done(self, append: Awaitable[None], has_log: bool) -> None:
        """Wait for an append, and note whether it went well. Raises StoreError."""
        try:
            await append
        except StoreError:
            self.is_doubtful = self.is_doubtful or has_log
            raise
        self.is_doubtful = self.is_doubtful and not has_log
        if not self.is_doubtful:
            self.failures = 0

    def _close_rows(self) -> list[Batch]:
        """Close the stages' open rows, and return these; begin snapshots behind them, where it is time."""
        own = self._stages.values()
        rows = [row for hosted in own if (row := hosted.close_row())]
        if rows:
            for hosted in own:
                hosted.begin_snapshot(self._settings)
        return rows

    def release(self) -> None:
        """Answer what the last commit made durable: all frames of one session together."""
        if self._durable is None:
            return
        reach("answers.before")
        batch, self._durable = self._durable, None
        by_session: dict[Session, list[Frame]] = {}
        for reply in batch.replies:
            by_session.setdefault((reply.client_id, reply.incarnation), []).append(reply.frame)
        for session, frames in by_session.items():
            self._context.metrics.answered(frames)
            self._context.clients.answer(session, frames)
        for call in batch.after:
            call()
        batch.settle()
        reach("answers.after")

    async def _go_on_with_snapshots(self) -> None:
        """Write a slice of each snapshot that was begun, and save finished ones: the rows before them are durable.
        A failure costs nothing but a longer replay; the next append shows what is wrong."""
        for hosted in list(self._stages.values()):
            if (image := hosted.next_slice()) is not None:
                await self._save(hosted.index, hosted.epoch, *image)
            elif hosted.has_image:
                self._context.wake.set()

    async def _save(self, index: int, epoch: int, seq: int, image: bytearray) -> None:
        journal = self._context.journal
        try:
            await self._context.in_store(lambda: journal.save_snapshot(index, epoch, seq, bytes(image)))
            self._context.metrics.snapshots += 1
        except StoreError as error:
            log.warning("event=snapshot_failed stage=%d row=%d error=%s", index, seq, error)

    @contextlib.asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Commit and release all that was stepped; inside, nothing is under way, and nothing new is stepped. Raises
        StoreError."""
        self.is_holding = True
        try:
            while self._durable is not None or not self.collecting.is_empty:
                await self.turn()
            yield
        finally:
            self.is_holding = False
            self._context.wake.set()

    def discard(self) -> None:
        """Forget all that is not durable and all that waits: the stages are read again from the store."""
        self._broken = None
        self._heartbeat.forget_unproven()
        self._relay.rides.clear()
        for work in [*self._backlog.take_all(), *self._relay.take_held()]:
            _drop(work)
        batch, self.collecting = self.collecting, OpenCommit()
        batch.settle()
        self._backlog.check_pressure()


def _drop(work: Work) -> None:
    if work.source is not None:
        work.source.settled(work.count, work.size)
