"""``inorder status``: the owners of the stages, the standbys, and how far these are behind."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.failures import ExitCode, needs

if TYPE_CHECKING:
    from inorder_worker.store.overview import Overview

COLOURS = {"active": "green", "standby": "cyan", "suspect": "yellow", "free": "yellow", "dead": "red"}


def status(
    store: options.Store = None,
    lease: Annotated[
        float | None, typer.Option(min=0.2, metavar="SECONDS", help="How long silent workers are watched (2).")
    ] = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show the stages of a store with their owners and epochs, and all workers: active, standby, suspect or dead.

    It is what a standby sees in the store. Nothing is written, and no worker is asked. Exit codes: 0 every stage has an
    owner that lives, 1 one has not (or there is no stage, no store, or an older copy of one), 2 wrong usage.
    """
    found = look(config, store, lease)
    is_ok = not found.outdated and bool(found.stages) and all(each.state == "active" for each in found.stages)
    if json:
        output.emit({"ok": is_ok, **asdict(found)})
    else:
        _print(found)
    return ExitCode.OK if is_ok else ExitCode.FAILED


def look(config: Path | None, store: str | None, lease: float | None) -> Overview:
    """Look at a store. Raises MissingExtra and StoreErrors."""
    with needs("worker", "a look at the store"):
        from inorder_worker.store.overview import overview
    loaded = options.settings(config, worker={"lease": lease}, store={"url": store})
    with loaded.located("store"):
        return overview(loaded.settings.store.url, loaded.settings.worker.lease)


def _print(found: Overview) -> None:
    from rich.markup import escape

    console = output.console()
    if found.outdated:
        reason = f"{found.outdated}; see inorder renew --help"
        console.print(f"[red]the store is an older copy of itself[/]: {escape(reason)}", soft_wrap=True)
    for stage in found.stages:
        who = f"{stage.owner} at {stage.address}" if stage.owner else "nobody"
        facts = f"epoch {stage.epoch}, row {stage.row}"
        console.print(f"stage {stage.stage}: {_shown(stage.state)} {escape(who)}, {facts}", soft_wrap=True)
    print_workers(found)


def print_workers(found: Overview) -> None:
    """Print the workers, a line each."""
    from rich.markup import escape

    console = output.console()
    for worker in found.workers:
        has = f", stage {' and '.join(map(str, worker.stages))}" if worker.stages else ""
        drained = ", drained" if worker.is_drained else ""
        pins = f", pinned to {' and '.join(map(str, worker.pins))}" if worker.pins else ""
        behind = "".join(f", {rows} rows behind on stage {stage}" for stage, rows in sorted(worker.lag.items()))
        facts = f"{worker.owner} at {worker.address}{has}{pins}{drained}{behind}"
        console.print(f"worker: {_shown(worker.state)} {escape(facts)}", soft_wrap=True)


def _shown(state: str) -> str:
    colour = COLOURS.get(state, "default")
    return f"[{colour}]{state}[/]"
