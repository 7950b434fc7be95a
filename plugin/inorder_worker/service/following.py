"""Keeps stages of other workers warm: last snapshot, then every new row of their journals as it is written.

What is followed is exactly what recovery would give, so a take-over costs only the rows since the last look.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from inorder.errors import StoreCorrupt, StoreVersionMismatch
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.hosted import HostedStage, SnapshotBounds
from inorder_worker.store.chain import EMPTY_TAIL, Tail
from inorder_worker.store.journal import Holder, Journal, Member


@dataclass(slots=True)
class _Followed:
    """A stage as far as it was read, and the last row of that; ``hosted`` is ``None`` before the first look."""

    hosted: HostedStage | None = None
    tail: Tail = EMPTY_TAIL


class Follower:
    """Reads journals that others write.

    Its calls block. One of them runs at a time, on any thread; the journal is used by nobody else.

    Args:
        journal: opened already or not; a connection of its own.
        count: how many stages the store has.
        bounds: when the owners take snapshots, if they may do so meanwhile.
    """

    def __init__(self, journal: Journal, count: int, bounds: SnapshotBounds | None) -> None:
        self._journal, self._count, self._bounds = journal, count, bounds
        self._stages: dict[int, _Followed] = {}
        self._lock = threading.Lock()

    @property
    def rows(self) -> dict[int, int]:
        """The last row of each stage that is followed."""
        return {stage: each.tail.seq for stage, each in list(self._stages.items())}

    def read_store(self) -> tuple[list[Holder], list[Member]]:
        """Return the owners of all stages, and the workers. Raises StoreCorrupt for a stage without a row, and other
        StoreErrors."""
        with self._lock:
            holders = self._journal.read_map()
            if missing := set(range(self._count)) - {each.stage for each in holders}:
                raise StoreCorrupt(self._journal.url, f"there is no stage {min(missing)}")
            return holders, self._journal.read_members()

    def forget(self, owners: list[str]) -> bool:
        """Take workers off the list that are silent. See Journal.forget_members."""
        with self._lock:
            return self._journal.forget_members(owners, are_silent=True)

    def unblock(self, owner: str) -> bool:
        """See Journal."""
        with self._lock:
            return self._journal.unblock(owner)

    def read(self, stages: Iterable[int]) -> None:
        """Follow these stages, up to the last row there is, and no others. Raises StoreError."""
        wanted = set(stages)
        with self._lock:
            for stage in self._stages.keys() - wanted:
                del self._stages[stage]
            for stage in sorted(wanted):
                hosted = self._catch_up(stage)
                if self._bounds is not None:
                    hosted.expect_snapshot(self._bounds)

    def take(self, stage: int) -> HostedStage:
        """Read a stage to the end of its journal, where nobody else can write any more, and hand it out. Raises
        StoreError; it is followed on then."""
        with self._lock:
            hosted = self._catch_up(stage)
            del self._stages[stage]
            return hosted

    def close(self) -> None:
        """Let go of the journal. No error."""
        with self._lock:
            self._journal.close()

    def interrupt(self) -> None:
        """Make a running call in another thread end soon."""
        self._journal.interrupt()

    def _catch_up(self, stage: int) -> HostedStage:
        followed = self._stages.setdefault(stage, _Followed())
        try:
            try:
                hosted = followed.hosted or self._begin(stage, followed)
                self._read_rows(stage, hosted, followed)
            except StoreCorrupt:
                before = followed.tail.seq
                hosted = self._begin(stage, followed)
                if followed.tail.seq <= before:
                    raise  # else the row that should follow was forgotten by its owner, after this later snapshot
                self._read_rows(stage, hosted, followed)
            return hosted
        except BaseException:
            followed.hosted = None  # a row may have been stepped in part: begin anew
            raise

    def _begin(self, stage: int, followed: _Followed) -> HostedStage:
        """Begin with the newest snapshot, or with nothing."""
        hosted, tail = HostedStage(Stage(stage, self._count)), EMPTY_TAIL
        snapshot = self._journal.load_snapshot(stage)
        if snapshot is not None:
            tail = Tail(snapshot.seq, snapshot.hash)
            try:
                hosted.take_image(snapshot.seq, snapshot.state)
            except msgspec.DecodeError as error:
                raise self._undecodable(stage, snapshot.seq, error) from None
        followed.hosted, followed.tail = hosted, tail
        return hosted

    def _read_rows(self, stage: int, hosted: HostedStage, followed: _Followed) -> None:
        for row in self._journal.read_on(stage, followed.tail):
            try:
                hosted.replay_row(row.seq, row.entries)
            except msgspec.DecodeError as error:
                raise self._undecodable(stage, row.seq, error) from None
            followed.tail = Tail(row.seq, row.hash)

    def _undecodable(self, stage: int, seq: int, error: Exception) -> StoreVersionMismatch:
        # Its hash fits, so it is what was written: by a release that wrote it in another way under the same format.
        reason = f"stage {stage}: row or snapshot {seq} is whole, but not of this release's encoding ({error})"
        return StoreVersionMismatch(self._journal.url, f"{reason}; use the release that wrote it")


def recover(journal: Journal, stage: int, count: int) -> HostedStage:
    """Bring a stage to where its journal ends: last snapshot, then replay. Blocks. Raises StoreCorrupt,
    StoreVersionMismatch and other StoreErrors."""
    return Follower(journal, count, None).take(stage)
