"""R19: what is asked again, planned anew or comes with a topic stands in the order in which it was published."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, entries
from tests.core.publishers import SPACE, STAGES, answer, asked, follows, new_publisher, publish, stamped

from inorder.endpoint.requests import MAX_FRAMES
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import Moved, Settled, Timestamps, TopicInfo


@pytest.mark.parametrize("stages", [None, [0, 2]])
def test_r19_what_is_asked_again_leaves_in_publish_order(stages: list[int] | None) -> None:
    """The stage numbers requests in the order in which they come; also after the connection broke once more before they
    left again, and beside one whose number alone is asked about."""
    publisher = new_publisher()
    publish(publisher, "low", "top", "low", "top", "low")
    assert asked(publisher.requests()) == [(2, [1, 2, 3, 4, 5])]
    handed = publisher.publications.open[3]
    answer(publisher, handed, 2)
    publisher.ask_again([handed])
    for _ in range(2):
        publisher.connected(stages)
    assert asked(publisher.requests()) == [(2, [1, 2, 3, 4, 5])]


def test_r19_what_is_asked_again_follows_an_answered_one_behind_an_unanswered_one() -> None:
    """The answers to the first and the last request were lost, that to the one between them was not."""
    publisher = new_publisher()
    first, between, last = publish(publisher, "middle", "top", "low")
    publisher.requests()
    answer(publisher, between, 7)
    for stage in (0, 1, 2):
        publisher.lost(stage)
    publisher.connected([0, 1, 2])
    events = {each.counter: each for frame in publisher.requests() for each in frame.events}
    assert (first.counter in events, last.counter in events) == (True, True)
    assert events[first.counter].after == [], "what came behind it is nothing that it follows"
    after = events[last.counter].after
    assert dict(pairs(after)).get(1) == 7


def test_r19_what_comes_behind_one_that_is_asked_again_follows_what_was_answered_before_that() -> None:
    """The last uses of topics stand in publish order, also where an older one is asked for anew."""
    publisher = new_publisher()
    first, second, third = publish(publisher, "middle", "top", "low")
    publisher.requests()
    answer(publisher, second, 7)
    answer(publisher, third, 9)
    for stage in (0, 1, 2):
        publisher.lost(stage)
    publisher.connected([0, 1, 2])
    publisher.requests()
    answer(publisher, first, 3)
    assert follows(publisher, "top") == [[3, 9]]


def test_r14_r19_what_is_planned_anew_leaves_in_publish_order_ahead_of_the_queue() -> None:
    publisher = new_publisher()
    publish(publisher, "top", "middle", "top")
    assert asked(publisher.requests()) == [(1, [1, 2, 3])]
    publish(publisher, "low")
    publisher.moved(Moved(1, 1, 2, 1, [1, 2, 2, 0]))
    assert asked(publisher.requests()) == [(2, [1, 2, 3, 4])]


def test_r14_r19_what_is_planned_anew_follows_all_that_was_published_before_it() -> None:
    """Requests are taken back from the last one on: each time the last uses of topics stand in publish order again."""
    publisher = new_publisher()
    stamped(publisher, "middle", 1)
    stamped(publisher, "top", 1)
    stamped(publisher, "low", 5)
    publish(publisher, "top", "middle")
    assert asked(publisher.requests()) == [(2, [4, 5])], "behind what was created there"
    publisher.moved(Moved(0, 1, 2, 1, []))
    frames = publisher.requests()
    found = [(event.counter, event.after) for frame in frames for event in frame.events]
    assert found == [(4, [3, 5]), (5, [1, 1, 3, 5])]


def test_r14_r19_what_is_planned_anew_in_one_topic_follows_what_was_before_the_first_of_it() -> None:
    publisher = new_publisher()
    stamped(publisher, "top", 5)
    stamped(publisher, "low", 7)
    publish(publisher, "top", "top")
    publisher.requests()
    publisher.moved(Moved(0, 1, 2, 1, []))
    frames = publisher.requests()
    assert [(event.counter, event.after) for frame in frames for event in frame.events] == [(3, [3, 7]), (4, [])]


def test_r19_what_is_never_numbered_leaves_the_uses_of_topics_in_publish_order() -> None:
    publisher = new_publisher()
    for name, number in (("middle", 1), ("top", 1), ("low", 5)):
        stamped(publisher, name, number)
    (gone,) = publish(publisher, "middle")
    publisher.requests()
    assert publisher.answered(Timestamps(2, 1, [], [gone.counter])).forgotten == [gone]
    publisher.lost(2)  # so that nobody adds it on the way
    assert follows(publisher, "top") == [[3, 5]]


def test_r1_the_order_epoch_of_the_oldest_request_is_told_until_that_is_done() -> None:
    """Stages to which topics have moved since may have its number, whenever it is asked again."""
    publisher = new_publisher()
    assert publisher.asked_epoch == 1
    (first,) = publish(publisher, "top")
    assert publisher.asked_epoch == 1
    publisher.requests()
    publisher.moved(Moved(0, 1, 4, 1, [1, 2]))
    assert publisher.asked_epoch == 1
    publisher.requests()
    (second,) = publish(publisher, "top")
    publisher.requests()
    assert (publisher.asked_epoch, second.asked_epoch) == (1, 4)
    answer(publisher, first, 1)
    assert publisher.asked_epoch == 1, "it may be asked about again"
    publisher.accepted(first)
    (told,) = publisher.settlements()
    publisher.settled(Settled(told.stage, 1, told.request))
    assert publisher.asked_epoch == 4


@pytest.mark.parametrize("moved", ["b", "c"])
def test_r14_r19_what_a_session_used_stands_in_publish_order_whichever_topics_came_here(moved: str) -> None:
    """The next event on x follows what was published behind the last one there, and that alone: one reader has x and c,
    so that no entry of a group names it. And the last counter is still known as the highest one (R1)."""
    cluster = Cluster({"a": 0, "x": 0, "b": 0, "c": 0, "z": 1} | {moved: 1})
    cluster.open_all("p", "s")
    cluster.subscribe("s", "x", "c", "b")
    for name in "abxc" if moved == "b" else "acxb":
        cluster.stamp("p", name)
    session = cluster.stages[0]._state.sessions["p", 1]
    cluster.reorder("a x b c", "z")
    cluster.run()
    assert session.highest == 4
    behind = "c" if moved == "b" else "b"
    assert entries(cluster.stamp("p", "x")) == {cluster.ids[behind]: 1}


def test_r19_what_a_group_names_or_nobody_reads_is_not_named_once_more() -> None:
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    cluster.open_all("p", "s1", "s2")
    cluster.all_subscribe(("s1", "s2"), "a", "b")
    for name in ("a", "c"):
        cluster.stamp("p", name)
    assert cluster.stamp("p", "b", after=[1, 1, 3, 1]).deps == [1, 1]
    assert cluster.stages[0]._state.topics[2].base == {}, "of its own stage a base is made when it is needed"


def test_r1_what_is_under_way_to_one_stage_is_not_asked_again_because_another_one_is_back() -> None:
    publisher = new_publisher()
    publish(publisher, "low")
    assert asked(publisher.requests()) == [(2, [1])]
    publisher.connected([0])
    assert publisher.requests() == []


def test_r16_so_many_numbers_are_open_as_the_workers_allow() -> None:
    publisher = new_publisher()
    publisher.publications.max_open = 2
    first, *_ = publish(publisher, "top", "top", "top", "top")
    assert asked(publisher.requests()) == [(0, [1, 2])]
    answer(publisher, first, 1)
    assert publisher.requests() == []
    publisher.accepted(first)
    publisher.settlements()
    publisher.settled(Settled(0, 1, 1))
    assert asked(publisher.requests()) == [(0, [3])]


def test_r19_what_rides_behind_waits_for_room_where_it_enters() -> None:
    """The topic's own stage has room; but the one before entered below."""
    publisher = new_publisher()
    frames = []
    for name in ("low", *["top"] * MAX_FRAMES):
        publish(publisher, name)
        frames += asked(publisher.requests())
    assert frames == [(2, [counter]) for counter in range(1, MAX_FRAMES + 1)]


