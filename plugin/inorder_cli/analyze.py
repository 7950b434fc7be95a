"""``inorder analyze``: figures of traces, computed by Spark."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.analyze_page import show
from inorder_cli.failures import CommandFailed, ExitCode, needs
from inorder_cli.recording import Recording, Reporting, Storing

if TYPE_CHECKING:
    from inorder_analytics.spark.job import Job
    from inorder_worker.store.analyses import Analyses
    from inorder_worker.store.analyses import Job as StoredJob
    from inorder_worker.store.analyses import Run as StoredRun


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Folder of the analysis: results as JSON and Parquet, and what makes the next one quick. On a cluster "
        "all executors must have it. Without it only the result is shown.",
    ),
]
Kept = Annotated[
    str | None, typer.Option(metavar="URL", help="Keep the run in this store too, where control planes show it.")
]
Waiting = Annotated[
    str | None, typer.Option(metavar="ID", help="Do a run that waits in the store, as it says there; instead of PATH.")
]


def analyze(
    path: Annotated[
        str | None,
        typer.Argument(metavar="PATH", help="Traces: a folder, a file, or a URL such as s3://bucket/traces."),
    ] = None,
    out: Out = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Show the figures of this run alone.")] = None,
    window: Annotated[float, typer.Option(metavar="SECONDS", help="Length of a time window.")] = 60.0,
    max_pairs: Annotated[
        int, typer.Option(min=0, metavar="N", help="Pairs of subscribers compared in one run; of more a sample is.")
    ] = 200,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sample, where there are more pairs.")] = 0,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Of Spark: local[N], spark://HOST:PORT, yarn, k8s://...")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Compute all anew, not only what new files touch.")] = False,
    store: Kept = None,
    run_id: Waiting = None,
    report_fd: Annotated[int | None, typer.Option(min=3, hidden=True)] = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Measure order, latency and overhead from traces, by Spark: on this machine or on a cluster.

    With the same --out as before only new files are read and only the runs that they touch are computed; the result is
    the same as if all were. Damaged files are listed and left out. Needs Java 17 or newer. For a quick look without
    Spark: **inorder traces audit PATH**.

    Exit codes: 0 done (whatever the figures are), 1 failed, 2 wrong usage, 3 done, but there were no rows.
    """
    from inorder.errors import InvalidOption

    options.settings(config)  # wrong ones are named before Spark is started
    if not math.isfinite(window):
        raise InvalidOption("--window", window, "seconds, from 0.001 up")
    with needs("analytics", "an analysis"):
        from inorder_analytics.results import to_plain
        from inorder_analytics.spark import job as jobs
    if (path is None) == (run_id is None):
        raise typer.BadParameter("name PATH, or with --run-id a run that waits in the store")
    job = jobs.Job(path or "", None if out is None else str(out), run, window, max_pairs, seed, full, master)
    with _recorded(job, store, run_id, report_fd, config) as recording:
        result = jobs.run(_waiting(job, recording), on_progress=recording.progress)
        recording.done(result)
    if json:
        output.emit(to_plain(result))
    elif report_fd is None:
        show(result)
    if out is not None:
        output.say(f"the results are in {output.printable(str(out))}")
    if not result.rows and report_fd is None:  # for a control plane such a run is done, too
        output.say("nothing was analysed: there are no rows of traces")
        return ExitCode.UNKNOWN
    return ExitCode.OK


def _waiting(job: Job, recording: Recording) -> Job:
    """Return the job: the store's for a run that waited, else the command line's."""
    told = recording.waited
    if told is None:
        return job
    return replace(
        job, path=told.source, out=told.out, window_s=told.window_s, max_pairs=told.max_pairs, master=told.master
    )


@contextmanager
def _recorded(
    job: Job, store: str | None, run_id: str | None, report_fd: int | None, config: Path | None
) -> Iterator[Recording]:
    if store is None and run_id is None:
        recording = Recording() if report_fd is None else Reporting(report_fd)
        try:
            yield recording
        finally:
            recording.close()
        return
    from inorder_cli.stores import WHO, opened_store

    with opened_store(config, store, "a run that is kept") as opened:
        from inorder_worker.store.analyses import Analyses
        from inorder_worker.store.identity import new_owner

        kept, owner = Analyses(opened), new_owner(socket.gethostname())
        run = kept.begin(_stored_job(job), owner, WHO) if run_id is None else _claimed(kept, run_id, owner)
        stored = Storing(kept, run, has_waited=run_id is not None)
        try:
            yield stored
        except KeyboardInterrupt:
            stored.failed("it was interrupted", cancelled=True)
            raise
        except BaseException as error:
            stored.failed(str(error) or type(error).__name__)
            raise
        finally:
            stored.close()
        output.say(f"the run is kept as {stored.id}")


def _claimed(kept: Analyses, run_id: str, owner: str) -> StoredRun:
    """Claim a waiting run. Raises CommandFailed where it does not (any more)."""
    run = kept.claim(run_id, owner)
    if run is None:
        found = kept.get(run_id)
        state = "there is none with this id" if found is None else f"it is {found.outcome}"
        raise CommandFailed(f"run {run_id} does not wait: {state}")
    return run


def _stored_job(job: Job) -> StoredJob:
    from inorder_worker.store import analyses

    return analyses.Job(
        source=job.path,
        out=job.out,
        window_s=job.window_s,
        max_pairs=job.max_pairs,
        master=job.master or analyses.DEFAULT_MASTER,
    )
