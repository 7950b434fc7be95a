"""Beats of a worker: it shows the store its life, gets its ownership confirmed, and sees the places of other stages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from inorder.errors import Fenced, StoreError, StoreOutdated
from inorder.logs import logger
from inorder_worker.sequencer.commands import Reply
from inorder_worker.service.alarm import LOOK_INTERVAL, Alarm
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.context import VOID, HostContext
from inorder_worker.store.journal import Member

MAP_INTERVAL: Final = 1.0
"""Seconds between two looks at where the other stages are, for a worker that shows no beats."""
MAP_PAUSE: Final = 0.05
"""Seconds between two such looks at least, however often somebody asks for one."""

log = logger("inorder.worker")


class Heartbeat:
    """Writes beats of this worker into the store, and reads from it where the stages of other workers are.

    A beat succeeds only while all stages that it names are ours, so it proves that they are (R12). A commit that takes
    in every stage here proves the same.

    Args:
        context: see HostContext.
        alarm: set when somebody wants the next look earlier.
    """

    def __init__(self, context: HostContext, alarm: Alarm) -> None:
        self._context, self._stages, self._alarm = context, context.stages, alarm
        self._beats_every = context.settings.beat_interval
        self.member: Callable[[], Member] | None = None
        """What a beat says of this worker; ``None``: its stages alone show it."""
        self.due_at = 0.0
        """When the next beat or look is due (s, of the event loop)."""
        self.complaint = Complaint()
        """Why this worker cannot show the store that it lives."""
        self._looked_at = 0.0
        self._proven_at = 0.0
        """When the store last confirmed that our stages are ours (s, of the event loop)."""
        self._unproven: list[Reply] = []
        """Answers whose commit is durable and did not take in all stages here: they leave after a beat that begins
        later. Each was asked for while all stages here were taken for ours; when stages go, none of them leaves."""

    @property
    def interval(self) -> float:
        """Seconds between two beats or looks around; 0 for a worker that needs neither."""
        return self._beats_every or (0.0 if self._stages.are_all_here else MAP_INTERVAL)

    # -- that the stages are ours ------------------------------------------------------------------------------

    def proven(self) -> None:
        """The store has just confirmed that our stages are ours."""
        self._proven_at = asyncio.get_running_loop().time()

    def wait_for_proof(self, replies: list[Reply]) -> None:
        """Send these once a beat has succeeded that begins after this call."""
        self._unproven += replies

    def forget_unproven(self) -> None:
        """Never send what waits for a proof: who asked asks again."""
        self._unproven.clear()

    # -- beats -------------------------------------------------------------------------------------------------

    async def beat_if_due(self) -> None:
        """Beat and look around, if it is time to or somebody waits for a proof. Raises Fenced, StoreOutdated and VOID;
        other StoreErrors only once others take us for dead."""
        interval, now = self.interval, asyncio.get_running_loop().time()
        is_due, shows_beats = bool(interval) and now >= self.due_at, bool(self._beats_every)
        if not is_due and (shows_beats or not self._unproven):
            return
        try:
            if shows_beats or self._unproven:
                await self._beat()
            if is_due:
                self.due_at = now + interval
                await self.look_around()
            self.complaint.clear()
        except (Fenced, StoreOutdated, *VOID):
            raise
        except StoreError as error:
            now = asyncio.get_running_loop().time()  # it may have taken long to fail
            self.due_at = now + interval  # else again at once
            if self.complaint.is_news(error):
                log.warning("event=beat_failed error=%s", error)
            if self._stages and now - self._proven_at >= self._context.settings.lease:
                raise  # others take us for dead by now, and clients are better off with them

    async def _beat(self) -> None:
        """Beat, and send what waited for the store to confirm that the stages are ours."""
        owned, replies = list(self._stages.owned.items()), self._unproven
        self._unproven = []
        member = self.member() if self.member is not None and self._beats_every else None
        await self._context.in_store(partial(self._context.journal.beat, owned, member))
        self.proven()
        for reply in replies:
            self._context.clients.answer((reply.client_id, reply.incarnation), [reply.frame])

    # -- where others are --------------------------------------------------------------------------------------

    async def look_around(self) -> None:
        """Read where the stages of other workers are, and tell the sink. Raises StoreError."""
        if not self._stages.are_all_here:
            self._looked_at = asyncio.get_running_loop().time()
            self._context.sink.map_read(await self._context.in_store(self._context.journal.read_map), None)

    def look_around_soon(self) -> None:
        """Read the store soon, on a hint that a stage is elsewhere now, or that we lost one."""
        soon = max(asyncio.get_running_loop().time() + LOOK_INTERVAL, self._looked_at + MAP_PAUSE)
        if self._stages.are_ready and soon < self.due_at:
            self.due_at = soon
            self._alarm.set(soon)
