"""A stage hands over what sessions had to do with topics that leave (R14)."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster

from inorder_worker.sequencer.hand_over import HandOver
from inorder_worker.sequencer.moved import MovedSession
from inorder_worker.sequencer.rides import SwitchRide


def test_rides_have_a_bounded_size_however_much_sessions_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder_worker.sequencer.hand_over.RIDE_PARTS", 20)
    cluster = Cluster({"a": 0})
    for client in ("p", "q", "r"):
        cluster.open(client)
        for _ in range(5):
            cluster.settle(client, "a", [cluster.stamp(client, "a").number])
    state = cluster.stages[0]._state
    state.topics[1].records.clear()
    parts = list(HandOver(state).parts(2, [state.topics[1]]))
    assert [[each.client_id for each in part.sessions] for part in parts] == [["p"], ["q"], ["r"]]


def test_a_session_that_comes_with_a_topic_has_its_answers_and_has_not_connected() -> None:
    state = Cluster({"a": 0}).stages[0]._state
    moved = MovedSession("p", 1, 3, True, 30_000, True, [5, 1, 7], [1, 5, 7])
    HandOver(state).take(SwitchRide(2, [], sessions=[moved]))
    session = state.sessions["p", 1]
    assert (session.answers, session.used, session.low) == ({5: (1, 7)}, {1: (5, 7)}, 3)
    assert (session.connected, session.is_opened) == (False, False)


def test_numbers_that_come_with_a_topic_count_among_those_that_a_stage_keeps() -> None:
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open("p")
    for name in ("a", "a", "b"):
        cluster.settle("p", name, [cluster.stamp("p", name).number])
    cluster.reorder("b", "a")
    cluster.run()
    kept = [{each.name: len(each.records) for each in stage._state.topics.values()} for stage in cluster.stages]
    assert kept == [{"a": 0, "b": 1}, {"a": 2, "b": 0}]
    assert [stage._state.kept for stage in cluster.stages] == [1, 2]
