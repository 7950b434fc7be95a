"""docs/OPERATIONS.md names every bound with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from inorder import ClientTimes
from inorder_worker.service import WorkerSettings

OPERATIONS = (Path(__file__).parent.parent / "docs" / "OPERATIONS.md").read_text()
LIMITS = OPERATIONS.partition("\n## Limits\n")[2].partition("\n## ")[0]
OTHERS = {
    "write_timeout",
    "number_retention",
    "number_retention_total",
    "number_retention_age",
    "topic_ttl",
    "snapshot_rows",
    "snapshot_bytes",
}
"""Bounds whose names do not begin with ``max_``."""


def documented(section: str) -> dict[str, float]:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| [^|]+ \| [^|]+ \|$", section, re.MULTILINE)
    return {name: float(default) for name, default in rows}


def defaults(kind: type[Any], extra: set[str]) -> dict[str, float]:
    return {
        field.name: float(field.default)  # type: ignore[arg-type]
        for field in fields(kind)
        if field.name.startswith("max_") or field.name in extra
    }


def test_the_bounds_of_a_worker() -> None:
    worker = LIMITS.partition("\nIn a client")[0]
    assert documented(worker) == defaults(WorkerSettings, OTHERS)


def test_the_bounds_of_a_client() -> None:
    client = LIMITS.partition("\nIn a client")[2]
    assert documented(client) == defaults(ClientTimes, set())
