"""Ratios of a history as a picture: ``python -m inorder_bench.chart HISTORY SVG``.

Of each workload the last run in the history is drawn: a bar for each ratio, from 1 to its median, and a line for
its range. The colour tells whether inorder is better: of rates more is, of latencies less.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import msgspec

LOWEST, HIGHEST = 0.02, 50.0
LABELS, WIDTH, LINE, MARGIN = 620, 480, 20, 16
"""Pixels: of the names, of the scale, of a row, around all."""
TICKS = (0.02, 0.1, 0.5, 1, 2, 10, 50)
STYLE = (
    "text{font:12px sans-serif;fill:#1a2230}.title{font-weight:bold}.tick{fill:#5b6675;text-anchor:middle}"
    ".grid{stroke:#d5dae1}.one{stroke:#1a2230}.better{fill:#2b6cb0}.worse{fill:#b7791f}.range{stroke:#1a2230}"
)


def last_runs(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the last result of each workload in a history, by name."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        found |= {each["workload"]: each for each in msgspec.json.decode(line)["workloads"]}
    return [found[name] for name in sorted(found)]


def draw(workloads: Iterable[dict[str, Any]]) -> str:
    """Return the ratios of workloads as one SVG."""
    parts, at = [], MARGIN + LINE
    for each in workloads:
        rows = [row for row in each["rows"] if row["ratio"] is not None and row["ratio"] > 0]
        if not rows:
            continue
        title = f"{each['workload']}: {each['title']}"
        if _is_latency(rows[0]):
            title += " (less is better)"
        parts.append(f'<text class="title" x="{MARGIN}" y="{at + 14}">{escape(title)}</text>')
        for row in rows:
            at += LINE
            parts.append(_row(row, at))
        at += 2 * LINE
    grid = [_tick(tick, at) for tick in TICKS]
    size = f'width="{LABELS + WIDTH + 3 * MARGIN}" height="{at + MARGIN}"'
    head = f'<text x="{MARGIN}" y="{MARGIN + 12}">Blue: better than what it is compared with. Brown: worse.</text>'
    title = "<title>What inorder does, divided by what it is compared with</title>"
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}<style>{STYLE}</style>'
    return "\n".join([begin, '<rect width="100%" height="100%" fill="#fff"/>', head, *grid, *parts, "</svg>", ""])


def _tick(ratio: float, bottom: int) -> str:
    kind, x = "one" if ratio == 1 else "grid", _x(ratio)
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN + LINE}" y2="{bottom}"/>'
        f'<text class="tick" x="{x:.1f}" y="{MARGIN + 12}">{ratio:g}</text>'
    )


def _row(row: dict[str, Any], at: int) -> str:
    """Return one ratio: its name, its bar, its range and its figure."""
    ratio, (low, high) = row["ratio"], row["ratio_range"]
    one, end = _x(1), _x(ratio)
    is_better = ratio <= 1 if _is_latency(row) else ratio >= 1
    left, kind = min(one, end), "better" if is_better else "worse"
    middle = at + LINE / 2
    return (
        f'<text x="{MARGIN}" y="{at + 14}">{escape(row["ratio_of"])}: {ratio:.2f}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{at + 4}" width="{abs(end - one):.1f}" height="{LINE - 8}"/>'
        f'<line class="range" x1="{_x(low):.1f}" x2="{_x(high):.1f}" y1="{middle}" y2="{middle}"/>'
    )


def _is_latency(row: dict[str, Any]) -> bool:
    return row.get("p50_ms") is not None


def _x(ratio: float) -> float:
    """Return where a ratio is on the scale, which is logarithmic and ends at LOWEST and HIGHEST."""
    held = min(HIGHEST, max(LOWEST, ratio))
    return LABELS + 2 * MARGIN + WIDTH * math.log(held / LOWEST) / math.log(HIGHEST / LOWEST)


def main() -> None:
    """Draw the history that is named first into the file that is named second."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m inorder_bench.chart HISTORY SVG")
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    Path(sys.argv[2]).write_text(draw(last_runs(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
