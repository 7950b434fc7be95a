"""``inorder traces generate`` and ``compact``: generated traces with known truth, and small files merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.failures import ExitCode
from inorder_cli.traces import Path, loaded, opened, say_damaged

if TYPE_CHECKING:
    from types import ModuleType

MOST = 10**12
Count = Annotated[int, typer.Option(min=1, max=10**8, metavar="N", help="Rows of a file, at most.")]


def _maker() -> ModuleType:
    from inorder_analytics import making

    return making


def generate(
    out: Annotated[str, typer.Argument(metavar="OUT", help="A folder without traces, or a URL.")],
    events: Annotated[int, typer.Option(min=1, max=MOST, metavar="N", help="Events, of all runs together.")] = 10_000,
    subscribers: Annotated[
        int, typer.Option(min=1, max=99_999, metavar="K", help="Subscribers, all of all topics.")
    ] = 2,
    topics: Annotated[int, typer.Option(min=1, max=100_000, metavar="T", help="Topics, of falling popularity.")] = 10,
    disorder: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Share of arrivals that are displaced."),
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="S", help="It decides all.")] = 0,
    runs: Annotated[int, typer.Option(min=1, max=MOST, metavar="R", help="Runs to make.")] = 1,
    late: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of late events; subscribers are bounded then.")
    ] = 0.0,
    loss: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of events that never arrive, told as gaps.")
    ] = 0.0,
    violations: Annotated[
        int, typer.Option(min=0, max=MOST, metavar="V", help="Pairs of events that one subscriber gets in wrong order.")
    ] = 0,
    rows_per_file: Annotated[
        int, typer.Option(min=1, max=10**8, metavar="N", help="Rows of a file, at most.")
    ] = 250_000,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Make traces of any size, with what is true of them in OUT/_truth.json: inversions, latency, gaps, violations.

    As if clients had recorded them: popular topics on high stages, dependencies, clocks that differ. What is delivered
    is in one order but for the violations. 10 million rows take less than a minute on two processors.
    """
    making = loaded("making traces", _maker)
    from inorder_analytics.generating import Plan

    plan = Plan(events, subscribers, topics, disorder, seed, runs, late, loss, violations)
    truth = making.generate(out, plan, rows_per_file=rows_per_file)
    if json:
        output.emit(truth)
    else:
        about = f"{truth['rows']} rows in {truth['files']} files; {making.TRUTH} there says what is true of them"
        output.write(output.printable(f"{out}: {about}"))
    return ExitCode.OK


def compact(
    path: Path,
    out: Annotated[str, typer.Option("--out", metavar="OUT", help="Where to, apart from PATH: a folder or a URL.")],
    rows_per_file: Annotated[
        int, typer.Option(min=1, max=10**8, metavar="N", help="Rows of a file, at most.")
    ] = 1_000_000,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what was merged, when all new files have been read again.")
    ] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Merge small files into full ones. A manifest lists what they were made of; nothing is removed unless asked for.

    Damaged files are named and stay. Do it for runs that are over: what a client writes later is not in it.
    """
    found = opened(path)
    from inorder_analytics.compacting import compact as merge

    done = merge(found, out, rows_per_file=rows_per_file, remove=remove)
    if json:
        output.emit(done.to_plain())
    else:
        about = f"{done.rows} rows of {len(done.sources)} files in {len(done.files)} files"
        also = f"; {done.passed} files were merged before" if done.passed else ""
        output.write(output.printable(f"{out}: {about}; {done.removed} originals were removed{also}"))
        say_damaged(done.damaged)
    return ExitCode.OK
