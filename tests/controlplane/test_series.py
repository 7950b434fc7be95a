"""Figures over the last minutes."""

from __future__ import annotations

import pytest

from inorder_controlplane.series import MAX_SAMPLES, SPAN_SECONDS, Sample, Series


def test_the_first_look_has_nothing_to_compare_with() -> None:
    series = Series()
    assert series.add(1000, 1.0, {"0": {"timestamps": 5}}, {}) is None
    assert list(series) == []
    assert series.rates(10) == {}


def test_a_rate_is_per_second_over_all_sources() -> None:
    series = Series()
    series.add(1000, 1.0, {"0": {"timestamps": 5}, "1": {"timestamps": 100}}, {})
    sample = series.add(3000, 3.0, {"0": {"timestamps": 9}, "1": {"timestamps": 102}}, {"p50": 1.5})
    assert sample == Sample(3000, {"timestamps": 3.0}, {"p50": 1.5})
    assert list(series) == [sample]


def test_what_began_anew_or_is_new_adds_nothing_for_one_step() -> None:
    series = Series()
    series.add(1000, 1.0, {"0": {"timestamps": 500}}, {})
    sample = series.add(2000, 2.0, {"0": {"timestamps": 3}, "1": {"timestamps": 1_000_000}}, {})
    assert sample is not None
    assert sample.rates == {"timestamps": 0.0}
    sample = series.add(3000, 3.0, {"0": {"timestamps": 5}, "1": {"timestamps": 1_000_001}}, {})
    assert sample is not None
    assert sample.rates == {"timestamps": 3.0}


def test_what_nobody_reports_is_null() -> None:
    series = Series()
    counts = {"0": {"timestamps": 5, "delivered": None}}
    series.add(1000, 1.0, counts, {})
    sample = series.add(2000, 2.0, counts, {})
    assert sample is not None
    assert sample.rates == {"timestamps": 0.0, "delivered": None}
    assert series.rates(10) == {"timestamps": 0.0, "delivered": None}


def test_time_that_stands_still_makes_no_sample() -> None:
    series = Series()
    series.add(1000, 1.0, {"0": {"timestamps": 5}}, {})
    assert series.add(1000, 1.0, {"0": {"timestamps": 6}}, {}) is None


def test_rates_are_means_of_the_last_seconds() -> None:
    series = Series()
    for second, count in enumerate([0, 1000, 1002, 1006]):
        series.add(second * 1000, float(second), {"0": {"timestamps": count}}, {})
    assert series.rates(2.0) == {"timestamps": 3.0}


def test_only_the_last_minutes_are_kept() -> None:
    series = Series()
    for second in range(2000):
        series.add(second * 1000, float(second), {"0": {"timestamps": second}}, {})
    kept = list(series)
    assert kept[0].at_ms == (1999 - SPAN_SECONDS) * 1000
    for at in range(10 * MAX_SAMPLES):
        series.add(2_000_000 + at, 2000 + at / 1000, {"0": {"timestamps": 0}}, {})
    assert len(list(series)) == MAX_SAMPLES
    assert series.rates(1.0)["timestamps"] == pytest.approx(0.0)
