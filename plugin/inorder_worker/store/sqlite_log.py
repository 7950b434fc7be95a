"""The end of an SQLite store's log, by which a copy that was written over the log in its place is known.

The log's index (``-shm``) says where the last committed frame of the log (``-wal``) is, and has the frame's checksum,
which is one over all frames before it, too: what is in the log there is that frame, unless somebody else wrote it. The
salts tell that SQLite has begun the log anew, which it may whenever all of it is in the file; the index says so before
the log is written.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Final

from inorder_worker.store.sqlite_count import Identity, SharedReader

_HEAD_BYTES: Final = 48
"""Of the index, as its first thing; see WalIndexHdr in SQLite's wal.c."""
_HEAD: Final = Struct("=14x H I 4x I I 8s 8x").unpack
"""Size of a page, frames, checksum of the last one, salts; by this machine's order of bytes."""
_SEAL: Final = Struct(">8s I I").pack
"""Salts and checksum as in the head of a frame, behind its first eight bytes."""
_WORDS: Final = Struct("=12I")
_LOG_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24
_SEAL_PLACE: Final = 8
_LARGEST_PAGE: Final = 65536
"""Which is 1 in the index."""


class IndexReader(SharedReader):
    """A reader of the head of a log's index. SQLite has the same file in its memory, and has locks on it."""

    descriptors = 2  # a mapping has one of its own

    def __init__(self, descriptor: int, file: Identity) -> None:
        super().__init__(descriptor, file)
        self.head = mmap.mmap(descriptor, _HEAD_BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
        """The index's head; parts of two while a process writes it."""

    def _close(self) -> None:
        self.head.close()
        super()._close()


class LogEnd:
    """The end of a log that this process has open, as it was noted last.

    Args:
        index: of the log; released by ``close``.
        log: its path. SQLite has no locks on this file, so it may be opened and closed here.
    """

    def __init__(self, index: IndexReader, log: Path) -> None:
        self._index, self._log = index, os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        self._memory = index.head
        self._head = self._seal = self._salts = b""
        self._place = self._frames = 0

    def close(self) -> None:
        """End the reading."""
        os.close(self._log)
        self._index.release()

    def note(self) -> bool:
        """Note the end as the index has it now; return whether it is not before the one noted last."""
        head = self._memory[:]
        if head == self._head:
            return True
        page, frames, first, second, salts = _HEAD(head)
        if salts == self._salts and frames < self._frames and _is_whole(head):
            return False
        self._head, self._salts, self._frames = head, salts, frames
        length = (_LARGEST_PAGE if page == 1 else page) + _FRAME_HEAD_BYTES
        self._place = _LOG_HEAD_BYTES + _SEAL_PLACE + (frames - 1) * length if frames else 0
        self._seal = _SEAL(salts, first, second) if frames else b""
        return True

    def is_kept(self) -> bool:
        """Tell whether the log has what was noted; where it was begun anew since, note its end. Raises OSError."""
        if os.pread(self._log, len(self._seal), self._place) == self._seal:
            return True
        now = self._memory[:]
        if _is_whole(self._head) and _is_whole(now) and _HEAD(now)[-1] == self._salts:
            return False
        return self.note()


def _is_whole(head: bytes) -> bool:
    """Tell whether the head of an index has its own checksum, and is not parts of two."""
    words = _WORDS.unpack(head)
    first = second = 0
    for at in range(0, 10, 2):
        first = (first + words[at] + second) % 2**32
        second = (second + words[at + 1] + first) % 2**32
    return (first, second) == words[10:]
