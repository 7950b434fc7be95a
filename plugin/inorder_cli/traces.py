"""``inorder traces``: an audit of the promises, and the recorded rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inorder.traces.schema import KINDS
from inorder_cli import options, output
from inorder_cli.failures import ExitCode, needs

if TYPE_CHECKING:
    from inorder_analytics.audit import Audit
    from inorder_analytics.looking import Filter, Statistics
    from inorder_analytics.reading import Traces
    from inorder_analytics.results import Damaged

traces = options.group(
    name="traces",
    help="Judge and show what clients recorded (inorder sub --traces, Client(traces=...)), and make traces.",
)
"""The group of these commands."""

T = TypeVar("T")
Kind = StrEnum("Kind", {kind.upper(): kind for kind in KINDS})  # type: ignore[misc]

Path = Annotated[
    str,
    typer.Argument(metavar="PATH", help="A folder, with all below it, or a file; a URL such as s3://bucket/traces."),
]
Run = Annotated[str | None, typer.Option("--run", metavar="TEXT", help="Only rows of this run.")]
ClientId = Annotated[str | None, typer.Option("--client", metavar="TEXT", help="Only rows of this client.")]
OfKind = Annotated[Kind | None, typer.Option("--kind", help="Only rows of this kind.")]
Topic = Annotated[str | None, typer.Option("--topic", metavar="[SPACE:]TOPIC", help="Only rows of this topic.")]
Number = Annotated[
    int | None, typer.Option("--number", min=0, metavar="N", help="Only events with this number, and gaps over it.")
]
SHOWN = 20
"""Violations and pairs that text shows; JSON has all."""


def loaded(what: str, load: Callable[[], T]) -> T:
    """Return the result of ``load``, which imports modules of the analytics extra. Raises MissingExtra."""
    with needs("analytics", what):
        return load()


def opened(path: str) -> Traces:
    """Open the traces under a path. Raises MissingExtra and InvalidOption."""

    def load() -> type[Traces]:
        from inorder_analytics.reading import Traces

        return Traces

    return loaded("looking at traces", load)(path)


# -- audit -----------------------------------------------------------------------------------------------------------


@traces.command()
def audit(
    path: Path,
    run: Run = None,
    linger: Annotated[
        float,
        typer.Option(
            min=0,
            max=10**9,
            metavar="SECONDS",
            help="The workers' linger: across a longer absence no order is promised.",
        ),
    ] = 60.0,
    max_pairs: Annotated[
        int,
        typer.Option(min=1, max=10**9, metavar="N", help="Most pairs of subscribers to compare in a run."),
    ] = 200,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sample of pairs, where there are more.")] = 0,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Judge traces by the rules: one order for all, nothing twice, nothing left out silently. Needs no Spark.

    Each violation is named with its events and subscribers. What cannot be judged, because rows are missing or files
    damaged, is said and is no violation. Exit codes: 0 all is well, 1 a rule is broken, 2 wrong usage (also a PATH that
    there is not), 3 unknown: there is no notification that could be judged.
    """
    found_traces = opened(path)
    from inorder_analytics.audit import audit as judge
    from inorder_analytics.audit import to_plain

    found = judge(found_traces, run=run, linger=linger, max_pairs=max_pairs, seed=seed)
    if json:
        output.emit(to_plain(found))
    else:
        _print_audit(found, to_plain(found))
    return _EXIT_CODES[found.verdict]


_EXIT_CODES = {"ok": ExitCode.OK, "violations": ExitCode.FAILED, "unknown": ExitCode.UNKNOWN}


def _print_audit(found: Audit, plain: dict[str, Any]) -> None:
    for run in plain["runs"]:
        output.write(output.printable(_about_run(run)))
    broken = plain["violations"]
    for each in broken[:SHOWN]:
        output.write(output.printable(f"violation in run {each['run']!r}: {each['rule']} {each['sentence']}"))
    if len(broken) > SHOWN:
        output.write(f"... and {len(broken) - SHOWN} more (--json shows all)")
    for each in plain["not_judged"]:
        output.write(output.printable(f"not judged in run {each['run']!r}: {each['what']} ({each['why']})"))
    say_damaged(found.damaged)
    _say_copies(found.copies)
    said = {
        "ok": "all is well",
        "violations": f"{len(broken)} violation(s)",
        "unknown": "unknown: there is no notification to judge",
    }
    output.write(output.printable(f"{found.path}: {found.rows} rows of {found.read} files; {said[found.verdict]}"))


def _about_run(run: dict[str, Any]) -> str:
    degrees = [_figure(run[f"ordering_degree_{which}"]) for which in ("raw", "delivered")]
    pairs = [f"{run[f'tno_violations_{which}']}" for which in ("raw", "delivered")]
    gaps = ", ".join(f"{count} {reason}" for reason, count in run["gaps"].items()) or "none"
    return (
        f"run {run['run']!r}: {run['events']} events, {run['subscribers']} subscribers, {run['notifications']} "
        f"notifications, {run['late']} late; ordering degree {degrees[0]} as the broker gave them, {degrees[1]} as "
        f"delivered; pairs of events in opposite order {pairs[0]} and {pairs[1]}; gaps: {gaps}; "
        f"{run['repeated']} repetitions dropped"
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.10g}"


