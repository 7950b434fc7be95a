"""Changes of the subscription: which stages must answer from then on (R12), and topics that are named meanwhile."""

from __future__ import annotations

import pytest
from tests.core.endpoints import SESSION_TIMEOUT, SPACE, Hand, info

from inorder.endpoint.changes import Change
from inorder.endpoint.outputs import Mode
from inorder.endpoint.routing import Subscription
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.wire import (
    Heads,
    NameTopics,
    Opened,
    SaveClock,
    Subscribe,
    Subscribed,
    TopicInfo,
    Topics,
    TopicStart,
)

MODES: tuple[Mode, ...] = ("strict", "tag")


def _begin(hand: Hand, text: str) -> Change:
    """Ask for a filter; the brokers have it, and the stages do not answer yet."""
    change = hand.endpoint.change([Subscription(SPACE, mqtt_filter(text), "total", 0, True)])
    hand.endpoint.broker_answered(change)
    return change


def _complete(hand: Hand, *topics: int) -> None:
    change = hand.endpoint.subscriber.change
    assert change is not None
    hand.endpoint.receive(Subscribed(change.version, [TopicStart(info(each), 0, []) for each in topics]))


def _asked(hand: Hand, topic: int) -> int:
    """An event comes whose topic nobody has named; return the number of the question for the name."""
    hand.arrive(topic, 1)
    (asked,) = hand.sent(NameTopics)
    assert asked.ids == [topic]
    return asked.request


def test_r12_a_complete_change_is_an_answer_of_its_stages_to_when_it_was_asked_for() -> None:
    hand = Hand()
    hand.pass_time(5.0)
    asked = hand.time
    _begin(hand, "t/1")
    hand.pass_time(3.0)
    _complete(hand, 1)
    assert hand.endpoint.describe()["leased_until"] == asked + SESSION_TIMEOUT / 2


@pytest.mark.parametrize("mode", MODES)
def test_r12_with_the_answer_to_a_change_events_are_in_order_again(mode: Mode) -> None:
    """Those that were held go at once, and those of the topics that begin count as they would at any time."""
    hand = Hand(mode)
    hand.subscribe("t/1")
    hand.time += SESSION_TIMEOUT
    hand.arrive(1, 1)
    assert hand.words() == ([] if mode == "strict" else ["t/1 1 late"])
    _begin(hand, "t/2")
    hand.arrive(2, 1)
    assert hand.words() == []
    _complete(hand, 1, 2)
    assert hand.words() == [*(["t/1 1 in_order"] if mode == "strict" else []), "t/2 1 in_order"]


@pytest.mark.parametrize("mode", MODES)
def test_r12_the_stage_of_a_topic_that_is_named_must_answer_before_its_first_event(mode: Mode) -> None:
    hand = Hand(mode)
    _begin(hand, "t/#")
    _complete(hand)
    request = _asked(hand, 7)
    hand.endpoint.receive(Topics(request, [TopicInfo(7, SPACE, "t/7", 1)]))
    assert hand.words() == ([] if mode == "strict" else ["t/7 1 late"])
    hand.endpoint.opened(Opened(1, 1, True, 1, int(SESSION_TIMEOUT * 1000)), hand.time)
    hand.arrive(7, 2)
    assert hand.words() == [*(["t/7 1 in_order"] if mode == "strict" else []), "t/7 2 in_order"]


@pytest.mark.parametrize("is_known", [True, False], ids=["left", "unknown"])
def test_r13_a_topic_that_the_subscription_is_losing_or_nobody_knows_is_waited_for_no_more(is_known: bool) -> None:
    """Who takes events out of turn reads nothing on (R22)."""
    hand = Hand("tag")
    _begin(hand, "t/#")
    _complete(hand)
    request = _asked(hand, 7)
    hand.endpoint.change([], [(SPACE, mqtt_filter("t/#"))])
    hand.endpoint.receive(Topics(request, [info(7)] if is_known else [], last=7))
    unbegun = hand.endpoint.ordering.describe()["unbegun"]
    assert (unbegun["foreign" if is_known else "over"], unbegun["topics"]) == ({7}, {})
    assert hand.endpoint.describe()["topics"] == {}


def test_r22_topics_that_begin_do_so_before_those_that_were_left_end() -> None:
    """One change; what waits for its two sides is behind both."""
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    hand.arrive(2, 1, 1, 1, 3, 1)
    adds = [Subscription(SPACE, mqtt_filter("t/3"), "total", 0, True)]
    hand.endpoint.broker_answered(hand.endpoint.change(adds, [(SPACE, mqtt_filter("t/1"))]))
    hand.arrive(3, 1)
    assert hand.words() == []
    starts = [TopicStart(info(each), 0, []) for each in (2, 3)]
    hand.endpoint.receive(Subscribed(2, starts, left=[TopicStart(info(1), 0, [])]))
    assert hand.words() == ["t/3 1 in_order", "t/2 1 in_order"]


def test_r22_who_leaves_everything_lets_go_of_it_at_once() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    hand.arrive(1, 2)
    hand.endpoint.broker_answered(hand.endpoint.change([], [(SPACE, mqtt_filter(each)) for each in ("t/1", "t/2")]))
    assert hand.endpoint.describe()["clock"] == {}
    assert not hand.endpoint.subscribing.drains


def test_r22_that_a_topic_which_was_left_has_ended_is_told_again() -> None:
    """Else it would be read on for ever where that word was lost with a connection."""
    hand = Hand()
    hand.subscribe("t/1", "t/2", "t/3")
    hand.endpoint.broker_answered(hand.endpoint.change([], [(SPACE, mqtt_filter("t/1"))]))
    hand.endpoint.receive(
        Subscribed(2, [TopicStart(info(each), 0, []) for each in (2, 3)], left=[TopicStart(info(1), 1, [])])
    )
    hand.sent(SaveClock)
    hand.endpoint.reached({0}, 0)
    (asked,) = hand.sent(SaveClock)
    assert (asked.numbers, hand.endpoint.ordering.left) == ([1, 0], {1})
    hand.endpoint.receive(Heads([], ended=[1]))
    hand.done()
    assert hand.endpoint.ordering.left == set()


def test_r13_a_name_stays_the_younger_topics_when_the_one_that_ends_is_named_later() -> None:
    hand = Hand()
    hand.subscribe("t/+")
    request = _asked(hand, 8)
    hand.endpoint.receive(Topics(request, [info(8)], last=8))
    request = _asked(hand, 7)
    hand.endpoint.receive(Topics(request, [TopicInfo(7, SPACE, "t/8", 0)], last=8))
    assert hand.endpoint.arrivals.topic_id(SPACE, "t/8") == 8


def test_a_change_that_the_brokers_make_when_the_client_has_stopped_goes_no_further() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    change = hand.endpoint.change([Subscription(SPACE, mqtt_filter("t/2"), "total", 0, True)])
    hand.sent(Subscribe)
    hand.endpoint.subscribing.stop()
    hand.endpoint.broker_answered(change)
    assert hand.sent(Subscribe) == []
    assert not hand.endpoint.subscribing.is_changing
