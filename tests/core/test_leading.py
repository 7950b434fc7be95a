"""Forged ticks (R23): who may publish on one topic at the broker makes no events of other topics late for good."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, seen
from tests.core.endpoints import DOMAIN, Hand
from tests.core.readers import new_reader

from inorder.endpoint import leading
from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, Question
from inorder.endpoint.ticks import Ticks
from inorder.protocol.stamp import TotalStamp
from inorder.protocol.wire import AskNumbers, Done, NumberAnswer, Numbers, NumberState, SaveClock, TopicInfo, TopicStart

A, B, C = 1, 2, 3
CONFIRMED, PENDING, UNKNOWN = NumberState.CONFIRMED, NumberState.PENDING, NumberState.UNKNOWN
FAR = 2**60


def get(module: OrderingModule, topic: int, number: int, *ticks: int, now: float = 0.0) -> list[str]:
    return seen(module.receive(topic, number, [], None, 1, now, ticks=ticks))


def told(module: OrderingModule, topic: int, number: int, state: NumberState, ticks: Ticks, now: float) -> None:
    assert not module.answered(Numbers(1, topic, [NumberAnswer(number, state, [], False, ticks)]), now)


@pytest.mark.parametrize("mode", ["tag", Bounded(buffer=3)])
@pytest.mark.parametrize("forged", [(1, 1, FAR), (FAR, 1, 1), (1, 5, FAR, FAR, 9)], ids=["tick", "epoch", "announced"])
@pytest.mark.parametrize("state", [CONFIRMED, UNKNOWN])
def test_r23_forged_ticks_make_one_event_late_and_no_more(mode: Mode, forged: Ticks, state: NumberState) -> None:
    module = new_reader(mode, a=0, b=0)
    assert get(module, A, 1, 1, 1, 1) + get(module, B, 1, 1, 1, 2) + get(module, A, 2, *forged) == ["1:1", "2:1", "1:2"]
    assert module.is_idle
    assert get(module, B, 2, 1, 1, 4) == ["2:2 late"]
    assert (module.is_idle, module.next_deadline()) == (False, 0.0)
    assert module.questions(0.0) == [Question(A, [2, 2])]
    told(module, A, 2, state, (1, 1, 3) if state is CONFIRMED else (), now=0.1)
    if state is UNKNOWN:  # a worker that has lost the stage may say so once
        assert get(module, B, 3, 1, 1, 4, now=0.1) == ["2:3 late"]
        assert module.questions(1.0) == [Question(A, [2, 2])]
        told(module, A, 2, state, (), now=1.1)
    else:
        assert get(module, B, 3, 1, 1, 5, now=0.1) == ["2:3"]
    assert module.forged() == [(A, 2)]
    assert module.is_idle
    assert get(module, B, 4, 1, 1, 6, now=1.1) == ["2:4"]
    assert get(module, B, 5, 1, 1, 3, now=1.1) == ["2:5 late"]


def test_r23_a_topic_with_forged_ticks_is_believed_again_when_its_stage_says_so() -> None:
    module = new_reader("tag", a=0, b=0)
    get(module, A, 1, 1, 1, FAR)
    get(module, B, 1, 1, 1, 2)
    assert module.questions(0.0) == [Question(A, [1, 1])]
    told(module, A, 1, CONFIRMED, (1, 1, 1), now=0.1)
    assert module.is_idle
    assert get(module, A, 2, 1, 1, FAR, now=0.2) == ["1:2 late"]  # another one
    assert get(module, B, 2, 1, 1, 4, now=0.2) == ["2:2"]
    assert module.questions(0.2) == []
    assert module.questions(1.0) == [Question(A, [2, 2])]
    told(module, A, 2, CONFIRMED, (1, 1, 3), now=1.1)
    assert module.is_idle
    assert get(module, A, 3, 1, 1, 5, now=2.0) == ["1:3 late"]
    assert module.questions(2.0) == [Question(A, [3, 3])]
    told(module, A, 3, CONFIRMED, (1, 1, 5), now=2.1)
    assert get(module, B, 3, 1, 1, 4, now=2.2) == ["2:3 late"]  # what was told counts
    assert get(module, A, 4, 1, 1, 6, now=2.2) == ["1:4"]


def test_r23_what_is_late_indeed_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "MAX_DOUBTED", 1)
    module = new_reader("tag", a=0, b=0, c=0)
    get(module, A, 1, 1, 1, 5)
    get(module, C, 1, 1, 1, 7)
    assert get(module, B, 1, 1, 1, 4) == ["2:1 late"]
    assert module.questions(0.0) == [Question(C, [1, 1])]  # the one that is furthest ahead
    assert get(module, B, 2, 1, 1, 6) == ["2:2 late"]
    assert module.questions(0.5) == []
    told(module, C, 1, CONFIRMED, (1, 1, 7), now=0.5)
    assert module.questions(1.0) == []  # a:1 was not ahead of that one, c:1 is true
    assert module.is_idle
    assert get(module, B, 3, 1, 1, 4, now=2.0) == ["2:3 late"]
    assert module.questions(2.0) == [Question(A, [1, 1])]


def test_r23_who_cannot_tell_ticks_convicts_nobody() -> None:
    """A timestamp that is not complete has none yet; a worker of an older release never tells them."""
    module = new_reader("tag", a=0, b=0)
    get(module, A, 1, 1, 1, FAR)
    get(module, B, 1, 1, 1, 4)
    assert module.questions(0.0) == [Question(A, [1, 1])]
    told(module, A, 1, PENDING, (), now=0.1)
    get(module, B, 2, 1, 1, 5)
    assert module.questions(1.0) == [Question(A, [1, 1])]
    told(module, A, 1, CONFIRMED, (), now=1.1)
    assert get(module, B, 3, 1, 1, 6) == ["2:3 late"]
    assert module.questions(2.0) == []


def test_r23_what_has_no_answer_is_asked_again_and_what_is_read_no_more_is_not() -> None:
    module = new_reader("tag", a=0, b=0)
    get(module, A, 1, 1, 1, FAR)
    get(module, B, 1, 1, 1, 4)
    for now in (0.0, 1.0):
        assert module.questions(now) == [Question(A, [1, 1])]
    module.unsubscribed([A], 1.5)
    assert module.questions(2.0) == []
    assert module.is_idle


def test_topics_that_come_and_go_leave_no_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "KEPT", 1)
    module = OrderingModule("tag")
    for topic in range(1, 9):
        module.subscribed([new_start(topic)], 0.0, filters=False)
        assert get(module, topic, 1, 1, 1, topic) == [f"{topic}:1"]
        module.unsubscribed([topic], 0.0)
    assert len(module._turns.leads._by_topic) <= 4
    assert module.describe()["reached"] == [1, 8]


def new_start(topic: int) -> TopicStart:
    return TopicStart(TopicInfo(topic, "m", f"t{topic}", 0), 0, [])


def test_r23_a_durable_client_takes_back_what_it_saved() -> None:
    hand = Hand("tag", durable=True, times=EndpointTimes(save_delay=0.2))
    hand.subscribe("t/1", "t/2")

    def saved(topic: int, number: int, tick: int) -> list[int]:
        hand.arrive_with(TotalStamp(DOMAIN, topic, number, [], (1, 1, tick)), topic)
        for event in hand.told():
            hand.endpoint.done_with(event)
        hand.time += 0.2
        hand.endpoint.tick()
        (frame,) = hand.sent(SaveClock)
        hand.endpoint.receive(Done(frame.request))
        return frame.reached

    assert saved(1, 1, FAR) == [1, FAR]
    hand.arrive_with(TotalStamp(DOMAIN, 2, 1, [], (1, 1, 4)), 2)
    hand.endpoint.flush()
    (asked,) = hand.sent(AskNumbers)
    hand.endpoint.receive(Numbers(asked.request, 1, [NumberAnswer(1, CONFIRMED, [], False, (1, 1, 3))]))
    assert saved(2, 2, 5) == [1, 5]


def test_r23_a_stage_tells_the_ticks_that_it_gave() -> None:
    cluster = Cluster({"a": 0})
    cluster.open_all("t", "p")
    cluster.subscribe("t", "a", bounded=True)
    cluster.stamp("p", "a")
    assert [each.ticks for each in cluster.ask("a", 1, 2).answers] == [(1, 0, 1), ()]
