"""Clients have begun topics lately, which timestamps have to regard (R22)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from inorder_worker.sequencer.bits import packed, unpacked

CHANGES_KEPT: Final = 64
"""So many; of earlier ones it is only known what they changed all together."""

SavedChange = tuple[int, bytes, bytes]
"""A change as a snapshot has it."""


class ReaderChange(NamedTuple):
    """A subscription begins topics.

    Attributes:
        tick: when.
        kept: topics that its client had before, and has still or has left while they linger, as a bit set.
        changed: topics that it got.
    """

    tick: int
    kept: int
    changed: int


class ReaderChanges:
    """The latest of these changes, oldest first. The two oldest become one where these are too many: as if both
    clients had kept, and changed, the topics of both. That makes timestamps longer, and nothing else.

    Args:
        saved: to begin with.
    """

    def __init__(self, saved: Iterable[SavedChange] = ()) -> None:
        self._changes = [ReaderChange(tick, unpacked(kept), unpacked(changed)) for tick, kept, changed in saved]
        self.latest = self._changes[-1].tick if self._changes else -1

    def saved(self) -> list[SavedChange]:
        """Return all of them, for a snapshot."""
        return [(each.tick, packed(each.kept), packed(each.changed)) for each in self._changes]

    def note(self, tick: int, kept: int, changed: int) -> None:
        """A subscription changes now."""
        if kept and changed:
            self._changes.append(ReaderChange(tick, kept, changed))
            self.latest = tick
            if len(self._changes) > CHANGES_KEPT:
                first, second = self._changes[:2]
                joint = ReaderChange(second.tick, first.kept | second.kept, first.changed | second.changed)
                self._changes[:2] = [joint]

    def forget(self, topics: int) -> None:
        """Forget topics that have ended (a bit set)."""
        # none is taken out, as stages tell each other how many there are
        self._changes = [ReaderChange(at, kept & ~topics, changed & ~topics) for at, kept, changed in self._changes]

    def since(self, tick: int) -> Iterator[ReaderChange]:
        """Yield the changes behind the event that had this tick, the latest first."""
        for each in reversed(self._changes):
            if each.tick < tick:
                break
            yield each

    def count_since(self, tick: int) -> int:
        """Return how many changes there are behind the event that had this tick."""
        return len(self._changes) - bisect_left(self._changes, tick, key=itemgetter(0)) if tick <= self.latest else 0

    def begin_of(self, count: int) -> int | None:
        """Return the tick of the first of the latest changes, so many as ``count``; ``None`` where there are not so
        many, and a tick later than all where that is 0."""
        if not count:
            return self.latest + 1
        return self._changes[-count].tick if count <= len(self._changes) else None

    def begun_behind(self, topic: int, tick: int) -> int:
        """Return all topics of clients that began ``topic`` behind its event of this tick (a bit set). For such a
        client the event does not stand for earlier ones (R22, rule 2). *Counter-example:* s has v, and begins c behind
        c's last event. s has met that at once, and is not told to wait for v; not by T either, which s has, or begins
        later."""
        found = 0
        for each in self.since(tick):
            if each.changed >> topic & 1:
                found |= each.kept
        return found
