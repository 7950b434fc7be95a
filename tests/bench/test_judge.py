"""A run whose events did not come, or not in one order, is worth nothing: what is measured is judged first."""

from __future__ import annotations

import pytest

from inorder_bench import processes
from inorder_bench.clocks import Arrivals, Payloads, judge
from inorder_bench.job import Job
from inorder_bench.shapes import SHAPES

SAME = [[1, 2, 3], [1, 2, 3]]


def test_the_same_events_in_one_order_are_well() -> None:
    assert judge([[2, 1, 3], [2, 1, 3]], SAME, is_ordered=True) == ""


@pytest.mark.parametrize(
    ("seen", "part"),
    [
        ([[1, 2, 3], [1, 2]], "subscriber 1 did not get 1 of 3 events, and 0 that"),
        ([[1, 2, 3, 3], [1, 2, 3]], "subscriber 0 did not get 0 of 3 events, and 1 that"),
        ([[1, 2, 3], [1, 2, 4]], "subscriber 1 did not get 1 of 3 events, and 1 that"),
    ],
)
@pytest.mark.parametrize("is_ordered", [True, False])
def test_events_that_are_missing_or_too_many_are_seen(seen: list[list[int]], part: str, is_ordered: bool) -> None:
    assert part in judge(seen, SAME, is_ordered=is_ordered)


def test_another_order_is_seen_where_one_is_promised() -> None:
    seen = [[1, 2, 3], [1, 3, 2]]
    assert judge(seen, SAME, is_ordered=True) == "subscribers 0 and 1 got what they share in different orders"
    assert judge(seen, SAME, is_ordered=False) == ""


def test_only_what_two_share_must_be_in_one_order() -> None:
    assert judge([[1, 9, 2], [2, 8], [8, 2]], [[1, 2, 9], [2, 8], [2, 8]], is_ordered=True).startswith("subscribers 1")
    assert judge([[1, 9, 2], [2, 8, 1]], [[1, 2, 9], [1, 2, 8]], is_ordered=True) != ""
    assert judge([[1, 9, 2], [1, 8, 2]], [[1, 2, 9], [1, 2, 8]], is_ordered=True) == ""


def test_arrivals_are_judged_by_what_the_payloads_say() -> None:
    job = Job(client="", url="", events=4, warm_up=2, name="x", is_ordered=True)
    good, bad = Arrivals(job), Arrivals(job)
    payloads = [Payloads(job).make(number) for number in range(6)]
    assert {len(each) for each in payloads} == {100}
    for number in range(6):
        for arrivals in (good, bad):
            arrivals.took(0, payloads[number])
        good.took(1, payloads[number])
        bad.took(1, payloads[[1, 0, 2, 3, 4, 5][number]])
    assert good.left == 0
    assert good.judged().problem == ""
    assert good.answer.events == 8  # the warm-up is not among them
    assert bad.judged().problem == "subscribers 0 and 1 got what they share in different orders"


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_every_topic_and_each_event_once(name: str) -> None:
    shape = SHAPES[name]
    turns = list(shape.turns(2 * len(shape.topics)))
    assert [turn.number for turn in turns] == list(range(2 * len(shape.topics)))
    assert {turn.topic for turn in turns[: len(shape.topics)]} == set(range(len(shape.topics)))
    assert all(turn.topic in shape.publishers[turn.publisher] for turn in turns)
    assert turns == list(shape.turns(2 * len(shape.topics)))
    # each topic has one publisher, or all of them
    shared = len(shape.publishers) if shape.publishers[0] == shape.publishers[-1] else 1
    assert sum(len(each) for each in shape.publishers) == shared * len(shape.topics)


def test_a_power_law_prefers_the_first_topics() -> None:
    shape = SHAPES["power-law"]
    drawn = [turn.topic for turn in shape.turns(6_000)][len(shape.topics) :]
    assert drawn.count(0) > drawn.count(9) > drawn.count(500)
    assert {len(set(each)) for each in shape.subscribers} == {10}


def test_a_process_that_finds_something_wrong_makes_the_run_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(['{"problem": "out of order"}\n'])
    monkeypatch.setattr(processes._Process, "__init__", lambda self, job: setattr(self, "_job", job))
    monkeypatch.setattr(processes._Process, "_line", lambda self: next(answers))
    with pytest.raises(processes.RunFailed, match="paho_direct: out of order"):
        processes._Process(Job(client="x.paho_direct", url="", events=1, warm_up=0, name="x")).answer()
