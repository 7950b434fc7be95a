"""Nearest rank: a percentile is always one of the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inorder_analytics.results import Percentiles


def nearest_rank(ordered: Sequence[int], percent: int) -> int | None:
    """Return the smallest of rising values such that at least this share of them is no greater."""
    return ordered[(percent * len(ordered) + 99) // 100 - 1] if ordered else None


def in_ms(values_us: Iterable[int]) -> Percentiles:
    """Return the percentiles of microseconds, in milliseconds."""
    ordered = sorted(values_us)
    return Percentiles(
        p50=ms(nearest_rank(ordered, 50)), p90=ms(nearest_rank(ordered, 90)), p99=ms(nearest_rank(ordered, 99))
    )


def ms(value_us: int | None) -> float | None:
    """Return microseconds in milliseconds."""
    return None if value_us is None else value_us / 1000


def percent(part: int, whole: int) -> float | None:
    """Return a share in per cent, ``None`` of nothing."""
    return 100 * part / whole if whole else None


def mean(values: Sequence[int]) -> float | None:
    """Return the mean, ``None`` of nothing."""
    return sum(values) / len(values) if values else None
