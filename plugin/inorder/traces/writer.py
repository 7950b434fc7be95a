"""The recorder's thread: it turns buffers into Arrow columns, columns into files, and stores the files.

Columns become parts of a file at once, though the file may be due much later: packed they take a twentieth of the
memory, and theirs is used for the next.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

import pyarrow as pa

from inorder.errors import InorderError
from inorder.logs import logger
from inorder.traces.arrow import Converter
from inorder.traces.folder import open_folder
from inorder.traces.making import File, grown
from inorder.traces.options import Traces, safe_name
from inorder.traces.recorder import OtherRows
from inorder.traces.row_buffers import Layout, RowBuffer

_log = logger("inorder.traces")

RETRY_SECONDS: Final = 1.0
"""Pause before a file is tried again that could not be written."""
KEPT_BUFFERS: Final = 4
GROWN_ROWS: Final = 32_768
"""Files that are due grow up to so many rows: the last one is replaced by one that has the next rows, too. It takes
tens of milliseconds to make such a file anew, every ``flush_interval``."""


class Writer:
    """Writes the rows that one client records.

    Raises:
        InvalidOption: the place cannot be written.

    Attributes:
        done: the weight of all rows that were written, or that were dropped here.
    """

    def __init__(self, traces: Traces, run: str, client_id: str, incarnation: int) -> None:
        self._traces = traces
        self._folder = open_folder(traces.url, run)
        self._converter = Converter(run, client_id)
        self._prefix = f"{safe_name(client_id)}-{incarnation % 2**64:016x}"
        self._files = 0
        self._full = min(traces.rows_per_file, traces.max_buffered_rows // 2)
        self._queue: SimpleQueue[RowBuffer | OtherRows | None] = SimpleQueue()  # None: close the file
        self._used: deque[RowBuffer] = deque(maxlen=KEPT_BUFFERS)
        self._open: File | None = None
        self._made: deque[File] = deque()  # finished, and not written yet
        self._last: tuple[int, pa.Buffer] | None = None  # rows and content of the file written last, where it may grow
        self._is_due = False
        self._failed_at: float | None = None
        # rows that are not recorded, by incarnation: dropped by the event loop, and here; those that files, written or
        # not, tell of
        self._refused, self._spoiled, self._told = Counter[int](), Counter[int](), Counter[int]()
        self._deadline: float | None = None
        self._ended: Callable[[], None] = lambda: None
        self.done = 0
        self._thread = threading.Thread(target=self._work, name=f"inorder {client_id}: traces", daemon=True)
        self._thread.start()

    # -- from the event loop -------------------------------------------------------------------------------------------

    def used(self, layout: Layout) -> RowBuffer | None:
        """Return a buffer that is free again, or ``None``."""
        for _ in range(len(self._used)):
            buffer = self._used.popleft()
            if buffer.layout is layout:
                return buffer
            self._used.append(buffer)
        return None

    def take(self, rows: RowBuffer | OtherRows) -> None:
        """Queue rows for writing."""
        self._queue.put(rows)

    def drop(self, rows: RowBuffer | OtherRows) -> None:
        """Drop rows for which there is no room; only their count is recorded."""
        _count(rows, self._refused)
        if isinstance(rows, RowBuffer):
            rows.clear()
            self._used.append(rows)

    def close_file(self) -> None:
        """Begin another file."""
        self._queue.put(None)

    def stop(self, deadline: float, ended: Callable[[], None]) -> None:
        """Write the rest until a deadline (monotonic clock), then call ``ended`` on the writer's thread."""
        self._deadline, self._ended = deadline, ended
        self._queue.put(None)

    def left(self) -> None:
        """Note that the event loop does not wait any longer."""
        if self._deadline is not None and self._thread.is_alive() and time.monotonic() >= self._deadline:
            _log.error("event=traces_lost folder=%s hint=%s", self._folder, "writing has not ended in time")

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._deadline is None or not self._queue.empty():
                self._next()
            while self._is_unfinished and time.monotonic() < self._deadline:
                if not self._write():
                    time.sleep(min(RETRY_SECONDS, max(0.0, self._deadline - time.monotonic()), 0.1))
            if lost := self._unwritten:
                _log.error("event=traces_lost folder=%s rows=%d", self._folder, lost)
        finally:
            self._ended()

    def _next(self) -> None:
        try:
            rows = self._queue.get(timeout=None if self._failed_at is None else RETRY_SECONDS)
        except Empty:
            pass
        else:
            if rows is None:
                self._is_due = True
            else:
                self._add(rows)
        self._write_due()

    def _add(self, rows: RowBuffer | OtherRows) -> None:
        weight = rows.weight
        try:
            batch = self._converter.batch(rows)
        except Exception:
            _log.exception("event=traces_not_made rows=%d", len(rows))
            _count(rows, self._spoiled)
            self.done += weight
        else:
            self._put(batch, weight)
        if isinstance(rows, RowBuffer):
            rows.clear()
            self._used.append(rows)

    @property
    def _untold(self) -> Counter[int]:
        return Counter(self._refused) + self._spoiled - self._told

    @property
    def _is_unfinished(self) -> bool:
        return bool(self._open or self._made or self._untold)

    @property
    def _unwritten(self) -> int:
        """The number of rows in no file yet, dropped ones that no file tells of included."""
        rows = self._untold
        for file in (*self._made, *([self._open] if self._open else ())):
            rows += file.counted + file.told
        return rows.total()

    def _put(self, batch: pa.RecordBatch, weight: int) -> None:
        """Add rows to the open file, and to further files when it is full."""
        while True:
            file = self._open = self._open or File()
            part = batch.slice(0, self._full - file.rows)
            batch = batch.slice(len(part))
            if not len(batch):
                file.weight += weight
            try:
                file.add(part)
            except Exception:
                self._spoil(file)
            else:
                if file.rows >= self._full:
                    self._finish()
            if not len(batch):
                return

    def _finish(self) -> None:
        """Close the open file. If there is room in it, it tells what was dropped."""
        file = self._open or File()
        self._open = None
        dropped = self._untold
        try:
            if dropped and (not file.rows or file.rows + len(dropped) <= self._traces.rows_per_file):
                self._told += dropped
                file.tell(self._converter.batch(_dropped_rows(dropped)), dropped)
            file.finish()
        except Exception:
            self._spoil(file)
        else:
            self._made.append(file)

    def _spoil(self, file: File) -> None:
        """Give up a file in which Arrow failed: its rows are not recorded."""
        _log.exception("event=traces_not_made rows=%d", file.counted.total())
        self._spoiled += file.counted
        self._told -= file.told
        self.done += file.weight
        self._open = None

    def _write_due(self) -> None:
        """Write the due files, but pause after one that could not be written."""
        if self._failed_at is not None and time.monotonic() < self._failed_at + RETRY_SECONDS:
            return
        while self._made or (self._is_due and self._is_unfinished):
            if not self._write():
                return
        self._is_due = False

    def _write(self) -> bool:
        """Write one file; return whether that worked. If not, it is kept for the next time."""
        if not self._made:
            self._finish()
        if not self._made:
            return False
        file = self._made[0]
        try:
            rows, content, number = self._grown(file)
            self._folder.write(self._name(number), lambda to: to.write(content))
        except Exception as error:  # each store raises errors of its own library
            self._failed(error)
            return False
        self._made.popleft()
        self._files = number
        self._last = (rows, content) if rows < min(GROWN_ROWS, self._full) else None
        self.done += file.weight
        if self._failed_at is not None:
            self._failed_at = None
            _log.info("event=traces_written_again folder=%s dropped=%d", self._folder, self._untold.total())
        return True

    def _grown(self, file: File) -> tuple[int, pa.Buffer, int]:
        """Return rows, content and number of the file to write: the last file with these rows added, if it is small and
        still there. Else a new one."""
        if self._last is not None and self._folder.can_replace(self._name(self._files)):
            rows = self._last[0] + file.rows
            if rows <= min(GROWN_ROWS, self._full):
                return rows, grown(self._last[1], file.content), self._files
        return file.rows, file.content, self._files + 1

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number:06d}.parquet"

    def _failed(self, error: Exception) -> None:
        if self._failed_at is None:
            hint = "it is tried again; what is more than max_buffered_rows meanwhile is dropped and counted"
            _log.error("event=traces_not_written folder=%s error=%s hint=%s", self._folder, _said(error), hint)
        self._failed_at = time.monotonic()


def _count(rows: RowBuffer | OtherRows, into: Counter[int]) -> None:
    """Count rows by their incarnation."""
    if isinstance(rows, RowBuffer):
        into[rows.incarnation] += len(rows)
    else:
        into.update(row["incarnation"] for row in rows.rows)


def _dropped_rows(dropped: Counter[int]) -> OtherRows:
    others, now = OtherRows(), time.time_ns() // 1000
    for incarnation, count in dropped.items():
        others.rows.append({"kind": "dropped", "recorded_at": now, "incarnation": incarnation, "count": count})
    return others


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, (OSError, InorderError)) else repr(error)
