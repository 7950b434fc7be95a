"""The ordering module: R4 (ready), R5 (late, duplicate), R6 (bounded), R8, R9 (hold), R11, R13, R17 (gaps)."""

from __future__ import annotations

import random

import pytest
from tests.core.cluster import seen
from tests.core.readers import answer as _answer
from tests.core.readers import get as _get
from tests.core.readers import new_reader as _module
from tests.core.readers import start_of as _start
from tests.core.readers import until as _until

from inorder.endpoint.gaps import HEADS_SECONDS, MAX_MOMENTS, MAX_PASSED
from inorder.endpoint.notifications import Bounded, GapReason
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, OrderingTimes, Question
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.suspicion import MAX_LEAP
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState

A, B, C, D = range(1, 5)
PENDING, CONFIRMED, VOID, ABANDONED, UNKNOWN = (
    NumberState.PENDING,
    NumberState.CONFIRMED,
    NumberState.VOID,
    NumberState.ABANDONED,
    NumberState.UNKNOWN,
)


# -- R4 --------------------------------------------------------------------------------------------------------


def test_r4_an_event_waits_for_its_own_predecessor_and_for_its_dependencies() -> None:
    module = _module(a=0, b=0)
    assert _get(module, A, 2) == []
    assert _get(module, B, 1, A, 2) == []
    assert _get(module, A, 1) == ["1:1", "1:2", "2:1"]
    assert module.clock == {A: 2, B: 1}


def test_r4_a_dependency_below_the_clock_is_met() -> None:
    """The paper tests equality, which blocks for ever once the clock went past."""
    module = _module(a=5, b=0)
    assert _get(module, B, 1, A, 3) == ["2:1"]


def test_r4_a_dependency_on_a_topic_of_others_is_no_ones_concern() -> None:
    assert _get(_module(a=0), A, 1, D, 17) == ["1:1"]


def test_b60_numbers_of_foreign_topics_are_no_holes() -> None:
    module = _module(a=0)
    for number in range(1, 50):
        assert _get(module, A, number, B, 7 * number, C, 31 * number) == [f"1:{number}"]
    assert module.questions(100.0) == []
    assert module.next_deadline() is None


