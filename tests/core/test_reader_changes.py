"""What clients began lately: what is told of it by topic and tick, and that it is little (R22)."""

from __future__ import annotations

from inorder_worker.sequencer.bits import bit_set, packed
from inorder_worker.sequencer.reader_changes import CHANGES_KEPT, ReaderChanges


def test_r22_who_began_a_topic_behind_its_event_is_told_by_what_they_keep() -> None:
    changes = ReaderChanges()
    assert (changes.latest, changes.saved()) == (-1, [])
    changes.note(5, bit_set([1, 2]), bit_set([3]))
    changes.note(9, bit_set([1, 4]), bit_set([3, 6]))
    assert changes.latest == 9
    assert changes.begun_behind(3, 5) == bit_set([1, 2, 4])
    assert changes.begun_behind(3, 6) == changes.begun_behind(6, 5) == bit_set([1, 4])
    assert changes.begun_behind(3, 10) == changes.begun_behind(2, 5) == 0


def test_who_keeps_nothing_or_changes_nothing_is_not_noted() -> None:
    changes = ReaderChanges()
    changes.note(5, 0, bit_set([3]))
    changes.note(5, bit_set([3]), 0)
    assert (changes.latest, changes.saved()) == (-1, [])


def test_the_oldest_of_too_many_changes_become_one() -> None:
    changes = ReaderChanges()
    for tick in range(CHANGES_KEPT):
        changes.note(tick, bit_set([tick]), bit_set([tick + 200]))
    assert [each[0] for each in changes.saved()] == list(range(CHANGES_KEPT))
    changes.note(CHANGES_KEPT, bit_set([3]), bit_set([4]))
    assert changes.saved()[0] == (1, packed(bit_set([0, 1])), packed(bit_set([200, 201])))
    assert len(changes.saved()) == CHANGES_KEPT
    again = ReaderChanges(changes.saved())
    assert (again.saved(), again.latest) == (changes.saved(), CHANGES_KEPT)
