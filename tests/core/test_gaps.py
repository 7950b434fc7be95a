"""Missing and jumped numbers (R6, R17)."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.endpoint.barriers import CaughtUp
from inorder.endpoint.gaps import MAX_ASKED, MAX_MOMENTS, JumpedNumbers, MissingNumbers, NumberSet
from inorder.endpoint.reader import TopicReader


def _missing(clock: int = 0) -> MissingNumbers:
    return MissingNumbers(clock, CaughtUp("", interval=1.0, patience=1.0))


def test_a_number_is_missing_since_it_was_first_known() -> None:
    missing = _missing(3)
    assert not missing.learn(3, 0.0)
    assert missing.learn(6, 1.0)
    assert not missing.learn(5, 2.0)
    assert missing.learn(9, 3.0)
    assert [missing.learned_at(number) for number in (4, 6, 7, 9, 10)] == [1.0, 1.0, 3.0, 3.0, None]


def test_only_what_is_missing_long_enough_is_asked_for() -> None:
    missing = _missing()
    missing.learn(4, 1.0)
    missing.learn(9, 2.0)
    assert missing.due(0, 1.0) == 2.0
    assert missing.ranges(0, {2, 4}, 2.5, 1.0) == [1, 1, 3, 3]
    assert missing.ranges(0, {2, 4, 9}, 3.0, 1.0) == [1, 1, 3, 3, 5, 8]
    assert missing.due(4, 1.0) == 3.0
    assert missing.due(9, 1.0) is None


def test_after_an_answer_the_next_question_waits() -> None:
    missing = _missing()
    missing.learn(1, 1.0)
    missing.ask_again_at(7.0)
    assert missing.due(0, 1.0) == 7.0
    missing.ask_again_at(None)
    assert missing.due(0, 1.0) == 2.0


def test_one_question_is_bounded() -> None:
    missing = _missing()
    missing.learn(10**12, 0.0)
    assert missing.ranges(0, (), 5.0, 1.0) == [1, MAX_ASKED]


def test_numbers_nobody_issued_are_forgotten() -> None:
    missing = _missing()
    missing.learn(2, 0.0)
    missing.learn(50, 1.0)
    missing.forget_from(3, 2.0)
    assert (missing.known, missing.learned_at(2), missing.learned_at(3)) == (2, 0.0, None)


def test_what_a_forged_number_hid_is_still_missing() -> None:
    """2^62 was learned, then 1 to 3 were issued: they were no news, and must not be forgotten with it."""
    missing = _missing()
    missing.learn(2**62, 0.0)
    assert not missing.learn(3, 0.5)
    missing.forget_from(4, 2.0)
    assert (missing.known, missing.learned_at(1), missing.learned_at(3), missing.learned_at(4)) == (3, 2.0, 2.0, None)
    assert missing.due(0, 1.0) == 3.0
    assert missing.learn(4, 3.0)


def test_an_answer_belongs_to_the_oldest_question() -> None:
    missing = _missing()
    assert missing.answered() is None
    missing.asked(1.0)
    missing.asked(2.0)
    assert [missing.answered(), missing.answered(), missing.answered()] == [1.0, 2.0, None]


def test_confirmed_numbers_are_lost_in_order_and_not_asked_for() -> None:
    missing = _missing()
    missing.learn(3, 1.0)
    missing.learn(5, 2.0)
    missing.confirm(4, [9, 9], 2.5)
    missing.confirm(2, [7, 7], 2.5)
    began = missing.broker.at(1.0)
    assert missing.ranges(0, (), 9.0, 1.0) == [1, 1, 3, 3, 5, 5]
    assert missing.next_loss(0, 5.0) == pytest.approx(began + 5.0)
    assert missing.next_lost() == (2, [7, 7])
    assert missing.next_loss(3, 5.0) == pytest.approx(began + 6.0)
    assert missing.next_loss(4, 5.0) is None  # it arrived


def test_a_number_that_was_pending_is_missing_since_then() -> None:
    """R24: its publisher may have handed it over only then."""
    missing = _missing()
    missing.learn(2, 0.0)
    began = missing.broker.at(0.0)
    missing.confirm(2, [], 1.0)
    missing.pending(1.0)
    missing.confirm(1, [], 2.0)
    assert missing.next_lost() == (1, [])  # later than 2, and in its turn
    missing.confirm(1, [], 2.0)
    assert missing.next_loss(0, 5.0) == pytest.approx(began + 6.0)
    assert missing.next_loss(1, 5.0) == pytest.approx(began + 5.0)


def test_a_jumped_number_is_late_once() -> None:
    jumped = JumpedNumbers()
    assert not jumped
    jumped.add(3, 5, 6.0)
    assert [jumped.take(number) for number in (2, 4, 4, 6)] == [False, True, False, False]
    assert jumped.due() == 6.0
    assert jumped.overdue(5.9) == []
    assert jumped.overdue(6.0) == [(3, 3), (5, 5)]
    assert not jumped.take(3)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=8), st.lists(st.integers(1, 60), max_size=40))
def test_jumped_ranges_are_a_set_of_numbers(jumps: list[tuple[int, int]], taken: list[int]) -> None:
    jumped, expected, at = JumpedNumbers(), set[int](), 0
    for length, rest in jumps:
        jumped.add(at + 1, at + length, float(at))
        expected.update(range(at + 1, at + length + 1))
        at += length + rest
    for number in taken:
        assert jumped.take(number) == (number in expected)
        expected.discard(number)
    left = {number for first, last in jumped.overdue(1e9) for number in range(first, last + 1)}
    assert left == expected


def test_a_run_that_heads_told_in_steps_is_lost_as_one() -> None:
    """B15: two heads tell the end of a burst. In a longer run nothing is given up later than it must be."""
    missing = _missing()
    began = missing.broker.at(0.0)
    for number, when in ((2, 0.0), (4, 0.25), (6, 1.75)):
        missing.learn(number, when)
        missing.confirm(number - 1, [], when)
        missing.confirm(number, [], when)
    assert missing.next_loss(0, 5.0) == pytest.approx(began + 5.0), "the last one is overdue too late for that"
    assert [missing.next_lost()[0], missing.next_lost()[0]] == [1, 2]
    assert missing.next_loss(2, 5.0) == pytest.approx(began + 5.25)
    assert [missing.next_lost()[0], missing.next_lost()[0]] == [3, 4]
    missing.learn(7, 2.0)
    missing.confirm(7, [], 2.0)
    assert missing.next_loss(4, 5.0) == pytest.approx(began + 7.0), "together"
    single = _missing()
    single.learn(6, 0.5)
    single.confirm(4, [], 0.5)
    single.confirm(6, [], 0.5)
    assert single.next_loss(2, 5.0) == pytest.approx(single.broker.at(0.5) + 5.0), "it waits for nothing"


# -- bounds ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30))))
def test_a_number_set_is_a_set(changes: list[tuple[bool, int]]) -> None:
    numbers, plain = NumberSet(), set[int]()
    for is_added, number in changes:
        (numbers.add if is_added else numbers.discard)(number)
        (plain.add if is_added else plain.discard)(number)
        assert [each for each in range(32) if each in numbers] == sorted(plain)
        assert (len(numbers), numbers.highest) == (len(plain), max(plain, default=0))


def test_numbers_that_follow_one_another_take_no_room() -> None:
    numbers = NumberSet()
    for number in range(1, 100_001):
        numbers.add(number)
    assert len(numbers._ranges) == 1


def test_moments_at_which_numbers_became_known_are_bounded_and_none_is_early() -> None:
    missing = _missing()
    for number in range(1, 3 * MAX_MOMENTS):
        missing.learn(number, float(number))
    assert len(missing._learned) == MAX_MOMENTS
    assert missing.learned_at(5) == 5.0
    late = missing.learned_at(2 * MAX_MOMENTS)
    assert late is not None
    assert late >= 2 * MAX_MOMENTS


def test_a_topic_of_which_nothing_is_missing_takes_no_room_for_what_is() -> None:
    """Who subscribes to ``#`` makes thousands of them at once, and the collector looks at each of their parts. Whoever
    needs a part has one of its own."""
    idle, busy = (TopicReader(topic, 0, CaughtUp("", interval=1.0, patience=1.0)) for topic in (1, 2))
    parts = [
        part
        for owner in (idle.missing, idle.jumped, idle.passed, idle.restored, idle.given_up)
        for each in type(owner).__slots__
        if gc.is_tracked(part := getattr(owner, each)) and not isinstance(part, CaughtUp)
    ]
    for reader in (idle, busy):
        reader.missing.asked(1.0)
        reader.missing.learn(5, 1.0)
    assert len({id(part) for part in parts}) <= 1
    assert [idle.missing.answered(), idle.missing.answered()] == [1.0, None]
    assert (busy.missing.answered(), busy.missing.learned_at(5)) == (1.0, 1.0)
