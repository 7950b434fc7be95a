"""``inorder analytics``: the stored runs of analyses; it asks no worker and no control plane."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import options, output
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.schedules import plain_job, schedules
from inorder_cli.stores import WHO, audited, opened_store, utc_text

if TYPE_CHECKING:
    from inorder_worker.store.analyses import Run

analytics = options.group(
    name="analytics",
    help="Show, cancel and remove runs of analyses over traces, and say when which are due. Works on the store itself; "
    "control planes on it run what is due or asked for. To run one here: inorder analyze --store URL.",
)
"""The group of these commands."""
analytics.add_typer(schedules)

WHAT = "the runs of a store"


class Outcome(StrEnum):
    """The outcome of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id, as inorder analytics runs shows it.")]


@analytics.command()
def runs(
    run: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this run, with its result and the end of its log.")
    ] = None,
    outcome: Annotated[Outcome | None, typer.Option(help="Only runs with this outcome.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, the newest first.")] = 20,
    log: Annotated[bool, typer.Option("--log", help="Of one run: print its log on stdout, and nothing else.")] = False,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show the runs of analyses, the newest first."""
    from inorder_worker.store.analyses import Analyses

    if log and run is None:
        raise typer.BadParameter("--log is for one run: name its ID")
    with opened_store(config, store, WHAT) as opened:
        found = Analyses(opened)
        if run is not None:
            return _show(found.get(run), found.result(run), found.log(run) or "", run, is_log=log, is_json=json)
        listed = [each for each in found.list() if outcome in (None, each.outcome)]
    for each in listed[:limit]:
        output.tell(plain(each), _text(each), is_json=json)
    if not listed and not json:
        output.say("there are no runs" if outcome is None else f"no run is {outcome}")
    return ExitCode.OK


@analytics.command()
def cancel(
    run: RunId,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Cancel a run: a waiting one ends at once, a running one within a few seconds."""
    from inorder_worker.store.analyses import OPEN, Analyses

    with opened_store(config, store, WHAT) as opened:
        before = Analyses(opened).get(run)
        if before is None:
            raise _unknown(run)
        if before.outcome not in OPEN:
            raise CommandFailed(f"run {run} has ended: it is {before.outcome}")
        with audited(opened, "analysis.cancel", run):
            found = Analyses(opened).cancel(run, WHO)
    assert found is not None
    output.tell(plain(found), _text(found), is_json=json)
    return ExitCode.OK


@analytics.command()
def remove(
    run: RunId,
    store: options.Store = None,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Delete a run that has ended, with its result and log. What it wrote elsewhere stays."""
    from inorder_worker.store.analyses import OPEN, Analyses

    with opened_store(config, store, WHAT) as opened:
        found = Analyses(opened).get(run)
        if found is None:
            raise _unknown(run)
        if found.outcome in OPEN:
            raise CommandFailed(f"run {run} is {found.outcome}; cancel it first: inorder analytics cancel {run}")
        with audited(opened, "analysis.remove", run, {"source": found.job.source}):
            Analyses(opened).remove(run)
    output.say("done")
    return ExitCode.OK


def plain(run: Run) -> dict[str, Any]:
    """Return a run in plain JSON types, for this command and the API."""
    return {
        "id": run.id, "kind": run.job.kind, "source": run.job.source, "job": plain_job(run.job),
        "schedule": run.schedule, "by": run.by, "queued_at": utc_text(run.queued_ms),
        "started_at": utc_text(run.started_ms), "ended_at": utc_text(run.ended_ms), "outcome": run.outcome,
        "reason": run.reason or None, "cancelled_by": run.cancelled_by, "owner": run.owner or None,
        "progress": run.progress and run.progress._asdict(), "summary": run.summary,
    }  # fmt: skip


def _show(run: Run | None, result: Any, log: str, id_: str, *, is_log: bool, is_json: bool) -> int:
    if run is None:
        raise _unknown(id_)
    if is_log:
        sys.stdout.write(log)
    elif is_json:
        output.emit({**plain(run), "result": result, "log": log})
    else:
        output.say(output.printable(_text(run)))
        for name, value in (run.summary or {}).items():
            if not isinstance(value, dict):
                output.say(output.printable(f"  {name}: {value}"))
        for line in log.splitlines()[-10:]:
            output.say(output.printable(f"  | {line}"))
    return ExitCode.OK


def _text(run: Run) -> str:
    parts = [f"{run.id}: {run.job.source}, {run.outcome}"]
    if run.reason:
        parts.append(run.reason)
    if run.outcome == "running" and run.progress is not None:
        parts.append(f"{run.progress.step}/{run.progress.of} {run.progress.what}")
    if run.outcome == "running" and run.cancelled_by is not None:
        parts.append(f"to be ended by {run.cancelled_by}")
    if run.started_ms is not None and run.ended_ms is not None:
        parts.append(f"{(run.ended_ms - run.started_ms) / 1000:.1f} s")
    return ", ".join([*parts, f"by {run.by}", f"asked for at {utc_text(run.queued_ms)}"])


def _unknown(run: str) -> CommandFailed:
    return CommandFailed(f"there is no run with the id {run!r}; inorder analytics runs shows all")
