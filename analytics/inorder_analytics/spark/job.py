"""An analysis from the traces to the result: ``inorder analyze``, and the same by ``spark-submit``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from inorder.errors import InorderError, InvalidOption, UsageError
from inorder.scratch import SCRATCH, Scratch
from inorder.traces.schema import SCHEMA_VERSION
from inorder_analytics import parts as putting
from inorder_analytics import results
from inorder_analytics.reading import Traces
from inorder_analytics.results import Damaged, Files, Result
from inorder_analytics.spark.session import open_session
from inorder_analytics.spark.store import Manifest, Settings, Store
from inorder_analytics.spark.tables import write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS: Final = 6
"""How many steps a run has; ``on_progress`` is told each."""

Progress = Callable[[int, int, str], None]
"""Called with the number of the step that begins, how many there are, and what it is, in words."""


@dataclass(frozen=True)
class Job:
    """The traces to analyse, and the options.

    Attributes:
        path: folder, file or fsspec URL of traces.
        out: folder of the analysis, kept from run to run; ``None``: one that is removed at the end.
        run: of this run id only, in a result of its own; the folder still gets all.
        window_s: length of a time window, in seconds.
        max_pairs, seed: how many pairs of subscribers of a run are compared at most, and which.
        full: compute everything anew.
        master: of Spark; ``None``: ``local[*]``, or what ``spark-submit`` was told.
    """

    path: str
    out: str | None = None
    run: str | None = None
    window_s: float = 60.0
    max_pairs: int = 200
    seed: int = 0
    full: bool = False
    master: str | None = None

    def __post_init__(self) -> None:
        if not 0.001 <= self.window_s <= 10**9:
            raise InvalidOption("--window", self.window_s, "seconds, from 0.001 up")
        if self.max_pairs < 0:
            raise InvalidOption("--max-pairs", self.max_pairs, "0 or more")


def run(job: Job, *, session: SparkSession | None = None, on_progress: Progress | None = None) -> Result:
    """Analyse traces and return the result, which is also written to the folder of the analysis.

    Args:
        session: one that is open already; else one is started, and stopped at the end.
        on_progress: is told of each step that begins.

    Raises:
        InvalidOption: there is no such path, folder or master.
        UsageError: the folder has an analysis of other traces, or no row is of the run that was asked for.
        JavaNeeded, WrongPython, MissingExtra, Busy: see there.
    """
    traces = Traces(job.path)
    count = 0

    def say(what: str) -> None:
        nonlocal count
        count += 1
        if on_progress is not None:
            on_progress(count, STEPS, what)

    with _folder(job.out) as out, Store(out, job.path) as store, _session(session, job.master) as spark:
        return _run(job, traces, store, spark, say)


def _run(job: Job, traces: Traces, store: Store, session: SparkSession, say: Callable[[str], None]) -> Result:
    from inorder_analytics.spark.analysis import analyse, by_generation, ranks_of
    from inorder_analytics.spark.ingest import ingest
    from inorder_analytics.spark.schema import read_rows

    settings = Settings(job.window_s, job.max_pairs, job.seed, SCHEMA_VERSION, results.VERSION)
    manifest = store.load(settings, full=job.full)
    say(f"reading {len(traces.files)} files")
    changed = ingest(session, store, manifest, traces)
    runs = sorted({run for part in manifest.parts.values() for run in part.runs})
    manifest.facts = {run: at for run, at in manifest.facts.items() if run in runs and run not in changed}
    todo = [run for run in runs if run not in manifest.facts]
    if todo:
        holding = [name for name, part in manifest.parts.items() if not set(todo).isdisjoint(part.runs)]
        rows = read_rows(session, [store.rows / name for name in sorted(holding)])
        if any(not set(manifest.parts[name].runs) <= set(todo) for name in holding):
            rows = rows.where(rows.run.isin(todo))
        folder = store.generation(manifest.generation)
        computed = analyse(
            session,
            rows,
            folder / "events",
            window_s=job.window_s,
            max_pairs=job.max_pairs,
            seed=job.seed,
            say=say,
        )
        store.write(folder / "runs.json", msgspec.json.encode({part.run: part for part in computed}))
        manifest.facts |= dict.fromkeys(todo, manifest.generation)
    say("putting the runs together")
    kept = by_generation(manifest.facts, runs)
    parts = _parts(store, kept)
    if len(parts) == 1:
        ranks = parts[0].ranks
    elif parts:
        tables = [session.read.parquet(str(store.generation(at) / "events")) for at in kept]
        tables = [table.where(table.run.isin(names)) for table, names in zip(tables, kept.values(), strict=True)]
        together = tables[0]
        for table in tables[1:]:
            together = together.unionByName(table)
        ranks = ranks_of(together)
    else:
        ranks = putting.Ranks()
    result = _result(job, traces, manifest, parts, ranks)
    write_tables(store, result, parts)
    store.write(store.folder / "result.json", results.encode(result))
    store.commit(manifest)
    return result if job.run is None else _of_run(job, traces, manifest, parts)


def _parts(store: Store, kept: dict[int, list[str]]) -> list[putting.RunPart]:
    found: dict[str, putting.RunPart] = {}
    for generation, names in kept.items():
        data = (store.generation(generation) / "runs.json").read_bytes()
        every = msgspec.json.decode(data, type=dict[str, putting.RunPart])
        found |= {run: every[run] for run in names}
    return [found[run] for run in sorted(found)]


def _result(
    job: Job, traces: Traces, manifest: Manifest, parts: Sequence[putting.RunPart], ranks: putting.Ranks
) -> Result:
    read = [source for source in manifest.sources.values() if not source.reason]
    files = Files(
        read=len(read),
        bytes=sum(source.bytes for source in read),
        damaged=[
            Damaged(file=each.file, reason=manifest.sources[each.name].reason)
            for each in traces.files
            if manifest.sources[each.name].reason
        ],
    )
    return putting.together(
        parts,
        ranks,
        path=job.path,
        rows=sum(source.rows for source in read),
        window_s=job.window_s,
        files=files,
        limit=job.max_pairs,
        seed=job.seed,
    )


def _of_run(job: Job, traces: Traces, manifest: Manifest, parts: Sequence[putting.RunPart]) -> Result:
    asked = [part for part in parts if part.run == job.run]
    if not asked:
        known = ", ".join(repr(part.run) for part in parts[:10]) or "none"
        raise UsageError(f"no row is of the run {job.run!r}; runs are: {known}")
    return _result(job, traces, manifest, asked, asked[0].ranks)


@contextlib.contextmanager
def _folder(out: str | None) -> Iterator[str]:
    if out is not None:
        yield out
        return
    temporary = Scratch(SCRATCH)
    try:
        yield str(temporary.path)
    finally:
        temporary.remove()


@contextlib.contextmanager
def _session(session: SparkSession | None, master: str | None) -> Iterator[SparkSession]:
    if session is not None:
        yield session
        return
    opened = open_session(master)
    try:
        yield opened
    finally:
        opened.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an analysis from a command line without typer, as on a cluster; print the result as JSON."""
    parser = argparse.ArgumentParser(prog="python -m inorder_analytics.spark.job", description=__doc__)
    parser.add_argument("path", metavar="PATH", help="folder, file or fsspec URL of traces")
    parser.add_argument(
        "--out", required=True, help="folder of the analysis, the same for the driver and all executors"
    )
    parser.add_argument("--run", help="of this run id only")
    parser.add_argument("--window", type=float, default=Job.window_s, help="length of a time window in seconds")
    parser.add_argument("--max-pairs", type=int, default=Job.max_pairs, help="pairs of subscribers compared per run")
    parser.add_argument("--seed", type=int, default=Job.seed, help="of the sample of pairs")
    parser.add_argument("--master", help="of Spark; spark-submit says it otherwise")
    parser.add_argument("--full", action="store_true", help="compute everything anew")
    given = parser.parse_args(arguments)
    job = Job(given.path, given.out, given.run, given.window, given.max_pairs, given.seed, given.full, given.master)
    try:
        result = run(job, on_progress=lambda step, of, what: _say(f"[{step}/{of}] {what}"))
    except InorderError as error:
        _say(f"error: {' '.join(str(error).split())}")
        return 2 if isinstance(error, UsageError) else 1
    sys.stdout.write(json.dumps(results.to_plain(result), ensure_ascii=False) + "\n")
    return 0 if result.rows else 3


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
