"""Copies of rows: the same row may lie in several files after a killed compaction, or beside kept originals.

No client makes two rows that agree in all that :data:`KEY` names, for they have indexes, counters and times of their
own. So rows that agree in it are one row, wherever they lie, in one file too.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

KEY: Final = (
    "run", "client", "incarnation", "kind", "recorded_at", "space", "topic", "domain", "topic_id", "number",
    "last_number", "counter", "verdict", "detail", "published_at", "delivered_at", "arrival_index", "delivery_index",
    "offset_us", "count",
)  # fmt: skip
"""The columns that tell a row apart from all others."""

Bits = npt.NDArray[np.uint64]


def _odd(*names: object) -> np.uint64:
    digest = hashlib.blake2b(repr(names).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


_NULL: Final = _odd("null")


class Copies:
    """Drops rows that were seen before. It keeps 16 bytes for each row.

    Attributes:
        count: rows that were left out.
    """

    def __init__(self) -> None:
        self.count = 0
        self._seen: list[tuple[Bits, Bits]] = []  # sorted, and each less than half of the one before

    def without(self, table: pa.Table) -> pa.Table:
        """Return the new rows of a table in their order.

        Args:
            table: has the columns of :data:`KEY`. Rows without a client or a kind say nothing, and are no copies.
        """
        known = pc.and_(pc.is_valid(table.column("client")), pc.is_valid(table.column("kind")))
        is_known = known.to_numpy()
        one, two = _mixed(table)
        order = np.argsort(one, kind="stable")
        order = order[is_known[order]]
        one, two = one[order], two[order]
        is_new = np.ones(len(one), np.bool_)
        is_new[1:] = (one[1:] != one[:-1]) | (two[1:] != two[:-1])
        for seen in self._seen:
            is_new &= ~_among(one, two, seen)
        if is_new.all():
            self._add(one, two)
            return table
        self._add(one[is_new], two[is_new])
        self.count += int(len(is_new) - np.count_nonzero(is_new))
        is_left = np.ones(table.num_rows, np.bool_)
        is_left[order] = is_new
        return table.filter(pa.array(is_left))

    def _add(self, one: Bits, two: Bits) -> None:
        while self._seen and len(self._seen[-1][0]) < 2 * len(one):
            before = self._seen.pop()
            one, two = np.concatenate((before[0], one)), np.concatenate((before[1], two))
            order = np.argsort(one, kind="stable")
            one, two = one[order], two[order]
        if len(one):
            self._seen.append((one, two))


def _among(one: Bits, two: Bits, seen: tuple[Bits, Bits]) -> npt.NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(seen[0], one), len(seen[0]) - 1)
    found: npt.NDArray[np.bool_] = (seen[0][at] == one) & (seen[1][at] == two)
    return found


def _mixed(table: pa.Table) -> tuple[Bits, Bits]:
    """Return two 64-bit hashes of each row's key, evenly distributed."""
    one, two = np.zeros(table.num_rows, np.uint64), np.zeros(table.num_rows, np.uint64)
    for name in KEY:
        column = table.column(name)
        bits = _texts(column) if pa.types.is_string(column.type) else _numbers(column)
        one += bits * _odd(name, 1)
        two += bits * _odd(name, 2)
    return one, two


def _numbers(column: pa.ChunkedArray) -> Bits:
    whole = column.cast(pa.int64())
    bits: Bits = np.array(whole.fill_null(0).to_numpy(), copy=True).view(np.uint64)
    if whole.null_count:
        bits[whole.is_null().to_numpy()] = _NULL
    return bits


def _texts(column: pa.ChunkedArray) -> Bits:
    coded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    bits = np.array([_odd("text", text) for text in coded.dictionary.to_pylist()], np.uint64)
    found: Bits = bits[coded.indices.to_numpy()] if len(bits) else np.zeros(len(column), np.uint64)
    return found
