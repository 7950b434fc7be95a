"""Forged stamps that make events wait for each other: no stage is missing anything, and yet a reader would stand."""

from __future__ import annotations

import pytest
from tests.core.cluster import seen
from tests.core.readers import answer, get, new_reader, until

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, Question
from inorder.protocol.wire import Numbers, NumberState

A, B, C = 1, 2, 3
CONFIRMED, PENDING = NumberState.CONFIRMED, NumberState.PENDING


def in_a_circle(mode: Mode = "strict") -> OrderingModule:
    """a:1 is forged, and waits for b:1, which follows the true a:1; that one is taken for a copy."""
    module = new_reader(mode, a=0, b=0)
    assert get(module, A, 1, B, 1) + get(module, B, 1, A, 1) + get(module, A, 1) == []
    assert module.counts.duplicates == 1
    return module


@pytest.mark.parametrize("mode", ["strict", Bounded(buffer=100)], ids=["strict", "bounded"])
@pytest.mark.parametrize("first", [A, B], ids=["the forged one", "the true one"])
def test_an_event_that_waits_for_what_its_stage_has_not_told_goes_without_an_order(mode: Mode, first: int) -> None:
    module = in_a_circle(mode)
    assert module.questions(5.0) == [Question(A, [1, 1]), Question(B, [1, 1])]
    answers = {A: (1, CONFIRMED, [C, 9]), B: (1, CONFIRMED, [A, 1])}
    said = {topic: answer(module, topic, answers[topic], now=5.1) for topic in ((A, B) if first == A else (B, A))}
    assert said == {A: ["1:1 unsequenced"], B: []}
    assert until(module, 20.0, 5.2) == ["gap 1:1-1 lost", "2:1"]
    assert get(module, A, 2, now=21.0) == ["1:2"]
    assert module.waiting == 0


def test_an_event_whose_timestamp_is_still_on_its_way_is_forged() -> None:
    module = in_a_circle()
    module.questions(5.0)
    assert answer(module, A, (1, PENDING), now=5.1) == ["1:1 unsequenced"]
    assert get(module, A, 1, now=6.0) == ["1:1", "2:1"]


def test_an_event_whose_timestamp_nobody_knows_any_more_is_not_believed() -> None:
    module = in_a_circle()
    module.questions(5.0)
    assert seen(module.answered(Numbers(1, A, [], expired_through=1), 5.1)) == ["1:1 unsequenced"]
    assert list(module.interrupted) == [A, B], "a:1 is missing and expired, so all begins anew (R17, R22)"


def test_a_circle_of_three_with_others_that_wait_for_their_turn() -> None:
    module = new_reader(a=0, b=0, c=0)
    for topic, number, *deps in ((A, 1, C, 2), (A, 2), (B, 1, A, 2), (B, 2), (C, 1), (C, 2, B, 2), (C, 3)):
        get(module, topic, number, *deps)
    assert module.questions(5.0) == [Question(A, [1, 1]), Question(B, [1, 1]), Question(C, [2, 2])]
    assert answer(module, B, (1, CONFIRMED, [A, 2]), now=5.1) + answer(module, C, (2, CONFIRMED, [B, 2]), now=5.1) == []
    assert answer(module, A, (1, CONFIRMED), now=5.1) == ["1:1 unsequenced"]
    assert until(module, 20.0, 5.2) == ["gap 1:1-1 lost", "1:2", "2:1", "2:2", "3:2", "3:3"]


def test_what_waits_for_a_missing_number_is_in_no_circle_and_each_circle_is_asked_about_once_in_a_while() -> None:
    module = new_reader(a=0, b=0)
    assert get(module, A, 2) + get(module, B, 1, A, 2) + get(module, B, 2) == []
    assert module.questions(5.0) == [Question(A, [1, 1])]
    module = in_a_circle()
    assert len(module.questions(5.0)) == 2
    assert module.questions(5.9) == []
    assert len(module.questions(6.0)) == 2, "unanswered"
    module = new_reader(a=0, b=0)
    assert get(module, A, 2) == []
    assert module.questions(5.0) == [Question(A, [1, 1])]
    assert get(module, B, 2, now=5.0) + get(module, B, 1, A, 1, now=5.0) + get(module, A, 1, B, 2, now=5.0) == []
    assert module.questions(9.9) == []
    assert module.questions(10.0) == [Question(A, [1, 1]), Question(B, [1, 1])], "loss_timeout later"


def test_all_that_wait_for_others_are_asked_about_where_there_is_one_circle() -> None:
    """Who forges one stamp forges many; each circle by itself would hold up what comes behind it for seconds."""
    module = in_a_circle()
    for topic, number, *deps in ((A, 2, B, 2), (B, 2, A, 2), (A, 3), (B, 3, A, 1, B, 1)):
        assert get(module, topic, number, *deps) == []
    assert module.questions(5.0) == [Question(A, [1, 1, 2, 2]), Question(B, [1, 1, 2, 2, 3, 3])]
    told = [(1, CONFIRMED, [A, 1]), (2, CONFIRMED, [A, 2]), (3, CONFIRMED, [A, 1, B, 1])]
    assert answer(module, B, *told, now=5.1) == []
    assert answer(module, A, (1, CONFIRMED, []), (2, CONFIRMED, []), now=5.1) == ["1:1 unsequenced", "1:2 unsequenced"]
    assert until(module, 20.0, 5.2) == ["gap 1:1-2 lost", "2:1", "2:2", "1:3", "2:3"]
