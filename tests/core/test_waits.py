"""What holds a subscriber up is told to operators, whatever the cause."""

from __future__ import annotations

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.waits import WAITS_TOLD
from inorder.protocol.wire import TopicInfo, TopicStart, Wait

FOREVER = 10**9


def reader(*topics: int, filters: bool = False) -> OrderingModule:
    module = OrderingModule("strict")
    starts = [TopicStart(TopicInfo(each, "s", str(each), 0), 0, []) for each in topics]
    module.subscribed(starts, 0.0, filters=filters)
    return module


def test_a_number_that_never_comes_is_told_with_the_first_event_that_waits_for_it() -> None:
    module = reader(1, 2)
    module.receive(2, 1, [1, FOREVER], b"x", 1, 10.0)
    module.receive(2, 2, [], b"y", 1, 10.5)
    assert module.waits(10.9) == [], "so long the order may just be at work"
    assert module.waits(12.0) == [Wait(1, FOREVER, 2, 1, 1, 2_000)], "what is behind it waits for it, not for a cause"


def test_of_each_topic_the_lowest_number_is_told_and_the_longest_wait_first() -> None:
    module = reader(1, 2)
    for number in (5, 4, 3):
        module.receive(1, number, [], b"x", 1, 20.0 - number)
    module.receive(2, 2, [], b"y", 1, 12.0)
    assert module.waits(30.0) == [Wait(2, 1, 2, 2, 1, 18_000), Wait(1, 2, 1, 3, 1, 13_000)]
    module.receive(2, 1, [], b"x", 1, 30.0)
    assert [each.topic for each in module.waits(30.0)] == [1], "what has gone waits no more"


def test_the_event_that_waits_longest_for_a_number_is_told_with_it() -> None:
    module = reader(1, 2, 3)
    for topic, arrived in ((2, 11.0), (3, 10.0)):
        module.receive(topic, 1, [1, 5], b"x", 1, arrived)
    assert module.waits(14.0) == [Wait(1, 5, 3, 1, 2, 4_000)]
    module.receive(2, 2, [1, 3], b"x", 1, 12.0)
    assert module.waits(14.0) == [Wait(1, 3, 2, 2, 1, 2_000)], "the lowest that is slept on"


def test_a_topic_that_nobody_has_named_is_told() -> None:
    module = reader(1, filters=True)
    module.receive(1, 1, [7, 1], b"x", 1, 0.0)
    assert module.waits(5.0) == [Wait(7, 0, 1, 1, 1, 5_000)]


def test_so_many_are_told_and_no_more() -> None:
    module = reader(*range(1, 100))
    for topic in range(1, 100):
        module.receive(topic, 2, [], b"x", 1, 0.0)
    assert len(module.waits(5.0)) == WAITS_TOLD
