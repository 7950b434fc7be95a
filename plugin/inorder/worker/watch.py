"""Which owners of stages show signs of life: the leases, by the watcher's own monotonic clock.

An owner lives while something of it changes: a beat, an epoch, a row of a journal. Only time that was *seen* to pass
without a change counts. Who was paused itself, or could not read the store, has seen nothing; when all come back
together nobody is taken over for the time in which nobody could write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inorder.worker.journal import Holder

Sign = tuple[int, int, int | None]
"""(epoch, beat, last row) of a stage; the row is ``None`` while it is not followed."""


@dataclass(slots=True)
class _Seen:
    """What an owner showed last by stage, for how long it has not changed (s), and whether it changed before us."""

    signs: dict[int, Sign]
    silence: float = 0.0
    is_alive: bool = False


class Watch:
    """What this worker has seen of the stages' owners.

    Args:
        longest_step: seconds between two looks that count at most.
    """

    def __init__(self, longest_step: float) -> None:
        self._longest_step = longest_step
        self._owners: dict[str, _Seen] = {}
        self._looked: float | None = None

    def see(self, holders: Iterable[Holder], rows: Mapping[int, int], now: float) -> None:
        """The store was read at ``now`` (s): who has which stage, and the last row of each that is followed."""
        step = 0.0 if self._looked is None else min(max(0.0, now - self._looked), self._longest_step)
        self._looked = now
        signs: dict[str, dict[int, Sign]] = {}
        for each in holders:
            if each.owner:
                signs.setdefault(each.owner, {})[each.stage] = (each.epoch, each.beat, rows.get(each.stage))
        before, self._owners = self._owners, {}
        for owner, shown in signs.items():
            known = before.get(owner)
            if known is None:
                self._owners[owner] = _Seen(shown)
            elif any(_is_news(known.signs.get(stage), sign) for stage, sign in shown.items()):
                self._owners[owner] = _Seen(shown, 0.0, True)
            else:
                self._owners[owner] = _Seen(shown, known.silence + step, known.is_alive)

    def silence(self, owner: str) -> float:
        """Return for how long (s) we have seen an owner without a sign of life; 0 for one we never saw."""
        seen = self._owners.get(owner)
        return seen.silence if seen else 0.0

    def has_shown_life(self, owner: str) -> bool:
        """Tell whether something of an owner changed since we saw it first."""
        seen = self._owners.get(owner)
        return seen is not None and seen.is_alive


def _is_news(before: Sign | None, now: Sign) -> bool:
    """Tell whether a stage shows life. That one is missing is no sign: somebody else may have taken it. Nor is a row
    if we did not know the one before it."""
    if before is None:
        return True
    has_row = before[2] is not None and now[2] is not None and now[2] > before[2]
    return before[:2] != now[:2] or has_row
