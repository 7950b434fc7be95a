"""A worker as a standby: it follows the stages that it may take and that others have, and takes them over when their
owner is silent for a whole lease, is known to be gone, or has let them go.

Two standbys may come to this at once: the claim is a conditional update, so one of them gets the stage, and the other
goes on following. An owner that shows life at the last moment keeps it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

from inorder.errors import Fenced, StoreError, StoreReplaced
from inorder.logs import logger
from inorder.worker.following import Follower
from inorder.worker.hosted import HostedStage
from inorder.worker.identity import is_gone
from inorder.worker.journal import Holder, Journal
from inorder.worker.settings import WorkerSettings
from inorder.worker.watch import Watch

T = TypeVar("T")
log = logger("inorder.worker")

LOOKS: Final = 10
"""Looks at the store in a lease, at least."""
LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks at most: an owner that leaves is followed by somebody at once."""


class Claims(Protocol):
    """What a standby asks of the host. On the event loop.

    Attributes:
        owner: what it is called in the store.
    """

    owner: str

    def owns(self, stage: int) -> bool:
        """Tell whether a stage is ours in the store, here already or about to join."""

    async def claim(self, stage: int, seen: int | None, beat: int | None) -> int:
        """Own a stage in the store; see ``Journal.claim``. Raises StoreError."""

    def join(self, hosted: HostedStage, began: float | None) -> None:
        """Work on a stage that was claimed and read to its end. ``began``: when its take-over did (s, monotonic)."""

    def map_read(self, rows: list[Holder]) -> None:
        """This is where all stages are now."""


class Standby:
    """Follows and takes over, for a host.

    Args:
        journal: a connection of its own; used on one thread only, which this standby owns.
        settings: see WorkerSettings.
        claims: the host.
    """

    def __init__(self, journal: Journal, settings: WorkerSettings, claims: Claims) -> None:
        self._url = journal.url
        self._settings, self._claims = settings, claims
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inorder-follow")
        self._follower = Follower(journal, settings.stages, settings)
        self._interval = min(settings.lease / LOOKS, LONGEST_PAUSE)
        self._watch = Watch(2 * self._interval)
        self._holders: dict[int, Holder] = {}
        self._claimed: dict[int, float | None] = {}  # not read to the end yet -> when their take-over began
        self._told: dict[int, str] = {}  # stage -> the owner that the log says we follow
        self._failure = ""

    # -- life --------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Look until each stage that is ours to take is ours, or its owner has shown that it lives. Raises
        StoreError."""
        must = self._settings.take_over
        while True:
            await self._look(at_once=must)
            must = False
            if all(self._is_settled(stage) for stage in self._settings.hosted_stages):
                return
            await asyncio.sleep(self._interval)

    async def run(self) -> None:
        """Follow and take over, until cancelled. Raises StoreReplaced."""
        while True:
            await asyncio.sleep(self._interval)
            if not (self._followed or self._claimed):
                continue
            try:
                await self._look()
                self._failure = ""
            except StoreReplaced:
                raise  # the numbers that are followed here are not those of the store any more
            except StoreError as error:
                if str(error) != self._failure:  # not ten times in a lease
                    log.warning("event=following_failed error=%s", error)
                self._failure = str(error)

    async def close(self) -> None:
        """Let go of the journal and its thread. No error."""
        self._follower.interrupt()
        await self._on_thread(self._follower.close)
        self._thread.shutdown(wait=False)

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status: of each stage that is followed the last row that was read, and for how
        long its owner has been silent (s)."""
        followed = []
        for stage, row in sorted(self._follower.rows.items()):
            holder = self._holders.get(stage)
            silence = self._watch.silence(holder.owner) if holder else 0.0
            followed.append({"stage": stage, "rows": row, "silence_s": round(silence, 3)})
        return {"following": followed}

    # -- looking -----------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> list[int]:
        """The stages that we may take, and that are not here."""
        return [each for each in self._settings.hosted_stages if not self._claims.owns(each)]

    def _is_settled(self, stage: int) -> bool:
        holder = self._holders.get(stage)
        return self._claims.owns(stage) or (holder is not None and self._watch.has_shown_life(holder.owner))

    async def _look(self, *, at_once: bool = False) -> None:
        """Read what is new; take what is to be taken. ``at_once``: whoever has it. Raises StoreError."""
        for stage in list(self._claimed):
            await self._finish(stage)
        followed = self._followed
        holders = await self._on_thread(partial(self._read, followed))
        self._holders = {each.stage: each for each in holders}
        self._watch.see(holders, self._follower.rows, time.monotonic())
        self._claims.map_read(holders)
        for stage in followed:
            holder = self._holders[stage]
            reason = "asked_to" if at_once and holder.owner else self._reason(holder)
            if reason:
                await self._take(holder, reason)
            else:
                self._tell(holder)

    def _read(self, stages: list[int]) -> list[Holder]:
        self._follower.read([*stages, *self._claimed])
        return self._follower.read_map()

    def _reason(self, holder: Holder) -> str:
        """Return why a stage is to be taken; nothing where it is not."""
        if not holder.owner or holder.owner == self._claims.owner:  # ours: a claim whose answer was lost
            return "free"
        if is_gone(holder.owner):
            return "gone"
        return "silent" if self._watch.silence(holder.owner) >= self._settings.lease else ""

    def _tell(self, holder: Holder) -> None:
        """Say once whom we follow."""
        if self._watch.has_shown_life(holder.owner) and self._told.get(holder.stage) != holder.owner:
            self._told[holder.stage] = holder.owner
            log.warning(
                "event=standby store=%s stage=%d owner=%s lease=%s hint=%s",
                self._url, holder.stage, holder.owner, self._settings.lease,
                "that worker is alive and keeps the stage; this one follows it, and takes over when it is silent",
            )  # fmt: skip

    # -- taking over -------------------------------------------------------------------------------------------

    async def _take(self, holder: Holder, reason: str) -> None:
        began = None
        if reason != "free":
            began = time.monotonic()
            log.warning(
                "event=taking_over store=%s stage=%d owner=%s reason=%s", self._url, holder.stage, holder.owner, reason
            )
        if reason == "silent" and await self._on_thread(partial(self._follower.unblock, holder.owner)):
            log.warning("event=killed owner=%s hint=%s", holder.owner, "it stood still, and kept the store locked")
        beat = holder.beat if reason == "silent" else None
        try:
            await self._claims.claim(holder.stage, holder.epoch, beat)
        except Fenced as error:
            log.info("event=not_taken stage=%d reason=%s", holder.stage, error)
            return
        self._claimed[holder.stage] = began
        await self._finish(holder.stage)

    async def _finish(self, stage: int) -> None:
        """Read what its last owner wrote, and hand the stage to the host."""
        hosted = await self._on_thread(partial(self._follower.take, stage))
        self._told.pop(stage, None)
        self._claims.join(hosted, self._claimed.pop(stage))

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
