"""Topics that nobody uses retire: their numbers are forgotten but for the last, and go on from there."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, arrive, entries, reader

from inorder.protocol.wire import NewEvent, NumberState, Timestamps
from inorder_worker.sequencer.commands import Configure, Create, LeaveSession, StageSettings, Tick
from inorder_worker.sequencer.retiring import LOOKS
from inorder_worker.sequencer.stage import Stage

TTL, LINGER = 8_000, 1_000
SETTINGS = StageSettings(topic_ttl_ms=TTL, linger_ms=LINGER, confirm_timeout_ms=3_600_000, session_timeout_ms=3_600_000)


def _cluster(topics: dict[str, int], *clients: str) -> Cluster:
    cluster = Cluster(topics, settings=SETTINGS)
    for client in ("p", *clients):
        cluster.open(client)
    return cluster


def _pass(cluster: Cluster, ms: int) -> None:
    """Let time pass as a host does: a Tick whenever one is due. Rides arrive."""
    until = cluster.now + ms
    while due := [each for stage in cluster.stages if (each := stage.next_deadline()) is not None and each <= until]:
        cluster.now = max(cluster.now, min(due))
        for index, stage in enumerate(cluster.stages):
            if (deadline := stage.next_deadline()) is not None and deadline <= cluster.now:
                cluster.step(index, Tick())
        cluster.run()
    cluster.now = until


def _published(cluster: Cluster, name: str, count: int) -> None:
    for _ in range(count):
        cluster.settle("p", name, [cluster.stamp("p", name).number])


def _retired(cluster: Cluster) -> list[int]:
    return [stage.inspection.figures().retired for stage in cluster.stages]


def test_numbers_go_on_and_memory_shrinks() -> None:
    cluster = _cluster({"a": 0, "b": 0})
    _published(cluster, "a", 300)
    (last,) = cluster.request("p", "b", low=301)  # the answers to all others have arrived
    cluster.settle("p", "b", [last.number])
    before = len(cluster.stages[0].snapshot())
    _pass(cluster, 2 * TTL)
    assert _retired(cluster) == [2]
    assert len(cluster.stages[0].snapshot()) < before / 5
    assert cluster.stamp("p", "a").number == 301
    assert _retired(cluster) == [1]
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    assert cluster.stamp("p", "a").number == 302


def test_a_topic_retires_when_it_was_idle_for_long_enough_and_not_sooner() -> None:
    cluster = _cluster({"a": 0})
    for _ in range(5):
        _published(cluster, "a", 1)
        _pass(cluster, TTL - 1)
        assert _retired(cluster) == [0]
    _pass(cluster, 2 * TTL // LOOKS + 1)
    assert _retired(cluster) == [1]


def test_after_a_look_at_its_topics_a_stage_rests() -> None:
    """Hosts step a Tick as long as one is due."""
    cluster = _cluster({"a": 0})
    cluster.step(0, Tick())
    assert cluster.stages[0].next_deadline() == cluster.now + TTL // LOOKS


def test_a_topic_with_a_subscriber_does_not_retire_nor_one_that_lingers() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x")
    cluster.subscribe("x", "a", "b")
    _published(cluster, "a", 3)
    _pass(cluster, 3 * TTL)
    assert _retired(cluster) == [0]
    cluster.subscribe("x", "b")
    _pass(cluster, LINGER - 1)
    assert _retired(cluster) == [0]
    _pass(cluster, 1 + TTL // LOOKS)
    assert _retired(cluster) == [1]
    answer = cluster.subscribe("x", "a", "b")
    assert {each.topic.name: each.start for each in answer.topics} == {"a": 3, "b": 0}
    _pass(cluster, 3 * TTL)
    event = cluster.stamp("p", "a")
    assert event.number == 4
    assert arrive(reader(answer), event) == ["1:4"]


def test_a_number_that_is_open_keeps_its_topic() -> None:
    """Its publisher may still confirm it, and subscribers of other topics may depend on it."""
    cluster = _cluster({"a": 0})
    event = cluster.stamp("p", "a")
    _pass(cluster, 3 * TTL)
    assert _retired(cluster) == [0]
    cluster.settle("p", "a", [event.number])
    (answer,) = cluster.ask("a", 1, 1).answers
    assert answer.state is NumberState.CONFIRMED
    _pass(cluster, 3 * TTL)
    assert _retired(cluster) == [1]


def test_r1_an_event_id_whose_number_is_not_known_any_more_gets_no_second_one() -> None:
    """It was settled without its publisher's word, which is there: so it was given up, and nobody is forgotten."""
    cluster = _cluster({"a": 0})
    _published(cluster, "a", 2)
    _pass(cluster, 2 * TTL)
    frames = cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1), NewEvent(3, 1)]))
    answers = [frame for frame in frames if isinstance(frame, Timestamps)]
    assert [part for frame in answers for part in frame.abandoned] == [1, 1, 1]
    assert not any(frame.forgotten for frame in answers)
    assert [each.number for frame in answers for each in frame.events] == [3]