def test_r19_an_event_that_follows_another_one_of_its_stage_brings_its_content_for_the_log() -> None:
    """Only a stage above its own may find that it must never be published."""
    publisher = new_publisher()
    publisher.named([TopicInfo(9, SPACE, "beside", STAGES["middle"], logged=True)])
    publish(publisher, "low", "middle")
    publisher.publish((SPACE, "beside"), "x", lambda: b"x", 1)
    events = [event for frame in publisher.requests() for event in frame.events]
    assert events[-1].required == [STAGES["middle"], 2]
    assert events[-1].content == b"x"


def test_r19_r22_an_event_behind_the_begin_of_a_topic_stands_for_what_its_publisher_did_before() -> None:
    """A has begun a behind all of b's and c's; the events of all three came later, so the last one is enough."""
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    cluster.open_all("A", "p")
    cluster.subscribe("A", "b", "c")
    cluster.stamp("p", "b")
    cluster.subscribe("A", "a", "b", "c")
    cluster.stamp("p", "b")
    cluster.stamp("p", "a")
    assert entries(cluster.stamp("p", "c")) == {1: 1}


def test_r19_r22_an_event_does_not_stand_for_those_of_its_strangers() -> None:
    """A has v, and begins c, d and t behind the events of all: c's does not stand for v's to A, though all readers of t
    have c. Of q's on d the group's entry tells, so c's is named as its publisher's own."""
    cluster = Cluster({"v": 0, "c": 0, "d": 0, "t": 0})
    cluster.open_all("A", "B", "p", "q")
    cluster.subscribe("A", "v")
    cluster.subscribe("B", "c", "d", "t")
    for client, name in ("p", "v"), ("p", "c"), ("q", "d"):
        cluster.stamp(client, name)
    cluster.subscribe("A", "v", "c", "d", "t")
    assert entries(cluster.stamp("p", "t")) == {1: 1, 2: 1, 3: 1}
