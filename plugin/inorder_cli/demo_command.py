"""``inorder demo``: a broker's disorder, and then inorder's order."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.connection import run_until_stopped
from inorder_cli.demo.plan import BrokerKind
from inorder_cli.failures import ExitCode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from inorder_cli.demo.outcome import Outcome

Progress = Callable[[int], None]


Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65_535, metavar="PORT", help="With --serve: port of the page (8080); 0 takes any free one."
    ),
]
Recorded = Annotated[
    str | None,
    typer.Option(
        "--traces", metavar="DIR", help="Record the run with inorder: a folder, or a URL such as s3://bucket/traces."
    ),
]


def demo(
    events: Annotated[int, typer.Option(min=2, max=2_000_000, help="Events of a run, over both publishers.")] = 4000,
    rate: Annotated[
        float, typer.Option(min=1, max=1_000_000, metavar="PER SECOND", help="Events a second of each publisher.")
    ] = 2000.0,
    broker: Annotated[
        BrokerKind,
        typer.Option(
            help="mqtt: two bridged mosquittos; redis: two sites, each with a primary and a replica of the other's; "
            "memory: in-process, with artificial delays, no server needed."
        ),
    ] = BrokerKind.MQTT,
    seed: Annotated[int, typer.Option(help="memory only: starts the artificial delays.")] = 1,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the run in a browser while it lasts, and keep it up until Ctrl-C.")
    ] = False,
    port: Port = None,
    traces: Recorded = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show the effect of inorder: the same workload without it and with it, on real brokers started for the purpose.

    Two publishers, each with a topic and a broker of its own; two subscribers of both topics, one at each broker. How
    often do the two see a pair of events in opposite order? An adjacent pair follows each other directly at the
    first subscriber. Everything started is gone afterwards; with --serve, once you stop it.

    Exit code 1 if, with inorder, a pair was still inverted or an event was missing without being reported.
    """
    from inorder_cli.demo.brokers import ABOUT, layout
    from inorder_cli.demo.run import demo_traces, run_demo
    from inorder_cli.demo_page import Page

    recorded = demo_traces(traces) if traces is not None else None
    console = output.console(stderr=json)
    if not json:
        console.print(f"Two publishers at {rate:g} events/s each, two subscribers of both topics: {ABOUT[broker]}.")
    report = functools.partial(_report, console, is_json=json)
    with layout(broker, seed) as brokers, _Show(console, quiet=json) as show:
        page = Page(console, brokers.brokers(), port, show, report, is_json=json) if serve else None
        outcome = run_until_stopped(
            run_demo(brokers, events=events, rate=rate, show=show, observer=page, traces=recorded)
        )
    if recorded is not None:
        about = f"the run with inorder is recorded in {recorded.url} as run {recorded.run_id}"
        output.say(output.printable(f"{about}: inorder traces audit {shlex.quote(str(recorded.url))}"))
    if not serve:
        report(outcome)
        if not json:
            console.print("[dim]To see a run in the browser: inorder demo --serve, then http://127.0.0.1:8080/[/]")
    return ExitCode.OK if outcome.is_good else ExitCode.FAILED


def _report(console: Console, outcome: Outcome, *, is_json: bool) -> None:
    if is_json:
        output.emit(outcome.as_dict())
    else:
        _print(console, outcome)


class _Show:
    """A progress bar on a terminal; elsewhere a line for each half."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._bars: RichProgress | None = None

    def __enter__(self) -> _Show:
        if self._console.is_terminal and not self._quiet:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, console=self._console)
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the display of progress."""
        if self._bars is not None:
            self._bars.stop()

    def begin(self, text: str, total: int) -> Progress:
        """Begin the display of a half."""
        if self._bars is not None:
            bars, task = self._bars, self._bars.add_task(text, total=total)
            return lambda seen: bars.update(task, completed=seen)
        if not self._quiet:
            self._console.print(f"{text}: {total:,} notifications ...")
        return lambda seen: None


def _print(console: Console, outcome: Outcome) -> None:
    from rich.markup import escape
    from rich.table import Table

    figures = outcome.as_dict()
    table = Table("", "without inorder", "with inorder", title=f"{outcome.events:,} events, 2 subscribers")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = (
        ("adjacent pairs in opposite order", "inversions", ","),
        ("all pairs in opposite order", "inverted_pairs", ","),
        ("notifications missing", "missing", ","),
        ("median latency, ms", "p50_ms", ".1f"),
        ("99th percentile, ms", "p99_ms", ".1f"),
        ("events a second", "events_per_second", ","),
    )
    for text, key, form in rows:
        table.add_row(text, *(_cell(figures[f"{key}_{half}"], form) for half in ("without", "with")))
    for text, key in (("late", "late"), ("repeated", "duplicates"), ("reported as gaps", "gaps")):
        table.add_row(text, "-", _cell(figures[key], ","))
    console.print(table)
    for problem in figures["problems"][:10]:
        console.print(f"[yellow]note:[/] {escape(problem)}")
    console.print(f"[dim]{_about_latency(outcome)}[/]")
    style = "bold green" if outcome.is_good else "bold red"
    console.print(f"[{style}]{escape(outcome.sentence())}[/]")


def _about_latency(outcome: Outcome) -> str:
    """Explain the parts of the latency with inorder."""
    if outcome.ordered.events_per_second < 0.9 * 2 * outcome.rate:
        return "This machine did not carry the rate with inorder, so events queued up; try --rate 500 for the latency."
    return "In total order a subscriber waits for the slower way: see the 99th percentile without inorder."


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
