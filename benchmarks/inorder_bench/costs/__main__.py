"""``python -m inorder_bench.costs [NAME ...] [--json] [--history FILE]``: what developers ask."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich.console import Console

from inorder.errors import InvalidOption
from inorder_bench.costs import analytics, crowd, drop_ins, growth, instructions, standstill, traces
from inorder_bench.history import append, check_writable
from inorder_bench.machine import machine
from inorder_bench.rows import Row, Say
from inorder_bench.table import show

Measure = Callable[[argparse.Namespace, Say], list[Row]]


def _traces(name: str) -> Measure:
    return lambda options, say: traces.measure(name, options.events, options.repeats, say)


BENCHMARKS: dict[str, Measure] = {
    "traces-mqtt5": _traces("mqtt5"),
    "traces-memory": _traces("memory"),
    "traces-instructions": lambda options, say: instructions.measure(min(8_000, options.events), say),
    "drop-ins": lambda options, say: drop_ins.measure(options.events, options.repeats, say),
    "growth": lambda options, say: [
        *growth.measure(options.events, options.repeats, say),
        *standstill.measure(standstill.SIZES, options.repeats, say),
        *crowd.measure(crowd.SIZES, crowd.SECONDS, say),
    ],
    "analytics": lambda options, say: analytics.measure(options.rows, max(1, options.repeats // 5), say),
}


def main() -> None:
    """Run the benchmarks that are named."""
    options = _parsed()
    console = Console(width=max(140, Console().width))
    rows: list[Row] = []
    for name in options.names or BENCHMARKS:
        measured = BENCHMARKS[name](options, _say)
        rows += measured
        if not options.json:
            show(measured, console)
    if options.history is not None:
        run = {"version": version("inorder"), "events": options.events, "repeats": options.repeats, "rows": rows}
        append(options.history, run)
    if options.json:
        print(msgspec.json.encode({"machine": machine(), "rows": rows}).decode())


def _parsed() -> argparse.Namespace:
    """Read the command line; what is wrong with it ends the process with exit code 2, before anything is measured."""
    parser = argparse.ArgumentParser(
        prog="python -m inorder_bench.costs", description="What ordering costs, as ratios."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--history", type=Path, metavar="FILE", help="append what was measured: a line of JSON")
    parser.add_argument("--events", type=int, default=20_000, help="of one run (default 20000)")
    parser.add_argument("--repeats", type=int, default=5, help="of each contender, in alternating order (default 5)")
    parser.add_argument(
        "--rows",
        type=_sizes,
        default=[1_000_000, 3_000_000, 10_000_000],
        metavar="N,N,...",
        help="of the traces that are analysed (default 1000000,3000000,10000000)",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}")
    if options.events < 10 or options.repeats < 1:
        parser.error("at least 10 events and 1 repeat")
    if options.history is not None:
        try:
            check_writable(options.history)
        except InvalidOption as error:
            parser.error(str(error))
    return options


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(each) for each in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 100 or len(set(sizes)) < len(sizes):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are different numbers from 100, such as 1000,3000")
    return sizes


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
