"""Whom a subscriber asks for missing numbers, when again, and what it makes of the answers (R17, R18, R24)."""

from __future__ import annotations

import pytest
from tests.core.cluster import seen
from tests.core.readers import answer, get, new_reader, start_of, until

from inorder.endpoint.barriers import CaughtUp
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Fetch, Found, OrderingTimes, Question
from inorder.endpoint.reader import TopicReader
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState

A, B = 1, 2
PENDING, CONFIRMED, UNKNOWN = NumberState.PENDING, NumberState.CONFIRMED, NumberState.UNKNOWN


def test_r17_what_is_pending_is_asked_for_again_a_timeout_after_its_answer() -> None:
    module = new_reader(a=0)
    get(module, A, 2)
    assert module.questions(1.0) == [Question(A, [1, 1])]
    answer(module, A, (1, PENDING), now=1.5)
    assert module.next_deadline() == pytest.approx(2.5)
    assert module.questions(2.4) == []
    assert module.questions(2.5) == [Question(A, [1, 1])]


def test_r17_what_else_is_missing_is_asked_for_as_soon_as_the_answer_is_there() -> None:
    module = new_reader(a=0)
    get(module, A, 2)
    assert module.questions(1.0) == [Question(A, [1, 1])]
    get(module, A, 4, now=0.5)
    assert module.questions(1.9) == [], "the first question is on its way"
    answer(module, A, (1, CONFIRMED), now=1.9)
    assert module.questions(1.9) == [Question(A, [3, 3])]


def test_r17_what_was_stamped_while_a_number_was_not_issued_yet_teaches_the_numbers_before_it_anew() -> None:
    """Also while it waits for something else; what came before the question claims what does not exist."""
    module = new_reader(a=0, b=0)
    get(module, A, 5)
    assert module.questions(1.0) == [Question(A, [1, 4])]
    get(module, A, 3, B, 2, now=1.1)
    assert answer(module, A, (1, UNKNOWN), now=1.2) == ["1:5 unsequenced"]
    assert module.questions(3.0) == [Question(B, [1, 2]), Question(A, [1, 2])]


def test_r17_what_is_told_without_a_question_puts_no_question_off() -> None:
    module = new_reader(a=0)
    get(module, A, 2)
    module.questions(1.0)
    module.answered(Numbers(0, A, [NumberAnswer(1, PENDING)]), 1.5)
    assert module.questions(2.0) == [Question(A, [1, 1])]


def _expired(through: int, logged_from: int) -> Numbers:
    return Numbers(1, A, [], through, logged_from)


def test_r18_an_event_that_came_while_its_log_was_asked_needs_nothing_of_it() -> None:
    """The stage knows these numbers no longer, so nobody knows what they depended on; the last one is the clock's."""
    module = new_reader(a=0)
    module.heads([A, 2], 0.0)
    module.questions(1.0)
    module.answered(_expired(2, 1), 1.0)
    assert module.fetches(1.0) == [Fetch(A, [1, 2])]
    assert get(module, A, 1, now=1.1) == ["1:1"]
    assert seen(module.fetched(A, [1, 2], 1, [], 1.2)) == []
    assert dict(module.interrupted) == {}
    assert module.fetches(1.2) == [Fetch(A, [2, 2])]
    assert seen(module.fetched(A, [2, 2], 2, [Found(2, [], "x", 1)], 1.3)) == ["1:2"]


def test_r18_what_neither_stage_nor_log_knows_begins_anew() -> None:
    module = new_reader(a=0)
    module.heads([A, 2], 0.0)
    module.questions(1.0)
    module.answered(_expired(2, 1), 1.0)
    module.fetches(1.0)
    module.fetched(A, [1, 2], 2, [], 1.2)
    assert dict(module.interrupted) == {A: 1}


def test_r17_who_takes_events_out_of_turn_begins_just_the_forgotten_topic_anew() -> None:
    """R22: no event of another topic relies on it to have waited."""
    module = new_reader(Bounded(5, 10.0), a=0, b=0)
    get(module, A, 9)
    module.answered(_expired(3, 0), 1.0)
    assert (module.interrupted, B in module.clock) == ({A: 1}, True)


@pytest.mark.parametrize(("through", "logged_from", "begins_anew"), [(2, 0, True), (2, 3, True), (2, 1, False)])
def test_r17_what_a_stage_has_forgotten_may_be_in_its_log(through: int, logged_from: int, begins_anew: bool) -> None:
    module = new_reader(a=0)
    module.heads([A, 2], 0.0)
    module.questions(1.0)
    module.answered(_expired(through, logged_from), 1.0)
    assert bool(module.interrupted) is begins_anew


@pytest.mark.parametrize(
    ("through", "present", "needs"),
    [(3, (), False), (4, (), True), (4, (4,), False), (5, (4,), False), (6, (4,), True), (6, (4, 6), False)],
)
def test_r17_which_numbers_have_a_fate_that_nobody_tells(through: int, present: tuple[int, ...], needs: bool) -> None:
    """The clock is at 3, and 5 is known to be confirmed."""
    reader = TopicReader(A, 3, CaughtUp("", interval=1.0, patience=1.0))
    reader.missing.learn(7, 0.0)
    reader.missing.confirm(5, [], 0.0)
    assert reader.needs_any(through, present) is needs


