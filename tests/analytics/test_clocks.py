"""What a clock is off by, by time: the bounds hold the truth, and there are few offsets."""

from __future__ import annotations

import random

from inorder_analytics.clocks import EVER, MOST, Clock, clock_at, clocks

S = 1_000_000
HOUR = 3_600 * S


def test_what_was_never_measured_is_not_known() -> None:
    assert clocks([]) == []
    assert clock_at([], 5) is None


def test_one_measurement_counts_for_all_times() -> None:
    assert clocks([(7, -3, 2)]) == [Clock(EVER, -3, 2)]


def test_measurements_that_agree_are_one_offset() -> None:
    assert clocks([(at * S, at % 3, 400 + at % 5) for at in range(100)]) == [Clock(EVER, 0, 406)]


def test_a_step_is_uncertain_only_between_the_two_measurements() -> None:
    found = clocks([(0, 0, 500), (10 * S, 0, 500), (HOUR, -HOUR, 500), (HOUR + 10 * S, -HOUR, 500)])
    assert [clock_at(found, at) for at in (-S, 5 * S)] == [Clock(EVER, 0, 500)] * 2
    assert clock_at(found, 11 * S) == Clock(10 * S, 0, HOUR + 500)
    middle = (10 * S + HOUR) // 2
    assert clock_at(found, HOUR - 1) == Clock(middle, -HOUR, HOUR + 500)
    assert clock_at(found, HOUR + S) == Clock(HOUR, -HOUR, 500)


def test_bounds_hold_the_truth() -> None:
    """Clocks that drift, are stepped, and are measured well or badly."""
    for seed in range(50):
        dice = random.Random(seed)
        truth, drift, measured, true = 0.0, dice.choice((0, 0, 30, -200)), [], []
        wall = 0.0
        for _ in range(dice.choice((3, 40, 400))):
            if dice.random() < 0.05:
                step = dice.choice((5_000, -5_000, HOUR, -HOUR))
                truth, wall = truth - step, wall + step
            truth, wall = truth + drift * 10, wall + 10 * S
            error = dice.choice((300, 500, 800, 40_000))
            measured.append((round(wall), round(truth) + dice.randint(-error, error), error))
            true.append((round(wall), round(truth)))
        found = clocks(dice.sample(measured, len(measured)))
        assert len(found) <= MOST
        assert [each.since for each in found] == sorted({each.since for each in found})
        for at, offset in true:
            clock = clock_at(found, at)
            assert clock is not None
            assert abs(clock.offset - offset) <= clock.error + 1
