"""The stages: R1 (create), R2 (belt), R7, R8, R10, R11, R13 (subscriptions), R16 (confirm), R19, R21."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.cluster import Cluster, arrive, base_of, entries, reader, stamps, wild

from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    Frame,
    NewEvent,
    NumberAnswer,
    Numbers,
    NumberState,
    Settled,
    Subscribed,
    Timestamps,
    encode_frame,
)
from inorder_worker.sequencer.commands import (
    Create,
    Deliver,
    LeaveSession,
    OpenSession,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.rides import StampRide
from inorder_worker.sequencer.stage import Stage


def _cluster(topics: dict[str, int], *clients: str, **settings: Any) -> Cluster:
    cluster = Cluster(topics, settings=StageSettings(**settings))
    for client in ("p", *clients):
        cluster.open(client)
    return cluster


# -- R1 --------------------------------------------------------------------------------------------------------


def test_r1_the_same_event_id_gets_the_same_timestamp() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x")
    cluster.subscribe("x", "a", "b")
    first = cluster.request("p", "a")
    cluster.request("p", "b")
    assert cluster.request("p", "a", counter=1) == first
    assert cluster.stamp("p", "a").number == 2


def test_r1_a_retry_while_the_request_rides_is_answered_once_when_it_completes() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", "b")
    assert cluster.request("p", "b") == []
    assert cluster.request("p", "b", counter=1) == []
    assert [each.number for each in stamps(cluster.run())] == [1]
    assert [each.number for each in cluster.request("p", "b", counter=1)] == [1]


def test_r1_a_counter_below_the_mark_or_of_an_unknown_incarnation_is_forgotten_never_numbered() -> None:
    cluster = _cluster({"a": 0})
    cluster.request("p", "a")
    cluster.request("p", "a", counter=5, low=5)
    frames = cluster.step(0, Create("p", 1, 0, [NewEvent(2, 1)])) + cluster.step(0, Create("p", 9, 0, [NewEvent(6, 1)]))
    assert [(each.forgotten, each.events) for each in frames if isinstance(each, Timestamps)] == [([2], []), ([6], [])]
    assert cluster.stamp("p", "a").number == 3


def test_r1_a_huge_mark_is_no_work() -> None:
    cluster = _cluster({"a": 0})
    cluster.request("p", "a", counter=2**60, low=2**60)
    assert cluster.stamp("p", "a").number == 2


def test_r1_a_request_is_numbered_once_over_a_recovery() -> None:
    cluster = _cluster({"a": 0})
    cluster.request("p", "a")
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    assert [each.number for each in cluster.request("p", "a", counter=1)] == [1]
    assert cluster.stamp("p", "a").number == 2


# -- R2 --------------------------------------------------------------------------------------------------------


def test_r2_a_timestamp_cannot_overtake_another_by_skipping_stages() -> None:
    """R2's counter-example: with jumps e4, e3 and e1 depend on each other in a circle."""
    cluster = _cluster({"t1": 0, "t2": 1, "t3": 2, "t4": 3}, "s1", "s2", "s3", "s4")
    cluster.subscribe("s1", "t1", "t2", "t4")
    answer = cluster.subscribe("s2", "t1", "t2", "t3", "t4")
    cluster.subscribe("s3", "t1", "t3")
    cluster.subscribe("s4", "t3", "t4")
    cluster.request("p", "t4")
    cluster.move(3, 2)  # e4 passed t3 and is slow towards t2
    cluster.open("q")
    cluster.request("q", "t3")
    assert [type(each) for each in cluster.waiting(2, 1)] == [StampRide, StampRide]  # e3 is behind it
    assert cluster.waiting(2, 0) == []
    cluster.open("r")
    e1 = cluster.request("r", "t1")
    events = e1 + stamps(cluster.run())
    assert len(events) == 3
    module = reader(answer)
    notified = [each for event in events for each in arrive(module, event)]
    assert sorted(notified) == ["1:1", "3:1", "4:1"]


def test_r2_a_delivered_ride_is_not_changed_its_sender_may_send_it_again() -> None:
    cluster = _cluster({"a": 0, "middle": 1, "b": 2}, "x", "y", "q")
    cluster.all_subscribe(("x", "y"), "a", "middle", "b")
    for name in ("a", "middle"):
        cluster.stamp("q", name)
    cluster.request("p", "b")
    cluster.request("p", "a", at=2)
    cluster.change("x", "b")
    for link in ((2, 1), (1, 0)):
        rides = cluster.waiting(*link)
        before = [msgspec.msgpack.encode(each) for each in rides]
        cluster.move(*link, rides=len(rides))
        assert [msgspec.msgpack.encode(each) for each in rides] == before


