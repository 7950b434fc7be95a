"""Charts as SVG: lines over time, and bars. Colours are classes, which the page's style gives for light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from inorder_analytics.report.markup import Markup, joined, tag

WIDTH: Final = 460
HEIGHT: Final = 190
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 8, 24
POINTS: Final = 60
"""Up to so many values each is marked; a value with none beside it always is."""

Value = float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart; ``color`` is 1 to 5. ``None`` among the values interrupts it."""

    label: str
    values: Sequence[Value]
    color: int


def line_chart(
    title: str, times: Sequence[datetime], lines: Sequence[Line], write: Callable[[float | None], str]
) -> Markup:
    """Return lines over time, from zero up. Times rise; there is at least one."""
    seconds = [each.timestamp() for each in times]
    known = [value for line in lines for value in line.values if value is not None]
    top, step = scale_of(max(known, default=0.0))
    low = min(0.0, *(math.floor(value / step) * step for value in known)) if known else 0.0
    first, last = seconds[0], seconds[-1]

    def x(at: float) -> float:
        share = (at - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (top - value) / (top - low) * (HEIGHT - TOP - BOTTOM)

    grid = []
    for at in range(round(low / step), round(top / step) + 1):
        value = at * step
        grid.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value), class_="grid"))
        grid.append(tag("text", write(value), x=LEFT - 8, y=y(value) + 4, class_="tick end"))
    drawn = [_line(line, [x(at) for at in seconds], y) for line in lines]
    spoken = "; ".join(f"{line.label}: {_range(line, write)}" for line in lines)
    picture = tag(
        "svg",
        tag("title", f"{title}. {spoken}"),
        *grid,
        *_time_ticks(times, x),
        *drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="chart",
    )
    legend = tag(
        "p",
        *(tag("span", _swatch(line.color), f"{line.label} {_range(line, write)}", class_="key") for line in lines),
        class_="legend",
    )
    return tag("figure", tag("figcaption", title), legend, picture)


def bar(value: float, most: float, color: int = 2) -> Markup:
    """Return a bar whose length is the value's share of the largest one."""
    share = 0.0 if most <= 0 else max(0.0, min(1.0, value / most))
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=100, height=8, class_="track"),
        tag("rect", x=0, y=0, width=100 * share, height=8, class_=f"fill-{color}"),
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )


def scale_of(greatest: float, steps: int = 4) -> tuple[float, float]:
    """Return the top of an axis from zero, and the distance of its lines: 1, 2 or 5 times a power of ten."""
    if greatest <= 0 or not math.isfinite(greatest):
        return 1.0, 0.5
    wanted = greatest / steps
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * 0.999999)
    return math.ceil(greatest / step - 1e-9) * step, step


def _line(line: Line, xs: Sequence[float], y: Callable[[float], float]) -> Markup:
    pieces: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(xs, line.values, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((at, y(value)))
    marks = [
        tag("circle", cx=cx, cy=cy, r=2.5, class_=f"fill-{line.color}")
        for piece in pieces
        if len(xs) <= POINTS or len(piece) == 1
        for cx, cy in piece
    ]
    paths = [
        tag("polyline", points=" ".join(f"{cx:.1f},{cy:.1f}" for cx, cy in piece), class_=f"line-{line.color}")
        for piece in pieces
        if len(piece) > 1
    ]
    return joined([*paths, *marks])


def _time_ticks(times: Sequence[datetime], x: Callable[[float], float]) -> list[Markup]:
    first, last = times[0].astimezone(UTC), times[-1].astimezone(UTC)
    form = "%H:%M:%S" if first.date() == last.date() else "%m-%d %H:%M"
    span = (last - first).total_seconds()
    shares = (0.0, 0.5, 1.0) if span > 0 else (0.0,)
    ticks = []
    for share in shares:
        at = first.timestamp() + share * span
        anchor = "" if span <= 0 or share not in (0.0, 1.0) else " start" if share == 0.0 else " end"
        text = f"{datetime.fromtimestamp(at, UTC):{form}}"
        ticks.append(tag("text", text, x=x(at), y=HEIGHT - 8, class_=f"tick{anchor or ' middle'}"))
    return ticks


def _swatch(color: int) -> Markup:
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=12, height=4, class_=f"fill-{color}"),
        viewBox="0 0 12 4",
        class_="swatch",
        aria_hidden="true",
    )


def _range(line: Line, write: Callable[[float | None], str]) -> str:
    known = [value for value in line.values if value is not None]
    if not known:
        return "not known"
    low, high = write(min(known)), write(max(known))
    return low if low == high else f"{low} to {high}"
