"""Ratios of a history as a picture: ``python -m inorder_bench.chart HISTORY SVG``.

Of each workload the last run in the history is drawn: a bar for each ratio, from 1 to its median, and a line for
its range. The colour tells whether inorder is better: of rates more is, of latencies less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from pathlib import Path

import msgspec

from inorder.errors import InvalidOption
from inorder_bench import svg
from inorder_bench.history import read

LOWEST, HIGHEST = 0.02, 50.0
LABELS, WIDTH, LINE, MARGIN = 620, 480, 20, 16
"""Pixels: of the names, of the scale, of a row, around all."""
TICKS = (0.02, 0.1, 0.5, 1, 2, 10, 50)
STYLE = ".one{stroke:var(--ink)}.better{fill:var(--blue)}.worse{fill:var(--brown)}.range{stroke:var(--ink)}"
TITLE = "What inorder does, divided by what it is compared with"
HEAD = "Blue: better than what it is compared with. Brown: worse."


class RatioRow(msgspec.Struct):
    """What is drawn of a row of ``inorder bench``: see :func:`inorder_bench.rows.plain`."""

    ratio: float | None
    ratio_range: tuple[float, float] = (0.0, 0.0)
    ratio_of: str = ""
    p50_ms: float | None = None

    @property
    def is_drawn(self) -> bool:
        """It is a ratio that a logarithmic scale can show."""
        return self.ratio is not None and self.ratio > 0

    @property
    def is_latency(self) -> bool:
        """Less is better."""
        return self.p50_ms is not None


class Measured(msgspec.Struct):
    """What one run of a workload measured."""

    workload: str
    title: str
    rows: list[RatioRow]


class Run(msgspec.Struct):
    """A line of a history."""

    workloads: list[Measured] = []


def last_runs(runs: Iterable[Run]) -> list[Measured]:
    """Return the last result of each workload in a history, by name."""
    found = {each.workload: each for run in runs for each in run.workloads}
    return [found[name] for name in sorted(found)]


def draw(workloads: Iterable[Measured]) -> str:
    """Return the ratios of workloads as one SVG."""
    parts, at = [], MARGIN + LINE
    for each in workloads:
        rows = [row for row in each.rows if row.is_drawn]
        if not rows:
            continue
        title = f"{each.workload}: {each.title}"
        if rows[0].is_latency:
            title += " (less is better)"
        parts.append(f'<text class="title" x="{MARGIN}" y="{at + 14}">{escape(title)}</text>')
        for row in rows:
            at += LINE
            parts.append(_row(row, at))
        at += 2 * LINE
    grid = [_tick(tick, at) for tick in TICKS]
    head = f'<text x="{MARGIN}" y="{MARGIN + 12}">{HEAD}</text>'
    return svg.page(LABELS + WIDTH + 3 * MARGIN, at + MARGIN, TITLE, HEAD, STYLE, [head, *grid, *parts])


def _tick(ratio: float, bottom: int) -> str:
    kind, x = "one" if ratio == 1 else "grid", _x(ratio)
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN + LINE}" y2="{bottom}"/>'
        f'<text class="tick" x="{x:.1f}" y="{MARGIN + 12}">{ratio:g}</text>'
    )


def _row(row: RatioRow, at: int) -> str:
    """Return one ratio: its name, its bar, its range and its figure."""
    ratio, (low, high) = row.ratio or 1.0, row.ratio_range
    one, end = _x(1), _x(ratio)
    is_better = ratio <= 1 if row.is_latency else ratio >= 1
    left, kind = min(one, end), "better" if is_better else "worse"
    middle = at + LINE / 2
    return (
        f'<text x="{MARGIN}" y="{at + 14}">{escape(row.ratio_of)}: {ratio:.2f}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{at + 4}" width="{abs(end - one):.1f}" height="{LINE - 8}"/>'
        f'<line class="range" x1="{_x(low):.1f}" x2="{_x(high):.1f}" y1="{middle}" y2="{middle}"/>'
    )


def _x(ratio: float) -> float:
    """Return where a ratio is on the scale, which is logarithmic and ends at LOWEST and HIGHEST."""
    held = min(HIGHEST, max(LOWEST, ratio))
    return LABELS + 2 * MARGIN + WIDTH * math.log(held / LOWEST) / math.log(HIGHEST / LOWEST)


def chart_of(history: Path) -> str:
    """Return the chart of a history. Raises InvalidOption where it has nothing to draw."""
    workloads = last_runs(read(history, Run))
    if not any(row.is_drawn for each in workloads for row in each.rows):
        raise InvalidOption("HISTORY", str(history), "one of inorder bench (there is no ratio in it)")
    return draw(workloads)


if __name__ == "__main__":
    svg.command("inorder_bench.chart", chart_of)
