"""``inorder report``: an analysis as one HTML file to keep, send or print."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import EISDIR
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from inorder.errors import InvalidOption
from inorder.scratch import unfinished
from inorder_cli import options, output
from inorder_cli.failures import ExitCode, needs

if TYPE_CHECKING:
    from inorder_analytics.reading import Traces
    from inorder_analytics.results import Result

TRACES = "Traces"


def report(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Traces (a folder, a file, or a URL such as s3://bucket/traces), the folder that inorder analyze "
            "wrote to, or its result as JSON.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file; one that is there is replaced.")
    ] = Path("inorder-report.html"),
    title: Annotated[str, typer.Option(metavar="TEXT", help="What stands on top.")] = "Order of events",
    window: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", rich_help_panel=TRACES, help="Length of a time window.")
    ] = 60.0,
    max_pairs: Annotated[
        int,
        typer.Option(min=1, metavar="N", rich_help_panel=TRACES, help="Pairs of subscribers compared in one run."),
    ] = 200,
    seed: Annotated[
        int, typer.Option(metavar="N", rich_help_panel=TRACES, help="Of the sample, where there are more pairs.")
    ] = 0,
    debug: options.Debug = False,
) -> int:
    """Write the report of an analysis: one HTML file that needs no network and runs nothing, in light and dark.

    Traces are analysed in this process, which is quick as long as they fit into memory; analyse larger ones with
    **inorder analyze PATH --out FOLDER** first and make the report of FOLDER.

    Exit codes: 0 written (whatever it says), 1 it could not be made, 2 wrong usage.
    """
    if not math.isfinite(window):
        raise InvalidOption("--window", window, "seconds, from 0.001 on")
    with needs("analytics", "a report"):
        from inorder_analytics.report import render, result_of

    def measured(traces: Traces) -> Result:
        from inorder_analytics.plain import measure

        return measure(traces, window_s=window, max_pairs=max_pairs, seed=seed)

    with _whole(out) as file:
        file.write(render(result_of(path, measured), title).encode())
    output.say(f"the report is in {output.printable(str(out))}")
    return ExitCode.OK


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Write a file whole or not at all. Raises InvalidOption, before anything is computed, where it cannot be."""
    with ExitStack() as stack:
        try:
            if path.is_dir():
                raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
            file = stack.enter_context(unfinished(path))
        except OSError as error:
            allowed = f"a file that can be written, in a folder that exists ({error.strerror})"
            raise InvalidOption("--out", str(path), allowed) from None
        yield file
