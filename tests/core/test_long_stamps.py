"""A stamp that names many topics, which anybody may forge: looking at it again costs what has changed since."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.cluster import seen
from tests.core.readers import get, start_of
from tests.costs import ROOM, steps

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode

SIZE = 100
LAST = 6
"""The topic of the event that names topics 1 to 5."""
UNKNOWN = 99


def reader_of(count: int, mode: Mode = "strict", *, filters: bool = False) -> OrderingModule:
    module = OrderingModule(mode)
    module.subscribed([start_of(topic) for topic in range(1, count + 1)], 0.0, filters=filters)
    return module


def each_wakes(size: int) -> Callable[[], object]:
    module = reader_of(size + 1)
    get(module, size + 1, 1, *[part for topic in range(1, size + 1) for part in (topic, 1)])

    def work() -> None:
        for topic in range(1, size):
            assert get(module, topic, 1) == [f"{topic}:1"]
        assert get(module, size, 1) == [f"{size}:1", f"{size + 1}:1"]

    return work


def each_is_named(size: int) -> Callable[[], object]:
    module = reader_of(1, filters=True)
    get(module, 1, 1, *[part for topic in range(2, size + 2) for part in (topic, 1)])

    def work() -> None:
        for topic in range(2, size + 2):
            assert module.unnamed() == [topic]
            module.named([], [topic], 0.0)
        assert module.clock[1] == 1

    return work


def each_goes_before(size: int) -> Callable[[], object]:
    module = reader_of(size + 1, Bounded(buffer=size))
    get(module, size + 1, 1, *[part for topic in range(1, size + 1) for part in (topic, 2)])
    for topic in range(1, size):
        get(module, topic, 2)

    def work() -> None:
        assert get(module, size, 2) == [f"{topic}:2" for topic in range(1, size + 1)] + [f"{size + 1}:1"]

    return work


@pytest.mark.parametrize("made", [each_wakes, each_is_named, each_goes_before])
def test_a_wake_costs_what_has_changed(made: Callable[[int], Callable[[], object]]) -> None:
    once, twice = steps(made(SIZE)), steps(made(2 * SIZE))
    assert twice < ROOM * once, (once, twice)


def waiting_for(*deps: int, subscribing: bool = False) -> OrderingModule:
    """Topic 6 waits for topic 5, behind others that are met; topics 1 to 4 have clock 1."""
    module = reader_of(LAST)
    if subscribing:
        module.subscribing()
    for topic in range(1, 5):
        get(module, topic, 1)
    assert get(module, LAST, 1, *deps, 5, 1) == []
    return module


def test_a_topic_that_begins_anew_is_waited_for_again() -> None:
    module = waiting_for(1, 1, 2, 1, 3, 1, 4, 1)
    module.unsubscribed([1], 0.0)
    module.subscribing()
    module.subscribed([start_of(1)], 0.0, filters=False)
    assert get(module, 5, 1) == ["5:1"]
    assert get(module, 1, 1) == ["1:1", "6:1"]


def test_a_topic_that_is_being_subscribed_is_waited_for() -> None:
    """R9: until then it was none of the subscription's."""
    module = waiting_for(UNKNOWN, 1, 2, 1, 3, 1, 4, 1)
    module.subscribing()
    assert get(module, 5, 1) == ["5:1"]
    assert seen(module.subscribed([start_of(UNKNOWN)], 0.0, filters=False)) == []
    assert get(module, UNKNOWN, 1) == ["99:1", "6:1"]


def test_a_topic_that_is_named_late_is_waited_for() -> None:
    module = waiting_for(UNKNOWN, 1, 2, 1, 3, 1, 4, 1)
    module.named([UNKNOWN], [], 0.0)
    assert get(module, 5, 1) == ["5:1"]
    assert get(module, UNKNOWN, 1) == ["99:1", "6:1"]


def test_a_topic_that_may_belong_to_the_subscription_is_waited_for() -> None:
    """R13: until then there was no filter."""
    module = waiting_for(UNKNOWN, 1, 2, 1, 3, 1, 4, 1)
    module.subscribed([], 0.0, filters=True)
    assert get(module, 5, 1) == ["5:1"]
    assert module.unnamed() == [UNKNOWN]


def test_a_topic_that_ends_while_a_change_is_on_its_way_is_waited_for() -> None:
    """R9: the change may have it again."""
    module = waiting_for(1, 1, 2, 1, 3, 1, 4, 1, subscribing=True)
    module.unsubscribed([1], 0.0)
    assert get(module, 5, 1) == ["5:1"]
    assert seen(module.subscribed([], 0.0, filters=False)) == ["6:1"]
