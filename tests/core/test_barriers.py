"""Barriers (R24): what is proven to be read, and in which time it counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.cluster import seen, wait

from inorder.endpoint.barriers import CaughtUp
from inorder.endpoint.gaps import MAX_UNREAD
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, OrderingTimes
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState, TopicInfo, TopicStart

A, B = 1, 2


def _module(mode: Mode = "strict") -> OrderingModule:
    module = OrderingModule(mode)
    module.space_of = {A: "one", B: "two"}.__getitem__
    starts = [TopicStart(TopicInfo(topic, "", "", 0), 0, []) for topic in (A, B)]
    module.subscribed(starts, 0.0, filters=False)
    return module


def _missing(topic: int = A, mode: Mode = "strict") -> OrderingModule:
    """Number 1 of a topic is missing since 0 s, and known to be confirmed since 1 s."""
    module = _module(mode)
    module.receive(topic, 2, [], None, 1, 0.0)
    module.answered(Numbers(1, topic, [NumberAnswer(1, NumberState.CONFIRMED)]), 1.0)
    return module


# -- the time for which a client was caught up -------------------------------------------------------------------------


# Sums of these are exact: a step too short to change a sum would make two times one.
SECONDS = st.integers(0, 9 * 1024).map(lambda parts: parts / 1024)


@given(st.lists(st.tuples(st.sampled_from(["look", "begin", "pass", "fail"]), SECONDS), max_size=30))
def test_r24_what_is_proven_was_read_by_a_barrier_that_began_later(steps: list[tuple[str, float]]) -> None:
    broker, now, began, known = CaughtUp("", interval=1.0, patience=1.0), 0.0, None, list[tuple[float, float]]()
    proven_up_to = -1.0
    for step, seconds in steps:
        now += seconds
        if step == "begin" and began is None:
            broker.begin(now)
            began = now
        elif step == "pass" and began is not None:
            broker.passed(now)
            proven_up_to, began = began, None
        elif step == "fail":
            broker.failed(now)
            began = None
        else:
            known.append((now, broker.at(now)))
        assert all(when <= proven_up_to for when, time in known if time <= broker.proven)
    assert [time for _, time in known] == sorted(time for _, time in known)


@pytest.mark.parametrize(("loss_timeout", "interval"), [(0.5, 0.1), (5.0, 1.0), (60.0, 1.0)])
def test_r24_brokers_are_asked_a_few_times_before_anything_is_lost(loss_timeout: float, interval: float) -> None:
    assert OrderingTimes(loss_timeout=loss_timeout).barrier_interval == interval


def test_r24_time_that_a_client_stands_still_does_not_count() -> None:
    """Three times 7 s, and barriers in between: less than 2 s count of each."""
    broker = CaughtUp("", interval=1.0, patience=1.0)
    began = broker.at(0.0)
    for at in (7.0, 14.0, 21.0):
        broker.begin(at)
        broker.passed(at)
    assert broker.proven - began == 6.0


# -- lost only behind a barrier ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["strict", "tag"])
def test_r24_a_reader_that_is_not_caught_up_loses_nothing(mode: Mode) -> None:
    """Time alone loses nothing: its barrier is not back, or was begun before the number was known to be confirmed."""
    module = _missing(mode=mode)
    assert module.barriers(1.0) == ["one"]
    for second in range(1, 60):
        assert seen(module.tick(float(second))) == []
        assert module.barriers(float(second)) == []
    assert seen(module.caught_up("one", 60.0)) == []
    late = "1:1" if mode == "strict" else "1:1 late"
    assert seen(module.receive(A, 1, [], None, 1, 60.0))[0] == late
    assert seen(wait(module, 60.0, 99.0)) == []


def test_r24_a_client_that_is_caught_up_knows_after_loss_timeout() -> None:
    module = _missing()
    assert seen(wait(module, 1.0, 4.9)) == []
    assert seen(wait(module, 4.9, 5.1)) == ["gap 1:1-1 lost", "1:2"]
    assert module.is_idle or module.next_tick() is None


def test_r24_a_barrier_is_needed_that_began_after_the_confirmation() -> None:
    """5 s after it was known to be missing one comes back that began just before it was known to be confirmed."""
    module = _missing()
    module.receive(A, 4, [], None, 1, 1.0)
    assert seen(wait(module, 1.0, 4.0)) == []
    for at in (5.0, 6.5):
        assert module.barriers(at) == ["one"]
        module.answered(Numbers(1, A, [NumberAnswer(3, NumberState.CONFIRMED)]), at + 0.1)
        outputs = seen(module.caught_up("one", at + 0.2))
        assert "gap 1:3-3 lost" not in outputs
    assert seen(wait(module, 6.8, 7.0)) == ["gap 1:3-3 lost", "1:4"]


def test_r24_each_broker_has_barriers_of_its_own() -> None:
    module = _missing(B)
    module.receive(A, 2, [], None, 1, 1.0)
    module.answered(Numbers(1, A, [NumberAnswer(1, NumberState.CONFIRMED)]), 1.0)
    assert module.barriers(1.0) == ["two"]
    module.caught_up("two", 1.0)
    assert sorted(module.barriers(2.0)) == ["one", "two"]
    out = seen(module.caught_up("two", 2.0))
    for second in range(3, 20):
        assert module.barriers(float(second)) in ([], ["two"])
        out += seen(module.caught_up("two", float(second)))
    assert out == ["gap 2:1-1 lost", "2:2"]


def test_r24_a_connection_that_is_gone_is_not_asked_all_the_time() -> None:
    module = _missing()
    asked = 0
    for tenth in range(10, 110):
        for space in module.barriers(tenth / 10):
            module.not_caught_up(space, tenth / 10)
            asked += 1
    assert asked == 10
    assert seen(wait(module, 11.0, 30.0)) == ["gap 1:1-1 lost", "1:2"]


def test_r24_what_was_jumped_is_skipped_only_behind_a_barrier() -> None:
    module = _module(Bounded(buffer=0))
    assert seen(module.receive(A, 3, [], None, 1, 0.0)) == ["1:3"]
    assert module.barriers(0.5) == []
    assert module.barriers(1.0) == ["one"]
    assert seen(module.tick(60.0)) == []
    assert seen(module.receive(A, 1, [], None, 1, 60.0)) == ["1:1 late"]
    module.caught_up("one", 60.0)
    assert seen(wait(module, 60.0, 70.0)) == ["gap 1:2-2 skipped"]


# -- questions ---------------------------------------------------------------------------------------------------------


def _behind(count: int) -> OrderingModule:
    """Two topics of which a head told that many numbers at 0 s, A's a little earlier."""
    module = _module()
    module.heads([A, count], 0.0)
    module.heads([B, count], 0.1)
    return module


