"""The unpacked sizes of the pages of a Parquet file, read in the pages' headers before anything is unpacked.

What a footer says of a column is not believed, for whoever made the file wrote it: a reader unpacks as much as the
header of each page says. The headers are structs of Thrift's compact protocol; only their sizes are read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_STOP: Final = 0
_BOOLEANS: Final = (1, 2)
_BYTE: Final = 3
_INTEGERS: Final = (4, 5, 6)
_DOUBLE: Final = 7
_BINARY: Final = 8
_LISTS: Final = (9, 10)
_STRUCT: Final = 12
"""Types of Thrift's compact protocol. (There is no map in a page's header.)"""
UNPACKED, PACKED = 2, 3
"""Fields of a page's header: bytes of what is behind it when it is unpacked, and as it is in the file."""
DEEPEST: Final = 16
"""Structs in structs; a page's header has three."""


class NotAHeader(ValueError):
    """The footer names a place for the header of a page, and no header is there."""


def unpacked_sizes(data: memoryview, footer: Any) -> Iterator[int]:
    """Yield the unpacked size in bytes of each page of a file. Raises NotAHeader.

    Args:
        data: the whole file.
        footer: a ``pyarrow.parquet.FileMetaData``.
    """
    left = len(data)
    for group in (footer.row_group(at) for at in range(footer.num_row_groups)):
        for column in (group.column(at) for at in range(group.num_columns)):
            left -= max(1, column.total_compressed_size)
            if left < 0:
                raise NotAHeader("its columns are longer than the file")
            at = column.data_page_offset
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
                at = column.dictionary_page_offset
            end = at + column.total_compressed_size
            while at < end:
                sizes, at = _header(data, at)
                yield sizes[UNPACKED]
                at += sizes[PACKED]


def _header(data: memoryview, at: int) -> tuple[dict[int, int], int]:
    """Return the sizes in a page's header, and where it ends."""
    try:
        sizes, at = _struct(data, at, 0)
    except IndexError:
        raise NotAHeader("a page has no whole header") from None
    if min(sizes.get(UNPACKED, -1), sizes.get(PACKED, -1)) < 0:
        raise NotAHeader("the header of a page has no sizes")
    return sizes, at


def _struct(data: memoryview, at: int, depth: int) -> tuple[dict[int, int], int]:
    """Return the integers of a struct by their fields, and where it ends."""
    if depth > DEEPEST or at < 0:
        raise NotAHeader("the header of a page is nested too deeply, or ahead of the file")
    found: dict[int, int] = {}
    field = 0
    while (head := data[at]) != _STOP:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _integer(data, at)
        if (kind := head & 0x0F) in _INTEGERS:
            found[field], at = _integer(data, at)
        elif kind not in _BOOLEANS:  # the type of such a field is its value
            at = _skipped(data, at, kind, depth)
    return found, at + 1


def _skipped(data: memoryview, at: int, kind: int, depth: int) -> int:
    """Return where a value ends."""
    if kind == _BYTE or kind in _BOOLEANS:
        return at + 1
    if kind in _INTEGERS:
        return _integer(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        size, at = _unsigned(data, at)
        return at + size
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)[1]
    if kind not in _LISTS or depth > DEEPEST:
        raise NotAHeader(f"the header of a page has a value of type {kind}")
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:  # it stands behind it
        count, at = _unsigned(data, at)
    if count > len(data):
        raise NotAHeader("the header of a page has a list that is longer than the file")
    for _ in range(count):
        at = _skipped(data, at, head & 0x0F, depth + 1)
    return at


def _integer(data: memoryview, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _unsigned(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotAHeader("the header of a page has a number of more than 64 bits")
