"""What is left of topics that end, expire, resume or were of another domain: nothing, and nothing is told twice."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict
from tests.core.cluster import seen
from tests.core.readers import answer, get, new_reader, start_of, until

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, Mode, OrderingTimes
from inorder.protocol.wire import Numbers, NumberState, TopicInfo, TopicStart

A, B, C, D, E, F, G = range(1, 8)
ABANDONED = NumberState.ABANDONED


@pytest.mark.parametrize("end", ["another domain", "unsubscribed"])
@pytest.mark.parametrize("mode", ["strict", "tag"])
def test_nothing_is_left_of_topics_that_end(mode: Mode, end: str) -> None:
    """Whoever begins them later begins anew; in another domain the same ids even are other topics. What one was behind,
    what was told of it, passed over or given up, its base, the floor of its start (R6), its head, and what it was to
    begin anew with."""
    reader = new_reader(mode, OrderingTimes(max_waiting=3), a=0, b=0, c=0, d=0)
    answer(reader, A, (1, ABANDONED, []), (2, ABANDONED, []), (3, ABANDONED, [B, 1]), now=1.0)
    reader.subscribed([start_of(E, 0, [A, 9])], 1.0, filters=False)
    get(reader, A, 5, now=1.0)
    get(reader, C, 3, now=1.0)
    get(reader, C, 2**40, now=1.0)
    reader.expired([D], 1.0)
    for number in (1, 2, 5):  # the last one has no room where it has to wait
        get(reader, D, number, now=1.0)
    get(reader, B, 2, F, 7, 9, 9, now=1.0)
    reader.heads([D, 4, G, 8], 1.0)
    fresh = OrderingModule(mode, OrderingTimes(max_waiting=3))
    if end == "unsubscribed":
        reader.unsubscribed([*range(1, 10)], 2.0)
    else:
        assert seen(reader.other_domain(2.0))
        assert not seen(fresh.other_domain(2.0))
    for count, value in asdict(reader.counts).items():
        setattr(fresh.counts, count, value)
    later = (_later_there(reader), _later_there(fresh))
    assert later[0] == later[1]


def _later_there(reader: OrderingModule) -> list[object]:
    """What a reader says when topics begin, numbers are missing, and events come again."""
    reader.subscribing()
    said: list[object] = [reader.interrupted, reader.waiting, reader.waiting_bytes, reader.is_idle, reader.next_tick()]
    said.append(reader.fetched(A, [1, 3], 3, [Found(3, [], "logged", 1)], 2.0))
    starts = [start_of(each, 3 * (each == D)) for each in (A, B, C, D, E, F, G)]
    said += [seen(reader.subscribed(starts, 3.0, filters=True)), dict(reader.clock)]
    said += [reader.questions(9.0), reader.barriers(9.0), reader.unnamed(), reader.is_idle]
    for topic in (A, D, E, F, G, B, C):
        said += [get(reader, topic, number, now=9.0) for number in (1, 1, 2, 4)]
        answers = [(each, ABANDONED) for each in (3, 5, 6)]
        said += [answer(reader, topic, *answers, now=10.0), get(reader, topic, 2, now=10.0)]
    return [*said, until(reader, 40.0, 10.0), reader.counts, reader.clock]


def _told_of_three(mode: Mode) -> OrderingModule:
    """A reader whose gap 1:1-3 was told when the first was skipped; a:2 still waits for its turn."""
    reader = new_reader(mode, a=0, b=0)
    get(reader, A, 4, now=0.0)
    answers = [(1, ABANDONED, []), (2, ABANDONED, [B, 1]), (3, ABANDONED, [])]
    assert answer(reader, A, *answers, now=1.0) == ["gap 1:1-3 abandoned"]
    return reader


def test_r17_what_was_told_to_be_missing_is_not_told_again_when_it_is_jumped() -> None:
    reader = _told_of_three(Bounded(buffer=2))
    assert get(reader, A, 8, now=1.0) + get(reader, A, 9, now=1.0) == ["1:4"]
    assert get(reader, A, 10, now=1.0) == ["1:8", "1:9", "1:10"]
    assert until(reader, 30.0, 1.0) == ["gap 2:1-1 skipped", "gap 1:5-7 skipped"]


def test_r17_what_was_told_to_be_missing_is_not_told_again_when_its_topic_begins_anew() -> None:
    reader = _told_of_three("strict")
    reader.expired([A], 2.0)
    assert reader.interrupted == {A: 4}
    assert seen(reader.subscribed([start_of(A, 6)], 3.0, filters=False)) == ["gap 1:4-6 expired"]
    reader = _told_of_three("strict")
    reader.expired([A], 2.0)
    assert seen(reader.subscribed([start_of(A, 3)], 3.0, filters=False)) == ["1:4"]


def test_r17_what_was_told_to_be_missing_is_not_told_again_in_another_domain() -> None:
    reader = _told_of_three("strict")
    assert seen(reader.other_domain(2.0)) == ["gap 1:4-4 restored", "gap 2:1-1 restored", "1:4 unsequenced"]


def test_r12_a_topic_that_is_left_meanwhile_and_taken_again_later_has_no_gap() -> None:
    """Whoever takes a topic misses nothing of what was before."""
    reader = new_reader(a=0, b=0)
    reader.expired([A, B], 1.0)
    reader.unsubscribed([A], 2.0)
    assert reader.interrupted == {B: 1}
    assert seen(reader.subscribed([start_of(B, 3)], 2.0, filters=False)) == ["gap 2:1-3 expired"]
    reader.subscribing()
    assert seen(reader.subscribed([start_of(A, 5)], 3.0, filters=False)) == []


def test_r18_a_topic_that_resumes_never_goes_behind_what_was_notified() -> None:
    """R18: the saved clock is what the application was done with, in a process that has notified of more than that."""
    reader = new_reader(a=0, b=0)
    assert [word for number in (1, 2, 3) for word in get(reader, A, number)] == ["1:1", "1:2", "1:3"]
    reader.expired([A], 1.0)
    assert get(reader, A, 3) + get(reader, A, 4) == []
    start = TopicStart(TopicInfo(A, "m", "a", 0), 1, [B, 9], saved=1, repeats=5, reached=5)
    assert seen(reader.subscribed([start], 2.0, filters=False)) == ["1:4"]
    assert reader.clock == {A: 4, B: 0}
    assert get(reader, A, 2) == []
    assert get(reader, A, 5) == ["1:5"]


def test_r18_a_topic_that_cannot_resume_from_its_saved_clock_says_what_is_missing() -> None:
    """Between the saved clock and the first number that can still be had; nothing, where there is nothing between."""
    reader = OrderingModule()
    saved = ((A, 0), (B, 2), (C, 4), (D, 3), (E, -1))  # the last one is new
    starts = [TopicStart(TopicInfo(topic, "m", "t", 0), 4, [], number) for topic, number in saved]
    words = seen(reader.subscribed(starts, 0.0, filters=False))
    assert words == ["gap 1:1-4 expired", "gap 2:3-4 expired", "gap 4:4-4 expired"]
    assert [get(reader, topic, 5) for topic, _ in saved] == [[f"{topic}:5"] for topic, _ in saved]


def test_r8_a_base_is_forgotten_with_the_first_number() -> None:
    module = OrderingModule("strict")
    module.subscribed([start_of(A, 4, [B, 7])], 0.0, filters=False)
    for number, base in ((5, [B, 7]), (6, []), (7, [])):
        assert get(module, A, number) == [f"1:{number}"]
        assert module.describe()["readers"][A]["base"] == base


def test_r13_a_topic_that_begins_is_none_of_others_any_more() -> None:
    module = new_reader(a=0)
    module.named([], [D], 1.0)
    assert module.describe()["unbegun"]["foreign"] == {D}
    module.named([D], [], 2.0)
    assert module.describe()["unbegun"]["foreign"] == set()


def test_r18_what_a_log_knows_without_its_content_is_lost_and_the_topic_goes_on() -> None:
    module = new_reader(a=0)
    get(module, A, 3)
    assert [each.ranges for each in module.questions(2.0)] == [[1, 2]]
    module.answered(Numbers(1, A, [], expired_through=2, logged_from=1), 2.0)
    assert [each.ranges for each in module.fetches(2.0)] == [[1, 2]]
    module.fetched(A, [1, 2], 2, [Found(1, [], None, 1), Found(2, [], None, 1)], 2.0)
    assert until(module, 10.0, 2.0) == ["gap 1:1-2 lost", "1:3"]
