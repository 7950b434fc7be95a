"""The places of all stages, read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inorder.protocol.wire import StageInfo
from inorder_worker.store.journal import Holder


class Cluster:
    """The stages of the domain with the workers that have them.

    Invariant: a stage's epoch never decreases.
    """

    def __init__(self) -> None:
        self._places: dict[int, StageInfo] = {}
        self.workers: list[str] = []
        """Addresses of the workers that live, standbys too, as far as that is known."""

    def update(self, rows: Iterable[Holder], workers: list[str] | None = None) -> bool:
        """Take what the store says; return whether that is news."""
        before = dict(self._places), self.workers
        if workers is not None:
            self.workers = workers
        for row in rows:
            known = self._places.get(row.stage)
            if known is None or row.epoch >= known.epoch:
                self._places[row.stage] = StageInfo(row.stage, row.epoch, row.address)
        return (self._places, self.workers) != before

    def place(self, stage: int) -> StageInfo:
        """Return who has a stage; epoch 0 where that is not known."""
        return self._places.get(stage) or StageInfo(stage, 0, "")

    def told(self, own: Mapping[int, int]) -> list[StageInfo]:
        """Return the map for clients, with these epochs of this worker's stages and no address for them, as a client
        has reached us."""
        told = []
        for stage in sorted({*self._places, *own}):
            place = self.place(stage)
            if own.get(stage, 0) >= max(place.epoch, 1):
                place = StageInfo(stage, own[stage], "")
            elif not place.address:
                place = StageInfo(stage, 0, "")
            told.append(place)
        return told
