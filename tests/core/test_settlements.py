"""What stages are told of the fates of numbers, and when (R16)."""

from __future__ import annotations

import pytest
from tests.core.publishers import new_publisher, stamped

from inorder.endpoint import settlements as module
from inorder.endpoint.publications import PublicationState
from inorder.endpoint.settlements import Settlements
from inorder.protocol.wire import Settle


def test_each_fate_has_its_place_in_a_frame_and_its_publications_are_settling() -> None:
    publisher, settlements = new_publisher(), Settlements()
    one, two, three, four = (stamped(publisher, "top", number) for number in (1, 2, 3, 4))
    for tell, publication in (
        (settlements.confirm, one),
        (settlements.confirm, two),
        (settlements.void, three),
        (settlements.abandon, four),
    ):
        tell(publication)
        assert publication.state is PublicationState.SETTLING
    assert settlements.frames() == [Settle(0, 1, [1, 1, 2], [1, 3, 3], [1, 4, 4])]
    assert settlements.frames() == []
    assert settlements.answered(1) == [one, two, three, four]
    assert settlements.answered(1) == []


def test_of_a_stage_there_is_one_frame_under_way() -> None:
    publisher, settlements = new_publisher(), Settlements()
    for tell, name in ((settlements.confirm, "top"), (settlements.void, "low")):
        tell(stamped(publisher, name))
    first = settlements.frames()
    assert [(each.stage, each.request) for each in first] == [(0, 1), (2, 2)]
    later = [stamped(publisher, name, 2) for name in ("top", "middle", "low")]
    for each in later:
        settlements.confirm(each)
    assert [(each.stage, each.confirmed) for each in settlements.frames()] == [(1, [2, 2, 2])]
    assert settlements.describe()["confirmed"] == [later[0].counter, later[2].counter]
    assert settlements.stages == {0, 1, 2}
    assert settlements.unanswered({0, 1}) == [first[0], Settle(1, 3, [2, 2, 2], [], [])]
    settlements.answered(2)
    assert [(each.stage, each.request) for each in settlements.frames()] == [(2, 4)]


def test_what_has_no_room_in_a_frame_comes_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 2)
    publisher, settlements = new_publisher(), Settlements()
    for number in (1, 3, 5, 7, 9):
        settlements.confirm(stamped(publisher, "top", number))
    settlements.void(stamped(publisher, "top", 11))
    assert settlements.frames() == [Settle(0, 1, [1, 1, 1, 1, 3, 3], [1, 11, 11])]
    assert settlements.frames() == []
    settlements.answered(1)
    assert settlements.frames() == [Settle(0, 2, [1, 5, 5, 1, 7, 7])]
    settlements.answered(2)
    assert settlements.frames() == [Settle(0, 3, [1, 9, 9])]
