"""The count in the file of an SQLite store: it only rises, so a file with a lower one is an older copy.

The count is SQLite's ``user_version``, which nothing else uses. Transactions raise it as they change any page, so it
gets into the file with whatever takes SQLite's log up, and is read there without SQLite. Its 32 bits go round: an older
copy is known as one while less than 2**31 steps lie between, which is seven years without a pause. The domain of the
store is beside it, as SQLite's ``application_id``, by which a file of another store is known.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final, Self

COUNT_INTERVAL: Final = 0.1
"""Seconds after which the next write raises the count: less than a busy store takes to fill its log between two times
that it is taken up."""
HEAD_BYTES: Final = 12
"""Of what is read at once: the count, four bytes of something else, the domain; the highest byte first."""
_PLACE: Final = 60
"""Of that in the file."""
_ROUND: Final = 2**32
_DESCRIPTORS: Final = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_guard: Final = threading.Lock()

Identity = tuple[int, int]


class SharedReader:
    """A reader of an SQLite file that is open, shared by all connections of this process. To close any descriptor of a
    file takes SQLite's locks on it off, also those of later connections, which share them. So this one stays open as
    long as SQLite has the file open: longer than its connections are used, as each of these lives on in SQLite until
    its last statement is gone."""

    descriptors = 1
    """How many this reader has of its file."""

    def __init__(self, descriptor: int, file: Identity) -> None:
        self._descriptor, self._file, self._main, self._users = descriptor, file, file, 0

    @classmethod
    def of(cls, path: Path, main: Identity | None = None) -> Self | None:
        """Return the file's reader, for one more user; ``None`` where there is no file to be read. ``main``: the
        store's file, for one beside it: whoever connects has a reader of that from before SQLite opens any."""
        with contextlib.suppress(OSError, ValueError), _guard:  # the latter: too short to be mapped
            reader = _readers.get(_identity(os.stat(path))) or cls._opened(path)
            assert isinstance(reader, cls), "a file is one thing to all"
            reader._main = main or reader._file
            reader._users += 1
            return reader
        return None

    @classmethod
    def _opened(cls, path: Path) -> SharedReader:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        file = _identity(os.fstat(descriptor))
        # Where it was renamed just now there may be one: ours is then left open for good, which costs nobody a lock.
        return _readers.setdefault(file, cls(descriptor, file))

    def release(self) -> None:
        """Take one user off, whose connection is closed."""
        with _guard:
            self._users -= 1
            _close_unused()

    def _close(self) -> None:
        os.close(self._descriptor)


class HeadReader(SharedReader):
    """A reader of count and domain in the file itself."""

    def read(self) -> bytes:
        """Read count and domain as they are in the file; less than HEAD_BYTES where they are not."""
        try:
            return os.pread(self._descriptor, HEAD_BYTES, _PLACE)
        except OSError:
            return b""


_readers: Final[dict[Identity, SharedReader]] = {}


def _close_unused() -> None:
    """Close readers without users, of files that SQLite has closed and of stores without a reader of the main file."""
    unused = [each for each in _readers.values() if not each._users]
    unused.sort(key=lambda each: each._file != each._main)
    opened = _opened_files() if unused else None
    for each in unused:
        is_free = each._file == each._main or each._main not in _readers
        if opened is not None and is_free and opened[each._file] <= each.descriptors:
            del _readers[each._file]
            each._close()


def _opened_files() -> Counter[Identity] | None:
    """Return how many descriptors this process has of each file; ``None`` where the system does not tell."""
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return None
    found: Counter[Identity] = Counter()
    for name in names:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile: that of the list, for one
            found[_identity(os.fstat(int(name)))] += 1
    return found


def count_of(head: bytes) -> int:
    """Return the count in what was read."""
    return int.from_bytes(head[:4], "big")


def domain_of(head: bytes) -> int:
    """Return the domain in what was read; 0 if there is none."""
    return int.from_bytes(head[8:], "big")


def is_lower(count: int, than: int) -> bool:
    """Tell whether one count is lower than another one."""
    return 0 < (than - count) % _ROUND < _ROUND // 2


def counted(cursor: Any) -> int:
    """Return the count as a transaction sees it, by a cursor of the driver (DB-API)."""
    cursor.execute("PRAGMA user_version")
    (found,) = cursor.fetchone()
    return int(found) % _ROUND


def raise_count(cursor: Any, count: int) -> None:
    """Raise the count by one inside a transaction that has found it to be ``count`` and has the write lock."""
    cursor.execute(f"PRAGMA user_version={_signed(count + 1)}")


def tell_domain(cursor: Any, domain: int) -> None:
    """Write the store's domain beside the count, inside a transaction."""
    cursor.execute(f"PRAGMA application_id={_signed(domain)}")


def _signed(number: int) -> int:
    """Return 32 bits as SQLite takes them."""
    return (number + _ROUND // 2) % _ROUND - _ROUND // 2


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
