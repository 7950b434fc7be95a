"""Answers to subscription changes that are asked for again (R11, R22)."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster

from inorder.protocol.wire import Subscribed
from inorder_worker.sequencer.commands import StageSettings, Tick


@pytest.mark.parametrize("durable", [False, True])
def test_r11_what_was_left_is_answered_again_alike_when_its_linger_is_over(durable: bool) -> None:
    """R22: the answer was lost, and the client was away for longer than topics linger."""
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    cluster.open_all("A", "p")
    cluster.subscribe("A", "a", "b", "c", durable=durable)
    cluster.stamp("p", "a")
    first = cluster.subscribe("A", "b", "c", durable=durable)
    assert [(each.topic.id, each.start) for each in first.left] == [(1, 1)]
    cluster.now += StageSettings().linger_ms
    cluster.step(0, Tick())
    cluster.stamp("p", "a")
    cluster.change("A", "b", "c", version=2, durable=durable)
    again = [frame for _, frame in cluster.frames if isinstance(frame, Subscribed)][-1]
    assert again == first
