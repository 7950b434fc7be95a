"""Redis globs (``stringmatchlen`` in Redis' util.c), matched without ever going back.

A glob is what stands between its stars: each of these runs is looked for once, behind the one before it, and the
leftmost place is always good enough. So a match takes a time that glob and text bound, whatever they hold; tried one
place of a star after the other, a glob of 26 stars would take longer than anybody waits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

MAX_GLOB_BYTES: Final = 1_024
"""Of a glob that somebody may begin to use. What older releases took is still matched."""
_ALL: Final = frozenset(range(256))


class Glob:
    """A glob that was read.

    Args:
        glob: as Redis is told it.
    """

    __slots__ = ("_first", "_is_fixed", "_last", "_middle", "_size")

    def __init__(self, glob: bytes) -> None:
        first, *middle = _runs(glob)
        self._first, self._is_fixed = first, not middle
        self._last = middle.pop() if middle else _Run([])
        self._middle = [run for run in middle if run.size]
        self._size = sum(run.size for run in (first, *middle, self._last))

    def covers(self, name: bytes) -> bool:
        """Tell whether the whole of a text matches."""
        if len(name) < self._size or (self._is_fixed and len(name) > self._size):
            return False
        at, end = self._first.size, len(name) - self._last.size
        if not (self._first.stands_at(name, 0) and self._last.stands_at(name, end)):
            return False
        for run in self._middle:
            at = run.end_in(name, at, end)
            if at < 0:
                return False
        return True


@lru_cache(maxsize=4096)
def glob_of(text: str) -> Glob:
    """Read a glob, or remember how it was read."""
    return Glob(text.encode())


class _Run:
    """What stands between two stars: for each byte that it covers, those that may be there."""

    __slots__ = ("_masks", "_places", "_text", "size")

    def __init__(self, places: list[frozenset[int]]) -> None:
        self.size = len(places)
        is_text = all(len(each) == 1 for each in places)
        self._text = bytes(byte for each in places for byte in each) if is_text else None
        self._places = [] if is_text else places
        self._masks: dict[int, int] = {}

    def stands_at(self, name: bytes, at: int) -> bool:
        if self._text is not None:
            return name.startswith(self._text, at)
        return all(name[at + index] in each for index, each in enumerate(self._places))

    def end_in(self, name: bytes, start: int, end: int) -> int:
        """Return where its leftmost occurrence from ``start`` on ends, -1 where there is none before ``end``."""
        if self._text is not None:
            at = name.find(self._text, start, end)
            return at if at < 0 else at + self.size
        masks, goal, state = self._masks, 1 << self.size >> 1, 0
        for at in range(start, end):  # bit n of the state: the first n + 1 places fit what was read last
            mask = masks.get(name[at])
            if mask is None:
                mask = masks[name[at]] = self._mask(name[at])
            state = (state << 1 | 1) & mask
            if state & goal:
                return at + 1
        return -1

    def _mask(self, byte: int) -> int:
        """Return the places, as bits, where a byte may be."""
        return int("".join("1" if byte in each else "0" for each in reversed(self._places)), 2)


def _runs(glob: bytes) -> list[_Run]:
    runs: list[list[frozenset[int]]] = [[]]
    at = 0
    while at < len(glob):
        byte = glob[at]
        at += 1
        if byte == ord("*"):
            runs.append([])
        elif byte == ord("?"):
            runs[-1].append(_ALL)
        elif byte == ord("["):
            members, at = _class(glob, at)
            runs[-1].append(members)
        else:
            if byte == ord("\\") and at < len(glob):
                byte, at = glob[at], at + 1
            runs[-1].append(frozenset((byte,)))
    return [_Run(each) for each in runs]


def _class(glob: bytes, at: int) -> tuple[frozenset[int], int]:
    """Read ``[...]`` from just behind the bracket; return its bytes and where it ends. As in Redis, a missing ``]``
    ends at the end of the glob, ``^`` negates, a reversed range is turned round, and a backslash takes the next
    character as it is."""
    is_negated = glob.startswith(b"^", at)
    at += is_negated
    members: set[int] = set()
    while at < len(glob) and glob[at] != ord("]"):
        if glob[at] == ord("\\") and at + 1 < len(glob):
            members.add(glob[at + 1])
            at += 2
        elif glob.startswith(b"-", at + 1) and at + 2 < len(glob):
            low, high = sorted((glob[at], glob[at + 2]))
            members.update(range(low, high + 1))
            at += 3
        else:
            members.add(glob[at])
            at += 1
    return (_ALL - members if is_negated else frozenset(members)), at + 1
