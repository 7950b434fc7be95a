"""Where a client knows topics to be at home (R14)."""

from __future__ import annotations

from tests.core.publishers import SPACE

from inorder.endpoint.homes import Homes
from inorder.protocol.wire import TopicInfo


def test_r14_the_lowest_home_is_that_of_any_order() -> None:
    """So that what is asked for while nobody knows better enters low enough (R19)."""
    homes = Homes()
    homes.named([TopicInfo(1, SPACE, "a", 1)])
    for moved, lowest in (({1: 3}, 3), ({1: 2}, 3), ({9: 4}, 4), ({}, 4)):
        homes.move(moved)
        assert homes.lowest == lowest
    assert homes.topics[SPACE, "a"].stage == 2


def test_r14_before_any_topic_is_named_the_lowest_home_is_the_top() -> None:
    homes = Homes()
    homes.move({})
    assert homes.lowest == 0
