"""Copies of one event for overlapping filters: directly behind their twin, or not at all."""

from __future__ import annotations

from inorder.client.copies import Copies


def test_copies_that_come_before_the_turn_of_their_twin_follow_it() -> None:
    copies = Copies[str]()
    assert copies.keep("a", 2, "second", allowed=2) == []
    assert copies.keep("a", 2, "third", allowed=2) == []
    assert copies.keep("a", 2, "too many", allowed=2) == ["too many"]
    assert copies.turn("a", 1) == []
    assert copies.turn("a", 2) == ["second", "third"]
    assert not copies.follows("a", 2, allowed=2)
    assert len(copies) == 0


def test_a_copy_that_comes_behind_its_twin_is_given_while_nothing_else_was() -> None:
    copies = Copies[str]()
    copies.turn("a", 1)
    assert copies.follows("a", 1, allowed=2)
    assert copies.follows("a", 1, allowed=2)
    assert not copies.follows("a", 1, allowed=2)
    copies.turn("b", 1)
    assert not copies.follows("a", 1, allowed=2)
    for between in (copies.interrupted, lambda: copies.turn("b", None)):
        copies.turn("a", 2)
        between()
        assert not copies.follows("a", 2, allowed=1)


def test_copies_are_not_kept_for_ever() -> None:
    """Neither those of lost numbers, nor those whose twin never has its turn; and there is a bound."""
    copies = Copies[str](most=3)
    for number in range(1, 4):
        assert copies.keep("a", number, f"a{number}", allowed=1) == []
    assert copies.skipped("a", 2, 3) == ["a2", "a3"]
    assert copies.skipped("b", 1, 1) == []
    assert len(copies) == 1
    assert [copies.keep("b", number, f"b{number}", allowed=1) for number in (1, 2, 3)] == [[], [], ["a1"]]
    assert copies.keep("c", 1, "not allowed", allowed=0) == ["not allowed"]
    assert sorted(copies.clear()) == ["b1", "b2", "b3"]
    assert (len(copies), copies.turn("b", 1)) == (0, [])
