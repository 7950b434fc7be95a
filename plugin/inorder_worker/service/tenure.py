"""The stages of this worker: how it gets, keeps (over failures of the store) and releases them.

Stages come and go only while nothing is under way (see ``CommitLoop.quiet``), so that everything that is in memory then
is durable, and whoever has a stage next continues exactly there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from functools import partial

from inorder.errors import Fenced, StoreError, StoreOutdated
from inorder.logs import logger
from inorder.protocol.wire import TopicInfo
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.context import HostContext
from inorder_worker.service.following import recover
from inorder_worker.service.heartbeat import Heartbeat
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.relay import RideRelay
from inorder_worker.store.journal import Holder
from inorder_worker.store.store_info import TopicOrder

log = logger("inorder.worker")


class Tenure:
    """Claims stages, takes over, hands over, and claims again after a failure; the standby's ``Claims``.

    A stage is first ours in the store (``HostedStages.claimed``), is read to its end by who claimed it, and joins then.

    Args:
        context: see HostContext.
        commits, relay, heartbeat: of the same host.
    """

    def __init__(self, context: HostContext, commits: CommitLoop, relay: RideRelay, heartbeat: Heartbeat) -> None:
        self._context, self._stages, self._journal = context, context.stages, context.journal
        self._commits, self._relay, self._heartbeat = commits, relay, heartbeat
        self.owner = context.owner
        self.address = ""
        """Where this worker is reached, as it says with each claim; known before the first one."""
        self.topic_order: TopicOrder = ()
        """``space:name`` of the topics that each stage of a new store begins with."""
        self._joining: deque[tuple[HostedStage, float | None]] = deque()
        """Stages that were read to their end and wait for the next quiet moment, and when their take-over began. One
        that is not in ``claimed`` any more when its turn comes was lost meanwhile."""
        self._leaving: set[int] = set()
        """Stages to be handed over in the next quiet moment; those that are not here (any more) are passed over."""
        self._doubt = ""
        """Why the store must be an older copy: what was found first. Void where the store says who took a stage."""

    # -- what a standby asks for (see standby.Claims) ----------------------------------------------------------

    def owns(self, stage: int) -> bool:
        """See Claims."""
        return stage in self._stages or stage in self._stages.claimed

    def row(self, stage: int) -> int | None:
        """See Claims."""
        hosted = self._stages.get(stage)
        return None if hosted is None else hosted.seq

    async def claim(self, stage: int, seen: int | None, beat: int | None) -> int:
        """See Claims. From now on the beat holds the stage for us. Raises StoreError."""
        call = partial(self._journal.claim, stage, self.owner, seen, self.address, beat)
        epoch = self._stages.claimed[stage] = await self._context.in_store(call)
        return epoch

    def join(self, hosted: HostedStage, began: float | None) -> None:
        """See Claims."""
        self._joining.append((hosted, began))
        self._context.wake.set()

    def hand_over(self, stage: int) -> None:
        """See Claims."""
        self._leaving.add(stage)
        self._context.wake.set()

    def look_around_soon(self) -> None:
        """See Claims."""
        self._heartbeat.look_around_soon()

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """See Claims."""
        self._context.sink.map_read(rows, workers)

    # -- stages come and go ------------------------------------------------------------------------------------

    async def come_and_go(self) -> None:
        """Let stages join and leave, if some are to. Raises StoreError."""
        if self._doubt:
            await self._settle_doubt()
            await self._context.in_store(partial(self._journal.beat, list(self._stages.owned.items())))  # fenced
        if self._joining:
            await self.let_join()
        if self._leaving:
            await self._let_leave()

    async def let_join(self) -> None:
        """Take in the stages that were claimed and read. Raises StoreError."""
        joined: list[HostedStage] = []
        async with self._commits.quiet():
            while self._joining:
                hosted, began = self._joining.popleft()
                epoch = self._stages.claimed.pop(hosted.index, None)
                if epoch is None:  # lost again, or let go meanwhile
                    continue
                await self._check_end(hosted)
                hosted.own(epoch)
                self._stages[hosted.index] = hosted
                joined.append(hosted)
                if began is not None:
                    self._context.metrics.took_over(time.monotonic() - began)
                if self._stages.are_ready or began is not None:
                    log.info("event=took_stage stage=%d epoch=%d row=%d", hosted.index, epoch, hosted.seq)
            self._relay.arrange()
            self._brief(joined)
        self._context.clients.stages_changed()

    async def _let_leave(self) -> None:
        """Let go of stages that are to be handed over: what was stepped is committed and answered, the rest is for
        their next owner. Raises StoreError."""
        async with self._commits.quiet():
            leaving = {stage: self._stages[stage].epoch for stage in self._leaving if stage in self._stages}
            await self._context.in_store(partial(self._journal.release, list(leaving.items())))
            self._leaving.clear()
            self._heartbeat.forget_unproven()  # they name stages that are not ours any more
            for stage, epoch in leaving.items():
                del self._stages[stage]
                log.info("event=handed_over stage=%d epoch=%d", stage, epoch)
            self._relay.arrange()
        self._context.clients.stages_changed()

    def _brief(self, stages: Iterable[HostedStage]) -> None:
        """Give stages that came here their first commands; after ``RideRelay.arrange``, which takes all present rides
        for durable ones."""
        given, topics = self._context.settings, self._topics_in_order()
        settings, rules = given.stage_settings(), given.log_rules()
        for hosted in stages:
            is_bottom = hosted.index == self._stages.count - 1
            if is_bottom:
                self._commits.order_epoch = hosted.stage.order_epoch
            for command in hosted.first_commands(settings, topics, rules):
                self._commits.step(hosted.index, command)
            if is_bottom:
                self._commits.keep_order(hosted.stage, "start")

    def _topics_in_order(self) -> list[TopicInfo]:
        placed = [(stage, text) for stage, texts in enumerate(self.topic_order) for text in texts]
        topics = []
        for number, (stage, text) in enumerate(placed, start=1):
            space, _, name = text.partition(":")
            topics.append(TopicInfo(number, space, name, stage))
        return topics

    # -- after a failure ---------------------------------------------------------------------------------------

    def store_failed(self, error: StoreError) -> None:
        """Stop handing over stages; a fenced worker has forgotten its claims."""
        self._leaving.clear()
        if isinstance(error, Fenced):
            self._stages.claimed.clear()

    async def take_again(self) -> None:
        """Claim our stages anew, by the epochs that we know of ours, and read them from the store. Raises
        StoreError."""
        if self._doubt:
            await self._settle_doubt()
        epochs = await self._context.in_store(partial(self.claim_again, self._stages.epochs))
        stages = await self._context.in_store(partial(self._recover, epochs))
        self._stages.clear()
        self._stages.update(stages)
        for hosted in stages.values():
            await self._check_end(hosted)
        self._relay.arrange()
        self._brief(stages.values())

    def claim_again(self, wanted: dict[int, int]) -> dict[int, int]:
        """On the store's thread: claim stages, all of them before the first is read. One that another worker took
        meanwhile is let go; the others go on."""
        epochs: dict[int, int] = {}
        for stage, seen in wanted.items():
            try:
                epochs[stage] = self._journal.claim(stage, self.owner, seen, self.address)
            except Fenced as error:
                log.warning("event=lost_stage stage=%d reason=%s", stage, error)
        if wanted and not epochs:  # a standby has none before
            log.warning("event=stepped_down hint=%s", "other workers have all stages; this one is a standby now")
        return epochs

    def _recover(self, epochs: dict[int, int]) -> dict[int, HostedStage]:
        """On the store's thread: bring stages that were claimed to where their journals end."""
        stages = {stage: recover(self._journal, stage, self._stages.count) for stage in epochs}
        for stage, epoch in epochs.items():
            stages[stage].own(epoch)
        return stages

    # -- an older copy of the store ----------------------------------------------------------------------------

    def doubt(self, reason: str) -> None:
        """Take no more work, as the store has proven to be an older copy."""
        self._doubt = self._doubt or reason
        self._stages.are_ready = False
        self._context.wake.set()

    async def _settle_doubt(self) -> None:
        """Give up, unless the store shows that another worker has taken a stage of ours unnoticed. What clients
        were told may be of that worker. Raises StoreOutdated."""
        epochs = {each.stage: each.epoch for each in await self._context.in_store(self._journal.read_map)}
        if not any(epochs.get(stage, 0) > epoch for stage, epoch in self._stages.owned.items()):
            await self._give_up(self._doubt)
        self._doubt = ""

    async def _check_end(self, hosted: HostedStage) -> None:
        """Raise StoreOutdated for a journal that ends before this process's last write or read: an older copy was put
        back under us."""
        last = await self._context.in_store(partial(self._journal.last_row, hosted.index))
        known = max(hosted.seq, self._stages.last_rows.get(hosted.index, 0))
        if last < known:
            await self._give_up(
                f"stage {hosted.index} had row {known} when this worker saw it last, and ends at {last}"
            )
        self._stages.last_rows[hosted.index] = last

    async def _give_up(self, reason: str) -> None:
        """Let go of our stages, and tell all workers that nobody may go on with this store. Raises StoreOutdated."""
        self._doubt = reason
        await self._context.in_store(partial(self._journal.release, list(self._stages.owned.items())))
        await self._context.in_store(partial(self._journal.mark_outdated, reason))
        raise StoreOutdated(self._journal.url, reason)

    # -- the end -----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """On the store's thread: let all stages go, so that a successor need not look whether we live. No error."""
        try:
            # By what the store says: the answer to a claim may have been lost, or come too late.
            found = self._journal.read_map()
            self._journal.release([(each.stage, each.epoch) for each in found if each.owner == self.owner])
            if self._context.settings.beat_interval:
                self._journal.forget_members([self.owner])
        except StoreError as error:
            log.info("event=not_released error=%s", error)
