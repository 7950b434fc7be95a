"""How costs grow, as a picture: ``python -m inorder_bench.costs.growth_chart HISTORY SVG``.

Of each kind of growth the last run in the history is drawn: what grows to the right, on a logarithmic scale (a zero
stands one step before the first size), the cost upwards from 0; a point has its figure above, a line for its range
through it, and, where timestamps have entries, their number below the size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import msgspec

from inorder.errors import InvalidOption
from inorder_bench import svg
from inorder_bench.history import read
from inorder_bench.rows import Row

PREFIX = "growth: "
COLUMNS, WIDTH, HEIGHT = 2, 400, 130
"""Panels side by side; pixels of a panel's scales."""
LEFT, RIGHT, ABOVE, BELOW = 84, 48, 56, 46
"""Pixels of a panel around its scales."""
OUT, TEXT = 32, 16 - LEFT
"""Pixels from the first size to the figures of the scale, and where a panel's texts begin."""
STYLE = (
    ".cost{fill:none;stroke:var(--blue);stroke-width:2}.point{fill:var(--blue)}.range{stroke:var(--ink)}"
    ".figure{text-anchor:middle}.scale{fill:var(--dim);text-anchor:end}.note{fill:var(--dim)}"
)
TITLE = "What an event costs as things get more"


class Run(msgspec.Struct):
    """A line of a history."""

    rows: list[Row] = []


Point = tuple[float, Row]
"""A row with where its size is on the scale, 0 to 1."""


def last_runs(runs: Iterable[Run]) -> dict[str, list[Row]]:
    """Return the last rows of each kind of growth in a history."""
    found: dict[str, list[Row]] = {}
    for run in runs:
        kinds: dict[str, list[Row]] = {}
        for row in run.rows:
            if row.workload.startswith(PREFIX):
                kinds.setdefault(row.workload.removeprefix(PREFIX), []).append(row)
        found |= kinds
    return found


def draw(kinds: dict[str, list[Row]]) -> str:
    """Return all kinds as one SVG, a panel for each."""
    wide, high = LEFT + WIDTH + RIGHT, ABOVE + HEIGHT + BELOW
    parts, told = [], []
    for at, (kind, rows) in enumerate(kinds.items()):
        x, y = at % COLUMNS * wide, at // COLUMNS * high
        parts.append(f'<g transform="translate({x + LEFT} {y + ABOVE})">{"".join(_panel(kind, rows))}</g>')
        told.append(f"{kind}: " + ", ".join(f"{row.name}: {_figure(row.value.median)} {row.unit}" for row in rows))
    height = -(-len(kinds) // COLUMNS) * high
    return svg.page(COLUMNS * wide, height, TITLE, ". ".join(told), STYLE, parts)


def _panel(kind: str, rows: Sequence[Row]) -> list[str]:
    """Return one kind, its scales' origin at the upper left."""
    top = _ceiling(max(row.value.high for row in rows))
    points = list(zip(_places([_size(row) for row in rows]), rows, strict=True))
    line = " ".join(f"{x * WIDTH:.1f},{_y(row.value.median, top):.1f}" for x, row in points)
    return [
        f'<text class="title" x="{TEXT}" y="-30">{escape(kind)} ({escape(rows[0].unit)})</text>',
        *(_level(part * top / 2, top) for part in range(3)),
        *(_size_below(point) for point in points),
        *(_entries(points)),
        f'<polyline class="cost" points="{line}"/>',
        *(_point(point, top) for point in points),
    ]


def _level(value: float, top: float) -> str:
    y = _y(value, top)
    return (
        f'<line class="grid" x1="{-OUT + 6}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="scale" x="{-OUT}" y="{y + 4:.1f}">{value:,g}</text>'
    )


def _size_below(point: Point) -> str:
    x, row = point
    return f'<text class="tick" x="{x * WIDTH:.1f}" y="{HEIGHT + 18}">{escape(row.name)}</text>'


def _entries(points: Sequence[Point]) -> list[str]:
    """Return how many entries the timestamps have, where any has some."""
    shown = [(x, row.more["entries"]) for x, row in points if "entries" in row.more]
    if not any(entries for _, entries in shown):
        return []
    return [
        f'<text class="note" x="{TEXT}" y="{HEIGHT + 34}">entries</text>',
        *(f'<text class="tick" x="{x * WIDTH:.1f}" y="{HEIGHT + 34}">{_figure(each)}</text>' for x, each in shown),
    ]


def _point(point: Point, top: float) -> str:
    x, row = point[0] * WIDTH, point[1]
    y, low, high = (_y(value, top) for value in (row.value.median, row.value.low, row.value.high))
    return (
        f'<line class="range" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        f'<text class="figure" x="{x:.1f}" y="{high - 8:.1f}">{_figure(row.value.median)}</text>'
    )


def _size(row: Row) -> int:
    return int(row.name.replace(",", ""))


def _places(sizes: Sequence[int]) -> list[float]:
    """Return where sizes are on a logarithmic scale from 0 to 1."""
    logs = [math.log(size) if size else math.nan for size in sizes]
    known = [each for each in logs if not math.isnan(each)]
    before = known[0] - (known[-1] - known[0]) / max(1, len(known) - 1)
    logs = [before if math.isnan(each) else each for each in logs]
    length = logs[-1] - logs[0] or 1.0
    return [(each - logs[0]) / length for each in logs]


def _ceiling(value: float) -> float:
    """Return the next round number: 1, 2, 4, 6 or 10 of a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 10) if value <= step * power)


def _y(value: float, top: float) -> float:
    return HEIGHT * (1 - value / top)


def _figure(value: float) -> str:
    """Return two digits of a small number, all of a great one."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 or not value else f"{value:.2f}"


def chart_of(history: Path) -> str:
    """Return the chart of a history. Raises InvalidOption where it has nothing to draw."""
    kinds = last_runs(read(history, Run))
    if not kinds:
        raise InvalidOption(
            "HISTORY", str(history), "one of python -m inorder_bench.costs growth (there is no growth in it)"
        )
    return draw(kinds)


if __name__ == "__main__":
    svg.command("inorder_bench.costs.growth_chart", chart_of)
