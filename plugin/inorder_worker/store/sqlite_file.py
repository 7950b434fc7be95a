"""The files of an SQLite store: a check that these are still the opened files, and the room for them.

SQLite writes to the files that it has open, whatever their names name by now: a commit into a log that was removed is
gone with the process. So what the names name is looked at after each commit, before it counts, and SQLite's log is
taken up into the file as long as that can still be done. An older copy that was written over the file shows by a count
(see sqlite_count), one over the log by its last frame (see sqlite_log). Where what is left is an older state, a mark
beside it says so to whoever opens it next (see sqlite_mark).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from inorder.errors import StoreFull, StoreMoved
from inorder.logs import logger
from inorder_worker.store import sqlite_mark
from inorder_worker.store.sqlite_count import (
    COUNT_INTERVAL,
    HEAD_BYTES,
    HeadReader,
    Identity,
    count_of,
    counted,
    domain_of,
    is_lower,
    raise_count,
)
from inorder_worker.store.sqlite_log import IndexReader, LogEnd

log = logger("inorder.worker")

LOOK_INTERVAL: Final = 0.05
"""Seconds after which something other than a commit looks at the files again."""
MEASURE_INTERVAL: Final = 0.5
"""Seconds after which the next write looks at the room again, where the log has not grown."""
LARGE: Final = 256 * 1024
"""Bytes of a write before which the room is always looked at."""
SPARE: Final = 512 * 1024
"""Bytes that must be free besides: a write of a few bytes puts whole pages of some tables and indexes into the log,
which may all be new to the file, and the log's index grows, too."""
ROW_PAGES: Final = 2 * 4096
"""Bytes of pages that a row of an event log puts into the log beside its content: a page of the index, where each topic
has others, and what its content leaves empty of its last one."""
LONG_LOG: Final = 32 * 1024 * 1024
"""Bytes of the log from which on it is said that it grows; it has about an eighth where nobody holds it up."""
LEAST: Final = 512
"""Bytes of a file that holds anything: SQLite's smallest page."""
_HOLE: Final = bytes(4)
"""What a log never begins with."""
_AGAIN: Final = "end all processes that have the store open (workers, control planes), then start them again"
_ANEW: Final = (
    "end all processes that have the store open (workers, control planes) and put a backup back (inorder restore): a "
    "worker that is started without the file makes a new store, which has nothing"
)
_HELD: Final = "a reader of the store holds it up: a backup, a shell, or a process that stands still"
_RENEW: Final = "end all processes that have the store open, run `inorder renew` on it, and start them again"
_RENEW_OR_RESTORE: Final = f"it may be of two states now: {_RENEW}; where that finds it damaged, put a backup back"

_lost: Final[dict[Identity, str]] = {}
"""Stores of which a part was taken away from this process, or written over: what is opened anew would mix both."""


class Room(NamedTuple):
    """The size of an SQLite store's log and the free room beside it, in bytes."""

    log: int
    free: int

    def is_short(self, size: int = 0) -> bool:
        """Tell whether the log, with ``size`` more bytes, might not fit into the file any more: all of it may be new
        pages. Where it has filled the disk, nothing can ever take it up."""
        return self.free < self.log + 2 * size + SPARE


