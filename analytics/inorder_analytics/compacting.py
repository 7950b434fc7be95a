"""Many small files become few full ones.

Rows keep their order: that of the files' names, then that within each. What is written is whole before it has its
name, and a manifest beside it lists what it was made of. Originals are removed only where that is asked for, and only
when all new files are there and have been read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from inorder.errors import InorderError, InvalidOption
from inorder_analytics.columns import arrow_schema
from inorder_analytics.reading import TraceFile, Traces, folder_at
from inorder_analytics.results import Damaged

ROWS_PER_FILE: Final = 1_000_000
MANIFEST: Final = "_compacted-{}.json"


class CompactionFailed(InorderError):
    """What was written does not hold what was read; the originals are untouched."""


@dataclass(slots=True)
class Compacted:
    """What was done.

    Attributes:
        sources: files that were read, with their sizes.
        damaged: files that could not be read; they are never removed.
        files: names of the new files.
        manifest: name of the file that says all this.
        removed: whether the sources were removed.
    """

    path: str
    out: str
    made_at: str
    rows: int = 0
    sources: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    manifest: str = ""
    removed: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return it as what a JSON encoder takes."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def compact(
    traces: Traces,
    out: str | Path,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    remove: bool = False,
    now: datetime | None = None,
) -> Compacted:
    """Merge the files of traces into full ones.

    Args:
        out: a folder or URL, made where it is not there; another one than that of the traces.
        remove: remove what was merged.
        now: names the new files; the time of day, where it is not given.

    Raises:
        InvalidOption: ``out`` is the traces' own folder, or above or below it.
        CompactionFailed: what was written is not what was read.
    """
    _check_is_apart(traces, out)
    when = (now or datetime.now(UTC)).astimezone(UTC)
    stamp = when.strftime("%Y%m%dT%H%M%S%fZ")
    done = Compacted(traces.path, str(out), when.isoformat())
    folder = folder_at(out)
    read: list[TraceFile] = []
    for at, table in enumerate(_full(traces, read, rows_per_file), start=1):
        name = f"compacted-{stamp}-{at:06}.parquet"
        folder.write(name, lambda file, table=table: _write(file, table))
        done.files.append(name)
        done.rows += table.num_rows
    done.sources = [{"file": each.file, "bytes": each.bytes} for each in read]
    done.damaged = list(traces.damaged)
    done.manifest = MANIFEST.format(stamp)
    if done.files:
        _check_is_whole(done, out)
        folder.write(done.manifest, lambda file: file.write(json.dumps(done.to_plain(), indent=1).encode()))
        if remove:
            for each in read:
                traces.filesystem.rm_file(each.file)
            done.removed = True
    return done


def _full(traces: Traces, read: list[TraceFile], rows: int) -> Iterator[pa.Table]:
    """Return all rows in tables of so many; the last may have fewer."""
    waiting = arrow_schema().empty_table()
    for file, table in traces.tables():
        read.append(file)
        waiting = pa.concat_tables([waiting, table])
        while waiting.num_rows >= rows:
            yield waiting.slice(0, rows)
            waiting = waiting.slice(rows)
    if waiting.num_rows:
        yield waiting


def _write(file: Any, table: pa.Table) -> None:
    pq.write_table(table, file, compression="zstd", store_schema=False)


def _check_is_apart(traces: Traces, out: str | Path) -> None:
    """New files among the originals would be read together with them."""
    one, two = _absolute(traces.path), _absolute(str(out))
    if one.startswith(two) or two.startswith(one):
        raise InvalidOption("--out", str(out), "a folder apart from the traces, not above or below them")


def _absolute(path: str) -> str:
    return f"{path.rstrip('/') if '://' in path else Path(path).absolute()}/"


def _check_is_whole(done: Compacted, out: str | Path) -> None:
    """Read again what was written. Raises CompactionFailed."""
    written = Traces(out)
    written.files = [each for each in written.files if each.name in done.files]
    rows = sum(table.num_rows for _, table in written.tables())
    if rows != done.rows or written.damaged:
        raise CompactionFailed(f"{out}: {rows} of {done.rows} rows can be read again; nothing was removed")
