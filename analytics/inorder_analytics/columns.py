"""The columns of traces as Arrow types, and the conversion of files whose columns differ.

Files may be older or newer, or written by something else: columns may be missing, be narrower, have their names in
another case, or hold numbers as text. What can be converted exactly is, and times lose what is below a microsecond;
what cannot makes the file a damaged one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from inorder.traces.arrow import TYPES
from inorder.traces.schema import COLUMNS, NAMES

MOST_US: Final = 2**53
"""Microseconds that a time, since 1970, or a clock's offset may have: what clients may report to workers, too."""
MOST_SIZE: Final = 2**40
"""Bytes, and rows, that one row may tell of: sums over all rows stay numbers of 64 bits."""
MOST_STAGE: Final = 63
"""The last stage that a store may have."""
_SIGNED: Final = (-MOST_US, MOST_US)
LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    **{each.name: _SIGNED for each in COLUMNS if each.type == "instant"},
    "waited_us": (0, MOST_US), "error_us": (0, MOST_US), "offset_us": _SIGNED,
    **dict.fromkeys(("payload_size", "entries", "stamp_bytes", "count"), (0, MOST_SIZE)),
    **dict.fromkeys(("stage", "entry_stage", "top_stage"), (0, MOST_STAGE)),
}  # fmt: skip
"""The lowest and the highest value of a column, where figures are made of its values: beyond, a program that puts rows
together would fail, or take all the memory there is, over one row."""


class Unreadable(ValueError):
    """A column cannot be converted without a change of its values; the message names the column and the reason."""


def arrow_schema(names: Iterable[str] = NAMES) -> pa.Schema:
    """Return the schema of traces: all columns in their order, or the named ones in the given order."""
    fields = {each.name: pa.field(each.name, TYPES[each.type]) for each in COLUMNS}
    return pa.schema([fields[name] for name in names])


def found_in(schema: pa.Schema) -> dict[str, str]:
    """Return the file's column for each of our columns, by our name. The exact name counts before one in another case.
    Raises Unreadable where two would be the same."""
    found: dict[str, str] = {}
    for name in NAMES:
        exact = [each for each in schema.names if each == name]
        alike = exact or [each for each in schema.names if each.lower() == name]
        if len(alike) > 1:
            raise Unreadable(f"more than one column is {name!r}: {', '.join(alike)}")
        if alike:
            found[name] = alike[0]
    return found


def is_exact(schema: pa.Schema) -> bool:
    """Tell whether a file's columns have our names and types, so that any reader takes them unchanged. Columns may be
    missing, and others be there."""
    try:
        return all(
            name == own and schema.field(name).type == arrow_schema([own])[0].type
            for own, name in found_in(schema).items()
        )
    except Unreadable:
        return False


def check(schema: pa.Schema) -> None:
    """Raise Unreadable for a file whose columns can never be converted, whatever its values."""
    for own, name in found_in(schema).items():
        wanted, is_ = arrow_schema([own])[0].type, _plain(schema.field(name).type)
        if not _may_become(is_, wanted):
            raise Unreadable(f"column {name!r} is {is_}, not {wanted}")


def conform(table: pa.Table, names: Iterable[str] = NAMES) -> pa.Table:
    """Return a table with our columns (or the named ones) in our types; missing ones are null. Raises Unreadable."""
    schema = arrow_schema(names)
    found = found_in(table.schema)
    arrays = []
    for field in schema:
        if field.name in found:
            arrays.append(_within_limits(field.name, _converted(table.column(found[field.name]), field)))
        else:
            arrays.append(pa.nulls(table.num_rows, field.type))
    return pa.table(arrays, schema=schema)


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _may_become(column.type, field.type):
        raise Unreadable(f"column {field.name!r} is {column.type}, not {field.type}")
    try:
        if pa.types.is_timestamp(field.type):  # ours are microseconds; what is finer says no more than they do
            options = pc.CastOptions(field.type, allow_time_truncate=True)
            return pc.cast(column, options=options)
        converted = column.cast(field.type)
        # "007" is not 7: who reads it as a number could not tell them apart any more
        if (
            pa.types.is_integer(field.type)
            and is_text(column.type)
            and converted.cast(pa.string()) != column.cast(pa.string())
        ):
            raise Unreadable(f"column {field.name!r} is {column.type}, and not each value is a plain number")
    except pa.ArrowInvalid as error:
        raise Unreadable(f"column {field.name!r} is {column.type}, and does not fit {field.type}: {error}") from None
    return converted


def _within_limits(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as it is. Raises Unreadable for one with a value that no client has recorded."""
    if name in LIMITS:
        low, high = LIMITS[name]
        numbers = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        found = pc.min_max(numbers).as_py()
        for value in (found["min"], found["max"]):
            if value is not None and not low <= value <= high:
                raise Unreadable(f"column {name!r} has the value {value}; {low} to {high} are allowed")
    return column


def _may_become(is_: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of one type may be exact in another type. That each of them is, the cast checks."""
    types = pa.types
    if is_ == wanted or types.is_null(is_):
        return True
    if types.is_integer(wanted):
        return bool(types.is_integer(is_) or types.is_floating(is_) or is_text(is_))
    if types.is_string(wanted):
        return bool(is_text(is_) or types.is_binary(is_) or types.is_large_binary(is_) or types.is_integer(is_))
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(is_))
    if types.is_list(wanted):
        return bool(
            (types.is_list(is_) or types.is_large_list(is_) or types.is_fixed_size_list(is_))
            and types.is_integer(is_.value_type)
        )
    return False


def is_text(type_: pa.DataType) -> bool:
    """Tell whether a column's values are texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_
