"""What a benchmark says: one row for each client or figure, with medians and ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from statistics import median
from typing import Any

import msgspec

Say = Callable[[str], None]
"""Takes progress, one line at a time."""


class Spread(msgspec.Struct, frozen=True):
    """The median of several repeats, the lowest and the highest."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise repeats."""
    return Spread(median(values), min(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that so many per cent of all are below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the result.

    Attributes:
        workload: which benchmark.
        name: what was measured.
        unit: of ``value``.
        value: over all repeats.
        ratio: to the yardstick, pair by pair of the same repeat.
        yardstick: what ``ratio`` compares with, in words.
        aim: what ``ratio`` (or ``value`` where there is none) should reach, in words.
        reached: whether it does.
        more: further figures (processor time, percentiles), by name.
    """

    workload: str
    name: str
    unit: str
    value: Spread
    ratio: Spread | None = None
    yardstick: str = ""
    aim: str = ""
    reached: bool | None = None
    more: dict[str, float] = {}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload measured. ``left_out``: contenders that could not be measured here, and why."""

    rows: list[Row]
    left_out: dict[str, str] = {}


FIGURES = {"events/s": "events_per_s", "ms": "p50_ms"}
"""What a figure is called in JSON, by its unit."""


def plain(row: Row) -> dict[str, Any]:
    """Return a row of a workload as it is in JSON. ``range``: lowest and highest of the repeats; ``ratio``: of the
    two rows that ``ratio_of`` names, repeat by repeat, their median."""
    shown: dict[str, Any] = {"name": row.name, FIGURES[row.unit]: row.value.median}
    shown["range"] = [row.value.low, row.value.high]
    shown["ratio"] = None if row.ratio is None else row.ratio.median
    if row.ratio is not None:
        shown |= {"ratio_range": [row.ratio.low, row.ratio.high], "ratio_of": row.yardstick}
    if row.aim:
        shown |= {"aim": row.aim, "reached": row.reached}
    return shown | row.more


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the ratios of repeats that ran side by side."""
    return spread([mine / other for mine, other in zip(ours, theirs, strict=True)])


def interval(values: Sequence[float]) -> Spread:
    """Return the median with its 95 % confidence interval by the sign test: between how many of the values, from either
    end, it lies is a matter of tossing coins, whatever their distribution. Of fewer than six it is their range."""
    ordered, count = sorted(values), len(values)
    outside = 0.0
    at = 0
    while 2 * (outside := outside + comb(count, at) / 2**count) <= 0.05:
        at += 1
    at = max(1, at)
    return Spread(median(ordered), ordered[at - 1], ordered[count - at])
