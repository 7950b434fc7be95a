"""The earliest of many deadlines, and what is kept for them."""

from __future__ import annotations

from inorder.protocol.deadlines import SPARE, Deadlines


def test_times_that_do_not_count_any_more_are_cleared_out() -> None:
    due = {("one", 1): 1000, ("two", 1): 5000}
    deadlines = Deadlines(due.get)
    deadlines.begin(due)
    deadlines.begin([("two", 1)])
    assert (deadlines.first(), len(deadlines)) == ((5000, ("two", 1)), 1), "the other one is forgotten"
    deadlines.begin(due)
    longest = 0
    for when in range(999, 800, -1):
        due["one", 1] = when
        deadlines.note(("one", 1))
        longest = max(longest, len(deadlines))
        assert deadlines.first() == (when, ("one", 1))
    assert longest == SPARE + 2 * len(due)
    due["one", 1] = 6000
    assert deadlines.first() == (5000, ("two", 1)), "too early is put right"
    del due["two", 1]
    assert deadlines.first() == (6000, ("one", 1))
    del due["one", 1]
    assert (deadlines.first(), len(deadlines)) == (None, 0)


def test_what_is_due_is_taken_once_the_earliest_first() -> None:
    due = {1: 3.0, 2: 1.0, 3: 2.0}
    deadlines = Deadlines[int, float](due.get)
    deadlines.begin(due)
    assert (deadlines.next, deadlines.take(0.5), deadlines.take(2.0)) == (1.0, [], [2, 3])
    assert (deadlines.next, deadlines.noted) == (3.0, {1: 3.0})
    deadlines.note(2)
    assert deadlines.take(9.0) == [2, 1]
