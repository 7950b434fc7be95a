"""Conversion of trace rows into Arrow record batches, column by column, without a Python object per value.

Arrow does its work without the interpreter's lock. What would be done for each row though it is the same for all is
done once: buffers say whether all their rows are of the usual kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from inorder.traces.recorder import ORDERINGS, VERDICTS, OtherRows
from inorder.traces.row_buffers import (
    BUFFER_ROWS,
    HOW_BITS,
    NOTHING,
    NOTIFIED,
    PUBLISHED,
    REDELIVERED,
    REPAIRED,
    RETAINED,
    SEQUENCED,
    RowBuffer,
)
from inorder.traces.schema import COLUMNS, OUTCOMES, SCHEMA_VERSION

TYPES: Final[dict[str, pa.DataType]] = {
    "integer": pa.int64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "instant": pa.timestamp("us", tz="UTC"),
    "integers": pa.list_(pa.int64()),
}
SCHEMA: Final = pa.schema([pa.field(column.name, TYPES[column.type]) for column in COLUMNS])
"""What files say that they hold."""
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
"""How texts are held until they are written."""
TABLE: Final = pa.schema([pa.field(each.name, TEXT if each.type == pa.string() else each.type) for each in SCHEMA])

POOL: Final = pa.system_memory_pool()
"""Where columns lie: it uses again what it was given back. Arrow's own takes fresh memory, and that the kernel clears
that takes longer than all that is done here."""

# Constants as Arrow's own: made anew for each call they would take longer than the call.
_INSTANT: Final = TYPES["instant"]
_HOW: Final = pa.scalar((1 << HOW_BITS) - 1, pa.int64())
_SHIFT: Final = pa.scalar(HOW_BITS, pa.int64())
_ZERO: Final = pa.scalar(0, pa.int64())
_ONE: Final = pa.scalar(1, pa.int64())
_NOTHING: Final = pa.scalar(NOTHING, pa.int64())
_NULL: Final = pa.scalar(None, pa.int64())
_NO_TIME: Final = pa.scalar(None, pa.float64())
_NEVER: Final = pa.scalar(None, _INSTANT)
_MICROSECONDS: Final = pa.scalar(1_000_000.0)
_FIRST: Final = pa.array([0], pa.int32())
_FLAGS: Final = {
    name: pa.scalar(bit >> HOW_BITS, pa.int64())
    for name, bit in (("retained", RETAINED), ("redelivered", REDELIVERED), ("repaired", REPAIRED))
}
_SEQUENCED: Final = pa.scalar(SEQUENCED >> HOW_BITS, pa.int64())
_WAITED: Final = ("waited_topic_id", "waited_number")

Columns = dict[str, Any]


def _do(name: str, *values: Any) -> Any:
    """Call a function of Arrow's."""
    return pc.call_function(name, values, memory_pool=POOL)


def _dictionary(texts: Sequence[str]) -> pa.StringArray:
    return pa.array(texts, pa.string())


_OUTCOMES, _ORDERINGS, _VERDICTS = _dictionary(OUTCOMES), _dictionary(ORDERINGS), _dictionary(VERDICTS)
_AT_FIRST: Final = pa.repeat(pa.scalar(0, pa.int32()), BUFFER_ROWS)
_ROWS: Final = pa.array(range(BUFFER_ROWS), pa.int32())
_FALSE: Final = pa.repeat(pa.scalar(False), BUFFER_ROWS)
_NULLS: Final = {each.type: pa.nulls(BUFFER_ROWS, each.type) for each in TABLE}
_PLACES: Final = {
    layout: [pc.add(pc.multiply(_ROWS, layout.width), at).cast(pa.int32()) for at in range(layout.width)]
    for layout in (PUBLISHED, NOTIFIED)
}  # fmt: skip
"""By layout, where the values of each part are among those of all records."""


