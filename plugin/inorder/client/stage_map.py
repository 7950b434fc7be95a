"""A client's knowledge of a store, as told by workers: the places of its stages, the workers, the journals' ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inorder.protocol.wire import Position, StageInfo


class StageMap:
    """A client's knowledge of the stages of one store.

    Invariant: a stage's epoch, and its position, never decrease.

    Args:
        addresses: of some of the workers, as the application gave them.

    Attributes:
        places: the stages, each with its latest owner.
        positions: how far the journal of each stage is, as a worker with an older copy of the store must be shown.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._given = addresses
        self._workers: list[str] = []
        self.places: dict[int, StageInfo] = {}
        self.positions: dict[int, Position] = {}

    @property
    def bottom(self) -> int:
        """The stage at which topics and subscriptions enter."""
        return max(self.places, default=0)

    def addresses_of(self, stages: Iterable[int]) -> set[str]:
        """Return the known addresses of the workers of some stages."""
        return {self.places[each].address for each in stages if each in self.places} - {""}

    def to_search(self) -> list[str]:
        """Return all known addresses, those that the application gave first."""
        places = [each.address for each in self.places.values()]
        return [each for each in dict.fromkeys([*self._given, *places, *self._workers]) if each]

    def to_listen_to(self) -> list[str]:
        """Return all known addresses, first those of workers without a stage, to which a stage may move."""
        places = [each.address for each in self.places.values()]
        standbys = [each for each in self._workers if each not in places]
        return [each for each in dict.fromkeys([*standbys, *places, *self._given]) if each]

    def learn(self, stages: Iterable[StageInfo], workers: list[str], advertised: str) -> None:
        """Take a worker's map of the stages and of the other workers. Of each stage the highest epoch counts.

        Args:
            advertised: the address of that worker, which tells of its own stages without one.
        """
        self._workers = workers or self._workers
        for info in stages:
            address = info.address or (advertised if info.epoch else "")
            known = self.places.get(info.stage)
            if known is None or info.epoch >= known.epoch:
                self.places[info.stage] = StageInfo(info.stage, info.epoch, address)

    def remember(self, positions: Iterable[Position]) -> None:
        """Keep each stage's furthest position."""
        for each in positions:
            known = self.positions.get(each.stage)
            if known is None or (each.epoch, each.row) > (known.epoch, known.row):
                self.positions[each.stage] = each

    def has_latest(self, own: Mapping[int, int]) -> bool:
        """Tell whether a worker that has stages in these epochs has one that is in no later epoch by now."""
        return any(self.places[stage].epoch == epoch for stage, epoch in own.items())

    def clear(self) -> None:
        """Forget everything but what the application gave: the store is another one."""
        self._workers = []
        self.places.clear()
        self.positions.clear()


def own_epochs(stages: Iterable[StageInfo]) -> dict[int, int]:
    """Return the epochs of the stages that the teller of a map has itself."""
    return {each.stage: each.epoch for each in stages if each.epoch and not each.address}