def test_r17_who_asks_for_forgotten_numbers_is_told_so() -> None:
    cluster = _cluster({"a": 0})
    _published(cluster, "a", 2)
    _pass(cluster, 2 * TTL)
    assert cluster.ask("a", 1, 2).expired_through == 2
    assert cluster.ask("a", 1, 3).answers[0].state is NumberState.UNKNOWN


def test_stages_above_forget_too_and_the_next_timestamp_carries_its_whole_group() -> None:
    """R21: what may be left out is what the topic's last timestamp carried; of a retired one nobody knows any more."""
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.all_subscribe(("x", "y"), "a", "b")
    _published(cluster, "a", 2)
    _published(cluster, "b", 2)
    for client in ("x", "y"):
        cluster.subscribe(client)
    _pass(cluster, LINGER + 2 * TTL)
    assert _retired(cluster) == [1, 1]
    for stage in cluster.stages:
        assert all(not each.base and not each.records for each in stage._state.topics.values())
    answers = [cluster.subscribe(client, "a", "b") for client in ("x", "y")]
    event = cluster.stamp("p", "b")
    assert (event.number, entries(event)) == (3, {1: 2})
    assert [arrive(reader(answer), event) for answer in answers] == [["2:3"], ["2:3"]]


def test_r14_a_retired_topic_moves_and_goes_on() -> None:
    cluster = _cluster({"a": 1, "b": 0})
    _published(cluster, "a", 5)
    _pass(cluster, 2 * TTL)
    assert _retired(cluster) == [1, 1]
    cluster.reorder("a", "b")
    cluster.run()
    assert cluster.stages[1].stage_of(1) == 0
    assert cluster.stamp("p", "a").number == 6
    assert cluster.ask("a", 1, 5).expired_through == 5


def test_r19_what_a_publisher_published_last_in_a_retired_topic_still_comes_first() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "x")
    _published(cluster, "b", 1)
    _published(cluster, "a", 2)
    _pass(cluster, 2 * TTL)
    answer = cluster.subscribe("x", "a", "b")
    event = cluster.stamp("p", "b")
    assert entries(event) == {1: 2}
    assert arrive(reader(answer), event) == ["2:2"]


def test_never_unless_it_is_set() -> None:
    cluster = Cluster({"a": 0}, settings=StageSettings())
    cluster.open("p")
    _published(cluster, "a", 1)
    cluster.step(0, LeaveSession("p", 1))
    _pass(cluster, 3_600_000)
    assert cluster.stages[0].next_deadline() is None
    assert _retired(cluster) == [0]
    cluster.step(0, Configure(SETTINGS))
    assert cluster.stages[0].next_deadline() is not None


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_recovery_at_any_moment_gives_the_same_stage(cut: int) -> None:
    """Time is an input: a snapshot anywhere in between, and the same commands behind it, end in the same state."""
    whole, halved = (_cluster({"a": 0, "b": 0}, "x") for _ in range(2))
    for step in range(60):
        for cluster in (whole, halved):
            if step == cut and cluster is halved:
                cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
            if step % 20 == 3:
                _published(cluster, "ab"[step % 2], 2)
            if step in (10, 12):
                cluster.subscribe("x", "a", *(["b"] if step == 12 else []))
            if step == 25:
                cluster.subscribe("x", "b")
            _pass(cluster, 700)
    assert whole.stages[0].snapshot() == halved.stages[0].snapshot()
    assert [whole.stages[0].stage_of(topic) for topic in (1, 2)] == [None, 0]


def test_numbers_are_forgotten_in_blocks() -> None:
    cluster = Cluster({"a": 0}, settings=StageSettings(number_retention=320))
    cluster.open("p")
    _published(cluster, "a", 100)
    manager = cluster.stages[0]._state.topics[1]
    assert manager.marks == [10 * at for at in range(1, 10)]
    assert manager.mark_at == 101
    assert (manager.expired, len(manager.records)) == (0, 100)
