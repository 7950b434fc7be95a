"""A file while it is made in memory: batches of rows become a part of it once there are enough rows."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from inorder.traces.arrow import POOL, TABLE, whole
from inorder.traces.row_buffers import BUFFER_ROWS
from inorder.traces.schema import COLUMNS

PART_ROWS: Final = 2 * BUFFER_ROWS
"""Rows of one kind that become a part of the file when there are so many. Until then they take twenty times the memory
that they take in it."""
FEW_ROWS: Final = 4_096
"""Rows of a kind that are in one part with others: each part takes time and bytes, however few rows are in it."""
_FEW_VALUES: Final = [column.name for column in COLUMNS if column.type == "text"] + [
    "schema_version", "incarnation", "domain", "topic_id", "payload_size", "entries", "stamp_bytes", "stage",
    "entry_stage", "top_stage",
]  # fmt: skip
_RISING: Final = [column.name for column in COLUMNS if column.type == "instant"] + [
    "number", "counter", "arrival_index", "delivery_index", "waited_us", "dependencies.list.element",
]  # fmt: skip
_FOR_FILTERS: Final = ["kind", "recorded_at", "published_at", "delivered_at"]
"""Columns whose lowest and highest values files tell."""
_OPTIONS: Final[dict[str, Any]] = {
    # encodings have packed the values; others need more memory for each column of a part than its rows take
    "compression": "snappy",
    "use_dictionary": _FEW_VALUES,
    "write_statistics": _FOR_FILTERS,
    "column_encoding": dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
    "store_schema": False,
    "memory_pool": POOL,
}


def grown(content: pa.Buffer, more: pa.Buffer) -> pa.Buffer:
    """Return a file's content that holds the rows of two files."""
    out = pa.BufferOutputStream(POOL)
    with pq.ParquetWriter(out, TABLE, **_OPTIONS) as writer:
        tables = [pq.ParquetFile(pa.BufferReader(each)).read().cast(TABLE) for each in (content, more)]
        writer.write_table(pa.concat_tables(tables).unify_dictionaries(POOL))
    return out.getvalue()


class File:
    """One file that is not written yet. It is made in memory: each of the many small writes to a file of Python's would
    need the interpreter's lock.

    Attributes:
        rows: those in it.
        counted: what it records, in rows by incarnation; those of ``told`` are beside it.
        told: rows that it says were dropped, by incarnation.
        weight: what is done when it is written.
        content: it, once it is finished.
    """

    def __init__(self) -> None:
        self._out = pa.BufferOutputStream(POOL)
        self._writer = pq.ParquetWriter(self._out, TABLE, **_OPTIONS)
        self._loose: dict[tuple[str, ...], list[pa.RecordBatch]] = {}  # those with the same columns together
        self.rows = self.weight = 0
        self.counted, self.told = Counter[int](), Counter[int]()
        self.content: pa.Buffer | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.rows += len(batch)
        for each in pc.value_counts(batch["incarnation"]):
            self.counted[each["values"].as_py()] += each["counts"].as_py()
        self._take(batch)

    def tell(self, batch: pa.RecordBatch, dropped: Counter[int]) -> None:
        """Record how many rows were dropped."""
        self.rows += len(batch)
        self.told += dropped
        self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> None:
        names = tuple(batch.schema.names)
        batches = self._loose.setdefault(names, [])
        batches.append(batch)
        if sum(map(len, batches)) >= PART_ROWS:
            del self._loose[names]
            self._part(whole(pa.Table.from_batches(batches)))

    def _part(self, table: pa.Table) -> None:
        self._writer.write_table(table.unify_dictionaries(POOL))

    def finish(self) -> None:
        """Complete the file's content."""
        tables = [whole(pa.Table.from_batches(batches)) for batches in self._loose.values()]
        self._loose.clear()
        few = [table for table in tables if len(table) < FEW_ROWS]
        for table in (*([pa.concat_tables(few)] if few else ()), *(each for each in tables if len(each) >= FEW_ROWS)):
            self._part(table)
        self._writer.close()
        self.content = self._out.getvalue()
