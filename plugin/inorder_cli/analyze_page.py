"""The result of an analysis as tables, for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inorder_cli import output

if TYPE_CHECKING:
    from rich.table import Table

    from inorder_analytics.results import Percentiles, Result

ROWS = 10
"""How many topics, subscribers and pairs are shown."""


def show(result: Result) -> None:
    """Print the most wanted figures; the rest is in the JSON."""
    console = output.console()
    console.print(_overview(result))
    for table in (_order(result), _latency(result), _runs(result), _topics(result), _pairs(result)):
        if table.row_count:
            console.print(table)
    for each in result.files.damaged:
        output.say(f"left out: {output.printable(each.file)}: {output.printable(each.reason)}")
    if result.pairs.used < result.pairs.total:
        output.say(
            f"of {result.pairs.total} pairs of subscribers {result.pairs.used} were compared "
            f"(--max-pairs {result.pairs.limit}, --seed {result.pairs.seed})"
        )
    if result.dropped_rows:
        output.say(f"{result.dropped_rows} rows could not be recorded: the figures are of a part only")


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right")
    return table


def _overview(result: Result) -> str:
    files = f"{result.files.read} files, {result.rows} rows"
    return (
        f"{result.events} events on {result.topics} topics, from {result.publishers} publishers to "
        f"{result.subscribers} subscribers ({files})"
    )


def _order(result: Result) -> Table:
    table = _table("Order", "", "as it arrived", "as it was delivered")
    for name, key, digits in (
        ("ordering degree", "ordering_degree", 6),
        ("the least of a pair", "ordering_degree{}_min", 6),
        ("pairs of events in opposite orders", "tno_violations", 0),
        ("conflict rate", "conflict_rate", 6),
    ):
        raw, delivered = (
            getattr(result, key.format(f"_{stream}") if "{}" in key else f"{key}_{stream}")
            for stream in ("raw", "delivered")
        )
        table.add_row(name, _number(raw, digits), _number(delivered, digits))
    table.add_row(
        "places displaced, on average",
        _number(result.displacement_raw.mean, 3),
        _number(result.displacement_delivered.mean, 3),
    )
    detected = (result.sequence_detection_raw_percent, result.sequence_detection_percent)
    table.add_row("sequences detected by both", *(_percent(each) for each in detected))
    return table


def _latency(result: Result) -> Table:
    table = _table("Latency in ms", "", "p50", "p90", "p99")
    for name, each in (
        ("end to end", result.latency_ms),
        ("timestamp", result.timestamp_ms),
        ("broker", result.ens_ms),
        ("waiting", result.waiting_ms),
    ):
        table.add_row(name, *_percentiles(each))
    error = result.clock_error_ms
    bound = f"{_number(error.p99, 3)}, at most {_number(error.max, 3)}"
    table.add_row("error of the clocks", _number(error.p50, 3), "", bound)
    return table


def _runs(result: Result) -> Table:
    table = _table("Runs", "run", "events", "late", "within 1 s", "p50 ms", "bytes/event", "degree raw", "delivered")
    for each in result.by_run[-ROWS:]:
        table.add_row(
            _name(each.run),
            str(each.events),
            _percent(each.late_percent),
            _percent(each.notified_1s_percent),
            _number(each.latency_ms.p50, 1),
            _number(each.bytes_per_event, 1),
            _number(each.ordering_degree_raw, 6),
            _number(each.ordering_degree_delivered, 6),
        )
    return table


def _topics(result: Result) -> Table:
    table = _table("Topics with the most events", "topic", "run", "events", "late", "within 1 s", "p50 ms", "p99 ms")
    for each in sorted(result.by_topic, key=lambda each: -each.events)[:ROWS]:
        late, prompt = _percent(each.late_percent), _percent(each.notified_1s_percent)
        times = _number(each.latency_ms.p50, 1), _number(each.latency_ms.p99, 1)
        table.add_row(_name(each.topic), _name(each.run), str(each.events), late, prompt, *times)
    return table


def _pairs(result: Result) -> Table:
    table = _table("Pairs of subscribers with the least order", "pair", "run", "events", "raw", "delivered", "opposite")
    for each in result.worst_pairs[:ROWS]:
        table.add_row(
            _name(f"{each.a}, {each.b}"),
            _name(each.run),
            str(each.length),
            _number(each.ordering_degree_raw, 6),
            _number(each.ordering_degree_delivered, 6),
            _opposite(each.tno_violations_delivered, each.witness),
        )
    return table


def _opposite(count: int, witness: object) -> str:
    from inorder_analytics.results import Witness

    if not isinstance(witness, Witness):
        return str(count)
    first, second = witness.first, witness.second
    return f"{count}: {_name(first.topic)} {first.number}, {_name(second.topic)} {second.number}"


def _percentiles(each: Percentiles) -> list[str]:
    return [_number(value, 3) for value in (each.p50, each.p90, each.p99)]


def _name(text: str) -> str:
    from rich.markup import escape

    return escape(output.printable(text))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} %"
