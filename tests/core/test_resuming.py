"""Where a durable subscription resumes (R18), and what operators are shown of it."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, wild
from tests.core.durables import change, end_sessions, publish, starts

from inorder_worker.sequencer import durable
from inorder_worker.sequencer.commands import LeaveSession, OpenSession


def test_r8_what_a_topic_begins_behind_is_kept_until_something_of_it_is_done_with() -> None:
    """Through further changes, and not for topics that were left."""
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    cluster.open_all("d", "p")
    cluster.rule("a", "b", "c")
    change(cluster, "d", "a")
    publish(cluster, "a")
    publish(cluster, "b")
    change(cluster, "d", "a", "b", version=2)
    assert starts(change(cluster, "d", "a", "b", "c", version=3))["b"].start == 1
    publish(cluster, "b")
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "a", "b", "c", incarnation=2))["b"].base == [1, 1]
    change(cluster, "d", "a", incarnation=2, version=2)
    clock = cluster.stages[0]._state.clocks["d"]
    assert (set(clock.numbers), clock.bases) == ({1}, [])


def test_r13_a_topic_that_was_created_under_its_filter_resumes_from_the_first_number() -> None:
    cluster = Cluster({"a": 0})
    cluster.open_all("d", "p")
    cluster.rule("b")
    cluster.subscribe("d", wild("#"), durable=True)
    cluster.topic("p", "b")
    publish(cluster, "b", 2)
    cluster.open("d", 2)
    cluster.versions["d"] = 0
    assert starts(cluster.subscribe("d", wild("#"), incarnation=2, durable=True))["b"].start == 0


def test_operators_are_shown_who_has_a_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"a": 0, "b": 0})
    for client in ("d", "e", "f"):
        cluster.step(0, OpenSession(client, 1, owner=f"of {client}"))
    cluster.subscribe("f", "a")
    cluster.subscribe("e", "a", "b", durable=True)
    cluster.subscribe("d", "b", durable=True)
    cluster.step(0, LeaveSession("d", 1))
    cluster.step(0, LeaveSession("e", 1))
    (shown,) = cluster.stages[0].show_subscriptions(4)
    assert [(each.client_id, each.durable, each.away_ms, each.topics, each.owner) for each in shown.subscriptions] == [
        ("d", True, 1, 1, "of d"),
        ("e", True, 1, 2, "of e"),
        ("f", False, 0, 1, "of f"),
    ]
    assert [each.filter.name for each in shown.subscriptions[1].filters] == ["a", "b"]
    assert (shown.request, shown.more) == (4, False)
    end_sessions(cluster, "d")
    monkeypatch.setattr(durable, "SUBSCRIPTIONS_IN_FRAME", 2)
    frames = cluster.stages[0].show_subscriptions(4)
    assert [[each.away_ms for each in frame.subscriptions] for frame in frames] == [[-1, -1], [0]]
    assert [frame.more for frame in frames] == [True, False]
