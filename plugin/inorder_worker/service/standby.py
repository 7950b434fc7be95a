"""A worker as a standby. It follows other workers' stages and takes them over when their owner is silent for a whole
lease, is known to be gone, or has let them go. It also hands over stages that another worker should have, because that
one is pinned to them, or has fewer.

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

from inorder.errors import Fenced, StoreError, StoreReplaced, StoreVersionMismatch
from inorder.logs import logger
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.following import Follower
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.store.identity import is_gone
from inorder_worker.store.journal import DRAINED, Holder, Journal, Member
from inorder_worker.store.spreading import shares
from inorder_worker.store.watch import Watch

T = TypeVar("T")
log = logger("inorder.worker")

LOOKS: Final = 10
"""Looks at the store in a lease, at least."""
LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks at most: an owner that leaves is followed by somebody at once."""
PAUSE_AFTER_FAILURE: Final = 0.5
"""Seconds to the next look, at least, where the last one failed: it makes a connection."""
WARM_ROWS: Final = 1000
"""Rows by which a worker may be behind on a stage to be given it; what it has not read makes the pause longer."""


class Claims(Protocol):
    """The port from a standby to its host, on the event loop.

    Attributes:
        owner: what it is called in the store.
    """

    owner: str

    def owns(self, stage: int) -> bool:
        """Tell whether a stage is ours in the store, here already or about to join."""

    def row(self, stage: int) -> int | None:
        """Return the last row of a stage that is here; ``None`` for another one."""

    async def claim(self, stage: int, seen: int | None, beat: int | None) -> int:
        """Own a stage in the store; see ``Journal.claim``. Raises StoreError."""

    def join(self, hosted: HostedStage, began: float | None) -> None:
        """Work on a stage that was claimed and read to its end. ``began``: when its take-over did (s, monotonic)."""

    def hand_over(self, stage: int) -> None:
        """Finish what is under way on a stage, and let it go."""

    def look_around_soon(self) -> None:
        """Read the store soon, on a hint that we lost a stage."""

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """Take the places of all stages, and the addresses of the living workers (if they are known)."""


