"""Topics by their last rise: in order, whatever came and left meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inorder_worker.sequencer.risen import SPARE, Risen
from inorder_worker.sequencer.topic_manager import TopicManager

TOPICS = range(1, 9)
_topics = st.sets(st.sampled_from(TOPICS), min_size=1)
Step = int | set[int]
"""A topic rises, or topics change from one class to the other."""


@given(st.lists(st.one_of(st.sampled_from(TOPICS), _topics), max_size=30))
def test_the_latest_comes_first_however_topics_came_and_left(steps: list[Step]) -> None:
    managers = {topic: TopicManager(topic, "s", str(topic), 0) for topic in TOPICS}
    places, classes = dict.fromkeys(TOPICS, 0), (Risen(), Risen())
    for tick, step in enumerate(steps, 1):
        if isinstance(step, int):
            managers[step].tick = tick
            classes[places[step]].rose(managers[step])
        else:
            for topic in step:
                places[topic] = 1 - places[topic]
            gone = [each.let_go(topic for topic in step if places[topic] != at) for at, each in enumerate(classes)]
            classes[1].take(gone[0])
            classes[0].take(gone[1])
        for at, its in enumerate(classes):
            risen = sorted((each for topic, each in managers.items() if each.tick and places[topic] == at), key=_tick)
            assert list(its) == risen[::-1]
            assert len(its) == len(risen)
            assert its.last is (risen[-1] if risen else None)


def _tick(manager: TopicManager) -> int:
    return manager.tick


def test_what_came_and_left_again_and_again_leaves_no_more_behind() -> None:
    managers = [TopicManager(topic, "s", str(topic), 0, tick=topic) for topic in TOPICS]
    risen = Risen()
    risen.take(managers)
    for _ in range(SPARE):
        risen.take(risen.let_go([1, 2, 3]))
    assert [each.id for each in risen] == list(reversed(TOPICS))
    assert len(risen._heap) <= SPARE + 2 * 3
