"""Partings: clients have left topics and keep others, which timestamps have to regard (R10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from inorder_worker.sequencer.bits import packed, unpacked

PARTINGS_KEPT: Final = 64
"""So many; of earlier ones it is only known what was left and kept all together."""
OWED_KEPT: Final = 64
"""Of the partings that became one it is remembered so often what the kept topics owe."""


class SavedParting(msgspec.Struct, array_like=True):
    """A parting as a snapshot has it. Earlier releases had no more than the first three: all that was kept is bare."""

    tick: int
    kept: bytes
    left: bytes
    bare: bytes | None = None
    owed: list[tuple[bytes, list[int]]] = []


class Parting(NamedTuple):
    """The end of topics' linger in one subscription. Sets of topics are bit sets.

    Attributes:
        tick: when.
        kept: topics that the client has still.
        left: topics that ended their linger.
        bare: of the kept topics those of which nobody noted what they owe: their next timestamps name all that was
            left.
        owed: for all other ones that need it, with the topics that it is for, what a timestamp would have named just
            before (flat): that is what their next timestamps name.
    """

    tick: int
    kept: int
    left: int
    bare: int
    owed: Sequence[tuple[int, list[int]]]


class Partings:
    """The latest partings, oldest first. The two oldest become one where these are too many: as if both clients had
    kept, and left, the topics of both. That makes timestamps longer, and nothing else.

    Args:
        saved: to begin with.
    """

    def __init__(self, saved: Iterable[SavedParting] = ()) -> None:
        self._partings = [
            Parting(
                each.tick,
                unpacked(each.kept),
                unpacked(each.left),
                unpacked(each.kept if each.bare is None else each.bare),
                [(unpacked(topics), deps) for topics, deps in each.owed],
            )
            for each in saved
        ]
        self.latest = self._partings[-1].tick if self._partings else -1

    def saved(self) -> list[SavedParting]:
        """Return all of them, for a snapshot."""
        return [
            SavedParting(
                each.tick,
                packed(each.kept),
                packed(each.left),
                packed(each.bare),
                [(packed(topics), deps) for topics, deps in each.owed],
            )
            for each in self._partings
        ]

    def note(self, parting: Parting) -> None:
        """Topics have left a subscription now."""
        if parting.kept and parting.left:
            self._partings.append(parting)
            self.latest = parting.tick
            if len(self._partings) > PARTINGS_KEPT:
                self._partings[:2] = [_joint(*self._partings[:2])]

    def forget(self, topics: int) -> None:
        """Forget topics that have ended (a bit set). What others owe may name them: that is for no reader then."""
        self._partings = [
            Parting(
                each.tick,
                each.kept & ~topics,
                each.left & ~topics,
                each.bare & ~topics,
                [(some & ~topics, deps) for some, deps in each.owed],
            )
            for each in self._partings
        ]

    def begin_anew(self) -> None:
        """Topics have changed their stages. What they owe is not where they are now."""
        self._partings = [each._replace(bare=each.kept, owed=()) for each in self._partings]

    def parted_from(self, topic: int, tick: int) -> tuple[int, int, list[list[int]]]:
        """Return three things about a topic since its event of a tick.

        The topics that somebody has left who keeps it (a bit set); those of them that its next timestamp must look at;
        and the entries that it owes for the others (flat lists).
        """
        left, bare = 0, 0
        owed: list[list[int]] = []
        for each in reversed(self._partings):
            if each.tick < tick:
                break
            if each.kept >> topic & 1:
                left |= each.left
                if each.bare >> topic & 1:
                    bare |= each.left
                owed += [deps for topics, deps in each.owed if topics >> topic & 1]
        return left, bare, owed


def _joint(first: Parting, second: Parting) -> Parting:
    owed, bare = [*first.owed, *second.owed], first.bare | second.bare
    for topics, _ in owed[:-OWED_KEPT]:
        bare |= topics
    return Parting(second.tick, first.kept | second.kept, first.left | second.left, bare, owed[-OWED_KEPT:])