def test_a_ride_seen_before_is_ignored_and_a_missing_one_is_an_error() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", "b")
    cluster.request("p", "b")
    send = cluster.links[1, 0][0]
    cluster.run()
    assert cluster.step(0, Deliver(1, send.number, send.ride)) == []
    with pytest.raises(ValueError, match="lost something"):
        cluster.step(0, Deliver(1, send.number + 2, send.ride))


def test_rides_are_resent_until_acknowledged() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.subscribe("x", "a", "b")
    stage = cluster.stages[1]
    sent = [each.number for each in stage.unacknowledged(0)]
    stage.acknowledge(0, sent[0])
    restored = Stage.restore(stage.snapshot())
    assert [each.number for each in restored.unacknowledged(0)] == sent[1:]


# -- R7, R8 ----------------------------------------------------------------------------------------------------


def test_r7_a_subscription_takes_no_number_and_returns_the_clock() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x")
    cluster.stamp("p", "a")
    cluster.stamp("p", "a")
    cluster.stamp("p", "b")
    answer = cluster.subscribe("x", "a", "b")
    assert [(each.topic.name, each.start) for each in answer.topics] == [("a", 2), ("b", 1)]
    assert cluster.stamp("p", "a").number == 3


def test_r7_a_subscription_announces_the_numbers_below_to_the_stages_above() -> None:
    """Without it e1 on the upper topic would not depend on what two subscribers of the pair may have seen below."""
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.stamp("p", "b")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", "b")
    cluster.open("q")
    assert entries(cluster.stamp("q", "a")) == {2: 1}


def test_r8_the_base_holds_what_earlier_events_of_a_new_topic_depended_on() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x", "y", "z")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", "b")
    cluster.stamp("p", "a")
    cluster.stamp("p", "b")
    cluster.subscribe("z", "a")
    answer = cluster.subscribe("z", "a", "b")
    assert [(each.start, base_of(answer, each.topic.id)) for each in answer.topics] == [(1, {}), (1, {1: 1})]


# -- R10, R11 --------------------------------------------------------------------------------------------------


def test_r10_counter_example_1_a_dropped_topic_still_counts() -> None:
    """A=B={a,b}; x on a reaches A only; A unsubscribes a; y on b must still come after x at B."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", "q")
    cluster.subscribe("A", "a", "b")
    answer = cluster.subscribe("B", "a", "b")
    x = cluster.stamp("p", "a")
    cluster.subscribe("A", "b")
    y = cluster.stamp("q", "b")
    module = reader(answer)
    assert arrive(module, y) == []
    assert arrive(module, x) == ["1:1", "2:1"]


def test_r10_counter_example_2_a_topic_left_pairs_with_one_taken_later() -> None:
    """A={a}, B={a,b}; x on a reaches A; A unsubscribes a and subscribes b; y on b must come after x at B."""
    cluster = _cluster({"a": 0, "b": 1}, "A", "B", "q")
    cluster.subscribe("A", "a")
    answer = cluster.subscribe("B", "a", "b")
    x = cluster.stamp("p", "a")
    cluster.subscribe("A", "b")
    y = cluster.stamp("q", "b")
    module = reader(answer)
    assert arrive(module, y) == []
    assert arrive(module, x) == ["1:1", "2:1"]


def test_r10_a_lingering_topic_is_announced_to_the_stages_above() -> None:
    """A={low}, B={high, low}; x on low completes below; A drops low and takes high: the pair is new to the upper
    stage, which must hear of x from A's subscription message."""
    cluster = _cluster({"high": 0, "low": 1}, "A", "B", "q")
    cluster.subscribe("A", "low")
    answer = cluster.subscribe("B", "high", "low")
    x = cluster.stamp("p", "low")
    cluster.subscribe("A", "high")
    y = cluster.stamp("q", "high")
    assert entries(y) == {2: 1}
    module = reader(answer)
    assert arrive(module, y) == []
    assert arrive(module, x) == ["2:1", "1:1"]


def _end_lingers(cluster: Cluster) -> None:
    cluster.now += 60_000
    cluster.step(len(cluster.stages) - 1, Tick())
    cluster.run()


@pytest.mark.parametrize("stages", [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "b": 0}])
def test_r10_the_first_timestamp_after_the_end_still_carries_what_was_removed(stages: dict[str, int]) -> None:
    cluster = _cluster(stages, "A", "B", "q")
    cluster.subscribe("A", "a", "b")
    cluster.subscribe("B", "a", "b")
    cluster.stamp("p", "a")
    cluster.subscribe("A", "b")
    _end_lingers(cluster)
    assert entries(cluster.stamp("q", "b")) == {1: 1}
    assert entries(cluster.stamp("q", "b")) == {}


