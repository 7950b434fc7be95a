"""Topics by their readers: in which class they are, and which of the classes have numbers."""

from __future__ import annotations

from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.reader_classes import HERE, ReaderClasses
from inorder_worker.sequencer.topic_manager import TopicManager


def test_topics_that_get_a_reader_take_their_numbers_along_and_leave_none_behind() -> None:
    classes = ReaderClasses()
    classes.add(TopicManager(1, "s", "1", 0, number=1, tick=5), HERE)
    classes.add(TopicManager(2, "s", "2", 0), HERE)
    one = bit_set([1])
    classes.toggle(bit_set([0]), one, one, one)
    assert [(each.topics, [its.id for its in each.risen], each.tick) for each in classes.latest_first()] == [
        (one, [1], 5)
    ]
    assert (classes.of(2).topics, list(classes.of(2).risen), classes.of(2).tick) == (bit_set([2]), [], 0)
