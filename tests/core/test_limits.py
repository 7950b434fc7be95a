"""The limits of bounded waiting (R6): which are allowed, and when the event that waits longest is let go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.readers import get, new_reader, until

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import OrderingTimes
from inorder.errors import InvalidOption


@pytest.mark.parametrize(
    "limits",
    [
        {"buffer": 0},
        {"buffer": None, "max_wait": 0},
        {"buffer": None, "max_wait": 0.0},
        {"buffer": None, "max_wait": 1.5},
        {"buffer": None, "buffer_bytes": 0},
        {"buffer": 7, "max_wait": 2, "buffer_bytes": 9},
    ],
)
def test_limits_that_are_allowed(limits: dict[str, Any]) -> None:
    made = Bounded(**limits)
    assert {name: getattr(made, name) for name in limits} == limits


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"buffer": -1}, "buffer"),
        ({"buffer": 1.0}, "buffer"),
        ({"buffer": True}, "buffer"),
        ({"buffer": "1"}, "buffer"),
        ({"buffer_bytes": -1}, "buffer_bytes"),
        ({"buffer_bytes": 1.5}, "buffer_bytes"),
        ({"max_wait": -0.1}, "max_wait"),
        ({"max_wait": float("nan")}, "max_wait"),
        ({"max_wait": True}, "max_wait"),
        ({"max_wait": "1"}, "max_wait"),
        ({"buffer": None}, "buffer"),
    ],
)
def test_limits_that_are_not_allowed(limits: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        Bounded(**limits)


def test_each_event_that_a_limit_lets_go_is_counted() -> None:
    module = new_reader(Bounded(buffer=1), a=0)
    for number in (2, 4, 6):
        get(module, 1, number)
    assert module.describe()["waiting"]["arrivals"] == [(1, 6)]
    assert module.counts.forced == 2
    assert module.waiting == 1


@pytest.mark.parametrize(("size", "goes"), [(50, []), (51, ["1:2"])])
def test_bytes_beyond_the_limit_let_the_oldest_go(size: int, goes: list[str]) -> None:
    module = new_reader(Bounded(buffer=None, buffer_bytes=100), a=0)
    assert get(module, 1, 2, size=50) == []
    assert get(module, 1, 4, size=size) == goes


def test_what_finds_no_room_before_its_topic_begins_is_waited_for_by_nobody() -> None:
    module = new_reader(times=OrderingTimes(max_waiting=0), a=0)
    module.subscribing()
    assert get(module, 2, 1) == []
    assert module.counts.overflow == 1
    assert (module.is_idle, module.unnamed()) == (True, [])


def test_in_another_domain_there_is_room_again_for_topics_that_have_not_begun() -> None:
    module = new_reader(times=OrderingTimes(max_waiting=1), a=0)
    for _ in range(2):
        module.subscribing()
        assert get(module, 2, 1) == []
        assert module.counts.overflow == 0
        module.other_domain(0.0)


def test_the_wait_of_the_oldest_counts() -> None:
    module = new_reader(Bounded(buffer=None, max_wait=2.0), a=0)
    get(module, 1, 4, now=1.0)
    get(module, 1, 2, now=1.5)
    assert module.next_tick() == 3.0
    assert until(module, 2.9, 1.5) == []
    assert until(module, 3.0, 2.9) == ["1:2", "1:4"], "its waiting predecessor goes first"
