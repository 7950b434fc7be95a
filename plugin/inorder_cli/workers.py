"""``inorder workers``: the workers and their stages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.status import look, print_workers

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded

workers = options.group(
    name="workers",
    help="Show the workers of a store, drain one before it is stopped, and move stages; nobody notices but by a pause "
    "of milliseconds.",
)
"""The group of these commands."""

UNSURE = "it goes on, and inorder workers list shows how far it is"

Owner = Annotated[str, typer.Argument(metavar="OWNER", help="The worker, as inorder workers list names it.")]
Wait = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long it may take until it is done; 0: just ask.")
]


@workers.command("list")
def list_all(
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show all workers as inorder status does: active, standby, suspect or dead, and what they have."""
    found = look(config, store, None)
    if json:
        for each in found.workers:
            output.emit(asdict(each))
    else:
        print_workers(found)
    return ExitCode.OK


@workers.command()
@takes_settings(WORKERS)
def drain(
    owner: Owner,
    undo: Annotated[bool, typer.Option("--undo", help="Let it take stages again.")] = False,
    wait: Wait = 30.0,
    timeout: options.Timeout = 60.0,
    *,
    loaded: Loaded,
) -> int:
    """Let a worker hand over all its stages and take none, until it is started again or the drain is undone.

    Refused where nobody else may have one of them. Exit codes: 0 it has no stage any more, 1 refused, 2 wrong usage,
    124 not done within --wait seconds; what was begun goes on.
    """
    talk(lambda each: each.drain(owner, is_on=not undo, wait_s=wait), loaded, timeout, UNSURE)
    output.say("it takes stages again" if undo else "it has no stage any more" if wait else "it hands its stages over")
    return ExitCode.OK


@workers.command()
@takes_settings(WORKERS)
def move(
    stage: Annotated[int, typer.Argument(min=0, metavar="STAGE", help="0 is the top one.")],
    owner: Owner,
    wait: Wait = 30.0,
    timeout: options.Timeout = 60.0,
    *,
    loaded: Loaded,
) -> int:
    """Let a worker have a stage. It is pinned to what it has then, until it is started again or that is moved away.

    Exit codes: 0 it has the stage, 1 refused, 2 wrong usage, 124 not done within --wait seconds; what was begun
    goes on.
    """
    talk(lambda each: each.move_stage(stage, owner, wait_s=wait), loaded, timeout, UNSURE)
    output.say(f"stage {stage} is there" if wait else f"stage {stage} is on its way")
    return ExitCode.OK