class Converter:
    """Makes record batches from the rows of one client.

    Args:
        run, client_id: of all rows.
    """

    def __init__(self, run: str, client_id: str) -> None:
        self._run, self._client_id = _dictionary([run]), _dictionary([client_id])
        self._kinds = {layout: _dictionary([layout.kind]) for layout in (PUBLISHED, NOTIFIED)}

    def batch(self, rows: RowBuffer | OtherRows) -> pa.RecordBatch:
        """Return rows as a record batch without empty columns."""
        columns = self._of_buffer(rows) if isinstance(rows, RowBuffer) else self._of_others(rows)
        names = [name for name in TABLE.names if name in columns]
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names)

    def _common(self, count: int) -> Columns:
        return {
            "schema_version": _repeated(SCHEMA_VERSION, count),
            "run": _same(self._run, count),
            "client": _same(self._client_id, count),
        }

    def _of_buffer(self, buffer: RowBuffer) -> Columns:
        parts = _Parts(buffer)
        columns = self._common(buffer.count)
        columns["kind"] = _same(self._kinds[buffer.layout], buffer.count)
        columns["incarnation"] = _repeated(buffer.incarnation, buffer.count)
        if buffer.domain:
            columns["domain"] = _repeated(buffer.domain, buffer.count)
        columns |= _topics(buffer, parts)
        for name in buffer.layout.times:
            is_known = name == "recorded_at" and not buffer.is_mixed and "accepted_at" in columns
            columns[name] = columns["accepted_at"] if is_known else _instants(parts[name].view(pa.float64()), buffer)
        for name in buffer.layout.whole[3:]:
            if buffer.has_waited or name not in _WAITED:
                columns[name] = _or_null(parts[name]) if buffer.is_mixed else parts[name]
        return columns | (
            _published(buffer, parts) if buffer.layout is PUBLISHED else _notified(buffer, parts, columns)
        )

    def _of_others(self, others: OtherRows) -> Columns:
        rows = others.rows
        columns = self._common(len(rows))
        for name in TABLE.names:
            values = [row.get(name) for row in rows]
            if any(value is not None for value in values):
                columns[name] = _array(name, values)
        return columns


class _Parts:
    """The records of a buffer by part, each copied when it is asked for. Times are bits of floats still."""

    def __init__(self, buffer: RowBuffer) -> None:
        layout = buffer.layout
        self._count, self._layout = buffer.count, layout
        self._raw = pa.Array.from_buffers(pa.int64(), buffer.count * layout.width, [None, pa.py_buffer(buffer.raw)])
        self._names = layout.whole + layout.times

    def __getitem__(self, name: str) -> pa.Int64Array:
        places = _PLACES[self._layout][self._names.index(name)]
        return pc.take(self._raw, places.slice(0, self._count), boundscheck=False, memory_pool=POOL)


def whole(table: pa.Table) -> pa.Table:
    """Return a table with all columns of a trace in their order; missing columns are null."""
    known = set(table.column_names)
    arrays = [table[each.name] if each.name in known else _nulls(each.type, len(table)) for each in TABLE]
    return pa.table(arrays, names=TABLE.names)


def _nulls(kind: pa.DataType, count: int) -> pa.ChunkedArray:
    nulls = _NULLS[kind]
    return pa.chunked_array([nulls.slice(0, count - at) for at in range(0, count, BUFFER_ROWS)], kind)


def _topics(buffer: RowBuffer, parts: _Parts) -> Columns:
    at = parts["topic"].cast(pa.int32(), safe=False, memory_pool=POOL)
    spaces, names, ids = zip(*buffer.topics, strict=True)
    return {
        "space": _texts(at, _dictionary(spaces)),
        "topic": _texts(at, _dictionary(names)),
        "topic_id": _or_null(pa.array(ids, pa.int64())).take(at),
    }


