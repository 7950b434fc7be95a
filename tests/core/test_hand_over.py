"""A stage hands over what sessions had to do with topics that leave (R14)."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster

from inorder_worker.sequencer.commands import AnyCommand, Effect
from inorder_worker.sequencer.hand_over import HandOver
from inorder_worker.sequencer.moved import MovedSession
from inorder_worker.sequencer.rides import SwitchRide
from inorder_worker.sequencer.stage import Stage


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


def test_r14_numbers_that_come_are_kept_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch itself takes none of them, so no step of a hand-over has most of the work."""
    monkeypatch.setattr("inorder_worker.sequencer.hand_over.RIDE_PARTS", 200)
    cluster = Cluster({"a": 0, "b": 1}, stages=2)
    cluster.open("p")
    for _ in range(100):
        cluster.settle("p", "b", [cluster.stamp("p", "b").number])
    state, step, kept = cluster.stages[0]._state, Stage.step, dict[int, bool]()

    def noted(self: Stage, command: AnyCommand, now: int) -> list[Effect]:
        effects = step(self, command, now)
        if state.switch is not None:
            kept[len(state.topics[2].records)] = any(part.records for part in state.switch.parts)
        return effects

    monkeypatch.setattr(Stage, "step", noted)
    cluster.reorder("b", "a")
    cluster.run()
    assert len(kept) > 4
    assert not any(kept.values())
    assert [each.number for each in cluster.ask("b", 1, 100).answers] == list(range(1, 101))
