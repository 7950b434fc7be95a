"""What holds a subscriber up is told to operators, whatever the cause."""

from __future__ import annotations

from tests.costs import steps

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.waits import WAITS_TOLD
from inorder.protocol.wire import ClientCounts, ClientReport, NumberState, TopicInfo, TopicStart, Wait
from inorder_worker.admin import StuckNumber
from inorder_worker.admin.stuck import places_told, waits_by_number, with_waits

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


def told(client: str, *waits: Wait) -> ClientReport:
    return ClientReport(client, 0, ClientCounts(), 0, -1, list(waits))


def test_numbers_are_looked_up_for_one_client_after_the_other() -> None:
    """Not all are: what one client says of a thousand numbers keeps those of nobody else unknown."""
    many = [Wait(1, number, 1, 2, 1, 5_000) for number in range(1, 65)]
    found = places_told([told("many", *many), told("one", Wait(2, 7, 2, 8, 1, 10), Wait(9, 3, 2, 8, 1, 4_000))], 1_000)
    assert found == [(1, 1), (9, 3), *((1, number) for number in range(2, 65))]


def test_clients_that_wait_are_told_with_each_stuck_number() -> None:
    stuck = [
        StuckNumber(topic, first, last, NumberState.PENDING, "", None, "p", 0, 1, logged=False)
        for topic, first, last in ((1, 1, 3), (1, 5, 5), (2, 4, 6))
    ]
    clients = [told("b", Wait(1, 3, 7, 1, 1, 2_000), Wait(2, 7, 7, 1, 1, 2_000)), told("a", Wait(1, 1, 7, 2, 1, 9_000))]
    waits = waits_by_number([*clients, told("c", Wait(2, 4, 7, 3, 1, 2_000))], 1_000)
    made = with_waits(stuck, waits, {(2, 7): NumberState.UNKNOWN})
    assert [(each.topic, each.first, each.waiting, each.holds) for each in made] == [
        (1, 1, ("a", "b"), (7, 2)),
        (1, 5, (), None),
        (2, 4, ("c",), (7, 3)),
        (2, 7, ("b",), (7, 1)),
    ]


def test_many_stuck_numbers_and_many_waits_cost_what_they_are() -> None:
    def cost(size: int) -> int:
        stuck = [
            StuckNumber(1, at, at, NumberState.PENDING, "", None, "p", 0, 1, logged=False)
            for at in range(1, 2 * size, 2)
        ]
        waits = waits_by_number([told("a", *(Wait(2, at, 1, 1, 1, 2_000) for at in range(1, size)))], 1_000)
        return steps(lambda: with_waits(stuck, waits, {}))

    assert cost(400) < 2.5 * cost(200)


def test_so_many_are_told_and_no_more() -> None:
    module = reader(*range(1, 100))
    for topic in range(1, 100):
        module.receive(topic, 2, [], b"x", 1, 0.0)
    assert len(module.waits(5.0)) == WAITS_TOLD
