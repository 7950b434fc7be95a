"""``inorder order``: show the topic order, change it, pin topics to their stages (R14, R15)."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.naming import ids_of

if TYPE_CHECKING:
    from inorder.protocol.wire import TopicOrder
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Automatic, Cluster

order = options.group(
    name="order",
    help="Show and change the topic order while everything runs.",
)
"""The group of these commands."""

UNSURE = "whether the order changed shows: inorder order show"
"""What to say where no answer came in time."""


@order.command()
@takes_settings(WORKERS)
def show(
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show the topics of each stage, the highest first. What --json prints, **set** takes."""
    now = talk(lambda cluster: cluster.order(), loaded, timeout, UNSURE)
    if json:
        output.emit({"order_epoch": now.order_epoch, "stages": _named(now), "pinned": _pinned(now)})
    else:
        _print(now)
    return ExitCode.OK


@order.command("set")
@takes_settings(WORKERS)
def set_order(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON: a list of space:topic for each stage, from the top; - is stdin."),
    ],
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Change the whole order. Topics not named stay in their stage, behind those that are."""
    wanted = _read(file)

    async def change(cluster: Cluster) -> int:
        now = await cluster.order()
        return await cluster.change(now.order_epoch + 1, [ids_of(now, stage) for stage in wanted])

    return _changed(talk(change, loaded, timeout, UNSURE), json)


@order.command()
@takes_settings(WORKERS)
def automatic(
    window: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Count events over so long, again and again; 0: stop it."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0, metavar="N", help="The greater, the fewer events make a topic popular (0.1).")
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="N", help="How much more popular to change places, 0 to below 1 (0.2)."),
    ] = None,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Let topics change places by themselves, the popular ones up; without options, show whether they do.

    It lasts, and goes before the workers' settings.
    """

    async def change(cluster: Cluster) -> Automatic:
        now = await cluster.automatic()
        given = {"window_s": window, "alpha": alpha, "beta": beta}
        wanted = replace(now, **{key: value for key, value in given.items() if value is not None})
        if wanted != now:
            await cluster.set_automatic(wanted)
        return wanted

    found = talk(change, loaded, timeout, "inorder order automatic shows whether it changed")
    if json:
        output.emit({"on": found.is_on, **asdict(found)})
    else:
        output.say(f"every {found.window_s:g} s, alpha {found.alpha:g}, beta {found.beta:g}" if found.is_on else "off")
    return ExitCode.OK


@order.command()
@takes_settings(WORKERS)
def move(
    topics: options.Topics,
    stage: Annotated[int, typer.Option("--stage", "-s", min=0, help="The stage they move to; 0 is the top.")] = 0,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Move topics to a stage, in front of those that are there."""

    async def change(cluster: Cluster) -> int:
        now = await cluster.order()
        if stage >= now.stages:
            allowed = f"0 to {now.stages - 1}: there are {now.stages} stages"
            raise CommandFailed(f"--stage {stage} is not allowed; {allowed}", ExitCode.USAGE)
        stages: list[list[int]] = [[] for _ in range(now.stages)]
        stages[stage] = ids_of(now, topics)
        return await cluster.change(now.order_epoch + 1, stages)

    return _changed(talk(change, loaded, timeout, UNSURE), json)


@order.command()
@takes_settings(WORKERS)
def pin(
    topics: options.Topics,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Keep topics on their stage, whatever their popularity."""
    return _changed(talk(lambda each: _pin(each, topics, True), loaded, timeout, UNSURE), json)


@order.command()
@takes_settings(WORKERS)
def unpin(
    topics: options.Topics,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Release pinned topics."""
    return _changed(talk(lambda each: _pin(each, topics, False), loaded, timeout, UNSURE), json)


async def _pin(cluster: Cluster, topics: list[str], is_pinned: bool) -> int:
    return await cluster.pin(ids_of(await cluster.order(), topics), is_pinned=is_pinned)


def _changed(order_epoch: int, as_json: bool) -> int:
    if as_json:
        output.emit({"order_epoch": order_epoch})
    else:
        output.say(f"done; the order epoch is {order_epoch}")
    return ExitCode.OK


# -- topics ----------------------------------------------------------------------------------------------------------


def _named(now: TopicOrder) -> list[list[str]]:
    return [[info.label for info in topics] for topics in now.by_stage()]


def _pinned(now: TopicOrder) -> list[str]:
    return [info.label for info in now.topics if info.id in now.pinned]


def _read(file: Path) -> list[list[str]]:
    """Read the new order: plain lists, or the output of ``show --json``."""
    try:
        value = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{file} cannot be read as JSON ({error})", ExitCode.USAGE) from None
    stages: Any = value.get("stages") if isinstance(value, dict) else value
    is_well_formed = isinstance(stages, list) and all(
        isinstance(stage, list) and all(isinstance(name, str) for name in stage) for stage in stages
    )
    if not is_well_formed:
        allowed = 'a list of space:topic for each stage, such as [["m:a"], ["m:b", "m:c"]]'
        raise CommandFailed(f"{file} does not hold {allowed}", ExitCode.USAGE)
    return cast(list[list[str]], stages)


def _print(now: TopicOrder) -> None:
    from rich.markup import escape

    console = output.console()
    for stage, names in enumerate(_named(now)):
        console.print(f"[bold]stage {stage}[/]" + ("" if names else " [dim](no topics)[/]"))
        for name in names:
            mark = " [dim](pinned)[/]" if name in _pinned(now) else ""
            console.print(f"  {escape(output.printable(name))}{mark}")