def test_r10_the_end_is_ignored_if_the_topic_was_taken_again() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", "q")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.subscribe("A", "b")
    cluster.subscribe("A", "a", "b")
    _end_lingers(cluster)
    cluster.stamp("p", "a")
    cluster.stamp("q", "b")
    cluster.stamp("p", "a")
    assert entries(cluster.stamp("q", "b")) == {1: 2}


def test_r10_the_end_of_an_earlier_incarnations_linger_is_ignored() -> None:
    """Versions begin anew with each incarnation: (1, version 2) is not (2, version 2)."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", "q")
    cluster.subscribe("B", "a", "b")
    cluster.change("A", "a", "b", version=1)
    cluster.change("A", "b", version=2)
    cluster.now += 30_000
    cluster.open("A", 2)
    cluster.change("A", "a", "b", version=1, incarnation=2)
    cluster.change("A", "b", version=2, incarnation=2)
    x = cluster.stamp("p", "a")
    cluster.now += 31_000
    cluster.step(0, Tick())
    cluster.stamp("q", "b")
    assert entries(cluster.stamp("p", "a")) == {2: 1}, x
    assert cluster.stages[0].next_deadline() is not None


def test_r11_a_lower_version_is_ignored_an_equal_one_answered_again() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x")
    cluster.subscribe("x", "a", "b")
    answer = cluster.subscribe("x", "a")
    assert cluster.change("x", "a", "b", version=1) == []
    again = cluster.change("x", "a", version=2)
    assert isinstance(again[0], Subscribed)
    assert again[0].topics == answer.topics


# -- R13 -------------------------------------------------------------------------------------------------------


def test_r13_a_new_topic_belongs_to_every_filter_that_covers_it_from_its_first_number() -> None:
    cluster = _cluster({"t/1": 0, "t/2": 1}, "x", "y", "q")
    answer = cluster.subscribe("x", wild("t/#"))
    cluster.subscribe("y", wild("t/#"))
    cluster.stamp("p", "t/1")
    cluster.topic("q", "t/new")
    cluster.run()
    new = cluster.stamp("q", "t/new")
    assert new.number == 1
    assert entries(new) == {1: 1}
    assert cluster.stages[1].stage_of(new.topic) == 1
    later = cluster.stamp("p", "t/1")
    assert entries(later)[new.topic] == 1
    assert [each.topic.name for each in answer.topics] == ["t/1", "t/2"]


# -- R16 -------------------------------------------------------------------------------------------------------


def test_r16_a_number_of_a_publisher_that_is_gone_is_abandoned_and_a_late_confirm_is_told_so() -> None:
    cluster = _cluster({"a": 0})
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 9_999
    cluster.step(0, Tick())
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.PENDING
    cluster.now += 1
    cluster.step(0, Tick())
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.ABANDONED
    cluster.step(0, OpenSession("p", 1))
    assert cluster.settle("p", "a", confirmed=[1]) == [Settled(0, 0, 1, [1, 1])]
    again = cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1)]))
    assert again == [Timestamps(0, 0, [], [], [1, 1, 1])]


def test_r16_what_a_client_asks_for_at_one_worker_shows_that_it_lives_to_another() -> None:
    """Its connection to the worker of the topic's stage is gone, the one where its requests enter is not: its numbers
    have a whole grace from their creation."""
    cluster = _cluster({"a": 0, "b": 1}, publisher_grace_ms=1_000)
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 900
    event = cluster.stamp("p", "a", at=1)
    cluster.now += 900
    cluster.step(0, Tick())
    assert cluster.ask("a", event.number, event.number).answers[0].state is NumberState.PENDING
    cluster.now += 100
    cluster.step(0, Tick())
    assert cluster.ask("a", event.number, event.number).answers[0].state is NumberState.ABANDONED


def test_r16_a_number_abandoned_while_it_rides_is_never_handed_out() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", "b")
    cluster.request("p", "b")
    cluster.now += 60_000
    cluster.step(1, Tick())
    assert cluster.run() == [Timestamps(1, 0, [], [], [1, 2, 1])]
    assert cluster.ask("b", 1, 1).answers[0].state is NumberState.ABANDONED


def test_r16_a_publisher_that_comes_back_in_time_keeps_its_numbers() -> None:
    cluster = _cluster({"a": 0})
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 5_000
    cluster.step(0, OpenSession("p", 1))
    cluster.now += 6_000
    cluster.step(0, Tick())
    assert cluster.settle("p", "a", confirmed=[1]) == [Settled(0, 0, 1, [])]
    assert cluster.stages[0].heads("p", None) == []


def test_r16_no_session_settles_anothers_number() -> None:
    cluster = _cluster({"a": 0}, "q")
    cluster.stamp("p", "a")
    cluster.settle("q", "a", void=[1])
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.PENDING


def _told(frames: list[Frame]) -> list[Numbers]:
    return [each for each in frames if isinstance(each, Numbers)]


def test_r17_who_has_a_topic_is_told_what_its_publisher_took_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x", "y", "z")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a")
    cluster.subscribe("z", "b")
    for _ in range(5):
        cluster.stamp("p", "a")
    void = NumberAnswer(2, NumberState.VOID, [])
    assert _told(cluster.settle("p", "a", [1], [2])) == [Numbers(0, 1, [void])] * 2
    assert _told(cluster.settle("p", "a", [1], [2])) == []  # said already
    with monkeypatch.context() as patch:
        patch.setattr("inorder_worker.sequencer.settling.TOLD_IN_A_SECOND", 2)
        assert _told(cluster.settle("p", "a", [], [3])) == []  # enough for this second: they ask
        cluster.now += 1_000
        assert len(_told(cluster.settle("p", "a", [], [4]))) == 2
    cluster.step(0, SettleNumbers("p", 1, 9, [], [], [1, 5, 5]))
    states = [each.state for each in cluster.ask("a", 3, 5).answers]
    assert states == [NumberState.VOID, NumberState.VOID, NumberState.ABANDONED]


def test_r17_what_its_publisher_gave_up_is_not_told_it_may_still_arrive() -> None:
    cluster = _cluster({"a": 0}, "x")
    cluster.subscribe("x", "a")
    cluster.stamp("p", "a")
    given_up = SettleNumbers("p", 1, 9, [], [], [1, 1, 1])
    assert cluster.step(0, given_up) == cluster.step(0, given_up) == [Settled(0, 0, 9)]
    (late,) = cluster.settle("p", "a", [1])
    assert isinstance(late, Settled)
    assert late.late == [1, 1]
    assert cluster.stages[0].tally.abandoned == 1


def test_r17_the_head_is_the_highest_confirmed_number_of_the_subscribers_topics() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x")
    cluster.subscribe("x", "a")
    for name in ("a", "a", "b"):
        cluster.stamp("p", name)
    cluster.settle("p", "a", confirmed=[1, 2])
    cluster.settle("p", "b", confirmed=[1])
    assert cluster.stages[0].heads("x", None) == [1, 2]
    assert cluster.stages[0].changed_heads() == [1, 2]
    assert cluster.stages[0].changed_heads() == []


def test_r17_expired_numbers_are_told_and_unknown_ones_are_unknown() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x", "y", number_retention=2)
    cluster.all_subscribe(("x", "y"), "a", "b")
    cluster.stamp("p", "b")
    for _ in range(4):
        cluster.settle("p", "a", confirmed=[cluster.stamp("p", "a").number])
    answer = cluster.ask("a", 1, 9)
    assert answer.expired_through == 2
    assert [each.number for each in answer.answers if each.state is NumberState.CONFIRMED] == [3, 4]
    assert [each.number for each in answer.answers if each.state is NumberState.UNKNOWN] == [5, 6, 7, 8, 9]


def test_r17_a_number_that_is_pending_is_not_forgotten_nor_is_any_behind_it() -> None:
    """Whatever the retention is; once it is settled, what is beyond the retention goes."""
    cluster = _cluster({"a": 0}, "x", number_retention=2)
    cluster.subscribe("x", "a")
    numbers = [cluster.stamp("p", "a").number for _ in range(6)]
    cluster.settle("p", "a", confirmed=[each for each in numbers if each != 2])
    cluster.settle("p", "a", confirmed=[cluster.stamp("p", "a").number])
    answer = cluster.ask("a", 1, 7)
    assert answer.expired_through == 1
    assert answer.answers[0] == NumberAnswer(2, NumberState.PENDING)
    cluster.settle("p", "a", confirmed=[2])
    cluster.stamp("p", "a")
    assert cluster.ask("a", 1, 8).expired_through == 6


# -- R19 -------------------------------------------------------------------------------------------------------


def test_r19_within_a_stage_an_event_follows_its_publishers_last_ones() -> None:
    cluster = _cluster({"a": 0, "b": 0, "c": 0}, "x", "q")
    answer = cluster.subscribe("x", "a", "b", "c")  # nobody else: no sequencing group, publisher order alone
    first, second = cluster.stamp("p", "b"), cluster.stamp("p", "a")
    assert entries(cluster.stamp("q", "c")) == {}
    assert entries(second) == {2: 1}
    module = reader(answer)
    assert arrive(module, second) == []
    assert arrive(module, first) == ["2:1", "1:1"]
    assert entries(cluster.stamp("p", "a")) == {}  # older ones follow through the event before


def test_r19_across_stages_the_request_rides_up_behind_the_one_before() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x")
    answer = cluster.subscribe("x", "a", "b")
    first = cluster.request("p", "b")[0]
    assert cluster.request("p", "a", at=1) == []
    second = stamps(cluster.run())[0]
    assert entries(second) == {2: 1}
    module = reader(answer)
    assert arrive(module, second) == []
    assert arrive(module, first) == ["2:1", "1:1"]
    assert cluster.request("p", "a", at=1, counter=2) == []  # R1, where it entered: the home answers
    assert stamps(cluster.run()) == [second]


def test_an_answer_tells_the_highest_stage_of_timestamps_that_went_above_their_topics_own() -> None:
    """b is at stage 1 of a sequencing group with a at stage 0; c, at stage 1 too, is in none. What is asked for again
    is answered without it."""
    cluster = _cluster({"a": 0, "b": 1, "c": 1}, "x", "y")
    cluster.all_subscribe(("x", "y"), "a", "b")
    frames = cluster.step(1, Create("p", 1, 1, [NewEvent(1, 2), NewEvent(2, 3)])) + cluster.run()
    frames += cluster.step(1, Create("p", 1, 1, [NewEvent(1, 2)]))
    answers = [each for each in frames if isinstance(each, Timestamps)]
    told = [([each.counter for each in frame.events], frame.tops) for frame in answers]
    assert told == [([2], []), ([1], [1, 0]), ([1], [])]


def test_r1_asked_again_between_two_completions_a_request_is_answered() -> None:
    """The completion has come to where it entered and was lost with the connection; to its home it is still on its way
    when the request rides up again."""
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, "x", "y")
    cluster.all_subscribe(("x", "y"), "a", "b", "c")
    assert cluster.request("p", "b", at=2) == []
    cluster.move(2, 1)
    cluster.move(1, 0)
    (first,) = stamps(cluster.move(0, 2))
    assert cluster.request("p", "b", at=2, counter=1) == []
    cluster.move(2, 1)
    assert stamps(cluster.run()) == [first]


@pytest.mark.parametrize("entry", [1, 2])
def test_r1_r16_its_home_answers_when_it_is_asked_before_it_knows_the_whole_timestamp(entry: int) -> None:
    """Where the request entered has answered already; its publisher lost the broker, and asks the home whether the
    number stands."""
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, "x", "y")
    cluster.all_subscribe(("x", "y"), "a", "b", "c")
    assert cluster.request("p", "b", at=entry) == []
    if entry == 2:
        cluster.move(2, 1)
    cluster.move(1, 0)
    first = stamps(cluster.move(0, 2)) if entry == 2 else []
    assert cluster.request("p", "b", at=1, counter=1) == []
    (again,) = stamps(cluster.run())
    assert first in ([], [again])


def test_r19_downwards_the_request_carries_the_number() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x")
    cluster.subscribe("x", "a", "b")
    cluster.stamp("p", "a")
    assert entries(cluster.stamp("p", "b", after=[1, 1])) == {1: 1}


# -- R21 -------------------------------------------------------------------------------------------------------


def test_r21_entries_that_did_not_rise_are_left_out_for_all_readers() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x", "y", "z", "q")
    cluster.all_subscribe(("x", "y"), "a", "b")
    cluster.stamp("q", "b")
    assert entries(cluster.stamp("p", "a")) == {2: 1}
    assert entries(cluster.stamp("p", "a")) == {}
    cluster.subscribe("z", "a", bounded=True)
    assert entries(cluster.stamp("p", "a")) == {}


def test_a_stage_outside_its_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Stage(2, 2)


def test_r17_an_answer_stays_below_the_limit_of_a_frame() -> None:
    """Numbers with many dependencies: the rest is asked for again."""
    cluster = _cluster({"t1": 0}, "p")
    for _ in range(1201):
        cluster.stamp("p", "t1")
    for record in cluster.stages[0]._state.topics[1].records.values():
        record.deps = [*range(2, 302)] * 2
    answer = cluster.ask("t1", 2, 1201)
    assert 0 < len(answer.answers) < 1200
    assert len(encode_frame(answer)) < MAX_FRAME_BYTES
