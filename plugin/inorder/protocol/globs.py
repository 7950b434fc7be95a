"""Redis globs (``stringmatchlen`` in Redis' util.c), many at once, matched without backtracking.

All places of all globs where a match may stand are bits of one ``int``; each byte of a text moves them all. So a
match takes a time that the text's length bounds, whatever the globs hold and however many there are; tried one
place of a star after the other, a glob of 26 stars would take longer than anybody waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

MAX_GLOB_BYTES: Final = 1_024
"""Of a glob."""
_ALL: Final = frozenset(range(256))


class Globs:
    """A set of parsed globs.

    Args:
        globs: as Redis is told them.
    """

    __slots__ = ("_done", "_ends", "_enter", "_stars", "_starts")

    def __init__(self, globs: Iterable[bytes]) -> None:
        # bit by bit: where a glob begins and ends, where a star stands, which bytes lead on from a place
        wanted, unwanted = dict[int, int](), dict[int, int]()
        starts = ends = stars = anything = 0
        bit = 1
        for glob in globs:
            starts |= bit
            for members in _places(glob):
                if members is None:
                    stars |= bit
                    continue
                if 2 * len(members) <= len(_ALL):
                    for byte in members:
                        wanted[byte] = wanted.get(byte, 0) | bit
                else:
                    anything |= bit
                    for byte in _ALL - members:
                        unwanted[byte] = unwanted.get(byte, 0) | bit
                bit <<= 1
            ends |= bit
            bit <<= 1
        self._starts, self._ends, self._stars, self._done = starts, ends, stars, ends & stars
        self._enter = [(wanted.get(byte, 0) | anything) & ~unwanted.get(byte, 0) for byte in range(256)]

    def cover(self, name: bytes) -> bool:
        """Tell whether a glob matches the whole of a text."""
        enter, stars, done = self._enter, self._stars, self._done
        state = self._starts
        if state & done:
            return True
        for byte in name:
            state = (state & enter[byte]) << 1 | state & stars
            if not state:
                return False
            if state & done:
                return True
        return bool(state & self._ends)


@lru_cache(maxsize=1024)
def glob_of(text: str) -> Globs:
    """Parse a glob, or return the cached result."""
    return Globs((text.encode(),))


def _places(glob: bytes) -> Iterator[frozenset[int] | None]:
    """Yield the bytes that may stand at each place of a glob, ``None`` for a star."""
    at = 0
    while at < len(glob):
        byte = glob[at]
        at += 1
        if byte == ord("*"):
            yield None
        elif byte == ord("?"):
            yield _ALL
        elif byte == ord("["):
            members, at = _class(glob, at)
            yield members
        else:
            if byte == ord("\\") and at < len(glob):
                byte, at = glob[at], at + 1
            yield frozenset((byte,))


def _class(glob: bytes, at: int) -> tuple[frozenset[int], int]:
    """Read ``[...]`` from just behind the bracket; return its bytes and its end. As in Redis, a missing ``]`` ends at
    the end of the glob, ``^`` negates, a reversed range is turned round, and a backslash takes the next character as it
    is."""
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
