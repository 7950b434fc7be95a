"""Rows as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from inorder_bench.rows import Row, Spread


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the rows, one table for each workload."""
    for workload in dict.fromkeys(row.workload for row in rows):
        table = Table(title=workload, title_justify="left", expand=False)
        for heading in ("", "median", "range", "ratio", "aim", "more"):
            table.add_column(heading)
        for row in rows:
            if row.workload == workload:
                table.add_row(*_cells(row))
        console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    value, more = row.value, ", ".join(f"{name} {number:,.4g}" for name, number in row.more.items())
    ratio = "" if row.ratio is None else f"{_ratio(row.ratio)} {_compared(row)}".rstrip()
    verdict = {None: "", True: " (reached)", False: " (missed)"}[row.reached]
    cells = f"{_number(value.median)} {row.unit}", f"{_number(value.low)}..{_number(value.high)}"
    return row.name, *cells, ratio, row.aim + verdict, more


def _compared(row: Row) -> str:
    """Say what a ratio compares, where that is not the figure that the row is about."""
    _, _, other = row.yardstick.partition(" / ")
    if not other:
        return row.yardstick
    return "is inorder to this" if other == row.name else f"of {other}"


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f}..{ratio.high:.2f})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
