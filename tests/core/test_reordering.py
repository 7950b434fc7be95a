"""Changing the topic order: R14, each step of the switch, with every stage crashed at every step of it."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, arrive, base_of, entries, reader, stamps, wild
from tests.core.crashing import CrashingCluster

from inorder.protocol.wire import (
    AskNumbers,
    Frame,
    Moved,
    NewEvent,
    Numbers,
    NumberState,
    OrderChanged,
    Settled,
    ShowOrder,
    StampedEvent,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    TopicStart,
)
from inorder_worker.sequencer import hand_over
from inorder_worker.sequencer.commands import (
    Create,
    CreateTopics,
    LeaveSession,
    OpenSession,
    Pin,
    Reorder,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.rides import CompleteRide, FlushRide, MarkRide, SwitchRide


def _cluster(topics: dict[str, int] | None = None) -> Cluster:
    """Three stages with a, b, c; two subscribers of all, so everything depends on everything."""
    cluster = Cluster(topics or {"a": 0, "b": 1, "c": 2}, stages=3)
    cluster.open_all("p", "s1", "s2")
    return cluster


def _changed(frames: list[Frame]) -> list[str]:
    return [each.refusal for each in frames if isinstance(each, OrderChanged)]


def _moved(frames: list[Frame]) -> list[Moved]:
    return [each for each in frames if isinstance(each, Moved)]


def _forgotten(frames: list[Frame]) -> list[int]:
    return [counter for each in frames if isinstance(each, Timestamps) for counter in each.forgotten]


def _drop(cluster: Cluster, client: str, *, at: int) -> None:
    """Let a stage give up a client that is cut from it, and nobody else."""
    cluster.step(at, LeaveSession(client, 1))
    cluster.now += 60_000
    cluster.step(at, Tick())


def _order(cluster: Cluster) -> list[list[str]]:
    """The topic order as every stage sees it, once all agree."""
    seen = []
    for stage in cluster.stages:
        (answer,) = stage.inspection.order(ShowOrder(1))
        seen.append([[each.name for each in answer.topics if each.stage == at] for at in range(answer.stages)])
    assert all(each == seen[0] for each in seen)
    return seen[0]


# -- the change itself -----------------------------------------------------------------------------------------


def test_r14_a_topic_moves_and_its_numbers_go_on() -> None:
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    assert cluster.stamp("p", "c").number == 1
    frames = cluster.reorder("c", "a", "b") + cluster.run()
    assert _changed(frames) == [""]
    assert _order(cluster) == [["c"], ["a"], ["b"]]
    assert [stage.order_epoch for stage in cluster.stages] == [2, 2, 2]
    after = cluster.request("p", "c")[0]  # at the top stage, so complete at once
    assert (after.number, entries(after)) == (2, {})
    assert entries(cluster.stamp("p", "b")) == {3: 2}


def test_r14_every_llc_of_a_split_pair_is_the_lower_topics_lc() -> None:
    cluster = Cluster({"a": 0, "b": 0}, stages=2)  # one stage: the pair needs no LLC
    cluster.open("p")
    cluster.all_subscribe(("s1", "s2"), "a", "b")
    cluster.stamp("p", "b")
    cluster.stamp("p", "b")
    cluster.reorder("a", "b")
    cluster.run()
    assert entries(cluster.stamp("p", "a")) == {2: 2}


def test_r14_readers_agree_across_a_switch() -> None:
    cluster = _cluster()
    readers = [reader(cluster.subscribe(client, "a", "b", "c")) for client in ("s1", "s2")]
    cluster.subscribe("s1", "a", "b", "c")
    events = [cluster.stamp("p", name) for name in "abcab"]
    cluster.reorder("c b", "", "a")
    cluster.run()
    events += [cluster.stamp("p", name) for name in "acbac"]
    orders = []
    for module, arrivals in zip(readers, (events, list(reversed(events))), strict=True):
        orders.append([word for event in arrivals for word in arrive(module, event)])
    assert orders[0] == orders[1]
    assert len(orders[0]) == len(events)


def test_r14_boundaries_move_and_unnamed_topics_stay_behind_the_named_ones() -> None:
    cluster = _cluster({"a": 0, "b": 0, "c": 1, "d": 2, "e": 2})
    cluster.reorder("a", "b", "e")
    cluster.run()
    assert _order(cluster) == [["a"], ["b", "c"], ["e", "d"]]


def test_r14_a_stage_may_become_empty_and_be_filled_again() -> None:
    cluster = _cluster()
    cluster.reorder("", "", "a b c")
    cluster.run()
    assert _order(cluster) == [[], [], ["a", "b", "c"]]
    assert cluster.request("p", "a")[0].number == 1
    cluster.reorder("a b c", "", "")
    cluster.run()
    assert cluster.request("p", "a")[0].number == 2


def test_r3_a_change_inside_stages_needs_no_flush() -> None:
    cluster = _cluster({"a": 0, "b": 0, "c": 2})
    assert _changed(cluster.reorder("b a", "", "c")) == [""]
    assert cluster.waiting(2, 1)
    assert not cluster.waiting(2, 0)  # just the news, on the belt
    assert cluster.request("p", "c", epoch=1)[0].number == 1  # planned before it, and taken
    cluster.run()
    assert _order(cluster) == [["b", "a"], [], ["c"]]
    assert cluster.request("p", "a", epoch=1)[0].number == 1


@pytest.mark.parametrize(
    ("stages", "epoch", "refusal"),
    [
        ([[2], [1], [3]], 1, "the topic order has changed meanwhile: its epoch is 1"),
        ([[2], [1], [3]], 3, "the topic order has changed meanwhile: its epoch is 1"),
        ([[2], [1, 3]], 2, "there are 3 stages, not 2"),
        ([[9], [1], [3]], 2, "there is no topic 9"),
        ([[2], [1, 2], [3]], 2, "a topic is named twice"),
        ([[1], [2], []], 2, "that is the present topic order"),
    ],
)
def test_r14_what_cannot_be_done_is_refused_and_changes_nothing(
    stages: list[list[int]], epoch: int, refusal: str
) -> None:
    cluster = _cluster()
    assert _changed(cluster.step(2, Reorder("op", 1, 1, epoch, stages))) == [refusal]
    assert not any(cluster.links.values())
    assert _order(cluster) == [["a"], ["b"], ["c"]]


def test_r14_one_change_at_a_time() -> None:
    cluster = _cluster()
    assert _changed(cluster.reorder("b", "a", "c")) == []
    assert _changed(cluster.reorder("c", "a", "b")) == ["another change of the topic order is under way"]
    assert _changed(cluster.run()) == [""]
    assert _order(cluster) == [["b"], ["a"], ["c"]]


def test_r15_a_pinned_topic_stays_on_its_stage() -> None:
    cluster = _cluster()
    assert _changed(cluster.step(2, Pin("op", 1, 1, [1], True))) == [""]
    assert _changed(cluster.reorder("b", "a", "c")) == ["topic 1 is pinned to stage 0"]
    assert _changed(cluster.reorder("a b", "", "c") + cluster.run()) == [""]
    cluster.step(2, Pin("op", 1, 1, [1], False))
    assert _changed(cluster.reorder("b", "a", "c") + cluster.run()) == [""]
    assert _changed(cluster.step(2, Pin("op", 1, 1, [7], True))) == ["there is no topic 7"]


# -- the steps -------------------------------------------------------------------------------------------------


def test_r14_the_steps_flush_mark_hand_over_switch() -> None:
    cluster = _cluster()
    cluster.reorder("c", "b", "a")

    def kinds(origin: int, target: int) -> list[type]:
        return [type(each) for each in cluster.waiting(origin, target)]

    assert (kinds(2, 1), kinds(2, 0)) == ([FlushRide], [MarkRide])
    cluster.move(2, 1)
    assert (kinds(1, 0), kinds(1, 2)) == ([FlushRide], [MarkRide])
    cluster.move(2, 0)
    assert not cluster.waiting(0, 1)  # a mark alone seals nothing
    cluster.move(1, 0)
    assert kinds(0, 1) == [MarkRide, SwitchRide]  # stage 0 has all marks, so it is quiet
    assert kinds(0, 2) == [MarkRide, SwitchRide, SwitchRide]  # with the state of a
    assert not any(stage.order_epoch == 2 for stage in cluster.stages)
    cluster.run()
    assert all(stage.order_epoch == 2 for stage in cluster.stages)


def test_r14_a_sealed_stage_admits_nothing_and_says_so_when_it_is_in_the_new_order() -> None:
    cluster = _cluster()
    cluster.reorder("c", "b", "a")
    assert cluster.request("p", "c") == []
    assert cluster.request("p", "b")[0].number == 1  # not sealed yet
    frames = cluster.run()
    assert stamps(frames) == []
    told = [frame for name, frame in cluster.frames if name == "p" and isinstance(frame, Moved)]
    assert [(each.stage, each.order_epoch, each.since, each.homes) for each in sorted(told, key=lambda e: e.stage)] == [
        (stage, 2, 1, [1, 2, 3, 0]) for stage in range(3)
    ]
    assert cluster.request("p", "c", counter=1)[0].number == 1


def test_r14_what_was_admitted_before_the_flush_is_complete_before_the_switch() -> None:
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    assert cluster.request("p", "c") == []  # on its way up, ahead of the flush
    cluster.reorder("c", "b", "a")
    cluster.move(2, 1)
    cluster.move(2, 1)
    cluster.move(1, 0)  # complete at the top: the answer waits on the link down
    cluster.move(1, 0)
    cluster.move(2, 0)
    assert [type(each) for each in cluster.waiting(0, 2)][:2] == [CompleteRide, MarkRide]
    cluster.move(1, 2)  # stage 2 has the mark of stage 1, and must wait for stage 0's
    assert not any(isinstance(each, SwitchRide) for each in cluster.waiting(2, 0))
    assert [each.number for each in stamps(cluster.move(0, 2))] == [1]
    assert not any(isinstance(each, SwitchRide) for each in cluster.waiting(2, 0))
    cluster.move(0, 2)
    assert any(isinstance(each, SwitchRide) for each in cluster.waiting(2, 0))
    cluster.run()
    assert cluster.ask("c", 1, 1).answers[0].state is NumberState.PENDING
    assert cluster.stages[0].numbers(AskNumbers(1, 0, 3, [1, 1])).answers[0].deps == []


def test_r14_a_request_of_an_older_epoch_is_told_where_topics_went_since() -> None:
    cluster = _cluster()
    cluster.reorder("b", "a", "c")
    cluster.run()
    cluster.reorder("b", "c", "a")
    cluster.run()
    frames = cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)], 1))
    assert [(each.order_epoch, each.since, each.homes) for each in _moved(frames)] == [(3, 1, [1, 2, 2, 0, 3, 1])]
    frames = cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)], 2))
    assert [(each.since, each.homes) for each in _moved(frames)] == [(2, [1, 2, 3, 1])]
    assert stamps(frames) == []


def test_r14_who_missed_a_change_learns_of_it_while_the_next_one_is_under_way() -> None:
    cluster = _cluster()
    cluster.reorder("b", "a", "c")
    cluster.run()
    cluster.reorder("b", "c", "a")
    frames = cluster.step(2, Create("p", 1, 1, [NewEvent(1, 3)], 1))  # was away: what it hears next builds on epoch 2
    assert [(each.order_epoch, each.since, each.homes) for each in _moved(frames)] == [(2, 1, [1, 1, 2, 0])]
    told = _moved(cluster.run())
    assert {(each.order_epoch, each.since, tuple(each.homes)) for each in told} == {(3, 2, (1, 2, 3, 1))}


def test_r14_the_news_builds_on_the_last_change_that_moved_topics() -> None:
    cluster = _cluster({"a": 0, "b": 0, "c": 2})
    cluster.reorder("b a", "", "c")  # epoch 2 moves nothing, and nobody hears of it
    cluster.run()
    cluster.reorder("b", "a", "c")
    assert {(each.order_epoch, each.since) for each in _moved(cluster.run())} == {(3, 1)}


def test_r14_what_a_faster_stage_let_through_waits_for_the_slower_one() -> None:
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    cluster.reorder("c", "b", "a")
    while cluster.stages[2].order_epoch == 1:  # stage 0 gets no hand-over
        for origin, target in list(cluster.links):
            rides = cluster.waiting(origin, target)
            if rides and (target > 0 or not isinstance(rides[0], SwitchRide)):
                cluster.move(origin, target)
    assert [stage.order_epoch for stage in cluster.stages][::2] == [1, 2]
    assert cluster.request("p", "a", at=2) == []  # the new bottom topic, on its way up
    assert cluster.request("p", "c", epoch=2) == []  # planned for the new order: kept at stage 0
    assert cluster.request("p", "c", counter=9, epoch=1) == []  # dropped
    got = {each.counter: each.number for each in stamps(cluster.run())}
    assert got == {1: 1, 2: 1}


def test_r14_a_ride_of_the_new_order_waits_until_the_stage_is_in_it() -> None:
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    cluster.stamp("p", "b")
    cluster.reorder("b", "c", "a")
    while cluster.links[1, 0] or cluster.stages[1].order_epoch == 1:
        for origin, target in list(cluster.links):
            rides = cluster.waiting(origin, target)
            is_last = (origin, target) == (2, 0) and rides and isinstance(rides[0], SwitchRide)
            if rides and not is_last:
                cluster.move(origin, target)
    assert cluster.request("p", "c", at=1) == []
    cluster.move(1, 0)  # stage 1 is in the new order, stage 0 still lacks the hand-over of stage 2
    assert cluster.stages[0].order_epoch == 1
    assert stamps(cluster.run()) == [StampedEvent(2, 3, 1, [2, 1])]  # filled in by stage 0, now the home of b


def test_r14_a_topic_below_the_stage_it_is_asked_of_is_never_numbered_there() -> None:
    cluster = _cluster()
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 1))) == [1]
    assert not any(cluster.links.values())


# -- ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [("c", "b", "a"), ("", "c a", "b"), ("", "", "a b c"), ("a b c", "", "")])
@pytest.mark.parametrize("entry", ["home", "bottom"])
def test_r1_an_id_asked_again_after_the_move_has_its_first_timestamp(stages: tuple[str, ...], entry: str) -> None:
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    first = [cluster.stamp("p", name) for name in "abcabc"]
    cluster.reorder(*stages)
    cluster.run()
    for event, name in zip(first, "abcabc", strict=True):
        at = None if entry == "home" else 2
        again = cluster.request("p", name, at=at, counter=event.counter) or stamps(cluster.run())
        assert again == [event]
    assert cluster.stamp("p", "a").number == 3


def test_r1_an_id_that_entered_below_its_home_keeps_its_timestamp() -> None:
    cluster = _cluster()
    first = cluster.stamp("p", "a", at=2)
    for stages in (("", "a", "b c"), ("b", "", "a c")):
        cluster.reorder(*stages)
        cluster.run()
        again = cluster.request("p", "a", counter=1) or stamps(cluster.run())
        assert again == [first]
        again = cluster.request("p", "a", at=2, counter=1) or stamps(cluster.run())
        assert again == [first]


def test_r16_an_id_whose_number_was_given_up_is_answered_so_wherever_it_enters() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.step(2, LeaveSession("p", 1))
    cluster.now += 10_000
    cluster.step(2, Tick())
    cluster.open("p")
    cluster.reorder("c", "b", "a")
    cluster.run()
    for at in (0, 2):
        command = Create("p", 1, 1, [NewEvent(1, 3)], 2)
        frames = cluster.step(at, command) + cluster.run()
        assert [each.abandoned for each in frames if isinstance(each, Timestamps)] == [[1, 3, 1]]


def test_r1_a_counter_below_the_mark_is_forgotten_at_the_new_home_too() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.request("p", "c", counter=5, low=5)
    cluster.reorder("c", "b", "a")
    cluster.run()
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 2))) == [1]
    frames = cluster.step(2, Create("p", 1, 1, [NewEvent(2, 3)], 2)) + cluster.run()
    assert _forgotten(frames) == [2]


def test_r1_where_a_moved_id_was_forgotten_it_never_gets_a_second_number() -> None:
    """It was asked of another stage, which has handed it over; only there it was known that it had been asked."""
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.reorder("c", "b", "a")
    cluster.run()
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 60_000
    cluster.step(0, Tick())  # stage 0 forgets the session
    cluster.step(0, OpenSession("p", 1, first=1, anywhere=2, asked_epoch=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 2))) == [1]


def test_r1_a_session_that_comes_with_a_topic_does_not_know_what_was_dropped_here_before() -> None:
    """Stage 0 has dropped what it was asked for, and gets the session anew with another topic."""
    cluster = _cluster()
    cluster.stamp("p", "a")
    _drop(cluster, "p", at=0)
    cluster.reorder("a c", "b", "")
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, asked_epoch=1, own=2))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)], 2))) == [1]
    assert [each.number for each in cluster.request("p", "c", counter=2)] == [1]


def test_r1_a_request_that_was_not_taken_before_its_topic_moved_is_numbered_at_the_new_home() -> None:
    """The session comes with the topic: what its client asked of others only was not asked here."""
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    for stage in (1, 2):
        cluster.step(stage, OpenSession("p", 1))
    cluster.reorder("c a", "b", "")
    assert cluster.request("p", "c") == []  # sealed
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, asked_epoch=1))
    assert cluster.request("p", "c", counter=1)[0].number == 1


def test_r1_a_number_whose_session_was_dropped_is_known_where_its_topic_moves() -> None:
    """Stage 2 has dropped the session, stage 0 has not: the number itself says which event it belongs to."""
    cluster = _cluster()
    cluster.stamp("p", "c")
    _drop(cluster, "p", at=2)
    cluster.reorder("a c", "b", "")
    cluster.run()
    frames = cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 2))
    assert [each.abandoned for each in frames if isinstance(each, Timestamps)] == [[1, 3, 1]]


def test_r16_a_session_that_came_with_a_topic_ends_where_its_client_never_comes() -> None:
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    cluster.step(2, OpenSession("p", 1))
    cluster.stamp("p", "c")
    cluster.reorder("a c", "b", "")
    cluster.run()
    cluster.step(2, LeaveSession("p", 1))
    cluster.now += 10_000
    cluster.step(0, Tick())
    assert [each.state for each in cluster.ask("c", 1, 1).answers] == [NumberState.ABANDONED]
    cluster.now += 20_000
    cluster.step(0, Tick())
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 2))) == [1]


@pytest.mark.parametrize("at", [0, 2])
def test_r1_a_number_that_moves_to_where_later_ones_came_first_is_answered(at: int) -> None:
    """Its answer was lost. Called forgotten at its new home, it would stay pending, and strict subscribers would wait
    for it (R17)."""
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    cluster.step(2, OpenSession("p", 1))
    assert cluster.stamp("p", "c").number == 1
    assert cluster.stamp("p", "a", at=2).number == 1  # stage 0 knows nothing of counters below this one's
    cluster.reorder("a c", "b", "")
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=1, anywhere=3, asked_epoch=1))
    frames = cluster.step(at, Create("p", 1, 1, [NewEvent(1, 3)], 2)) + cluster.run()
    assert (_forgotten(frames), [each.number for each in stamps(frames)]) == ([], [1])


def test_r1_a_stage_met_for_the_first_time_takes_what_was_asked_of_others_before_they_hand_over() -> None:
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    for stage in (1, 2):
        cluster.step(stage, OpenSession("p", 1))
    cluster.reorder("c", "b", "a")
    assert cluster.request("p", "c") == []  # sealed
    cluster.step(0, OpenSession("p", 1, first=1, anywhere=2, asked_epoch=1))  # stage 0 does not know of the change yet
    cluster.run()
    assert cluster.request("p", "c", counter=1)[0].number == 1


# -- numbers -----------------------------------------------------------------------------------------------------


def test_r17_gap_answers_for_a_moved_topic_come_from_its_new_home() -> None:
    cluster = Cluster({"a": 0, "b": 1}, settings=StageSettings(number_retention=2))
    cluster.open_all("p", "s1", "s2")
    cluster.all_subscribe(("s1", "s2"), "a", "b")
    cluster.stamp("p", "a")
    for _ in range(4):
        number = cluster.stamp("p", "b").number
        cluster.settle("p", "b", [number] if number < 4 else [])
    before = cluster.ask("b", 1, 6)
    assert before.expired_through > 0
    cluster.reorder("b", "a")
    cluster.run()
    after = cluster.ask("b", 1, 6)
    assert (after.answers, after.expired_through) == (before.answers, before.expired_through)
    assert cluster.stages[1].numbers(AskNumbers(1, 1, 2, [1, 4])) == Numbers(1, 2, [])
    told = cluster.stages[1].moved(2)
    assert told == Moved(1, 0, 2, 2, [2, 0])
    assert cluster.stages[0].moved(2) is None


def test_r17_a_sealed_stage_calls_no_number_unknown() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.reorder("c", "b", "a")  # its new home may have numbered more before stage 2 knows
    assert [each.number for each in cluster.ask("c", 1, 3).answers] == [1]


def test_r17_heads_of_a_moved_topic_come_from_its_new_home() -> None:
    cluster = _cluster()
    cluster.subscribe("s1", "a", "b", "c")
    cluster.stamp("p", "c")
    cluster.settle("p", "c", [1])
    cluster.stages[2].changed_heads()
    cluster.reorder("c", "b", "a")
    cluster.run()
    assert cluster.stages[2].heads("s1", None) == []
    assert cluster.stages[0].changed_heads() == [3]
    assert cluster.stages[0].changed_heads() == []
    assert cluster.stages[0].heads("s1", None) == [3, 1]


def test_r17_who_has_filters_hears_at_the_bottom_stage_of_topics_elsewhere() -> None:
    """R13: a new topic has left the bottom stage before its reader heard of it, and the reader is connected to no other
    one."""
    cluster = _cluster()
    cluster.subscribe("s1", wild("#"))
    cluster.subscribe("s2", "a", "b", "c")
    bottom = cluster.stages[2]
    cluster.stamp("p", "c")
    cluster.settle("p", "c", [1])
    assert (bottom.heads("s1", None), bottom.heads("s2", None)) == ([1, 0, 2, 0, 3, 1], [3, 1])
    bottom.changed_heads()
    cluster.reorder("c", "b", "a")
    cluster.run()
    assert bottom.heads("s1", bottom.changed_heads()) == [3, 0]
    assert cluster.stages[1].heads("s1", None) == []
    assert cluster.stages[0].heads("s1", None) == [3, 1]


def test_r16_a_confirmation_to_the_former_home_reaches_the_new_one() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.stamp("p", "c")
    cluster.reorder("c", "b", "a")
    held = cluster.settle("p", "c", [1], [2])  # still to stage 2, which is sealed
    assert held == []
    frames = cluster.run()
    assert [(each.stage, each.late) for each in frames if isinstance(each, Settled)] == [(2, [])]
    assert [each.state for each in cluster.ask("c", 1, 2).answers] == [NumberState.CONFIRMED, NumberState.VOID]
    assert cluster.stages[0].changed_heads() == [3]


def test_r16_a_confirmation_that_is_late_at_the_new_home_is_told_so() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.reorder("c", "b", "a")
    cluster.run()
    cluster.now += 60_000
    cluster.step(0, Tick())
    assert cluster.ask("c", 1, 1).answers[0].state is NumberState.ABANDONED
    frames = cluster.step(2, SettleNumbers("p", 1, 1, [3, 1, 1], [])) + cluster.run()
    assert [(each.stage, each.late) for each in frames if isinstance(each, Settled)] == [(2, []), (0, [3, 1])]


def test_r16_timers_start_anew_with_the_switch() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.now += 59_000
    cluster.reorder("c", "b", "a")
    cluster.run()
    cluster.now += 59_000
    cluster.step(0, Tick())
    assert cluster.ask("c", 1, 1).answers[0].state is NumberState.PENDING
    assert cluster.stages[0].next_deadline() == cluster.now + 1_000
    cluster.now += 1_000
    cluster.step(0, Tick())
    assert cluster.ask("c", 1, 1).answers[0].state is NumberState.ABANDONED


def test_r16_no_timer_acts_while_the_order_changes() -> None:
    cluster = _cluster()
    cluster.stamp("p", "c")
    cluster.subscribe("s1", "a", "c")
    cluster.subscribe("s1", "a")
    cluster.reorder("c", "b", "a")
    cluster.now += 100_000
    assert cluster.stages[2].next_deadline() is None
    cluster.step(2, Tick())
    assert not any(not isinstance(each, FlushRide) for each in cluster.waiting(2, 1))
    cluster.run()
    assert cluster.ask("c", 1, 1).answers[0].state is NumberState.PENDING


# -- publisher order -----------------------------------------------------------------------------------------------


def test_r19_an_event_follows_its_publishers_last_ones_across_the_switch() -> None:
    cluster = _cluster({"a": 0, "b": 1, "c": 1})
    cluster.subscribe("s1", "b", "c")  # alone: no group, only publisher order
    cluster.stamp("p", "b")
    cluster.reorder("", "a", "b c")
    cluster.run()
    assert entries(cluster.stamp("p", "c")) == {2: 1}
    assert entries(cluster.stamp("p", "c")) == {}
    assert entries(cluster.stamp("p", "b")) == {3: 2}


def test_r19_uses_of_several_stages_keep_their_order_where_they_meet() -> None:
    cluster = _cluster()
    cluster.subscribe("s1", "a", "b", "c")
    for name in "abcab":  # the last event in c is older than those in a and b
        cluster.stamp("p", name)
    cluster.reorder("", "", "a b c")
    cluster.run()
    assert entries(cluster.stamp("p", "c")) == {2: 2}, "its last one, which follows that in a"
    assert entries(cluster.stamp("p", "b")) == {3: 2}


def test_r19_an_old_id_asked_again_does_not_count_as_the_last_use() -> None:
    cluster = _cluster()
    cluster.subscribe("s1", "a", "b", "c")
    cluster.stamp("p", "a")
    cluster.stamp("p", "c")
    cluster.stamp("p", "b")
    cluster.reorder("", "a", "c b")
    cluster.run()
    cluster.request("p", "a", at=2, counter=1)  # rides up past c and b once more
    assert [each.number for each in stamps(cluster.run())] == [1]
    assert entries(cluster.stamp("p", "c")) == {2: 1}


# -- subscriptions ---------------------------------------------------------------------------------------------------


def test_r7_a_subscription_that_rides_is_complete_before_the_switch() -> None:
    cluster = _cluster()
    cluster.subscribe("s1", "a", "b", "c")
    cluster.stamp("p", "c")
    cluster.change("s2", "a", "c")
    cluster.reorder("c", "b", "a")
    frames = cluster.run()
    (answer,) = [each for each in frames if isinstance(each, Subscribed)]
    assert {each.topic.name: each.start for each in answer.topics} == {"a": 0, "c": 1}
    assert entries(cluster.stamp("p", "a")) == {3: 1}
    assert entries(cluster.stamp("p", "c")) == {1: 1}


def test_r14_topics_and_subscriptions_of_clients_wait_at_a_sealed_stage() -> None:
    cluster = _cluster()
    cluster.reorder("c", "b", "a")
    assert cluster.change("s1", "a", "n") == []
    assert cluster.step(2, CreateTopics("p", 1, 1, [("m", "x")])) == []
    frames = cluster.run()
    assert [[(each.name, each.stage) for each in one.topics] for one in frames if isinstance(one, Topics)] == [
        [("x", 2)]
    ]
    (answer,) = [each for each in frames if isinstance(each, Subscribed)]
    assert [(each.topic.name, each.topic.stage) for each in answer.topics] == [("a", 2), ("n", 2)]
    assert _order(cluster) == [["c"], ["b"], ["a", "n", "x"]]


def test_r10_what_left_a_group_is_carried_once_by_its_new_home() -> None:
    for stages in (("c", "b", "a"), ("a c", "", "b"), ("", "a c", "b")):
        cluster = _cluster()
        cluster.all_subscribe(("s1", "s2"), "a", "c")
        cluster.stamp("p", "a")
        cluster.stamp("p", "c")
        cluster.subscribe("s1", "a")  # s1 keeps a, and was notified of c:1
        cluster.now += 60_000
        cluster.step(2, Tick())  # the linger ends: a and c are no pair any more
        cluster.run()
        cluster.reorder(*stages)
        cluster.run()
        assert entries(cluster.stamp("s1", "c")) == {}, stages  # s1 does not get it
        assert entries(cluster.stamp("s2", "a")) == {3: 2}, stages
        assert entries(cluster.stamp("s2", "a")) == {}, stages  # it was carried once


def test_r8_what_topics_followed_before_they_part_is_a_base() -> None:
    cluster = _cluster()
    for client in ("s1", "s2"):
        cluster.subscribe(client, "a", "b", "c")
    cluster.subscribe("p", "a")
    cluster.stamp("p", "a")
    cluster.stamp("s1", "c")
    cluster.reorder("c", "b", "a")
    cluster.run()
    assert base_of(cluster.subscribe("p", "a", "c"), 3) == {1: 1}


# -- large ones ------------------------------------------------------------------------------------------------------


def test_r14_a_large_hand_over_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "RIDE_PARTS", 50)
    cluster = _cluster()
    cluster.all_subscribe(("s1", "s2"), "a", "b", "c")
    first = [cluster.stamp("p", "c") for _ in range(40)]
    cluster.reorder("c", "b", "a")
    cluster.run()
    assert cluster.request("p", "c", counter=7) == [first[6]]
    assert [each.number for each in cluster.ask("c", 1, 40).answers] == list(range(1, 41))
    assert cluster.stages[2].sent(0) > 8


# -- crashes -----------------------------------------------------------------------------------------------------------


def _busy(cluster: CrashingCluster) -> int:
    """Requests on their way, a subscription riding, a settlement: all of it across two changes of the order. Returns
    the step at which they begin."""
    cluster.open_all("p", "q", "s1", "s2")
    cluster.subscribe("s1", "a", "b", "c")
    cluster.subscribe("s2", "a", "b", "c")
    began = cluster.steps
    cluster.request("p", "c")
    cluster.request("q", "b")
    cluster.request("p", "a", at=2)
    cluster.reorder("c", "b", "a")
    cluster.request("q", "c")
    cluster.settle("q", "b", [1])
    cluster.change("s1", "a", "b", version=2)
    cluster.run()
    cluster.reorder("b a", "", "c")
    cluster.run()
    return began


def _ask_all(cluster: CrashingCluster, wanted: list[tuple[str, str, int]]) -> dict[tuple[str, int], StampedEvent]:
    """Every client asks for what it asked before, and is answered."""
    found = {}
    for client, name, counter in wanted:
        got = cluster.request(client, name, counter=counter) or stamps(cluster.run())
        assert len(got) == 1, (client, name, counter)
        found[client, counter] = got[0]
    return found


WANTED = [("p", "c", 1), ("q", "b", 1), ("p", "a", 2), ("q", "c", 2)]


def _run(crash_at: int, snapshots: bool) -> tuple[CrashingCluster, int]:
    cluster = CrashingCluster({"a": 0, "b": 1, "c": 2}, stages=3)
    cluster.crash_at, cluster.snapshots = crash_at, snapshots
    return cluster, _busy(cluster)


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("parts", [hand_over.RIDE_PARTS, 1])
def test_r14_any_stage_may_crash_at_any_step(snapshots: bool, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between the parts of a hand-over, here of one number or one session each."""
    monkeypatch.setattr(hand_over, "RIDE_PARTS", parts)
    cluster, began = _run(0, snapshots)
    last = cluster.steps
    assert last > began + 40
    for crash_at in range(began + 1, last + 1):
        cluster, _ = _run(crash_at, snapshots)
        cluster.run()
        while cluster.stages[2].order_epoch < 3:  # the command itself may have been lost, and its answer too
            cluster.reorder(*(("c", "b", "a") if cluster.stages[2].order_epoch == 1 else ("b a", "", "c")))
            cluster.run()
        assert _order(cluster) == [["b", "a"], [], ["c"]], crash_at
        cluster.change("s1", "a", "b", version=2)
        cluster.run()
        found = _ask_all(cluster, WANTED)
        numbers = {key: each.number for key, each in found.items()}
        assert numbers == {("p", 1): 1, ("q", 1): 1, ("p", 2): 1, ("q", 2): 2}, crash_at
        assert cluster.ask("c", 1, 3).answers[-1].state is NumberState.UNKNOWN, crash_at
        _check_readers(cluster, list(found.values()))


def _check_readers(cluster: Cluster, events: list[StampedEvent]) -> None:
    """Whatever the order of arrival, all of it is notified, in one order."""
    starts = [TopicStart(TopicInfo(cluster.ids[name], "m", name, 0), 0, []) for name in "abc"]
    orders = set()
    for arrivals in (events, list(reversed(events))):
        module = reader(Subscribed(1, starts))
        orders.add(tuple(word for event in arrivals for word in arrive(module, event)))
    assert [len(each) for each in orders] == [len(events)]
