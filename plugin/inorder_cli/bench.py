"""``inorder bench``: the cost of order on this machine, beside the alternatives."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder.signals import may_hang_up
from inorder_cli import options, output
from inorder_cli.entry import version
from inorder_cli.failures import CommandFailed, ExitCode, needs

if TYPE_CHECKING:
    from inorder_bench import Result, Size

NAMES = tuple(f"W{number}" for number in range(1, 10))


def _names(given: Sequence[str] | None) -> list[str]:
    if unknown := [name for name in given or () if name.upper() not in NAMES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: allowed are {', '.join(NAMES)}", param_hint="WORKLOAD")
    return list(dict.fromkeys(name.upper() for name in given or NAMES))


def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help=f"Which of {', '.join(NAMES)}; all, if none is named."),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(
            min=100,
            max=10_000_000,
            metavar="N",
            help="Events of a throughput run (20000); other workloads take a share.",
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=1000, metavar="N", help="How often each contender runs (5).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", "--brief", help="1000 events, once: to see that it runs. Figures say little.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append what was measured, with date, version and machine: a line of JSON."),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Measure what order costs: inorder beside bare clients, streams and servers that do as little as can be done.

    W1 throughput of two publishers and two subscribers; W2 latency at 200 events/s; W3 16 topics that all overlap; W4
    1,000 topics and 100 subscribers; W5 a stage alone; W6 the ordering module alone; W7 three stages on three workers;
    W8 take-over under load; W9 10 to 10,000 topics under wildcards. Brokers and databases are started for the purpose,
    and gone afterwards. Every workload checks that all events came, and in one order. With --json each workload is a
    line.

    Exit codes: 0 measured (whatever the figures), 1 a run failed or a server is missing, 2 wrong usage.
    """
    names = _names(workloads)
    with needs("bench", "a benchmark"):
        from inorder_bench import QUICK, WORKLOADS, Size, append, check_writable, plain, show
    size = _size(QUICK if quick else Size(), events, repeats)
    if history is not None:
        check_writable(history)
    measured: list[dict[str, Any]] = []
    with _terminable():
        for name in names:
            output.say(f"{name}: {WORKLOADS[name].title}")
            result = WORKLOADS[name].measure(size, partial(_say, name))
            found = {"workload": name, "title": WORKLOADS[name].title, "rows": [plain(row) for row in result.rows]}
            measured.append(found | {"left_out": result.left_out})
            if json:
                output.emit(measured[-1])
            else:
                show(result.rows, output.wide_console())
                _tell_left_out(result)
    if history is not None:
        run = {"version": version(), "events": size.events, "repeats": size.repeats, "workloads": measured}
        append(history, run)
    return ExitCode.OK


def _size(usual: Size, events: int | None, repeats: int | None) -> Size:
    from dataclasses import replace

    return replace(usual, events=events or usual.events, repeats=repeats or usual.repeats)


def _say(workload: str, line: str) -> None:
    output.say(f"{workload}: {line}")


def _tell_left_out(result: Result) -> None:
    for name, why in result.left_out.items():
        output.say(f"left out: {name}: {why}")


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into errors in this block, so that started processes end too."""

    def stop(number: int, frame: object) -> None:
        raise CommandFailed("", ExitCode.TERMINATED)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if may_hang_up() else [])]
    before = [(number, signal.signal(number, stop)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
