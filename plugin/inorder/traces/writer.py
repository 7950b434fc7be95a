"""The recorder's thread: lanes into Arrow's columns, columns into files, files to their place."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from inorder.errors import InorderError
from inorder.logs import logger
from inorder.traces.arrow import POOL, TABLE, Converter, whole
from inorder.traces.folder import open_folder
from inorder.traces.lanes import Lane, Layout
from inorder.traces.options import Traces, safe_name
from inorder.traces.recorder import Others
from inorder.traces.schema import COLUMNS

_log = logger("inorder.traces")

RETRY_SECONDS: Final = 1.0
"""Pause before a file is tried again that could not be written."""
ROW_GROUP: Final = 131_072
"""Rows of one part of a file, at most. A part has rows of one kind, or few of several."""
FEW_ROWS: Final = 4_096
"""Rows of a kind that are in one part with others: each part takes time and bytes, however few rows are in it."""
KEPT_LANES: Final = 4
COMPRESSION: Final = "snappy"
"""Encodings have packed the values already. Others need more memory for each column of a file than its rows take."""
_FEW_VALUES: Final = [column.name for column in COLUMNS if column.type == "text"] + [
    "schema_version", "incarnation", "domain", "topic_id", "payload_size", "entries", "stamp_bytes", "stage",
    "entry_stage", "top_stage",
]  # fmt: skip
_RISING: Final = [column.name for column in COLUMNS if column.type == "instant"] + [
    "number", "counter", "arrival_index", "delivery_index", "waited_us", "dependencies.list.element",
]  # fmt: skip
_FOR_FILTERS: Final = ["kind", "recorded_at", "published_at", "delivered_at"]
"""Columns whose lowest and highest values files tell."""


class Writer:
    """Writes what one client records.

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
        self._queue: SimpleQueue[Lane | Others | None] = SimpleQueue()  # None: close the file
        self._used: deque[Lane] = deque(maxlen=KEPT_LANES)
        self._pending: deque[tuple[pa.RecordBatch, int]] = deque()  # with the weight that is done when it is written
        self._rows = 0
        self._is_due = False
        self._failed_at: float | None = None
        # rows that are not recorded, by incarnation: dropped by the event loop, and here; those that files tell of
        self._refused, self._spoiled, self._told = Counter[int](), Counter[int](), Counter[int]()
        self._deadline: float | None = None
        self._ended: Callable[[], None] = lambda: None
        self.done = 0
        self._thread = threading.Thread(target=self._work, name=f"inorder {client_id}: traces", daemon=True)
        self._thread.start()

    # -- from the event loop -------------------------------------------------------------------------------------------

    def used(self, layout: Layout) -> Lane | None:
        """Return a lane that is not used any more."""
        for _ in range(len(self._used)):
            lane = self._used.popleft()
            if lane.layout is layout:
                return lane
            self._used.append(lane)
        return None

    def take(self, rows: Lane | Others) -> None:
        """Write these, sooner or later."""
        self._queue.put(rows)

    def drop(self, rows: Lane | Others) -> None:
        """There is no room for these: only their count is recorded."""
        _count(rows, self._refused)
        if isinstance(rows, Lane):
            rows.clear()
            self._used.append(rows)

    def close_file(self) -> None:
        """Begin another file."""
        self._queue.put(None)

    def stop(self, deadline: float, ended: Callable[[], None]) -> None:
        """Write what there is until then (of the monotonic clock), and call ``ended``, on the writer's thread."""
        self._deadline, self._ended = deadline, ended
        self._queue.put(None)

    def left(self) -> None:
        """The event loop does not wait any longer."""
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
            if lost := self._rows + self._untold.total():
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

    def _add(self, rows: Lane | Others) -> None:
        weight = rows.weight
        try:
            batch = self._converter.batch(rows)
        except Exception:
            _log.exception("event=traces_not_made rows=%d", len(rows))
            _count(rows, self._spoiled)
            self.done += weight
        else:
            self._pending.append((batch, weight))
            self._rows += len(batch)
        if isinstance(rows, Lane):
            rows.clear()
            self._used.append(rows)

    @property
    def _untold(self) -> Counter[int]:
        return Counter(self._refused) + self._spoiled - self._told

    @property
    def _is_unfinished(self) -> bool:
        return bool(self._pending or self._untold)

    def _write_due(self) -> None:
        """Write the files that are due, but not at once again after one could not be written."""
        if self._failed_at is not None and time.monotonic() < self._failed_at + RETRY_SECONDS:
            return
        full = min(self._traces.rows_per_file, self._traces.max_buffered_rows // 2)
        while self._rows >= full or (self._is_due and self._is_unfinished):
            if not self._write():
                return
        self._is_due = False

    def _write(self) -> bool:
        """Write one file; return whether that worked. If not, its rows are kept for the next time."""
        dropped = self._untold
        count = max(0, min(self._rows, self._traces.rows_per_file - len(dropped)))
        batches = self._first(count)
        if dropped:
            batches.append(self._converter.batch(_dropped_rows(dropped)))
        try:
            self._folder.write(
                f"{self._prefix}-{self._files + 1:06d}.parquet", lambda file: file.write(_file_of(batches))
            )
        except Exception as error:  # each store raises errors of its own library
            self._failed(error)
            return False
        self._wrote(count)
        self._told += dropped
        self._files += 1
        return True

    def _failed(self, error: Exception) -> None:
        if self._failed_at is None:
            hint = "it is tried again; what is more than max_buffered_rows meanwhile is dropped and counted"
            _log.error("event=traces_not_written folder=%s error=%s hint=%s", self._folder, _said(error), hint)
        self._failed_at = time.monotonic()

    def _first(self, count: int) -> list[pa.RecordBatch]:
        """Return the rows that have waited longest."""
        batches = []
        for batch, _ in self._pending:
            if count <= 0:
                break
            batches.append(batch.slice(0, count))
            count -= len(batch)
        return batches

    def _wrote(self, count: int) -> None:
        """The rows that have waited longest are in a file."""
        self._rows -= count
        while count > 0:
            batch, weight = self._pending.popleft()
            if len(batch) > count:
                self._pending.appendleft((batch.slice(count), weight))
            else:
                self.done += weight
            count -= len(batch)
        if self._failed_at is not None:
            self._failed_at = None
            _log.info("event=traces_written_again folder=%s dropped=%d", self._folder, self._untold.total())


def _file_of(batches: list[pa.RecordBatch]) -> pa.Buffer:
    """Return batches as one Parquet file, those with the same columns together. It is made in memory: each of the many
    small writes to a file of Python's would need the interpreter's lock."""
    alike: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
    for batch in batches:
        alike.setdefault(tuple(batch.schema.names), []).append(batch)
    options = {
        "compression": COMPRESSION,
        "use_dictionary": _FEW_VALUES,
        "write_statistics": _FOR_FILTERS,
        "column_encoding": dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        "store_schema": False,
        "memory_pool": POOL,
    }
    tables = [whole(pa.Table.from_batches(group)) for group in alike.values()]
    few = [table for table in tables if len(table) < FEW_ROWS]
    made = pa.BufferOutputStream(POOL)
    with pq.ParquetWriter(made, TABLE, **options) as writer:
        for table in (*([pa.concat_tables(few)] if few else ()), *(each for each in tables if len(each) >= FEW_ROWS)):
            writer.write_table(table.unify_dictionaries(POOL), row_group_size=ROW_GROUP)
    return made.getvalue()


def _count(rows: Lane | Others, into: Counter[int]) -> None:
    """Count rows by the incarnation that they are of."""
    if isinstance(rows, Lane):
        into[rows.incarnation] += len(rows)
    else:
        into.update(row["incarnation"] for row in rows.rows)


def _dropped_rows(dropped: Counter[int]) -> Others:
    others, now = Others(), time.time_ns() // 1000
    for incarnation, count in dropped.items():
        others.rows.append({"kind": "dropped", "recorded_at": now, "incarnation": incarnation, "count": count})
    return others


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, (OSError, InorderError)) else repr(error)
