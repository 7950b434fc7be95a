"""Which of the copies that a broker keeps were asked for (R5)."""

from __future__ import annotations

import pytest

from inorder.endpoint import kept
from inorder.endpoint.kept import KeptCopies
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.names import exact


def _wanted(*filters: str) -> KeptCopies:
    copies = KeptCopies()
    for each in filters:
        copies.wanted("m", mqtt_filter(each))
    return copies


def test_one_copy_of_each_topic_was_asked_for() -> None:
    copies = _wanted("a", "t/+")
    for topic in ("a", "t/1", "t/2"):
        assert not copies.take("other", topic)
        assert [copies.take("m", topic), copies.take("m", topic)] == [True, False]
    assert not copies.take("m", "b")
    copies.wanted("m", mqtt_filter("t/+"))
    assert copies.take("m", "t/1"), "the broker was asked again"
    assert not copies.take("m", "a")


def test_a_filter_that_is_dropped_has_no_copies() -> None:
    copies = _wanted("a", "t/+")
    copies.dropped("other", exact("a"))
    copies.dropped("m", exact("b"))
    assert copies.take("m", "a")
    copies = _wanted("a", "t/+")
    copies.dropped("m", exact("a"))
    copies.dropped("m", mqtt_filter("t/+"))
    assert [copies.take("m", topic) for topic in ("a", "t/1")] == [False, False]


def test_behind_a_new_event_there_are_no_copies() -> None:
    copies = _wanted("a", "t/+")
    for topic in ("a", "t/1"):
        copies.have_come("other", topic)
    assert copies.take("m", "a")
    copies = _wanted("a", "t/+")
    for topic in ("a", "t/1"):
        copies.have_come("m", topic)
    assert [copies.take("m", topic) for topic in ("a", "t/1", "t/2")] == [False, False, True]


def test_of_more_topics_than_are_told_apart_the_flag_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_TOPICS", 2)
    copies = _wanted("t/+")
    assert [copies.take("m", f"t/{each}") for each in (1, 2, 3, 3, 1)] == [True, True, True, True, False]
    copies = _wanted("t/+")
    for each in (1, 2, 3):
        copies.have_come("m", f"t/{each}")
    assert [copies.take("m", f"t/{each}") for each in (1, 2, 3)] == [False, False, True]