@pytest.mark.parametrize(
    ("unstamped_at", "known_at", "reason"),
    [(None, 10.0, "lost"), (4.9, 10.0, "lost"), (5.0, 10.0, "unstamped"), (0.0, None, "unstamped")],
)
def test_r17_messages_without_stamps_at_that_time_are_the_reason(
    unstamped_at: float | None, known_at: float | None, reason: str
) -> None:
    reader = TopicReader(A, 0, CaughtUp("", interval=1.0, patience=1.0))
    if known_at is not None:
        reader.missing.learn(1, known_at)
    reader.missing.unstamped_at = unstamped_at
    reader.given_up.add(1)
    assert [reader.loss_reason(1, 5.0) for _ in range(2)] == ["overflow", reason], "what found no room says so once"


def test_r18_the_log_is_asked_again_a_timeout_later_and_later_still_while_there_is_enough_to_read() -> None:
    module = new_reader(a=0)
    module.heads([A, 1], 0.0)
    module.questions(1.0)
    module.answered(Numbers(1, A, [NumberAnswer(1, CONFIRMED, [], True)]), 1.0)
    assert module.fetches(1.0, hold=True) == []
    assert module.fetches(1.9) == []
    assert module.fetches(2.0) == [Fetch(A, [1, 1])]
    assert module.fetches(2.9) == []
    assert module.fetches(3.0) == [Fetch(A, [1, 1])]


def test_r18_what_is_repaired_is_counted_once_and_is_not_given_up_any_more() -> None:
    module = new_reader(times=OrderingTimes(max_waiting=1), a=0)
    get(module, A, 3)
    get(module, A, 2)
    assert module.counts.overflow == 1
    module.questions(1.0)
    module.answered(Numbers(1, A, [NumberAnswer(each, CONFIRMED, [], True) for each in (1, 2)]), 1.0)
    assert module.fetches(1.0) == [Fetch(A, [1, 2])]
    rows = [Found(number, [], "x", 1) for number in (1, 2)]
    assert seen(module.fetched(A, [1, 2], 2, rows, 1.1)) == ["1:1", "1:2", "1:3"]
    assert module.counts.repaired == 2
    assert module.describe()["readers"][A]["given_up"] == []


def test_r18_what_was_reached_when_it_resumed_is_asked_for_at_once() -> None:
    """It was missed long ago. What heads tell is as young as that."""
    module = new_reader()
    start = start_of(A, 2)
    start.reached = 4
    module.subscribed([start], 7.0, filters=False)
    assert module.questions(7.0) == [Question(A, [3, 4])]
    module = new_reader(a=2)
    module.heads([A, 4], 7.0)
    assert module.questions(7.0) == []


def test_topics_are_dropped_whoever_lists_them() -> None:
    module = new_reader(a=0, b=0)
    get(module, A, 2)
    get(module, B, 1, A, 1)
    assert seen(module.unsubscribed((each for each in (A,)), 0.0)) == ["2:1"]
    assert dict(module.clock) == {B: 1}
    module.subscribing()
    assert get(module, B, 2, A, 9) == [], "it may be subscribed to anew"
    assert seen(module.subscribed([], 0.0, filters=False)) == ["2:2"]


def test_r24_the_broker_that_is_due_first_says_when_to_look() -> None:
    module = OrderingModule()
    module.space_of = {A: "one", B: "two"}.__getitem__
    module.subscribed([start_of(A), start_of(B)], 0.0, filters=False)
    for topic, now in ((A, 0.0), (B, 0.9)):
        get(module, topic, 2, now=now)
        answer(module, topic, (1, CONFIRMED), now=now)
    assert module.next_tick() == 1.0
    assert module.barriers(1.0) == ["one"]
    assert module.next_tick() == 1.9


def test_r6_a_topic_whose_jumps_were_reported_is_not_looked_at_any_more() -> None:
    module = new_reader("tag", a=0, b=0)
    get(module, A, 3)
    get(module, B, 2, now=3.0)
    assert module.describe()["jumping"] == [A, B]
    assert until(module, 6.5, 3.0) == ["gap 1:1-2 skipped"]
    assert module.describe()["jumping"] == [B]
    assert until(module, 20.0, 6.5) == ["gap 2:1-1 skipped"]
    module.questions(20.0)
    assert module.is_idle


def test_r24_time_after_a_connection_went_counts_from_when_somebody_looks() -> None:
    broker = CaughtUp("", interval=1.0, patience=1.0)
    broker.begin(0.0)
    broker.failed(10.0)
    assert broker.at(12.0) == 4.0
    assert broker.at(13.0) == 5.0


def test_r4_in_another_domain_what_is_from_before_it_has_no_order_only_until_it_has_begun() -> None:
    module = new_reader(a=0)
    module.other_domain(0.0)
    module.subscribing()
    get(module, A, 2)
    assert seen(module.subscribed([start_of(A, 3)], 0.0, filters=False)) == ["1:2 unsequenced"]
    module.subscribing()
    get(module, B, 2)
    assert seen(module.subscribed([start_of(B, 3)], 0.0, filters=False)) == []
    assert module.counts.before == 1