class Standby:
    """Follows, takes over and hands over, for a host.

    Args:
        journal: a connection of its own; used on one thread only, which this standby owns.
        settings: see WorkerSettings.
        claims: the host's tenure.
    """

    def __init__(self, journal: Journal, settings: WorkerSettings, claims: Claims) -> None:
        self._url = journal.url
        self._settings, self._claims = settings, claims
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inorder-follow")
        self._follower = Follower(journal, settings.stages, settings)
        self._interval = min(settings.lease / LOOKS, LONGEST_PAUSE)
        self._watch = Watch(settings.lease, 2 * self._interval)
        self._address = ""
        self._holders: dict[int, Holder] = {}
        self._members: dict[str, Member] = {}
        self._claimed: dict[int, float | None] = {}  # not read to the end yet -> when their take-over began
        self._told: dict[int, str] = {}  # stage -> the owner that the log says we follow
        self._taking: dict[int, str] = {}  # stage -> the owner that the log says we take it from
        self._complaint = Complaint()
        self._moved_here: set[int] = set()  # that an operator wants here, and what was here then
        self.is_drained = False

    # -- life --------------------------------------------------------------------------------------------------

    async def begin(self, address: str) -> None:
        """Look until each stage that is ours to take is ours, or somebody else's who lives. ``address``: where this
        worker is reached. Raises StoreError."""
        self._address = address
        must = self._settings.take_over
        while True:
            await self._look(at_once=must)
            must = False
            if all(self._is_settled(stage) for stage in self._settings.hosted_stages):
                return
            await asyncio.sleep(self._interval)

    async def run(self) -> None:
        """Follow and take over, until cancelled. Raises StoreReplaced, StoreVersionMismatch."""
        while True:
            await asyncio.sleep(max(self._pause, PAUSE_AFTER_FAILURE) if self._complaint.text else self._pause)
            if not (self._followed or self._claimed or self._settings.beat_interval):
                continue
            try:
                await self._look()
                self._complaint.clear()
            except (StoreReplaced, StoreVersionMismatch):
                raise  # the numbers that are followed here are not those of the store any more
            except StoreError as error:
                if self._complaint.is_news(error):
                    log.warning("event=following_failed error=%s", error)

    async def close(self) -> None:
        """Let go of the journal and its thread. No error."""
        self._follower.interrupt()
        await self._on_thread(self._follower.close)
        self._thread.shutdown(wait=False)

    def member(self) -> Member:
        """Return what others should know of this worker."""
        pins = DRAINED if self.is_drained else self.pins
        return Member(self._claims.owner, self._address, 0, pins, self._follower.rows)

    @property
    def pins(self) -> tuple[int, ...]:
        """The only stages that this worker may have, by its settings or because an operator moved them here; none: any
        stage."""
        return tuple(sorted({*self._settings.hosted, *self._moved_here}))

    def describe(self) -> dict[str, object]:
        """Return figures for health and status: the last row read and the owner's silence (s) of each followed stage,
        and each worker's apparent state."""
        followed = []
        for stage, row in sorted(self._follower.rows.items()):
            holder = self._holders.get(stage)
            silence = self._watch.silence(holder.owner) if holder else 0.0
            followed.append({"stage": stage, "rows": row, "silence_s": round(silence, 3)})
        workers = [
            {"owner": each.owner, "address": each.address, "state": self._watch.state(each.owner)}
            for each in self._members.values()
        ]
        return {"following": followed, "workers": workers}

    @property
    def failure(self) -> str:
        """Why nothing can be followed at present; empty while it can."""
        return self._complaint.text

    # -- looking -----------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> list[int]:
        """The stages that we may take, and that are not here."""
        return [each for each in self._settings.hosted_stages if not self._claims.owns(each)]

    @property
    def _pause(self) -> float:
        """Seconds to the next look; a worker that follows nothing only looks who is there."""
        return self._interval if self._followed or self._claimed else max(self._interval, self._settings.beat_interval)

    def _is_settled(self, stage: int) -> bool:
        holder = self._holders[stage]
        other = holder.owner or self._shares().get(stage, "")
        return self._claims.owns(stage) or (other != self._claims.owner and self._watch.has_shown_life(other))

    async def _look(self, *, at_once: bool = False) -> None:
        """Read the store, take stages that are due, and hand over other workers' stages. ``at_once``: take one
        whoever has it. Raises StoreError."""
        for stage in list(self._claimed):
            await self._finish(stage)
        followed = self._followed
        holders, members = await self._on_thread(partial(self._read, followed))
        self._holders = {each.stage: each for each in holders}
        self._members = {each.owner: each for each in members}
        self._watch.see(holders, members, self._follower.rows, time.monotonic())
        await self._unblock()
        self._claims.map_read(holders, sorted({each.address for each in self._living()}))
        placed = self._shares()
        for stage in followed:
            holder = self._holders[stage]
            is_mine = placed.get(stage) == self._claims.owner
            reason = "asked_to" if at_once and holder.owner else self._reason(holder, is_mine)
            if self.is_drained and holder.owner != self._claims.owner:
                reason = ""
            if reason:
                await self._take(holder, reason)
            else:
                self._taking.pop(stage, None)
                self._tell(holder)
        self._hand_over(placed)
        await self._forget_the_dead()  # behind what somebody waits for

    def _read(self, stages: list[int]) -> tuple[list[Holder], list[Member]]:
        self._follower.read([*stages, *self._claimed])
        return self._follower.read_store()

    def _living(self) -> list[Member]:
        """Return the workers that are there as far as we can see, this one included."""
        others = [
            each for each in self._members.values()
            if self._watch.state(each.owner) in ("active", "standby") and not is_gone(each.owner)
        ]  # fmt: skip
        return [each for each in others if each.owner != self._claims.owner] + [self.member()]

    def _shares(self) -> dict[int, str]:
        """Return who should have which stage. One whose owner lives but shows itself by nothing but its stages is left
        alone."""
        living = self._living()
        known = {each.owner for each in living}
        holders = {
            each.stage: each.owner if each.owner in known else ""
            for each in self._holders.values()
            if each.owner in known or not each.owner or self._is_suspect(each.owner)
        }
        return shares(holders, living)

    def _is_suspect(self, owner: str) -> bool:
        return is_gone(owner) or self._watch.state(owner) in ("suspect", "dead")

    def _reason(self, holder: Holder, is_mine: bool) -> str:
        """Return why a stage is to be taken; nothing where it is not. Who should have it goes first; others do it where
        that one does not."""
        lease = self._settings.lease
        if holder.owner == self._claims.owner:  # a claim whose answer was lost
            return "free"
        if not holder.owner:
            return "free" if is_mine or self._watch.unowned(holder.stage) >= lease else ""
        silence = self._watch.silence(holder.owner)
        if is_gone(holder.owner):
            return "gone" if is_mine or silence >= lease / 2 else ""
        return "silent" if silence >= (lease if is_mine else 1.5 * lease) else ""

    def _tell(self, holder: Holder) -> None:
        """Say once whom we follow."""
        if self._watch.has_shown_life(holder.owner) and self._told.get(holder.stage) != holder.owner:
            self._told[holder.stage] = holder.owner
            log.warning(
                "event=standby store=%s stage=%d owner=%s lease=%s hint=%s",
                self._url, holder.stage, holder.owner, self._settings.lease,
                "that worker is alive and keeps the stage; this one follows it, and takes over when it is silent",
            )  # fmt: skip

    async def _unblock(self) -> None:
        """End workers that are silent for a lease because they stand still in the middle of a write, with stages or
        without: until then nobody else can write, and the stages' owners are silent, too."""
        known = {*self._members, *(each.owner for each in self._holders.values())} - {"", self._claims.owner}
        for owner in sorted(known):
            is_silent = self._watch.silence(owner) >= self._settings.lease
            if is_silent and await self._on_thread(partial(self._follower.unblock, owner)):
                log.warning("event=killed owner=%s hint=%s", owner, "it stood still, and kept the store locked")

    async def _forget_the_dead(self) -> None:
        """Take workers that are gone for good off the list; not ourselves, and nobody in an older copy, where none can
        beat: ``inorder renew`` must see us all. Raises StoreError."""
        others = [each for each in self._members if each != self._claims.owner]
        dead = [each for each in others if is_gone(each) or self._watch.state(each) == "dead"]
        if not dead:
            return
        is_done = await self._on_thread(partial(self._follower.forget, dead))
        if is_done:
            for each in dead:
                del self._members[each]
            log.info("event=dead owners=%s", ",".join(dead))

    # -- what operators want -----------------------------------------------------------------------------------

    def drain(self, *, is_on: bool) -> str:
        """Hand over all stages from now on and take none, or take some again. Return why that is not done: nobody else
        may have one of them."""
        own = [stage for stage in range(self._settings.stages) if self._claims.owns(stage)]
        if is_on and own:
            others = [each for each in self._living() if each.owner != self._claims.owner]
            placed = shares(dict.fromkeys(own, ""), others)
            if homeless := [stage for stage in own if stage not in placed]:
                return f"no other worker that lives may have stage {' and '.join(map(str, homeless))}"
        self.is_drained = is_on
        self._moved_here.clear()
        log.info("event=drain owner=%s is_on=%s stages=%s", self._claims.owner, is_on, own)
        return ""

    def move(self, stage: int, owner: str) -> str:
        """An operator says who should have a stage. Return why it will not get there."""
        settings = self._settings
        if owner != self._claims.owner:
            self._moved_here.discard(stage)
            is_ours = stage in settings.hosted
            return f"worker {self._claims.owner} is pinned to stage {stage} by its settings" if is_ours else ""
        if not 0 <= stage < settings.stages:
            return f"there is no stage {stage}"
        if stage not in settings.hosted_stages:
            return f"worker {owner} may have only {' and '.join(map(str, settings.hosted_stages))}, by its settings"
        if self.is_drained:
            return f"worker {owner} is drained; let it take stages again first"
        if not settings.beat_interval:
            return f"worker {owner} does not show itself to others (its beat_interval is 0)"
        own = {each for each in range(settings.stages) if self._claims.owns(each)}
        self._moved_here |= {stage, *own}
        log.info("event=moving stage=%d to=%s", stage, owner)
        return ""

    # -- taking over -------------------------------------------------------------------------------------------

    async def _take(self, holder: Holder, reason: str) -> None:
        began = None
        if reason != "free":
            began = time.monotonic()
            if self._taking.get(holder.stage) != holder.owner:  # else a store that cannot be written kept us from it
                self._taking[holder.stage] = holder.owner
                log.warning(
                    "event=taking_over store=%s stage=%d owner=%s reason=%s",
                    self._url, holder.stage, holder.owner, reason,
                )  # fmt: skip
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
        self._taking.pop(stage, None)
        self._claims.join(hosted, self._claimed.pop(stage))

    def _hand_over(self, placed: dict[int, str]) -> None:
        """Let go of one stage that another worker should have, if that one has lived for a while and is warm."""
        for stage, owner in sorted(placed.items(), reverse=True):
            row, member = self._claims.row(stage), self._members.get(owner)
            if row is None:
                continue
            if self._holders[stage].owner != self._claims.owner:
                self._claims.look_around_soon()  # we have lost it, and do not know that yet
                continue
            if member is None or owner == self._claims.owner or not self._watch.is_steady(owner):
                continue
            if row - member.rows.get(stage, -WARM_ROWS - 1) <= WARM_ROWS:
                log.info("event=handing_over stage=%d to=%s", stage, owner)
                self._claims.hand_over(stage)
                return

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
