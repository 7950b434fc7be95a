"""The room in which events wait for numbers: R4, R6."""

from __future__ import annotations

import pytest

from inorder.endpoint.notifications import GapReason
from inorder.endpoint.waiting import TIDY_AT, Sequenced, WaitingRoom, hole

A, B = 1, 2


@pytest.mark.parametrize("last", [4, 1_000_000], ids=["few numbers", "few sleepers"])
def test_r6_a_jump_wakes_what_slept_on_its_numbers_up_to_the_last(last: int) -> None:
    room = WaitingRoom(has_limits=True)
    sleepers = {number: Sequenced(B, number, [A, number], None, 1, 0.0) for number in (last, last + 1, 1, 2, 3)}
    for number, entry in sleepers.items():
        room.sleep(entry, A, number)
    assert room.wake_range(A, 2, last) == [sleepers[2], sleepers[3], sleepers[last]]
    assert room.wake_range(A, 2, last) == []
    assert list(room.wake(A, last + 1)) == [sleepers[last + 1]]
    assert list(room.wake(A, 1)) == [sleepers[1]]


def test_r6_the_places_of_what_has_left_are_dropped_and_no_others() -> None:
    room = WaitingRoom(has_limits=True)
    first, *others = [Sequenced(A, number, [], None, 1, 0.0) for number in range(2, 2 * TIDY_AT)]
    for entry in (first, *others):
        room.put(entry)
    for entry in others:
        room.remove(entry)
    assert (room.oldest(), room.lowest(A), room.count) == (first, first, 1)


def test_what_waits_says_what_it_is() -> None:
    assert repr(Sequenced(A, 2, [B, 1], None, 1, 0.0)) == "<event 1:2 after [2, 1]>"
    assert [repr(hole(A, 2, [], reason, 0.0)) for reason in (None, GapReason.LOST)] == [
        "<hole (void) 1:2 after []>",
        "<hole (lost) 1:2 after []>",
    ]
