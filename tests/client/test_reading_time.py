"""The time by which missing events are waited for, where the application itself reads the connection (R17)."""

from __future__ import annotations

import pytest

from inorder.client import clock
from inorder.client.clock import ReadingTime


class Monotonic:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    machine = Monotonic()
    monkeypatch.setattr(clock, "time", machine)
    return machine


def test_it_stands_still_while_nothing_is_read(machine: Monotonic) -> None:
    time = ReadingTime()
    time.begin()
    machine.now += 5  # a read that waits
    time.end()
    assert time() == 105
    machine.now += 0.5
    assert time() == 105.5
    machine.now += 60
    assert time() == 105 + ReadingTime.PATIENCE
    time.begin()
    assert time() == 105 + ReadingTime.PATIENCE
    machine.now += 2
    assert time() == 107 + ReadingTime.PATIENCE


def test_looking_again_and_again_is_reading(machine: Monotonic) -> None:
    time = ReadingTime()
    for _ in range(10):
        time.begin()
        time.end()
        machine.now += 0.9
    assert time() == pytest.approx(109)
