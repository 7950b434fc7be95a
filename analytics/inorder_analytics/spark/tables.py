"""The result as tables, for readers of Parquet rather than JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from inorder_analytics.parts import RunPart
from inorder_analytics.results import Result
from inorder_analytics.spark.store import Store, replacing

_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_REAL: Final = pa.float64()
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_COMMON: Final = {
    "events": _LONG,
    "late_percent": _REAL,
    "notified_1s_percent": _REAL,
    "latency_ms_p50": _REAL,
    "latency_ms_p90": _REAL,
    "latency_ms_p99": _REAL,
}
_STREAM: Final = ("length", "displaced", "farthest", "descents", "opposite", "detected")

SCHEMAS: Final[dict[str, dict[str, pa.DataType]]] = {
    "by_topic": {"run": _TEXT, "topic": _TEXT, **_COMMON},
    "by_subscriber": {"run": _TEXT, "client": _TEXT, **_COMMON},
    "by_window": {"run": _TEXT, "start": _INSTANT, **_COMMON},
    "message_overhead": {"run": _TEXT, "stage": _LONG, "own": _LONG, "foreign": _LONG, "percent": _REAL},
    "popularity": {"run": _TEXT, "topic": _TEXT, "events": _LONG, "per_1000": _REAL},
    "pairs": {
        "run": _TEXT,
        "a": _TEXT,
        "b": _TEXT,
        "ordering_degree_raw": _REAL,
        "ordering_degree_delivered": _REAL,
        **{f"{name}_{stream}": _LONG for stream in ("raw", "delivered") for name in _STREAM},
    },
}
"""The columns of each table. Without rows they are the same."""


def write_tables(store: Store, result: Result, parts: Sequence[RunPart]) -> None:
    """Write ``results/*.parquet``: all lists of a result, and every compared pair, not only the worst.

    ``by_run`` has no table: it is in ``result.json``, as no two releases have the same columns there.
    """
    for name, columns in SCHEMAS.items():
        rows = list(_pairs(parts)) if name == "pairs" else [_flat(each) for each in getattr(result, name)]
        table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
        with replacing(store.results / f"{name}.parquet") as temporary:
            pq.write_table(table, temporary)


def _flat(struct: Any) -> dict[str, Any]:
    row = {name: getattr(struct, name) for name in struct.__struct_fields__}
    latency = row.pop("latency_ms", None)
    if latency is not None:
        row |= {f"latency_ms_{name}": getattr(latency, name) for name in latency.__struct_fields__}
    return row


def _pairs(parts: Iterable[RunPart]) -> Iterable[dict[str, Any]]:
    for part in parts:
        for pair in part.pairs:
            row: dict[str, Any] = {"run": part.run, "a": pair.a, "b": pair.b}
            for stream, each in (("raw", pair.raw), ("delivered", pair.delivered)):
                row[f"ordering_degree_{stream}"] = each.degree
                row |= {f"{name}_{stream}": getattr(each, name) for name in _STREAM}
            yield row