class StoreFile:
    """The opened file of an SQLite store, its log (``-wal``) and the log's index (``-shm``), of one connection.

    Args:
        path: as the URL names it; a link, too.
        url: for messages.
        is_read_only: nothing is taken up.
    """

    def __init__(self, path: Path, url: str, *, is_read_only: bool = False) -> None:
        self.path, self._url, self._is_read_only = path, url, is_read_only
        self.room: Room | None = None
        """When it was looked at last; ``None`` before."""
        self._names = self._named()
        self._main: Identity | None = None
        self._has_content, self._void = False, ""
        self._reader: HeadReader | None = None
        self._end: LogEnd | None = None
        self._head = b""  # when it was read last
        self._counted_at = 0.0
        self._log: Identity | None = None
        self._index: Identity | None = None
        self._taken_from: Identity | None = None  # the store that we have put into ``_lost``
        self._looked_at = self._measured_at = 0.0
        self._log_size, self._must_measure, self._told = 0, True, LONG_LOG
        self._is_marked = False  # by us

    @property
    def was_opened(self) -> bool:
        """Tell whether the file's identity is known."""
        return self._main is not None

    @property
    def real(self) -> Path:
        """The real path: SQLite keeps log and index beside this file, not beside a link."""
        return Path(os.path.realpath(self.path))

    @property
    def domain(self) -> int:
        """The domain in the file at the last look; 0 if there is none."""
        return domain_of(self._head)

    @property
    def has_mark(self) -> bool:
        """Tell whether there is a mark beside the file, for whatever store."""
        return sqlite_mark.mark_of(self.real).exists()

    def mark(self, domain: int) -> str:
        """Return why the file is marked as an older copy of a domain's store; an empty text without a mark."""
        return sqlite_mark.read(self.real, domain)

    def unmark(self) -> None:
        """Remove the mark of the file."""
        sqlite_mark.remove(self.real)

    @property
    def log(self) -> Path:
        """The path of the log."""
        return self._beside("wal")

    @property
    def index(self) -> Path:
        """The path of the log's index."""
        return self._beside("shm")

    def _beside(self, kind: str) -> Path:
        real = self.real
        return real.with_name(f"{real.name}-{kind}")

    def _named(self) -> tuple[str, str, str]:
        return str(self.path), str(self.log), str(self.index)

    # -- connections -------------------------------------------------------------------------------------------

    def opening(self) -> None:
        """Raise StoreMoved, before a connection is made, if it would open another file or half of one."""
        found = _identity(self.path)
        if self._main is not None:
            self._require_main(found)
        if found in _lost:
            raise StoreMoved(self._url, _lost[found])
        self._reader = self._reader or HeadReader.of(self.path)

    def opened(self) -> None:
        """Note that a connection was made and has read."""
        self._names = self._named()
        found = _identity(self.path)
        if self._main is None:
            self._main = found
        self._require_main(found)
        self._reader = self._reader or HeadReader.of(self.path)
        self._require_content(os.stat(self.path).st_size)
        self._log, self._index = _identity(self.log), _identity(self.index)
        self._begin_end()
        self._looked_at = self._measured_at = 0.0

    def dropped(self) -> None:
        """Note that the connection is closed, or was not made."""
        end, self._end = self._end, None
        if end is not None:
            end.close()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.release()

    def closed(self) -> None:
        """Note that no connection is left."""
        if self._taken_from is not None:
            _lost.pop(self._taken_from, None)
            self._taken_from = None

    # -- looking -----------------------------------------------------------------------------------------------

    def before(self, take_up: Callable[[], bool], size: int | None) -> None:
        """Check the files ahead of work. ``size``: bytes that it writes; ``None``: it only reads. ``take_up``: have
        SQLite write the log into the file and empty it, and tell whether that was done. Raises StoreMoved and
        StoreFull."""
        if self._main is None:
            return
        now = time.monotonic()
        if now - self._looked_at > LOOK_INTERVAL:
            self._look(take_up)
        if size is None or not (self._must_measure or size > LARGE or now - self._measured_at > MEASURE_INTERVAL):
            return
        if self._is_short(size):
            is_held = not take_up()
            if is_held or self._is_short(size):
                raise StoreFull(self._url, self.shortage(size, is_held=is_held))

    def after(self, take_up: Callable[[], bool]) -> None:
        """Check the files after a commit, before it counts. Raises StoreMoved. A log's index that is gone can wait: the
        commit is in the log, from which SQLite makes another one."""
        if self._main is None:
            return
        try:
            main, log = os.stat(self._names[0]), os.stat(self._names[1])
            is_same = (main.st_dev, main.st_ino) == self._main and (log.st_dev, log.st_ino) == self._log
            is_same = is_same and main.st_size >= LEAST and not self._void and not self._is_older()
            is_same = is_same and (self._end is None or self._end.is_kept())
        except OSError:
            is_same = False
        if not is_same:
            self._look(take_up)
        elif log.st_size != self._log_size:
            self._resized(log.st_size)

    @property
    def is_count_due(self) -> bool:
        """Tell whether the next write is to raise the count."""
        return time.monotonic() - self._counted_at > COUNT_INTERVAL

    def count_on(self, cursor: Any) -> None:
        """Raise the count if it is due, inside a transaction that has the write lock. Raises StoreMoved where what the
        transaction sees is older than the file."""
        if not self.is_count_due:
            return
        found = counted(cursor)
        if self._is_older():
            self._give_up_overwritten(self.domain)
        if self._head and is_lower(found, count_of(self._head)):
            self._give_up_overwritten(0)  # the file may be of another store, whose domain is what was read
        raise_count(cursor, found)
        self._counted_at = time.monotonic()

    def shortage(self, size: int = 0, *, is_held: bool = False) -> str:
        """Return in words for what there must be room; ``size``: bytes to be written. ``is_held``: the log could not be
        taken up, perhaps for another reason."""
        has = self.measure() or Room(0, 0)
        return (
            f"{self.log.name} has {has.log} bytes, and as many must be free in {self.real.parent} for it to be taken "
            f"up, and {SPARE + 2 * size} more; {has.free} are{f'; perhaps {_HELD}' if is_held else ''}"
        )

    def _look(self, take_up: Callable[[], bool]) -> None:
        self._looked_at = 0.0  # whatever is wrong is still wrong the next time
        main, log_name, index_name = self._names
        self._require_main(_identity(main))
        self._require_content(os.stat(main).st_size)
        try:
            found = os.stat(log_name)
            log_seen, size = (found.st_dev, found.st_ino), found.st_size
        except FileNotFoundError:
            log_seen, size = None, 0
        index_seen = _identity(index_name)
        self._log, self._index = self._log or log_seen, self._index or index_seen
        if log_seen != self._log or index_seen != self._index:
            self._raise_lost(log_seen, size, index_seen, take_up)
        if size != self._log_size:
            self._resized(size)
        self._begin_end()
        self._require_end()
        self._looked_at = time.monotonic()
        if self._is_marked:  # for files that are back
            self.unmark()
            self._is_marked = False

    def _require_main(self, found: Identity | None) -> None:
        if found != self._main:
            there = "another file is there" if found else "no file is there"
            reason = f"{self.path} was moved, removed or replaced while it was open ({there}); put the same file back"
            raise StoreMoved(self._url, self._marked(f"{reason}, or {_RENEW}") if found else f"{reason}, or {_ANEW}")

    def _require_content(self, size: int) -> None:
        """Raise StoreMoved for an emptied file: even if it is written anew in its place it is another one. Also for one
        that is older than it was."""
        self._has_content = self._has_content or size >= LEAST
        if self._has_content and size < LEAST:
            self._void = f"{self.path.name} was emptied while it was open ({size} bytes are left); {_AGAIN}"
        if self._void:
            self._give_up_older(self._void)
        if self._is_older():
            self._give_up_overwritten(self.domain)

    def _give_up_overwritten(self, domain: int) -> NoReturn:
        reason = f"another copy was put over {self.path.name} while it was open; {_RENEW_OR_RESTORE}"
        self._give_up_older(reason, domain)

    def _is_older(self) -> bool:
        """Read the file's count, and tell whether it is lower than it was."""
        head = self._reader.read() if self._reader is not None else b""
        if head == self._head or len(head) < HEAD_BYTES:
            return False
        if self._head and is_lower(count_of(head), count_of(self._head)):
            return True
        self._head = head
        return False

    def _require_beginning(self, *emptied: bytes) -> None:
        """Raise StoreMoved for a log emptied in place: writes go on behind its former end, where no later reader finds
        them. SQLite has no locks on it, so it may be read here."""
        with contextlib.suppress(FileNotFoundError), open(self._names[1], "rb") as file:
            if file.read(len(_HOLE)) in (_HOLE, *emptied):
                self._give_up_log(f"{self.log.name} was emptied while it was open, and what it had is lost; {_RENEW}")

    def _begin_end(self) -> None:
        """Begin to watch the end of the log as soon as SQLite has made log and index."""
        if self._end is not None or not (self._log and self._index):
            return
        index = IndexReader.of(self.index, self._main)
        if index is not None:
            self._end = LogEnd(index, self.log)

    def _require_end(self) -> None:
        """Raise StoreMoved for a log, or an index, that another copy was written over: pages would be read from the
        log that are not ours, and be taken up into the file."""
        end = self._end
        if end is None:
            return
        with contextlib.suppress(OSError):
            is_later = end.is_kept() and end.note()
            if is_later and end.is_kept():
                return
            if not is_later and end.is_kept():
                reason = f"another copy was put over {self.index.name} while it was open; {_RENEW_OR_RESTORE}"
                self._give_up_older(reason)
            self._require_beginning(b"")
            self._give_up_log(f"another copy was put over {self.log.name} while it was open; {_RENEW_OR_RESTORE}")

    def _give_up_log(self, reason: str) -> NoReturn:
        if not self._is_read_only:
            os.truncate(self._names[1], 0)  # or SQLite would take it up into the file
        self._give_up_older(reason)

    def _give_up_older(self, reason: str, domain: int | None = None) -> NoReturn:
        """Give the files up for good, as an older state. ``domain``: of the store that is left, 0 if not known; by
        default ours. Raises StoreMoved."""
        self._void = reason
        self._give_up(self._marked(reason, domain))

    def _marked(self, reason: str, domain: int | None = None) -> str:
        """Mark the files as an older state, once; return the reason, and if there is no mark, why."""
        if not (self._is_marked or self._is_read_only):
            what, _, _ = reason.partition("; ")  # whoever reads it is told what to do then
            try:
                sqlite_mark.leave(self.real, self.domain if domain is None else domain, what)
            except OSError as error:
                name = sqlite_mark.mark_of(self.real)
                return f"{reason} (nothing will remind of that: {name} cannot be written, {error.strerror})"
            self._is_marked = True
        return reason

    def _give_up(self, reason: str) -> NoReturn:
        """Let nobody in this process open the store again until all have closed it. Raises StoreMoved."""
        self._looked_at = 0.0
        if self._main is not None and not self._is_read_only:
            _lost[self._main], self._taken_from = reason, self._main
        raise StoreMoved(self._url, reason)

    def _raise_lost(
        self, log_seen: Identity | None, size: int, index_seen: Identity | None, take_up: Callable[[], bool]
    ) -> None:
        # Where somebody else has begun another log, or index, SQLite's locks between us and them are void.
        is_alone = (log_seen in (None, self._log) or not size) and index_seen in (None, self._index)
        is_saved = is_alone and not self._is_read_only and take_up()
        known = _lost.get(self._main) if self._main is not None else None
        if known is not None and not is_saved:
            self._give_up(known)  # as it was found first
        name = self.log.name if log_seen != self._log else self.index.name
        reason = f"{name} was removed or replaced while it was open"
        if is_saved:
            self.unmark()
            self._give_up(f"{reason}; what it had is in {self.real.name} now; {_AGAIN}")
        reason = f"{reason}; what it has is not in the file yet"
        self._give_up(f"{reason}; {_AGAIN}" if log_seen == self._log else self._marked(f"{reason}; {_RENEW}"))

    # -- room --------------------------------------------------------------------------------------------------

    def _is_short(self, size: int) -> bool:
        """Check the room before a write, and before the next one too if there is too little."""
        room = self.measure()
        self._must_measure = room is not None and room.is_short(size)
        return self._must_measure

    def measure(self) -> Room | None:
        """Measure and return the room now; ``None`` if it cannot be seen."""
        _, log_name, _ = self._names
        try:
            disk = os.statvfs(os.path.dirname(log_name) or ".")
            size = os.stat(log_name).st_size
        except OSError:
            return None
        self._measured_at = time.monotonic()
        self.room = Room(size, disk.f_bavail * disk.f_frsize)
        return self.room

    def _resized(self, size: int) -> None:
        """Note that the log is longer, or shorter, than it was. Say that it grows, each time that it has doubled."""
        self._require_beginning()
        self._must_measure = self._must_measure or size > self._log_size
        self._log_size = size
        if size < LONG_LOG:
            self._told = LONG_LOG
        elif size >= self._told:
            self._told = 2 * size
            log.warning("event=store_log_grows store=%s bytes=%d hint=%s", self._url, size, _HELD)


def _identity(path: str | Path) -> Identity | None:
    """Return the identity of the file behind a name now, or ``None``."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
