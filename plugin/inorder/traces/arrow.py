"""The columns of a trace in Arrow's types, and rows as record batches: by column, with no Python object for a value."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from inorder.traces.lanes import (
    HOW_BITS,
    NOTHING,
    PUBLISHED,
    REDELIVERED,
    REPAIRED,
    RETAINED,
    SEQUENCED,
    Lane,
)
from inorder.traces.recorder import ORDERINGS, VERDICTS, Others
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

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_HOW: Final = (1 << HOW_BITS) - 1
_INSTANT: Final = TYPES["instant"]

Columns = dict[str, Any]


class Converter:
    """Makes record batches of what one client records.

    Args:
        run, client_id: of all rows.
    """

    def __init__(self, run: str, client_id: str) -> None:
        self._run, self._client_id = run, client_id

    def batch(self, rows: Lane | Others) -> pa.RecordBatch:
        """Return rows by column; columns that these rows have nothing in are left out. Texts are dictionaries."""
        columns = self._of_lane(rows) if isinstance(rows, Lane) else self._of_others(rows)
        names = [column.name for column in COLUMNS if column.name in columns]
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names)

    def _common(self, count: int) -> Columns:
        return {
            "schema_version": pa.repeat(pa.scalar(SCHEMA_VERSION, pa.int64()), count),
            "run": _same(self._run, count),
            "client": _same(self._client_id, count),
        }

    def _of_lane(self, lane: Lane) -> Columns:
        count, layout = lane.count, lane.layout
        parts = _parts(lane)
        columns = self._common(count)
        columns["kind"] = _same(layout.kind, count)
        columns["incarnation"] = pa.repeat(pa.scalar(lane.incarnation, pa.int64()), count)
        if lane.domain:
            columns["domain"] = pa.repeat(pa.scalar(lane.domain, pa.int64()), count)
        for name in layout.times:
            columns[name] = _instants(parts[name].view(pa.float64()), lane.zero_us)
        for name in layout.whole:
            if name not in ("topic", "how", "numbers_end"):
                columns[name] = _or_null(parts[name])
        columns |= _topics(lane, parts["topic"])
        columns |= _published(lane, parts) if layout is PUBLISHED else _notified(lane, parts, columns)
        return columns

    def _of_others(self, others: Others) -> Columns:
        rows = others.rows
        columns = self._common(len(rows))
        for column in COLUMNS:
            if column.name not in columns:
                values = [row.get(column.name) for row in rows]
                if any(value is not None for value in values):
                    columns[column.name] = _array(column.name, values)
        return columns


def dictionaries() -> pa.Schema:
    """Return the schema of the tables that are written: texts as dictionaries."""
    return pa.schema([pa.field(each.name, _TEXT if pa.types.is_string(each.type) else each.type) for each in SCHEMA])


def whole(table: pa.Table) -> pa.Table:
    """Return a table with all columns of a trace in their order; those that it has not are null."""
    arrays = []
    for field in SCHEMA:
        kind = _TEXT if pa.types.is_string(field.type) else field.type
        arrays.append(table[field.name] if field.name in table.column_names else pa.nulls(len(table), kind))
    return pa.table(arrays, names=SCHEMA.names)


def _parts(lane: Lane) -> dict[str, pa.Int64Array]:
    """Copy the lane's records by column. Times are bits of floats still."""
    layout = lane.layout
    raw = pa.Array.from_buffers(pa.int64(), lane.count * layout.width, [None, pa.py_buffer(lane.raw)])
    records = pa.FixedSizeListArray.from_arrays(raw, layout.width)
    names = layout.whole + layout.times
    return {name: pc.list_element(records, at) for at, name in enumerate(names)}


def _topics(lane: Lane, places: pa.Int64Array) -> Columns:
    at = places.cast(pa.int32())
    spaces, names, ids = zip(*lane.topics, strict=True)
    return {
        "space": _texts(at, spaces),
        "topic": _texts(at, names),
        "topic_id": _or_null(pa.array(ids, pa.int64())).take(at),
    }


def _published(lane: Lane, parts: dict[str, pa.Int64Array]) -> Columns:
    outcome, ordering = _split(parts["how"])
    is_plain = pc.equal(parts["stamp_bytes"], NOTHING)
    dependencies = _lists(lane, parts["numbers_end"], is_plain)
    return {
        "outcome": _texts(outcome, OUTCOMES),
        "ordering": _texts(ordering, ORDERINGS),
        "dependencies": dependencies,
        "entries": pc.add(pc.shift_right(pc.list_value_length(dependencies), 1), 1).cast(pa.int64()),
    }


def _notified(lane: Lane, parts: dict[str, pa.Int64Array], columns: Columns) -> Columns:
    verdict, flags = _split(parts["how"])
    is_plain = pc.equal(_flag(flags, SEQUENCED), False)
    is_dropped = pc.equal(parts["delivery_index"], NOTHING)
    arrived, recorded = columns["arrived_at"], columns["recorded_at"]
    delivered = pc.if_else(is_dropped, pa.scalar(None, _INSTANT), recorded)
    waited = pc.subtract(delivered.cast(pa.int64()), arrived.cast(pa.int64()))
    never = pc.equal(parts["waited_number"], 0)
    nothing = pa.scalar(None, pa.int64())
    return {
        "verdict": _texts(verdict, VERDICTS),
        "retained": _flag(flags, RETAINED),
        "redelivered": _flag(flags, REDELIVERED),
        "repaired": _flag(flags, REPAIRED),
        "delivered_at": delivered,
        "waited_us": waited,
        "waited_topic_id": pc.if_else(never, nothing, parts["waited_topic_id"]),
        "waited_number": pc.if_else(never, nothing, parts["waited_number"]),
        "dependencies": _lists(lane, parts["numbers_end"], is_plain),
    }


def _split(how: pa.Int64Array) -> tuple[pa.Int32Array, pa.Int64Array]:
    return pc.bit_wise_and(how, _HOW).cast(pa.int32()), pc.shift_right(how, HOW_BITS)


def _flag(flags: pa.Int64Array, bit: int) -> pa.BooleanArray:
    return pc.not_equal(pc.bit_wise_and(flags, bit >> HOW_BITS), 0)


def _texts(at: pa.Array, texts: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(at.cast(pa.int32()), pa.array(texts, pa.string()))


def _same(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([text], pa.string()))


def _or_null(values: pa.Int64Array) -> pa.Int64Array:
    return pc.if_else(pc.equal(values, NOTHING), pa.scalar(None, pa.int64()), values)


def _instants(seconds: pa.DoubleArray, zero_us: int) -> pa.TimestampArray:
    known = pc.if_else(pc.is_nan(seconds), pa.scalar(None, pa.float64()), seconds)
    since = pc.round(pc.multiply(known, 1_000_000.0)).cast(pa.int64())
    return pc.add(since, pa.scalar(zero_us, pa.int64())).cast(_INSTANT)


def _lists(lane: Lane, ends: pa.Int64Array, is_null: pa.BooleanArray) -> pa.ListArray:
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    numbers = pa.Array.from_buffers(pa.int64(), len(lane.numbers), [None, pa.py_buffer(lane.numbers)])
    return pa.ListArray.from_arrays(offsets, numbers, mask=is_null)


def _array(name: str, values: list[Any]) -> pa.Array:
    kind = SCHEMA.field(name).type
    if pa.types.is_string(kind):
        return pa.array(values, kind).dictionary_encode()
    return pa.array(values, kind)
