"""All commands of the command line, and the end of each run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from inorder_cli import failures, options, output
from inorder_cli.analytics import analytics
from inorder_cli.analyze import analyze
from inorder_cli.backup import backup, renew, restore
from inorder_cli.bench import bench
from inorder_cli.check import check
from inorder_cli.config import config
from inorder_cli.controlplane import controlplane
from inorder_cli.demo_command import demo
from inorder_cli.entry import version
from inorder_cli.events import events
from inorder_cli.failures import ExitCode
from inorder_cli.gaps import gaps
from inorder_cli.log import log
from inorder_cli.order import order
from inorder_cli.pub import pub
from inorder_cli.replay import replay
from inorder_cli.report import report
from inorder_cli.status import status
from inorder_cli.sub import sub
from inorder_cli.subscriptions import subscriptions
from inorder_cli.tokens import tokens
from inorder_cli.topics import topics
from inorder_cli.traces import traces
from inorder_cli.traces_making import compact, generate
from inorder_cli.up import up
from inorder_cli.verify import verify
from inorder_cli.worker import worker
from inorder_cli.workers import workers

EPILOG = """\
Settings come from flags, then INORDER_* variables (INORDER_WORKER__PORT), then inorder.toml, then defaults;
**inorder config** shows each with its origin.

Exit codes: 0 done; 1 failed (unreachable, refused, or the demo saw a wrong order); 2 wrong usage or settings;
3 nothing was there to be judged;
124 not done within -W seconds; 130 stopped by Ctrl-C; 141 the reader of the output went away; 143 stopped by SIGTERM.
"""

app = typer.Typer(
    name="inorder",
    help="One total order for MQTT and Redis pub/sub: every subscriber sees the same order.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    up,
    worker,
    controlplane,
    pub,
    sub,
    replay,
    check,
    status,
    verify,
    backup,
    restore,
    renew,
    config,
):
    app.command()(command)
app.command()(analyze)
app.command()(report)
app.command()(bench)
for group in (topics, order, log, subscriptions, events, gaps):
    app.add_typer(group)
app.add_typer(tokens)
app.add_typer(workers)
traces.command()(generate)
traces.command()(compact)
app.add_typer(traces)
app.add_typer(analytics)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"inorder {version()}")
        raise typer.Exit


@app.callback()
def _inorder(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code. Nothing but a wish to exit passes through."""
    options.debugging = False
    try:
        code = app(args=list(arguments), prog_name="inorder", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(ExitCode.FAILED)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError):
            output.discard()
        return failures.report(error, debug=options.debugging)
