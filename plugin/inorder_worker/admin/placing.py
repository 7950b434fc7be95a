"""The operators' placement of stages: draining a worker, moving a stage.

Workers hand over by themselves (see ``worker.standby``); what an operator says changes who should have what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from inorder.errors import OutcomeUnknown, Refused, TimedOut, WorkerUnreachable
from inorder.protocol.wire import Done, DrainWorker, Frame, MoveStage, ShowWorker, WorkerShown
from inorder_worker.admin.asking import Asking
from inorder_worker.admin.link import NO_STAGE, LinkLost, NotDone
from inorder_worker.admin.states import WorkerState

FrameT = TypeVar("FrameT", bound=Frame)
LOOK_INTERVAL: Final = 0.1
"""Seconds between two looks at what is waited for."""


class Placing(Asking):
    """Places stages on workers; see :class:`~inorder_worker.admin.cluster.Cluster`."""

    async def workers(self) -> list[WorkerState]:
        """Return the workers that answer, also standbys, first those with stages."""
        await self._workers.places()
        found = await asyncio.gather(*map(self._show, self._workers.addresses), return_exceptions=True)
        states = {each.owner: each for each in found if isinstance(each, WorkerState)}
        if not states:
            raise next(each for each in found if isinstance(each, BaseException))
        return sorted(states.values(), key=lambda each: (not each.stages, each.owner))

    async def drain(self, owner: str, *, is_on: bool = True, wait_s: float = 0.0) -> None:
        """Make a worker hand over its stages, one after the other and without an outage, and take none until its next
        start, or until ``is_on`` false.

        Args:
            owner: as :meth:`workers` names it.
            wait_s: seconds to wait until it has none left; 0: do not wait.

        Raises Refused (there is no such worker, or nobody else can take one of its stages), OutcomeUnknown, TimedOut.
        """
        worker = await self._find(owner)
        answer = await self._tell(worker.address, DrainWorker(0, owner, is_on), Done)
        if answer.refusal:
            raise Refused(answer.refusal)
        if is_on:
            await self._until(f"draining {owner}", owner, lambda state: not state.stages, wait_s)

    async def move_stage(self, stage: int, owner: str, *, wait_s: float = 0.0) -> None:
        """Move a stage to another worker without an outage. That one is pinned to the stages that it has then, until it
        is started again or they are moved elsewhere.

        Args:
            stage: which.
            owner: who is to have it, as :meth:`workers` names it.
            wait_s: seconds to wait until it has it; 0: do not wait.

        Raises Refused (there is no such worker or stage, it may not have it, or another one is pinned to it by its
        settings), OutcomeUnknown and TimedOut.
        """
        if stage not in await self._workers.places():
            raise Refused(f"there is no stage {stage}")
        target = await self._find(owner)
        others = [each for each in await self.workers() if each.owner != owner]
        for each in [*others, target]:  # who is to have it comes last: one of the others may be against it
            answer = await self._tell(each.address, MoveStage(0, stage, owner), Done)
            if answer.refusal:
                raise Refused(answer.refusal)
        await self._until(f"moving stage {stage}", owner, lambda state: stage in state.stages, wait_s)

    # -- inside ------------------------------------------------------------------------------------------------

    async def _show(self, address: str) -> WorkerState:
        shown = await self._tell(address, ShowWorker(0), WorkerShown)
        stages, pins = tuple(shown.stages), tuple(shown.pins)
        return WorkerState(shown.owner, shown.name, address, stages, pins, shown.is_drained)

    async def _find(self, owner: str) -> WorkerState:
        known = await self.workers()
        for each in known:
            if each.owner == owner:
                return each
        names = ", ".join(each.owner for each in known)
        raise Refused(f"there is no worker {owner!r} that answers; there are {names}")

    async def _tell(self, address: str, frame: Frame, kind: type[FrameT]) -> FrameT:
        """Ask one worker, whatever stages it has."""
        try:
            link = await self._workers.link(address)
            (answer,) = await link.ask(frame, kind, stage=NO_STAGE, topic=0, seconds=self._timeout)
        except NotDone as error:
            raise WorkerUnreachable([address], str(error), is_there=True) from None
        except LinkLost as error:
            raise OutcomeUnknown(f"worker {address} did what it was asked", str(error)) from None
        return answer

    async def _until(self, what: str, owner: str, is_so: Callable[[WorkerState], bool], seconds: float) -> None:
        if not seconds:
            return
        try:
            async with asyncio.timeout(seconds):
                while not is_so(await self._find(owner)):  # noqa: ASYNC110 (no worker announces it)
                    await asyncio.sleep(LOOK_INTERVAL)
        except TimeoutError:
            raise TimedOut(what, seconds) from None
