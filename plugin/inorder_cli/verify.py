"""``inorder verify``: a check that everything in the store is still as it was written."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.failures import ExitCode, needs

if TYPE_CHECKING:
    from inorder_worker.store.verification import Report


def verify(
    store: options.Store = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long a lock is waited for.")] = 10.0,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Check every row of a store: hash chains of the journals, snapshots, event logs, stages, meta. Changes nothing.

    Workers may run meanwhile; they do not wait for it. Each problem is named with its table, stage and row. Exit codes:
    0 all is well, 1 something is not (or there is no store, or it is of another release), 2 wrong usage.
    """
    with needs("worker", "a look at the store"):
        from inorder_worker.store.verification import verify as verify_store
    loaded = options.settings(config, store={"url": store})
    with loaded.located("store"):
        report = verify_store(loaded.settings.store.url, timeout=timeout)
    if json:
        output.emit(_plain(report))
    else:
        _print(report)
    return ExitCode.OK if report.is_ok else ExitCode.FAILED


def _plain(report: Report) -> dict[str, object]:
    return {
        "ok": report.is_ok,
        "store": report.url,
        "domain": report.domain,
        "stages": [asdict(stage) for stage in report.stages],
        "logs": [{"topic": topic, "events": count} for topic, count in report.logs.items()],
        "problems": [asdict(problem) for problem in report.problems],
    }


def _print(report: Report) -> None:
    from rich.markup import escape

    console = output.console()
    damaged = {problem.stage for problem in report.problems}
    for stage in report.stages:
        mark = "[red]failed [/]" if stage.stage in damaged else "[green]ok     [/]"
        rows = f"rows {stage.first} to {stage.last}" if stage.last else "no rows yet"
        after = f", snapshots after {', '.join(map(str, stage.snapshots))}" if stage.snapshots else ""
        console.print(f"{mark} stage {stage.stage}: epoch {stage.epoch}, {rows}{after}")
    for topic, count in report.logs.items():
        console.print(f"       event log of topic {topic}: {count} events")
    for problem in report.problems:
        console.print(f"[red]problem[/] {escape(problem.detail)}")
    verdict = "all is well" if report.is_ok else f"{len(report.problems)} problem(s)"
    console.print(f"{escape(report.url)}: {verdict}")
