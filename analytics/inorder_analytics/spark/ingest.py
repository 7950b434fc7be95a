"""Ingestion of new trace files into few files with our columns and types, on any free processor of Spark.

They are read by pyarrow and not by Spark's own reader: a damaged file is then known by name and left out as a whole,
types are brought into ours exactly as everywhere else (:mod:`inorder_analytics.columns`), and no column of a folder's
name is taken for data. Spark reads what comes out, which is of one schema.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from inorder_analytics.columns import arrow_schema
from inorder_analytics.reading import TraceFile, Traces
from inorder_analytics.spark.arrays import over_arrays
from inorder_analytics.spark.store import Manifest, Part, Source, Store, replacing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART_ROWS: Final = 1_000_000
"""Rows of an ingested file, about: files are joined until they have so many, never split."""

MANY: Final = 8
"""So many small parts are joined to one."""


class Taken(msgspec.Struct, frozen=True):
    """The outcome of one trace file: its rows, or why it was left out."""

    name: str
    rows: int = 0
    reason: str = ""


class Written(msgspec.Struct, frozen=True):
    """One ingested file; a file without rows does not count."""

    name: str
    rows: int
    runs: list[str]
    taken: list[Taken]


class Batch(msgspec.Struct):
    """The inputs of one ingested file: trace files, and smaller ingested ones."""

    name: str
    files: list[TraceFile] = msgspec.field(default_factory=list)
    parts: list[str] = msgspec.field(default_factory=list)
    rows: int = 0


def ingest(session: SparkSession, store: Store, manifest: Manifest, traces: Traces) -> set[str]:
    """Update a manifest to the present files of the path; return the runs whose rows changed.

    A file that is gone or was written anew takes back what came from it: the other files of the same part are read
    again. The manifest is changed in place and not committed.
    """
    plan, lost = _planned(manifest, traces, parallelism=session.sparkContext.defaultParallelism)
    changed = {run for part in lost.values() for run in part.runs}
    for batch, written in zip(plan, _run(session, store, traces, plan), strict=True):
        _account(manifest, batch, written)
        if batch.files:  # else rows only moved from small parts into a larger one
            changed |= set(written.runs)
    return changed


def _planned(manifest: Manifest, traces: Traces, parallelism: int) -> tuple[list[Batch], dict[str, Part]]:
    """Drop outdated entries from a manifest; return what to read and write, and the lost parts."""
    manifest.generation += 1
    present = {each.name: each for each in traces.files}
    stale = {
        name
        for name, known in manifest.sources.items()
        if name not in present or (known.bytes, known.version) != (present[name].bytes, present[name].version)
    }
    lost_names = {part for name in stale if (part := manifest.sources[name].part) is not None}
    lost = {name: manifest.parts.pop(name) for name in lost_names}
    for name, known in list(manifest.sources.items()):
        if name in stale or known.part in lost_names:
            del manifest.sources[name]
    new = copy.copy(traces)
    new.files = [each for each in traces.files if each.name not in manifest.sources]
    found = new.survey()
    versions = {each.file: each for each in new.files}
    for damaged in found.damaged:
        file = versions[damaged.file]
        manifest.sources[file.name] = Source(file.bytes, file.version, reason=damaged.reason)
    rows = [(each.file, each.rows) for each in found.files]
    size = min(PART_ROWS, max(1, sum(count for _, count in rows) // (2 * parallelism)))
    plan = _batches(manifest, rows, size)
    small = [name for name, part in manifest.parts.items() if part.rows < PART_ROWS // 4]
    if len(small) >= MANY:
        plan.append(Batch(_part_name(manifest, len(plan)), parts=small))
    return plan, lost


def _batches(manifest: Manifest, rows: Sequence[tuple[TraceFile, int]], size: int) -> list[Batch]:
    batches: list[Batch] = []
    for file, count in rows:
        if not batches or batches[-1].rows + count > size:
            batches.append(Batch(_part_name(manifest, len(batches))))
        batches[-1].files.append(file)
        batches[-1].rows += count
    return batches


def _part_name(manifest: Manifest, number: int) -> str:
    return f"p{manifest.generation:06}-{number:06}.parquet"


def _run(session: SparkSession, store: Store, traces: Traces, plan: Sequence[Batch]) -> list[Written]:
    """Write all batches, each as a task of its own."""
    if not plan:
        return []
    reader = copy.copy(traces)
    reader.files = []
    folder, batches = store.rows, list(plan)

    def write_all(numbers: pa.Array) -> pa.Array:
        written = (write(reader, folder, batches[number]) for number in numbers.to_pylist())
        return pa.array([msgspec.json.encode(each).decode() for each in written], pa.string())

    task = over_arrays(write_all, "string")
    numbers = session.range(0, len(plan), 1, numPartitions=len(plan))
    rows = numbers.select("id", task("id").alias("written")).collect()
    return [msgspec.json.decode(row.written, type=Written) for row in sorted(rows)]


def write(reader: Traces, folder: Path, batch: Batch) -> Written:
    """Read the files of a batch, one after the other, and write their whole contents as one file."""
    schema = arrow_schema()
    taken: list[Taken] = []
    runs: set[str] = set()
    rows = 0

    def add(writer: pq.ParquetWriter, table: pa.Table) -> None:
        nonlocal rows
        rows += table.num_rows
        runs.update(run or "" for run in pc.unique(table.column("run")).to_pylist())
        writer.write_table(table)

    with replacing(folder / batch.name) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for file in batch.files:
            try:
                table = reader.read(file)
            except Exception as error:
                lines = str(error).strip().splitlines()
                taken.append(Taken(file.name, reason=lines[0] if lines else type(error).__name__))
            else:
                add(writer, table)
                taken.append(Taken(file.name, table.num_rows))
        for part in batch.parts:
            with pq.ParquetFile(folder / part) as opened:
                for at in range(opened.num_row_groups):
                    add(writer, opened.read_row_group(at))
    return Written(batch.name, rows, sorted(runs), taken)


def _account(manifest: Manifest, batch: Batch, written: Written) -> None:
    for old in batch.parts:
        del manifest.parts[old]
    files = {file.name: file for file in batch.files}
    for each in written.taken:
        file = files[each.name]
        part = batch.name if each.rows else None
        manifest.sources[each.name] = Source(file.bytes, file.version, each.rows, part, each.reason)
    for name, source in list(manifest.sources.items()):
        if source.part in batch.parts:
            manifest.sources[name] = Source(source.bytes, source.version, source.rows, batch.name)
    if written.rows:
        manifest.parts[batch.name] = Part(written.rows, written.runs)
