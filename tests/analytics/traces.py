"""Traces made by hand, row by row. Times are given in milliseconds since :data:`EPOCH_US`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from inorder.traces.schema import NAMES
from inorder_analytics.columns import arrow_schema

EPOCH_US = 1_760_000_040_000_000
"""2025-10-09T08:54:00Z: the begin of a minute."""
DOMAIN = 77
INCARNATION = 1


def us(ms: float) -> int:
    return EPOCH_US + round(ms * 1000)


@dataclass
class Trace:
    """Rows of one run. Topics are letters: a is topic 1, b is 2, and so on."""

    run: str = "r"
    rows: list[dict[str, Any]] = field(default_factory=list)
    _indexes: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def row(
        self, kind: str, client: str, *, at: float = 0, incarnation: int = INCARNATION, **more: Any
    ) -> dict[str, Any]:
        made = dict.fromkeys(NAMES)
        made |= {"schema_version": 1, "run": self.run, "client": client, "incarnation": incarnation, "kind": kind}
        made |= {"recorded_at": us(at), **more}
        self.rows.append(made)
        return made

    def opened(self, client: str, mode: str = "strict", **more: Any) -> None:
        self.row("opened", client, detail=mode, **more)

    def published(
        self, client: str, topic: str, number: int | None, *, at: float = 0, stamped: float | None = None, **more: Any
    ) -> dict[str, Any]:
        times = {"published_at": us(at), "stamped_at": us(at if stamped is None else stamped)}
        given = {**_topic(topic), "number": number, "ordering": "total", "outcome": "accepted", **times, **more}
        return self.row("published", client, at=at, **given)

    def notified(
        self,
        client: str,
        topic: str,
        number: int,
        verdict: str = "in_order",
        *,
        at: float = 0,
        arrived: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Indexes count by themselves, in the order of the calls."""
        incarnation = more.get("incarnation", INCARNATION)
        given: dict[str, Any] = {**_topic(topic), "number": number, "verdict": verdict}
        given |= {
            "arrived_at": us(at if arrived is None else arrived),
            "arrival_index": self._next(client, incarnation, "a"),
        }
        if verdict not in ("duplicate", "before"):
            given |= {"delivered_at": us(at), "delivery_index": self._next(client, incarnation, "d")}
        return self.row("notified", client, at=at, **{**given, **more})

    def gap(self, client: str, topic: str, first: int, last: int, reason: str, **more: Any) -> None:
        index = self._next(client, more.get("incarnation", INCARNATION), "d")
        self.row(
            "gap",
            client,
            **{
                **_topic(topic),
                "number": first,
                "last_number": last,
                "detail": reason,
                "delivery_index": index,
                **more,
            },
        )

    def subscribed(self, client: str, topic: str, start: int = 0, **more: Any) -> None:
        self.row("subscribed", client, **{**_topic(topic), "number": start, **more})

    def unsubscribed(self, client: str, topic: str, last: int | None = None, **more: Any) -> None:
        self.row("unsubscribed", client, **{**_topic(topic), "number": last, **more})

    def clock(self, client: str, offset_ms: float, error_ms: float, **more: Any) -> None:
        self.row("clock", client, offset_us=round(offset_ms * 1000), error_us=round(error_ms * 1000), **more)

    def streams(self, **streams: str | Sequence[str]) -> Trace:
        """Let each subscriber be notified of these events, one each millisecond; "a1" is number 1 of topic a."""
        for client, stream in streams.items():
            for at, event in enumerate(stream.split() if isinstance(stream, str) else stream):
                self.notified(client, event[0], int(event[1:]), at=at)
        return self

    def arrive(self, **streams: str) -> Trace:
        """Let the events that were notified have arrived in another order."""
        for client, stream in streams.items():
            order = {event: at for at, event in enumerate(stream.split(), start=1)}
            for row in self.rows:
                if row["client"] == client and row["kind"] == "notified":
                    row["arrival_index"] = order[f"{row['topic']}{row['number']}"]
        return self

    def _next(self, client: str, incarnation: int, which: str) -> int:
        key = client, incarnation, which
        self._indexes[key] = self._indexes.get(key, 0) + 1
        return self._indexes[key]


def _topic(topic: str) -> dict[str, Any]:
    return {"space": "mqtt", "topic": topic, "domain": DOMAIN, "topic_id": ord(topic[0]) - ord("a") + 1}


def write(path: Path, rows: Iterable[dict[str, Any]], per_file: int = 1000) -> Path:
    """Write rows below a folder as a recorder would; return the folder."""
    path.mkdir(parents=True, exist_ok=True)
    rows = list(rows)
    for at in range(0, len(rows), per_file):
        given = rows[at : at + per_file]
        schema = arrow_schema()
        arrays = [pa.array([row[field.name] for row in given], type_of(field)).cast(field.type) for field in schema]
        pq.write_table(pa.table(arrays, schema=schema), path / f"{at:06}.parquet")
    return path


def type_of(field: pa.Field) -> pa.DataType:
    """Return the type of a column as rows hold it: instants as integers."""
    return pa.int64() if pa.types.is_timestamp(field.type) else field.type
