"""Leases: which workers show signs of life, by the watcher's own monotonic clock.

A worker lives while something of it changes: a beat, an epoch, a row of a journal. Only time that was *seen* to pass
without a change counts. Who was paused itself, or could not read the store, has seen nothing; when all come back
together nobody is taken over for the time in which nobody could write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from inorder_worker.store.journal import Holder, Member

State = Literal["active", "standby", "suspect", "dead"]
Sign = tuple[int, int, int | None]
"""(epoch, beat, last row) of a stage; the row is ``None`` while it is not followed."""

DEAD_LEASES: Final = 10
"""Leases of silence after which a worker counts as dead, and is forgotten; until then it is suspect."""
STEADY_LEASES: Final = 2
"""Leases for which a worker must have lived before our eyes to be given a stage that another one has."""
_MEMBER: Final = -1
"""The place of a worker's own beat among those of its stages."""


@dataclass(slots=True)
class _Seen:
    """The last signs of a worker by stage, for how long they have not changed, for how long the worker was not suspect
    (s), and whether a sign has changed since the first look."""

    signs: dict[int, Sign]
    silence: float = 0.0
    steady: float = 0.0
    is_alive: bool = False


class Watch:
    """The observations of this worker: all workers, and the stages without an owner.

    Args:
        lease: seconds of silence that make a worker suspect.
        longest_step: seconds between two looks that count at most.
    """

    def __init__(self, lease: float, longest_step: float) -> None:
        self._lease, self._longest_step = lease, longest_step
        self._workers: dict[str, _Seen] = {}
        self._unowned: dict[int, _Seen] = {}
        self._owners: set[str] = set()
        self._looked: float | None = None

    def see(self, holders: Iterable[Holder], members: Iterable[Member], rows: Mapping[int, int], now: float) -> None:
        """Take the store's state at ``now`` (s): owners of stages, workers, last rows of followed stages."""
        step = 0.0 if self._looked is None else min(max(0.0, now - self._looked), self._longest_step)
        self._looked = now
        shown: dict[str, dict[int, Sign]] = {}
        unowned: dict[int, dict[int, Sign]] = {}
        for each in holders:
            signs = shown.setdefault(each.owner, {}) if each.owner else unowned.setdefault(each.stage, {})
            signs[each.stage] = (each.epoch, each.beat, rows.get(each.stage))
        self._owners = set(shown)
        for member in members:
            shown.setdefault(member.owner, {})[_MEMBER] = (0, member.beat, None)
        before = self._workers
        self._workers = {owner: self._next(before.get(owner), signs, step) for owner, signs in shown.items()}
        free = self._unowned
        self._unowned = {stage: self._next(free.get(stage), signs, step) for stage, signs in unowned.items()}

    def _next(self, known: _Seen | None, signs: dict[int, Sign], step: float) -> _Seen:
        if known is None:
            return _Seen(signs)
        if any(_is_news(known.signs.get(stage), sign) for stage, sign in signs.items()):
            return _Seen(signs, 0.0, 0.0 if known.silence >= self._lease else known.steady + step, True)
        return _Seen(signs, known.silence + step, known.steady + step, known.is_alive)

    def silence(self, owner: str) -> float:
        """Return for how long (s) a worker has shown no sign of life; 0 for an unknown one."""
        seen = self._workers.get(owner)
        return seen.silence if seen else 0.0

    def unowned(self, stage: int) -> float:
        """Return for how long (s) a stage has been seen without an owner."""
        seen = self._unowned.get(stage)
        return seen.silence if seen else 0.0

    def has_shown_life(self, owner: str) -> bool:
        """Tell whether a sign of a worker has changed since the first look."""
        seen = self._workers.get(owner)
        return seen is not None and seen.is_alive

    def is_steady(self, owner: str) -> bool:
        """Tell whether a worker has lived for a while since the first look, and was never suspect."""
        seen = self._workers.get(owner)
        return seen is not None and seen.is_alive and seen.steady >= STEADY_LEASES * self._lease > seen.silence

    def state(self, owner: str) -> State:
        """Return the apparent state of a worker."""
        silence = self.silence(owner)
        if silence >= DEAD_LEASES * self._lease:
            return "dead"
        if silence >= self._lease:
            return "suspect"
        return "active" if owner in self._owners else "standby"


def _is_news(before: Sign | None, now: Sign) -> bool:
    """Tell whether a stage shows life. That one is missing is no sign: somebody else may have taken it. Nor is a row if
    we did not know the one before it."""
    if before is None:
        return True
    has_row = before[2] is not None and now[2] is not None and now[2] > before[2]
    return before[:2] != now[:2] or has_row