def _say_copies(copies: int) -> None:
    if copies:
        output.say(f"note: {copies} rows are there more than once, in several files or in one; each counts once")


def say_damaged(damaged: Iterable[Damaged]) -> None:
    """Name the files that were left out, apart from the data."""
    for each in damaged:
        output.say(output.printable(f"damaged, left out: {each.file}: {each.reason}"))


# -- show, tail, stats -----------------------------------------------------------------------------------------------


@traces.command()
def show(
    path: Path,
    topic: Topic = None,
    client: ClientId = None,
    kind: OfKind = None,
    run: Run = None,
    number: Number = None,
    limit: Annotated[int, typer.Option(min=0, max=10**12, metavar="N", help="Rows to show; 0: all.")] = 100,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show rows, file by file. --json prints one object a line, without columns that are null."""
    found = opened(path)
    from inorder_analytics.looking import matching

    rows = matching(found, _filter(topic, client, kind, run, number))
    _print_rows(islice(rows, limit) if limit else rows, json)
    if limit and next(rows, None) is not None:
        output.say(f"these are the first {limit} rows; --limit 0 shows all")
    say_damaged(found.damaged)
    return ExitCode.OK


@traces.command()
def tail(
    path: Path,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with rows of new files, until Ctrl-C.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=10**6, metavar="N", help="Rows to begin with.")
    ] = 10,
    interval: Annotated[
        float, typer.Option(min=0.05, max=3600, metavar="SECONDS", help="How often -f looks for new files.")
    ] = 1.0,
    topic: Topic = None,
    client: ClientId = None,
    kind: OfKind = None,
    run: Run = None,
    number: Number = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show the rows recorded last. Clients write a file every ten seconds or so; -f shows it as it comes."""
    found = opened(path)
    from inorder_analytics.looking import Following

    following = Following(found, _filter(topic, client, kind, run, number))
    _print_rows(following.begin(lines), json)
    say_damaged(following.damaged)
    while follow:
        time.sleep(interval)
        _print_rows(following.look(), json)
        say_damaged(following.damaged)
    return ExitCode.OK


@traces.command()
def stats(path: Path, json: options.Json = False, debug: options.Debug = False) -> int:
    """Count the contents: files, rows by kind, run, client and topic, the time they span, and the rows not recorded."""
    found = opened(path)
    from inorder_analytics.looking import statistics

    counted = statistics(found)
    if json:
        output.emit(counted.to_plain())
    else:
        _print_statistics(counted)
    return ExitCode.OK


def _filter(topic: str | None, client: str | None, kind: StrEnum | None, run: str | None, number: int | None) -> Filter:
    from inorder_analytics.looking import Filter

    return Filter(run, client, None if kind is None else str(kind), topic, number)


def _print_rows(rows: Iterable[dict[str, Any]], json: bool) -> None:
    for row in rows:
        if json:
            output.emit(row)
        else:
            output.write(output.printable(_text(row)))


_ABOUT = {
    "published": ("outcome", "ordering", "counter", "entries", "stamp_bytes", "payload_size"),
    "notified": ("verdict", "arrival_index", "delivery_index", "waited_us", "retained", "redelivered", "repaired"),
    "gap": ("last_number", "detail", "delivery_index"),
    "opened": ("detail",),
    "clock": ("offset_us", "error_us"),
    "dropped": ("count",),
}


def _text(row: dict[str, Any]) -> str:
    kind = row.get("kind", "-")
    place = f" {row.get('space', '')}:{row['topic']}" if "topic" in row else ""
    number = f"#{row['number']}" if "number" in row else ""
    facts = [f"{name}={row[name]}" for name in _ABOUT.get(kind, ()) if row.get(name) not in (None, False)]
    return " ".join(
        [row.get("recorded_at", "-"), row.get("run", "-"), row.get("client", "-"), kind + place + number, *facts]
    )


def _print_statistics(counted: Statistics) -> None:
    plain = counted.to_plain()
    size = f"{counted.rows} rows in {counted.files} files of {counted.bytes} bytes"
    output.write(output.printable(f"{counted.path}: {size}"))
    if counted.first is not None:
        output.write(f"recorded from {plain['first']} to {plain['last']}")
    for name in ("kinds", "runs", "clients", "topics"):
        counts = list(plain[name].items())
        for value, count in counts[:SHOWN]:
            output.write(output.printable(f"{value if name == 'kinds' else f'{name[:-1]} {value!r}'}: {count}"))
        if len(counts) > SHOWN:
            output.write(f"... and {len(counts) - SHOWN} more {name} (--json shows all)")
    output.write(f"rows that could not be recorded: {counted.dropped}")
    _say_copies(counted.copies)
    for note in counted.notes:
        output.say(f"note: {note}")
    say_damaged(counted.damaged)
