"""How much of what lasts an owner may have, to the last topic and byte."""

from __future__ import annotations

import pytest

from inorder_worker.sequencer import quotas
from inorder_worker.sequencer.quotas import topics_made, topics_refusal
from inorder_worker.sequencer.state import Snapshot, StageState
from inorder_worker.sequencer.topic_manager import Session


def _names(*names: str) -> list[tuple[str, str]]:
    return [("m", each) for each in names]


def test_topics_are_counted_for_their_owner_with_their_names() -> None:
    state = StageState(Snapshot(0, 1))
    topics_made(state, Session("p", 1, owner="o"), _names("a", "bcd"))
    topics_made(state, Session("q", 1, owner="o"), _names("\u00e9"))
    topics_made(state, Session("r", 1), _names("x"))
    topics_made(state, None, _names("x"))
    assert (state.made, state.made_bytes) == ({"o": 3}, {"o": 6})


@pytest.mark.parametrize(("made", "names", "is_refused"), [(0, 2, False), (0, 3, True), (1, 1, False), (1, 2, True)])
def test_so_many_topics_may_be_made(made: int, names: int, is_refused: bool) -> None:
    state, session = StageState(Snapshot(0, 1)), Session("p", 1, owner="o", max_topics=2)
    topics_made(state, session, _names(*"xyz"[:made]))
    wanted = _names(*"abc"[:names])
    why = f"the token may make 2 topics; it has made {made}, and {names} more are too many"
    assert topics_refusal(state, session, wanted) == (why if is_refused else "")
    assert topics_refusal(state, Session("p", 1, owner="o"), wanted) == topics_refusal(state, None, wanted) == ""


@pytest.mark.parametrize(("most", "made", "more", "room"), [(2, 0, 5, 4), (2, 3, 2, 4), (3, 0, 7, 6), (3, 6, 1, 6)])
def test_so_many_bytes_of_names_may_be_made(
    most: int, made: int, more: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "NAME_BYTES", 4)
    monkeypatch.setattr(quotas, "NAME_BYTES_EACH", 2)
    state, session = StageState(Snapshot(0, 1)), Session("p", 1, owner="o", max_topics=most)
    if made:
        topics_made(state, session, _names("x" * made))
    why = f"the token may make topics with {room} bytes of names; it has made {made}, and {more} more are too many"
    assert topics_refusal(state, session, _names("y" * more)) == why
    assert topics_refusal(state, session, _names("y" * (more - 1))) == ""