def test_r4_a_waiting_event_is_looked_at_once_for_each_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a scan of the buffer: 300 waiting events with 3 dependencies each cost at most 4 looks each."""
    looks = 0
    really = Turns.is_ready

    def counted(self: Turns, reader: TopicReader, entry: Sequenced, now: float) -> bool:
        nonlocal looks
        looks += 1
        return really(self, reader, entry, now)

    monkeypatch.setattr(Turns, "is_ready", counted)
    module = _module(a=0, b=0, c=0, d=0)
    for number in range(1, 301):
        assert _get(module, D, number, A, number, B, number, C, number) == []
    for topic in (C, B, A):
        for number in range(1, 301):
            _get(module, topic, number)
    assert module.clock == {A: 300, B: 300, C: 300, D: 300}
    assert looks <= 300 * 3 + 300 * 5


@pytest.mark.parametrize("seed", range(20))
def test_r4_every_arrival_order_gives_an_order_that_respects_all_dependencies(seed: int) -> None:
    rng = random.Random(seed)
    clock, events = {A: 0, B: 0, C: 0}, list[tuple[int, int, list[int]]]()
    for _ in range(60):
        topic = rng.choice((A, B, C))
        deps = joined(each for each in clock.items() if each[0] != topic)
        clock[topic] += 1
        events.append((topic, clock[topic], deps))
    rng.shuffle(events)
    module = _module(a=0, b=0, c=0)
    got = [each for topic, number, deps in events for each in module.receive(topic, number, deps, None, 1, 0.0)]
    position = {(each.topic, each.number): at for at, each in enumerate(got) if hasattr(each, "number")}
    assert len(position) == 60
    for topic, number, deps in events:
        for other, at in [(topic, number - 1), *pairs(deps)]:
            assert not at or position[other, at] < position[topic, number]


# -- R5 --------------------------------------------------------------------------------------------------------


def test_r5_a_duplicate_never_reaches_the_application() -> None:
    module = _module(a=0)
    assert _get(module, A, 1) == ["1:1"]
    assert _get(module, A, 1) == []
    _get(module, A, 3)
    assert _get(module, A, 3) == []
    assert module.counts.duplicates == 2


def test_r5_numbers_up_to_the_start_are_silently_before_the_subscription() -> None:
    module = _module(a=5)
    assert [_get(module, A, 5), _get(module, A, 2)] == [[], []]
    assert (module.counts.before, module.counts.duplicates) == (2, 0)
    assert _get(module, A, 6) == ["1:6"]  # B57: the first one seen after a start is no gap
    assert module.questions(100.0) == []


def test_r5_a_retained_copy_above_the_clock_is_the_event_itself_else_it_is_retained() -> None:
    module = _module(a=5)
    assert seen(module.receive(A, 5, [], None, 1, 0.0, retained=True)) == ["1:5 retained"]
    assert seen(module.receive(A, 6, [], None, 1, 0.0, retained=True)) == ["1:6"]
    assert seen(module.receive(A, 6, [], None, 1, 0.0, retained=True)) == ["1:6 retained"]


@pytest.mark.parametrize("retained", [False, True])
@pytest.mark.parametrize("mode", ["strict", Bounded(buffer=10)], ids=["strict", "bounded"])
def test_r5_what_comes_after_its_gap_is_late_once(mode: Mode, retained: bool) -> None:
    """The gap was told, the event is not withheld; also while its number waits for its turn to be skipped."""
    module = _module(mode, a=0, b=0)
    _get(module, A, 5, now=0.0)
    answers = [(1, ABANDONED, []), (2, CONFIRMED, []), (3, ABANDONED, [B, 1]), (4, VOID, [])]
    words = _answer(module, A, *answers, now=4.0) + _until(module, 9.0)
    assert words == ["gap 1:1-1 abandoned", "gap 1:2-2 lost"]
    words = [
        word for number in (2, 1, 2) for word in seen(module.receive(A, number, [], None, 1, 9.0, retained=retained))
    ]
    again = ["1:2 retained"] if retained else []
    assert words == ["1:2 late", "1:1 late", *again]
    assert _get(module, B, 1, now=9.0) == ["2:1", "gap 1:3-3 abandoned", "1:5"]
    assert _get(module, A, 4, now=9.0) == []  # void: its publisher said that it never handed it over
    assert _get(module, A, 3, now=9.0) == ["1:3 late"]
    assert (module.counts.after_gap, module.counts.duplicates) == (3, 1 + (not retained))


def test_r5_what_was_passed_over_takes_bounded_memory() -> None:
    """A tag reader that gets every other number: the oldest ranges are reported early, and then forgotten."""
    module = _module("tag", a=0)
    words = [word for number in range(2, 6 * MAX_PASSED, 2) for word in _get(module, A, number, now=0.0)]
    words += _until(module, 20.0)
    gaps = [word for word in words if word.startswith("gap")]
    assert gaps == [f"gap 1:{number}-{number} skipped" for number in range(1, 6 * MAX_PASSED - 1, 2)]
    assert len(module.describe()["readers"][A]["passed"]) == MAX_PASSED
    assert _get(module, A, 6 * MAX_PASSED - 3, now=20.0) == [f"1:{6 * MAX_PASSED - 3} late"]
    assert _get(module, A, 1, now=20.0) == []


# -- R6 --------------------------------------------------------------------------------------------------------


def test_r6_waiting_predecessors_are_forced_first_by_timestamp() -> None:
    """Arrivals 102, 101 with 100 missing give 101, 102; then 100 is late."""
    module = _module(Bounded(buffer=1), a=99)
    assert _get(module, A, 102) == []
    assert _get(module, A, 101) == ["1:101", "1:102"]
    assert _get(module, A, 100) == ["1:100 late"]
    assert _get(module, A, 100) == []


def test_r6_forcing_takes_the_whole_timestamp() -> None:
    module = _module("tag", a=0, b=0)
    assert _get(module, B, 1, A, 3) == ["2:1"]
    assert module.clock == {A: 3, B: 1}
    assert _get(module, A, 2) == ["1:2 late"]
    assert _get(module, A, 4) == ["1:4"]


def test_r6_what_was_jumped_and_does_not_arrive_is_one_gap() -> None:
    module = _module("tag", a=0)
    _get(module, A, 6, now=1.0)
    _get(module, A, 3, now=2.0)
    assert _until(module, 5.9, 2.0) == []
    assert module.next_deadline() == pytest.approx(6.0)
    assert _until(module, 6.1, 5.9) == ["gap 1:1-2 skipped", "gap 1:4-5 skipped"]
    assert _get(module, A, 2, now=7.0) == ["1:2 late"]  # R5: told already, and not withheld
    assert _get(module, A, 2, now=7.0) == []


def test_r6_max_wait_forces_what_waits_longest() -> None:
    module = _module(Bounded(buffer=None, max_wait=2.0), a=0, b=0)
    _get(module, A, 3, now=1.0)
    _get(module, B, 2, A, 2, now=2.0)
    assert module.next_deadline() is not None
    assert seen(module.tick(2.9)) == []
    assert seen(module.tick(3.0)) == ["1:3"]
    assert seen(module.tick(4.0)) == ["2:2"]


def test_r6_buffer_bytes_bound_what_waits() -> None:
    module = _module(Bounded(buffer=None, buffer_bytes=100), a=0)
    assert _get(module, A, 2, size=60) == []
    assert _get(module, A, 4, size=60) == ["1:2"]
    assert (module.waiting, module.waiting_bytes) == (1, 60)


def test_r6_the_floor_of_a_pending_topic() -> None:
    """R6: y with dependency (b: x) is forced while b is pending; without the floor x would follow in_order."""
    module = _module("tag", a=0)
    module.subscribing()
    assert _get(module, A, 1, B, 4) == ["1:1"]
    assert _get(module, B, 4) == []  # never forced while its topic is pending
    assert seen(module.subscribed([_start(A), _start(B, 3)], 1.0, filters=False)) == ["2:4 late"]
    assert module.clock == {A: 1, B: 4}


def test_r6_the_floor_is_the_highest_number_that_was_passed_over() -> None:
    """What is forced first may depend on more than what is forced next."""
    module = _module("tag", a=0, c=0)
    module.subscribing()
    assert _get(module, A, 1, B, 4) + _get(module, C, 1, B, 2) == ["1:1", "3:1"]
    module.subscribed([_start(B, 1)], 1.0, filters=False)
    assert module.clock[B] == 4
    assert _get(module, B, 3) == ["2:3 late"]


def test_r6_a_forced_event_cannot_move_the_clock_back() -> None:
    """A circle of dependencies cannot come from the belt; whoever forges one must not break the order."""
    module = _module(Bounded(buffer=2), a=0, b=0)
    _get(module, A, 1, B, 2)
    _get(module, B, 1, A, 2)
    assert _get(module, A, 2) == ["2:1", "1:2 late", "1:1 late"]
    assert module.clock == {A: 2, B: 1}
    assert _get(module, A, 3) == ["1:3"]


@pytest.mark.parametrize("forged", [(A, 2**63 - 1), (A, 1, A, 2**63 - 1), (B, 1, A, 2**62)], ids=["own", "self", "dep"])
@pytest.mark.parametrize("mode", ["tag", Bounded(buffer=1, max_wait=0.5)], ids=["tag", "bounded"])
def test_r6_a_forged_number_does_not_take_the_clock_along(mode: Mode, forged: tuple[int, ...]) -> None:
    module = _module(mode, a=0, b=0)
    topic, number, *deps = forged
    claim = deps[1] if deps else number
    assert _get(module, topic, number, *deps, now=0.0) == []
    assert seen(module.tick(0.5)) == []
    assert module.clock == {A: 0, B: 0}
    assert not module.is_idle
    assert module.next_deadline() is not None
    assert module.questions(0.5) == [Question(A, [claim, claim])]
    assert _answer(module, A, (claim, UNKNOWN), now=0.6) == [f"{topic}:{number} unsequenced"]
    assert module.waiting == 0
    assert _get(module, A, 1, now=0.7) == ["1:1"]
    assert _get(module, A, 2, now=0.8) == ["1:2"]


@pytest.mark.parametrize("state", [PENDING, CONFIRMED, VOID, ABANDONED])
def test_r6_a_far_number_that_the_stage_issued_goes_as_ever(state: NumberState) -> None:
    module = _module("tag", a=0, b=0)
    far = 10 * MAX_LEAP
    assert _get(module, A, far, now=0.0) == []
    assert _get(module, B, 1, A, far, now=0.0) == []
    assert _get(module, B, 2, now=0.0) == ["2:2"]  # others go on
    assert module.questions(0.0) == [Question(A, [far, far])]
    assert module.questions(0.5) == []
    assert _answer(module, A, (far, state), now=0.6) == [f"1:{far}", "2:1 late"]
    assert _get(module, A, 7, now=0.7) == ["1:7 late"]
    assert module.waiting == 0


def test_r6_what_a_head_vouches_for_and_ordinary_jumps_are_immediate() -> None:
    module = _module("tag", a=0)
    assert _get(module, A, MAX_LEAP, now=0.0) == [f"1:{MAX_LEAP}"]
    module.heads([A, 2**40], 1.0)
    assert _get(module, A, 2**40 + 1, now=1.0) == [f"1:{2**40 + 1}"]


def test_r6_a_head_after_the_fact_lets_a_held_event_go() -> None:
    module = _module("tag", a=0)
    assert _get(module, A, 2**40, now=0.0) == []
    module.heads([A, 2**40], 1.0)
    assert seen(module.tick(1.5)) == [f"1:{2**40}"]


def test_r6_unsubscribing_takes_held_events_and_doubts_along() -> None:
    module = _module("tag", a=0, b=0)
    assert _get(module, A, 2**40, now=0.0) == []
    assert _get(module, B, 1, A, 2**40, now=0.0) == []
    assert seen(module.unsubscribed([A], 1.0)) == ["2:1"]
    assert (module.waiting, module.questions(9.0)) == (0, [])


def test_r6_what_is_held_has_a_limit() -> None:
    module = _module("tag", OrderingTimes(max_waiting=1), a=0)
    assert _get(module, A, 2**40, now=0.0) == []
    assert _get(module, A, 2**41, now=0.0) == [f"1:{2**41} unsequenced"]
    assert (module.waiting, module.counts.overflow) == (1, 1)


def test_r6_a_forged_floor_is_no_floor() -> None:
    module = _module("tag", a=0)
    module.subscribing()
    assert _get(module, A, 1, B, 2**62) == ["1:1"]
    assert seen(module.subscribed([_start(A), _start(B, 3)], 1.0, filters=False)) == []
    assert _get(module, B, 4) == ["2:4"]


# -- R8, R9, R11, R13 ------------------------------------------------------------------------------------------


def test_r8_extending_keeps_the_clocks() -> None:
    """The paper takes the whole returned clock and loses what is in flight."""
    module = _module(a=0)
    module.subscribing()
    assert seen(module.subscribed([_start(A, 7), _start(B, 2)], 0.0, filters=False)) == []
    assert module.clock == {A: 0, B: 2}
    assert _get(module, A, 1) == ["1:1"]


def test_r8_the_base_counts_for_the_first_event_after_the_start() -> None:
    module = _module(a=0)
    module.subscribing()
    module.subscribed([_start(B, 2, [A, 1])], 0.0, filters=False)
    assert _get(module, B, 4) == []
    assert _get(module, B, 3) == []
    assert _get(module, A, 1) == ["1:1", "2:3", "2:4"]


def test_r8_the_base_counts_for_a_hole_too() -> None:
    module = _module(a=0)
    module.subscribing()
    module.subscribed([_start(B, 2, [A, 1])], 0.0, filters=False)
    assert _get(module, B, 4) == []
    assert _answer(module, B, (3, VOID, []), now=1.0) == []
    assert _get(module, A, 1) == ["1:1", "2:4"]


def test_r9_an_event_that_depends_on_a_pending_topic_waits() -> None:
    """A={a}, B=C={a,b}; A subscribes b; the message has passed; x on b, then y on a with dependency (b: x);
    y reaches A before the reply: without the hold A gives y, x and B gives x, y."""
    module = _module(a=0)
    module.subscribing()
    assert _get(module, A, 1, B, 1) == []
    assert seen(module.subscribed([_start(A), _start(B)], 0.0, filters=False)) == []
    assert _get(module, B, 1) == ["2:1", "1:1"]


def test_r9_events_of_a_pending_topic_are_kept_and_those_before_its_start_dropped() -> None:
    module = _module(a=0)
    module.subscribing()
    assert [_get(module, B, number) for number in (3, 2, 1)] == [[], [], []]
    assert seen(module.subscribed([_start(A), _start(B, 1)], 0.0, filters=False)) == ["2:2", "2:3"]


def test_r9_what_a_change_does_not_bring_is_let_go() -> None:
    module = _module(a=0)
    module.subscribing()
    assert _get(module, A, 1, C, 9) == []
    assert seen(module.subscribed([_start(A), _start(B)], 0.0, filters=False)) == ["1:1"]


def test_r11_unsubscribing_drops_what_waits_and_looks_again_at_the_rest() -> None:
    module = _module(a=0, b=0)
    assert _get(module, A, 1, B, 1) == []
    assert _get(module, B, 2) == []
    assert seen(module.unsubscribed([B], 0.0)) == ["1:1"]
    assert (module.waiting, dict(module.clock)) == (0, {A: 1})


def test_r11_a_topic_taken_again_begins_anew() -> None:
    module = _module(a=0)
    _get(module, A, 3)
    module.unsubscribed([A], 0.0)
    module.subscribing()
    module.subscribed([_start(A, 3)], 1.0, filters=False)
    assert [_get(module, A, 3), _get(module, A, 4)] == [[], ["1:4"]]


def test_r13_a_topic_that_is_not_named_yet_holds_and_then_begins_at_0() -> None:
    module = OrderingModule()
    module.subscribed([_start(A)], 0.0, filters=True)
    assert _get(module, A, 1, B, 1, C, 5) == []
    assert _get(module, B, 1) == []
    assert module.unnamed() == [B]
    assert seen(module.named([B], [], 0.0)) == ["2:1"]
    assert module.unnamed() == [C]
    assert seen(module.named([], [C], 0.0)) == ["1:1"]
    assert _get(module, A, 2, C, 6) == ["1:2"]


def test_r13_what_an_event_needs_of_a_topic_named_later_is_known_missing() -> None:
    """The event slept on another number while the topic was named: nobody else may ever mention b:3."""
    module = OrderingModule()
    module.subscribed([_start(A)], 0.0, filters=True)
    assert _get(module, A, 2, B, 3) == []
    module.named([B], [], 0.0)
    assert _get(module, A, 1, now=1.0) == ["1:1"]
    assert Question(B, [1, 3]) in module.questions(2.0)


def test_r17_a_head_of_a_topic_that_is_not_named_yet_asks_for_its_name_and_then_for_its_events() -> None:
    """All events of a new topic are lost: nothing but the head tells that there is one."""
    module = OrderingModule()
    module.subscribed([_start(A)], 0.0, filters=True)
    module.heads([B, 2, C, 1, D, 0], 1.0)
    assert not module.is_idle
    assert sorted(module.unnamed()) == [B, C, D]
    assert seen(module.named([B, D], [C], 1.0)) == []
    module.heads([C, 2], 1.5)
    assert module.unnamed() == []
    assert module.questions(2.0) == [Question(B, [1, 2])]
    assert _answer(module, B, (1, CONFIRMED, []), (2, CONFIRMED, []), now=2.0) == []
    assert _until(module, 6.1, 2.0) == ["gap 2:1-2 lost"]
    assert module.is_idle or module.questions(99.0) == []


def test_r17_a_head_that_comes_before_a_topics_start_counts_from_there() -> None:
    module = _module(a=0)
    module.subscribing()
    module.heads([B, 4, C, 9], 1.0)
    module.subscribed([_start(B, 3)], 2.0, filters=False)
    assert module.questions(3.0) == [Question(B, [4, 4])]
    module.subscribed([], 4.0, filters=True)
    assert module.unnamed() == []  # c was not in the subscription


# -- R17 -------------------------------------------------------------------------------------------------------


def test_r17_a_missing_number_is_asked_for_after_gap_timeout() -> None:
    module = _module(a=0, b=0)
    _get(module, A, 4, B, 2, now=10.0)
    assert module.next_deadline() == 11.0
    assert module.questions(10.9) == []
    assert sorted(module.questions(11.0), key=lambda each: each.topic) == [Question(A, [1, 3]), Question(B, [1, 2])]
    assert module.questions(11.1) == []
    assert len(module.questions(12.0)) == 2  # no answer: asked again


def test_r17_a_pending_number_is_waited_for() -> None:
    module = _module(a=0)
    _get(module, A, 2, now=0.0)
    module.questions(1.0)
    assert _answer(module, A, (1, PENDING), now=1.0) == []
    assert module.questions(1.5) == []
    assert module.questions(2.0) == [Question(A, [1, 1])]
    assert _get(module, A, 1, now=60.0) == ["1:1", "1:2"]


def test_r17_a_void_is_skipped_without_report_only_when_its_own_dependencies_are_met() -> None:
    module = _module(a=0, b=0)
    _get(module, A, 2, now=0.0)
    assert _answer(module, A, (1, VOID, [B, 1]), now=1.0) == []
    assert _get(module, B, 1) == ["2:1", "1:2"]
    assert module.counts.voids == 1


def test_r17_what_a_hole_waits_for_is_known_missing_too() -> None:
    """Compact stamps (R21): the void number alone names b:1, which is void as well; nobody else would ask for it."""
    module = _module(a=0, b=0)
    _get(module, A, 2, now=0.0)
    _answer(module, A, (1, VOID, [B, 1]), now=1.0)
    assert module.questions(2.0) == [Question(B, [1, 1])]
    assert _answer(module, B, (1, VOID, []), now=2.0) == ["1:2"]


def test_r17_an_abandoned_range_is_one_gap_when_its_first_number_is_skipped() -> None:
    module = _module(a=0, b=0)
    _get(module, A, 4, now=0.0)
    answers = [(1, ABANDONED, []), (2, ABANDONED, [B, 1]), (3, ABANDONED, [])]
    assert _answer(module, A, *answers, now=1.0) == ["gap 1:1-3 abandoned"]
    assert _get(module, A, 2) == ["1:2 late"]  # reported already
    assert _get(module, B, 1) == ["2:1", "1:4"]


def test_r17_an_abandoned_number_that_arrives_before_its_turn_is_notified() -> None:
    module = _module(a=0, b=0)
    _get(module, A, 2, now=0.0)
    _answer(module, A, (1, ABANDONED, [B, 1]), now=1.0)
    assert _get(module, A, 1, B, 1) == []
    assert _get(module, B, 1) == ["2:1", "1:1", "1:2"]


def test_r17_a_confirmed_number_is_lost_after_loss_timeout_from_the_same_start() -> None:
    module = _module(a=0)
    _get(module, A, 3, now=10.0)
    module.questions(11.0)
    assert _answer(module, A, (1, CONFIRMED, []), (2, CONFIRMED, []), now=11.0) == []
    assert module.questions(14.0) == []  # its dependencies are kept: no need to ask again
    assert _until(module, 14.9, 11.0) == []
    assert _until(module, 15.1, 14.9) == ["gap 1:1-2 lost", "1:3"]
    assert module.is_idle or module.questions(99.0) == []


def test_r17_a_confirmed_number_may_still_arrive() -> None:
    module = _module(a=0)
    _get(module, A, 2, now=0.0)
    _answer(module, A, (1, CONFIRMED, []), now=1.0)
    assert _get(module, A, 1, now=4.0) == ["1:1", "1:2"]
    assert _until(module, 99.0, 4.0) == []


def test_r17_a_head_makes_the_end_of_a_burst_known() -> None:
    module = _module(a=0)
    _get(module, A, 1)
    module.heads([A, 3, D, 9], 20.0)
    assert module.questions(21.0) == [Question(A, [2, 3])]


@pytest.mark.parametrize("gap_timeout", [0.05, 1.0, 3.0])
def test_r17_the_end_of_a_burst_that_two_heads_told_is_one_gap(gap_timeout: float) -> None:
    """B15: stages tell heads once a second, whatever the gap timeout."""
    module = _module(times=OrderingTimes(gap_timeout=gap_timeout), a=0)
    module.heads([A, 2], 10.0)
    module.heads([A, 4], 10.0 + HEADS_SECONDS)
    asked = 10.0 + max(HEADS_SECONDS, gap_timeout)
    assert _answer(module, A, *((number, CONFIRMED, []) for number in range(1, 5)), now=asked) == []
    assert _until(module, 14.9 + HEADS_SECONDS, asked) == []
    assert _until(module, 15.1 + HEADS_SECONDS, 14.9 + HEADS_SECONDS) == ["gap 1:1-4 lost"]


def test_r17_messages_without_stamps_make_the_reason_unstamped() -> None:
    module = _module(a=0)
    _get(module, A, 2, now=0.0)
    module.unsequenced(A, 0.5)
    assert _answer(module, A, (1, CONFIRMED, []), now=1.0) == []
    assert _until(module, 5.1, 1.0) == ["gap 1:1-1 unstamped", "1:2"]


def test_r17_when_missing_numbers_are_forgotten_all_begins_anew() -> None:
    """Nobody knows what they depended on: y on b relies on a:3 to have waited for others (R22)."""
    module = _module(a=0, b=0)
    _get(module, A, 4, now=0.0)
    _get(module, A, 9, now=0.0)
    _get(module, B, 2, A, 3, now=0.0)
    assert seen(module.answered(Numbers(1, A, [], 3), 1.0)) == []
    assert module.interrupted == {A: 1, B: 1}
    assert _get(module, B, 1, now=1.0) == []
    anew = module.subscribed([_start(A, 8), _start(B, 2)], 2.0, filters=False)
    assert seen(anew) == ["gap 1:1-8 expired", "gap 2:1-2 expired", "1:9"]
    assert module.interrupted == {}
    assert _get(module, B, 3, now=3.0) == ["2:3"]


def test_r17_forgotten_numbers_that_are_here_or_accounted_for_are_no_loss() -> None:
    module = _module(a=0)
    for number in (2, 4):
        _get(module, A, number, now=0.0)
    module.questions(1.0)
    assert _answer(module, A, (1, CONFIRMED), (3, CONFIRMED), now=1.0) == []
    assert seen(module.answered(Numbers(1, A, [], 4), 2.0)) == []
    assert module.interrupted == {}
    assert _until(module, 5.1, 2.0) == ["gap 1:1-1 lost", "1:2", "gap 1:3-3 lost", "1:4"]


def test_r17_a_number_that_nobody_issued_is_not_waited_for() -> None:
    module = _module(a=0, b=0)
    _get(module, A, 9, now=0.0)
    _get(module, B, 1, A, 9, now=0.0)
    module.questions(1.0)
    assert _answer(module, A, (1, CONFIRMED, []), (2, UNKNOWN), now=1.0) == ["1:9 unsequenced", "2:1 unsequenced"]
    assert _get(module, A, 1, now=2.0) == ["1:1"]
    assert _get(module, B, 1, now=2.0) == ["2:1"]


def test_r17_what_a_forged_number_hid_is_asked_for_and_waited_for() -> None:
    """a:1 and a:2 were issued and lost while 2^62 was believed: no head and no dependency on them was news."""
    module = _module(a=0, b=0)
    _get(module, A, 2**62, now=0.0)
    module.heads([A, 2], 0.5)
    assert len(module.questions(1.0)) == 1
    assert _answer(module, A, (1, CONFIRMED, []), (2, PENDING), (3, UNKNOWN), now=1.0) == [f"1:{2**62} unsequenced"]
    assert _get(module, B, 1, A, 2, now=1.5) == []
    assert module.questions(2.0) == [Question(A, [2, 2])]
    assert _answer(module, A, (2, CONFIRMED, []), now=2.0) == []
    assert _until(module, 6.1, 2.0) == ["gap 1:1-2 lost", "2:1"]
    module.heads([A, 3], 7.0)
    assert module.questions(8.0) == [Question(A, [3, 3])]


@pytest.mark.parametrize("after", [0.0, 0.1])
def test_r17_what_was_stamped_after_the_answer_left_is_not_discredited(after: float) -> None:
    """The stage answers that a:1 is unknown; a:1 and a:2 and b:1 are stamped; a:2 and b:1 overtake the answer, and come
    in the very moment of the question at the soonest."""
    module = _module(a=0, b=0)
    _get(module, A, 2**62, now=0.0)
    module.questions(1.0)
    assert _get(module, A, 2, now=1.0 + after) == []
    assert _get(module, B, 1, A, 2, now=1.0 + after) == []
    assert _answer(module, A, (1, UNKNOWN), now=1.2) == [f"1:{2**62} unsequenced"]
    assert module.questions(2.2) == [Question(A, [1, 1])]
    assert _get(module, A, 1, now=2.3) == ["1:1", "1:2", "2:1"]


def test_r17_a_void_that_a_stage_tells_of_itself_is_skipped_in_its_turn_and_settles_no_question() -> None:
    module = _module(a=0, b=0)
    told = Numbers(0, A, [NumberAnswer(2, NumberState.VOID, [B, 1])])
    assert seen(module.answered(told, 0.0)) == []
    assert _get(module, A, 1) == ["1:1"]
    assert _get(module, A, 3) == []
    assert _get(module, B, 1) == ["2:1", "1:3"]
    _get(module, A, 9, now=1.0)
    assert module.questions(2.0) == [Question(A, [4, 8])]
    assert seen(module.answered(Numbers(0, A, [NumberAnswer(4, NumberState.VOID)]), 2.1)) == []
    assert module.questions(2.2) == []
    assert _answer(module, A, (5, UNKNOWN), now=2.3) == ["1:9 unsequenced"]


def test_r17_an_answer_to_no_question_discredits_nothing() -> None:
    module = _module(a=0)
    _get(module, A, 2, now=0.0)
    assert _answer(module, A, (1, UNKNOWN), now=0.5) == []
    assert _get(module, A, 1, now=0.6) == ["1:1", "1:2"]


def test_r17_a_failed_repair_is_not_waited_for_by_bounded_readers() -> None:
    module = _module(Bounded(buffer=10), a=0)
    _get(module, A, 2, now=0.0)
    assert _answer(module, A, (1, ABANDONED, []), now=1.0) == ["gap 1:1-1 abandoned", "1:2"]


# -- limits (B57) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [OrderingTimes(max_waiting=100), OrderingTimes(max_waiting_bytes=100)], ids=["count", "bytes"]
)
def test_b57_strict_mode_keeps_its_limits_and_reports_what_it_gave_up(times: OrderingTimes) -> None:
    module = _module("strict", times, a=0)
    for number in range(2, 1001):
        _get(module, A, number, now=0.0)
    assert (module.waiting, module.waiting_bytes, module.counts.overflow) == (100, 100, 899)
    words = _get(module, A, 1, now=0.5)
    assert words == [f"1:{number}" for number in range(1, 102)]
    assert _answer(module, A, *[(number, CONFIRMED) for number in range(102, 1001)], now=1.0) == [
        "gap 1:102-1000 overflow"
    ]


def test_b57_what_is_doubted_is_bounded_and_waits_for_its_topics_new_start() -> None:
    module = _module("tag", OrderingTimes(max_waiting_bytes=30), a=0)
    out = [word for at in range(4) for word in _get(module, A, 2**60 + at, size=10)]
    assert out == [f"1:{2**60 + 3} unsequenced"]
    assert (module.describe()["doubted"]["size"], module.counts.overflow) == (30, 1)
    module.expired([A], 1.0)
    assert module.describe()["unbegun"]["parked"] == (3, 30)


def test_b57_bounded_mode_goes_on_after_one_gap() -> None:
    module = _module(Bounded(buffer=10), a=0)
    words = [word for number in range(2, 101) for word in _get(module, A, number, now=0.0)]
    assert words == [f"1:{number}" for number in range(2, 101)]
    assert _until(module, 5.1) == ["gap 1:1-1 skipped"]


def test_a_gap_reason_is_a_word_for_users() -> None:
    assert {str(each) for each in GapReason} >= {"lost", "abandoned", "expired", "skipped", "overflow", "unstamped"}
    assert repr(_module(a=0)) == "<OrderingModule strict: 1 topics, 0 waiting>"


# -- another domain (a restored store) -------------------------------------------------------------------------------


def test_another_domain_ends_every_topic_with_a_gap_and_lets_what_waits_go() -> None:
    """Ids and numbers are others there; what comes before the new starts are known is not dropped in silence."""
    module = OrderingModule()
    module.subscribed([_start(1, 0), _start(2, 0)], 0.0, filters=False)
    assert seen(module.receive(1, 1, [], None, 1, 0.0)) == ["1:1"]
    module.receive(1, 4, [], None, 1, 2.0)
    module.receive(2, 2, [], None, 1, 1.0)
    assert seen(module.other_domain(3.0)) == [
        "gap 1:2-4 restored",
        "gap 2:1-2 restored",
        "2:2 unsequenced",
        "1:4 unsequenced",
    ]
    assert (dict(module.clock), module.waiting, module.waiting_bytes) == ({}, 0, 0)
    module.subscribing()
    assert module.receive(1, 2, [], None, 1, 4.0) == []  # from before the new start, of a client that was there sooner
    assert module.receive(1, 4, [], None, 1, 4.0) == []
    assert seen(module.subscribed([_start(1, 3)], 5.0, filters=False)) == ["1:2 unsequenced", "1:4"]
    assert seen(module.receive(1, 3, [], None, 1, 6.0)) == ["1:3 unsequenced"]  # it was on its way
    assert seen(module.receive(1, 3, [], None, 1, 6.0)) == seen(module.receive(1, 2, [], None, 1, 6.0)) == []  # copies
    assert module.counts.before == 2
    assert module.is_idle


def test_another_domain_reports_what_was_jumped_and_what_was_interrupted() -> None:
    module = OrderingModule(Bounded(buffer=0))
    module.subscribed([_start(1, 0), _start(2, 5)], 0.0, filters=False)
    assert seen(module.receive(1, 3, [], None, 1, 0.0)) == ["1:3"]
    module.expired([2], 0.0)
    assert seen(module.other_domain(1.0)) == [
        "gap 1:1-2 skipped",
        "gap 1:4-4 restored",
        "gap 2:6-6 restored",
    ]


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "size"), [(OrderingTimes(max_waiting=3), 1), (OrderingTimes(max_waiting_bytes=30), 10)]
)
def test_b57_what_waits_for_its_topics_start_is_bounded_and_what_is_given_up_is_reported(
    times: OrderingTimes, size: int
) -> None:
    """The broker delivers while no worker answers the subscribe: events are kept as far as there is room."""
    module = OrderingModule("strict", times)
    module.subscribing()
    for number in range(1, 11):
        assert module.receive(1, number, [], None, size, 0.0) == []
    assert module.describe()["unbegun"]["parked"] == (3, 3 * size)
    assert module.counts.overflow == 7
    assert seen(module.subscribed([_start(1, 1)], 1.0, filters=False)) == ["1:2", "1:3"]
    assert module.describe()["unbegun"]["parked"] == (0, 0)
    (question,) = module.questions(10.0)
    assert question.ranges == [4, 10]
    answers = [NumberAnswer(number, NumberState.CONFIRMED) for number in range(4, 11)]
    assert seen(module.answered(Numbers(1, 1, answers), 10.0)) == ["gap 1:4-10 overflow"]


def test_b57_a_bounded_reader_is_bounded_there_too() -> None:
    module = OrderingModule(Bounded(buffer=2), OrderingTimes(max_waiting=3))
    module.subscribing()
    for number in range(1, 11):
        module.receive(1, number, [], None, 1, 0.0)
    assert (module.describe()["unbegun"]["parked"], module.counts.overflow) == ((3, 3), 7)


def test_b57_a_hole_and_a_million_events_behind_it_take_bounded_memory() -> None:
    """Strict and never skipping: what has no room is given up as one range, and told as one gap (twenty thousand stand
    for the million; what is kept does not depend on how many)."""
    module = OrderingModule("strict", OrderingTimes(max_waiting=100))
    module.subscribed([_start(1, 99)], 0.0, filters=False)
    for number in range(101, 20_101):
        assert module.receive(1, number, [], None, 1, number / 1000) == []
    assert module.waiting == 100
    reader = module.describe()["readers"][1]
    assert len(reader["given_up"]) == 1
    assert len(reader["missing"]["learned"]) <= MAX_MOMENTS
    assert module.counts.overflow == 19_900
    out = seen(module.receive(1, 100, [], None, 1, 200.0))
    assert out == [f"1:{number}" for number in range(100, 201)]
