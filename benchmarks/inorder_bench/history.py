"""Histories: files with a line of JSON for each run, in the order in which they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inorder.errors import InvalidOption
from inorder_bench.machine import machine

Run = TypeVar("Run")

_ALLOWED = "a history that --history wrote, a line of JSON for each run"


def check_writable(file: Path) -> None:
    """Raise InvalidOption where a history cannot be written: before anything is measured."""
    try:
        with file.open("ab"):
            pass
    except OSError as error:
        allowed = f"a file that can be written, in a folder that exists ({error.strerror})"
        raise InvalidOption("--history", str(file), allowed) from None


def append(file: Path, run: Mapping[str, Any]) -> None:
    """Add a run, with date and machine in front."""
    described = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), **run}
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(described) + b"\n")


def read(file: Path, kind: type[Run]) -> list[Run]:
    """Return the runs of a history. Raises InvalidOption where there is none, or one that is damaged."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InvalidOption("HISTORY", str(file), f"{_ALLOWED} ({error.strerror})") from None
    runs = []
    for line in lines:
        try:
            runs.append(msgspec.json.decode(line, type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidOption("HISTORY", str(file), f"{_ALLOWED} (line {len(runs) + 1}: {error})") from None
    return runs