def _published(buffer: RowBuffer, parts: _Parts) -> Columns:
    ends, count = parts["numbers_end"], buffer.count
    if buffer.is_mixed:
        outcome, ordering = _split(parts["how"])
        dependencies = _lists(buffer, ends, _do("equal", parts["stamp_bytes"], _NOTHING))
        columns = {"outcome": _texts(outcome, _OUTCOMES), "ordering": _texts(ordering.cast(pa.int32()), _ORDERINGS)}
    else:
        dependencies = _lists(buffer, ends)
        columns = {"outcome": _same(_OUTCOMES, count), "ordering": _same(_ORDERINGS, count)}
    pairs = _do("shift_right", _do("list_value_length", dependencies).cast(pa.int64(), memory_pool=POOL), _ONE)
    return {**columns, "dependencies": dependencies, "entries": _do("add", pairs, _ONE)}


def _notified(buffer: RowBuffer, parts: _Parts, known: Columns) -> Columns:
    columns: Columns = {}
    delivered, ends = known["recorded_at"], parts["numbers_end"]
    if buffer.is_mixed:
        verdict, flags = _split(parts["how"])
        columns["verdict"] = _texts(verdict, _VERDICTS)
        columns |= {name: _flag(flags, bit) for name, bit in _FLAGS.items()}
        columns["dependencies"] = _lists(buffer, ends, _do("invert", _flag(flags, _SEQUENCED)))
        delivered = _do("if_else", _do("equal", parts["delivery_index"], _NOTHING), _NEVER, delivered)
    else:
        columns["verdict"] = _same(_VERDICTS, buffer.count)
        columns |= dict.fromkeys(_FLAGS, _FALSE.slice(0, buffer.count))
        columns["dependencies"] = _lists(buffer, ends)
    if buffer.has_waited:
        never = _do("equal", parts["waited_number"], _ZERO)
        columns |= {name: _do("if_else", never, _NULL, known[name]) for name in _WAITED}
    columns["delivered_at"] = delivered
    columns["waited_us"] = _do("subtract", delivered.view(pa.int64()), known["arrived_at"].view(pa.int64()))
    return columns


def _split(how: pa.Int64Array) -> tuple[pa.Int32Array, pa.Int64Array]:
    first = _do("bit_wise_and", how, _HOW).cast(pa.int32(), safe=False, memory_pool=POOL)
    return first, _do("shift_right", how, _SHIFT)


def _flag(flags: pa.Int64Array, bit: pa.Int64Scalar) -> pa.BooleanArray:
    return _do("not_equal", _do("bit_wise_and", flags, bit), _ZERO)


def _texts(at: pa.Int32Array, texts: pa.StringArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(at, texts, safe=False)


def _same(texts: pa.StringArray, count: int) -> pa.DictionaryArray:
    """Return a column with the first of these texts in each row."""
    at = _AT_FIRST.slice(0, count) if count <= BUFFER_ROWS else pa.repeat(_AT_FIRST[0], count)
    return _texts(at, texts)


def _repeated(value: int, count: int) -> pa.Int64Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count, memory_pool=POOL)


def _or_null(values: pa.Int64Array) -> pa.Int64Array:
    return _do("if_else", _do("equal", values, _NOTHING), _NULL, values)


def _instants(seconds: pa.DoubleArray, buffer: RowBuffer) -> pa.TimestampArray:
    if buffer.is_mixed:
        seconds = _do("if_else", _do("is_nan", seconds), _NO_TIME, seconds)
    since = _do("multiply", seconds, _MICROSECONDS).cast(pa.int64(), safe=False, memory_pool=POOL)
    return _do("add", since, pa.scalar(buffer.zero_us, pa.int64())).view(_INSTANT)


def _lists(buffer: RowBuffer, ends: pa.Int64Array, is_null: pa.BooleanArray | None = None) -> pa.ListArray:
    offsets = pa.concat_arrays([_FIRST, ends.cast(pa.int32(), safe=False, memory_pool=POOL)], memory_pool=POOL)
    numbers = pa.Array.from_buffers(pa.int64(), len(buffer.numbers), [None, pa.py_buffer(buffer.numbers)])
    return pa.ListArray.from_arrays(offsets, numbers, mask=is_null)


def _array(name: str, values: list[Any]) -> pa.Array:
    kind = TABLE.field(name).type
    return _dictionary(values).dictionary_encode() if kind == TEXT else pa.array(values, kind)
