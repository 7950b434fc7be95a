"""The subscriber's side: R7, R11 (one change at a time, versions), R13 (filters)."""

from __future__ import annotations

import pytest
from tests.core.cluster import wild

from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.names import Filter, exact
from inorder.protocol.wire import Moved, SpaceFilter, Subscribed, TopicInfo, TopicStart

SPACE = "m"


def _filters(*texts: str | Filter) -> list[SpaceFilter]:
    return [SpaceFilter(SPACE, exact(each) if isinstance(each, str) else each) for each in texts]


def _info(number: int, name: str) -> TopicInfo:
    return TopicInfo(number, SPACE, name, 0)


def _complete(subscriber: Subscriber, *starts: tuple[int, str, int]) -> list[TopicStart] | None:
    change = subscriber.change
    assert change is not None
    return subscriber.completed(
        Subscribed(change.version, [TopicStart(_info(number, name), start, []) for number, name, start in starts])
    )


def test_r11_one_change_at_a_time_asked_again_under_the_same_version() -> None:
    subscriber = Subscriber(bounded=True)
    assert subscriber.request() is None
    subscriber.begin(_filters("a"))
    first = subscriber.request()
    assert first == subscriber.request()
    assert first is not None
    assert (first.version, first.bounded) == (1, True)
    with pytest.raises(RuntimeError, match="R11"):
        subscriber.begin(_filters("b"))
    assert _complete(subscriber, (1, "a", 4)) == [TopicStart(_info(1, "a"), 4, [])]
    assert subscriber.begin(_filters("a", "b")).version == 2


def test_r11_an_answer_to_an_older_change_is_ignored() -> None:
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters("a"))
    assert subscriber.completed(Subscribed(7, [])) is None
    _complete(subscriber, (1, "a", 0))
    assert subscriber.completed(Subscribed(1, [])) is None


def test_r11_dropped_topics_are_those_that_no_filter_covers_any_more() -> None:
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters("t/1", wild("t/#")))
    _complete(subscriber, (1, "t/1", 0), (2, "t/2", 0))
    assert subscriber.dropped(_filters("t/1")) == [2]
    assert subscriber.dropped(_filters(wild("+/2"))) == [1]


def test_r13_a_topic_created_under_an_earlier_filter_begins_at_its_first_number() -> None:
    """Its creation rode behind the first change: it is ours from number 1 on, whatever a later answer says."""
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters(wild("t/#")))
    _complete(subscriber)
    assert subscriber.has_wildcards
    subscriber.begin(_filters(wild("t/#"), "other"))
    starts = _complete(subscriber, (5, "t/new", 3), (6, "other", 9))
    assert starts == [TopicStart(_info(5, "t/new"), 0, []), TopicStart(_info(6, "other"), 9, [])]
    assert list(subscriber.topics) == [5, 6]


def test_r13_named_topics_are_ours_or_others() -> None:
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters(wild("t/#")))
    _complete(subscriber)
    assert subscriber.named([_info(1, "t/1"), _info(2, "x"), TopicInfo(3, "elsewhere", "t/3", 0)]) == ([1], [2, 3])


def test_r7_a_topic_that_only_a_pending_change_covers_has_no_start_yet() -> None:
    """Starting it at 0 would make every number it ever had a gap."""
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters(wild("t/#")))
    _complete(subscriber)
    subscriber.begin(_filters(wild("t/#"), wild("x/#")))
    assert subscriber.named([_info(1, "x/old"), _info(2, "t/new")]) == ([2], [])
    assert subscriber.covers(_info(1, "x/old"))
    assert _complete(subscriber, (1, "x/old", 50), (2, "t/new", 1)) == [
        TopicStart(_info(1, "x/old"), 50, []),
        TopicStart(_info(2, "t/new"), 1, []),
    ]


def test_another_domain_has_other_topics_and_another_order() -> None:
    """Nothing that was known of the former one counts: no topic, no order epoch, no start under a wildcard."""
    subscriber = Subscriber(bounded=False)
    subscriber.begin(_filters(wild("#")))
    _complete(subscriber, (1, "a", 4))
    subscriber.moved(Moved(0, 1, 7, 1, [1, 1]))
    subscriber.other_domain()
    assert subscriber.topics == {}
    subscriber.begin_anew()
    assert _complete(subscriber, (2, "a", 9)) == [TopicStart(_info(2, "a"), 9, [])]
    subscriber.moved(Moved(0, 1, 2, 1, [2, 1]))
    assert subscriber.topics[2].stage == 1
