"""Clients that record, and what they recorded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.client.helpers import Site, times

from inorder import Client, Traces
from inorder_analytics import audit, plain, reading
from inorder_analytics.results import Result

Row = dict[str, Any]


def recording(site: Site, client_id: str, traces: str | Path | Traces, **options: Any) -> Client:
    """Return a client of a site that records."""
    given: dict[str, Any] = {"times": times(), "workers": [site.address], **options}
    return Client(f"memory://{site.name}", client_id=client_id, traces=traces, **given)


def files_in(folder: Path) -> list[Path]:
    """Return the files that readers see, by name."""
    return sorted(each for each in folder.rglob("*.parquet") if not each.name.startswith((".", "_")))


def rows_in(folder: Path) -> list[Row]:
    """Return all rows, file by file."""
    return [row for file in files_in(folder) for row in pq.read_table(file).to_pylist()]


def of(rows: Iterable[Row], client: str, kind: str) -> list[Row]:
    """Return the rows of a kind that a client recorded."""
    return [row for row in rows if row["client"] == client and row["kind"] == kind]


def known(row: Row) -> Row:
    """Return what stands in a row, without its nulls."""
    return {name: value for name, value in row.items() if value is not None}


def part(row: Row, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(row[name] for name in names)


def audited(folder: Path) -> dict[str, Any]:
    """Return what the audit says of a folder of traces."""
    return audit.to_plain(audit.audit(reading.Traces(folder)))


def measured(folder: Path) -> Result:
    """Return the figures of a folder of traces."""
    return plain.measure(reading.Traces(folder))


def assert_well(folder: Path, *, events: int, gaps: dict[str, int] | None = None) -> dict[str, Any]:
    """Nothing is wrong with these traces, and audit and figures count the same. Return what the audit says."""
    found, figures = audited(folder), measured(folder)
    assert found["violations"] == []
    assert (found["events"], found["gaps"]) == (events, gaps or {})
    assert (figures.events, figures.gaps, figures.tno_violations_delivered) == (events, gaps or {}, 0)
    return found