def _asked(module: OrderingModule, now: float) -> dict[int, list[int]]:
    return {each.topic: each.ranges for each in module.questions(now)}


def test_r24_a_reader_that_is_behind_asks_little_first_for_what_it_has_missed_for_longest() -> None:
    module = _behind(MAX_UNREAD - 10)
    assert _asked(module, 1.5) == {A: [1, MAX_UNREAD - 10], B: [1, 10]}
    assert module.barriers(1.6) == ["two"]  # it takes its time
    for tenth in range(16, 25):
        assert _asked(module, tenth / 10) == {}
    assert _asked(module, 2.6) == {A: [1, MAX_UNREAD - 10], B: [1, 10]}


def test_r24_what_is_still_missing_behind_a_barrier_is_asked_for_at_once() -> None:
    module = _behind(1000)
    assert _asked(module, 1.5) == {A: [1, MAX_UNREAD]}
    assert module.barriers(1.6) == ["one", "two"]
    module.heads([B, 1010], 1.7)
    module.caught_up("two", 1.8)
    assert _asked(module, 1.8) == {B: [1, 1000]}


def test_r24_what_was_not_read_before_the_connection_went_is_asked_for_at_once() -> None:
    module = _behind(1000)
    assert _asked(module, 1.5) == {A: [1, MAX_UNREAD]}
    assert module.barriers(1.6) == ["one", "two"]
    module.not_caught_up("two", 1.7)
    assert _asked(module, 1.7) == {B: [1, 1000]}
    module.heads([B, 2000], 1.8)  # it is there again
    assert _asked(module, 2.9) == {A: [1, MAX_UNREAD], B: [1, 1000]}
