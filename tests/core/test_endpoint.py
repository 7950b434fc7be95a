"""The client's machine as a whole, by what it says of itself; its parts have tests of their own."""

from __future__ import annotations

import pytest
from tests.core.endpoints import DOMAIN, SESSION_TIMEOUT, SPACE, Hand, info

from inorder.endpoint import asking
from inorder.endpoint.asking import NAMES_ASKED
from inorder.endpoint.changes import Change
from inorder.endpoint.effects import (
    AskAllHeads,
    AskBroker,
    AskLease,
    BeginBarrier,
    Changed,
    Failed,
    HandOver,
    LateConfirmation,
    Need,
    Notify,
    Published,
    Requeued,
)
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.lease import Lease
from inorder.endpoint.publications import Publication
from inorder.endpoint.routing import Subscription
from inorder.errors import Abandoned, Forgotten, Refused, TooManyUnconfirmed
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.stamp import TotalStamp, decode_stamp
from inorder.protocol.wire import (
    Access,
    AskNumbers,
    CreateTimestamps,
    Heads,
    Hello,
    Moved,
    NameTopics,
    NumberAnswer,
    Numbers,
    NumberState,
    Opened,
    Resolve,
    Settle,
    Settled,
    StampedEvent,
    Subscribe,
    Subscribed,
    Timestamps,
    TopicInfo,
    Topics,
    TopicStart,
    Welcome,
)


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return 1.0

    uptime = now


def subscription(text: str) -> Subscription:
    return Subscription("m", mqtt_filter(text), "total", 0, True)


def test_a_topic_that_another_filter_of_the_same_change_covers_goes_on() -> None:
    """R8: the stages keep it as it was, so they tell no base of it; forgotten here it would begin in the middle."""
    endpoint = Endpoint("strict", Still())
    endpoint.reached({0}, 0)
    first = endpoint.change([subscription("t/1"), subscription("t/2")])
    endpoint.broker_answered(first)
    topics = [TopicInfo(number, "m", f"t/{number}", 0) for number in (1, 2)]
    endpoint.receive(Subscribed(1, [TopicStart(each, 5, []) for each in topics]))
    assert endpoint.describe()["clock"] == {1: 5, 2: 5}
    removed = [("m", mqtt_filter("t/1")), ("m", mqtt_filter("t/2"))]
    second = endpoint.change([subscription("+/1")], removed)
    assert endpoint.describe()["clock"] == {1: 5, 2: 5}
    assert endpoint.ordering.left == {2}
    assert [each.change for each in endpoint.take() if isinstance(each, AskBroker)] == [first, second]


# -- names (R13) -------------------------------------------------------------------------------------------------------


def test_r13_a_topic_that_nobody_has_named_is_asked_for_once_a_connection() -> None:
    hand = Hand()
    hand.subscribe("t/+")
    hand.arrive(7, 1)
    hand.arrive(8, 1)
    (asked,) = hand.sent(NameTopics)
    assert asked.ids == [7, 8]
    assert hand.endpoint.describe()["naming"] == [7, 8]
    hand.arrive(7, 2)
    assert hand.sent(NameTopics) == []
    hand.endpoint.reached({0}, 0)
    (again,) = hand.sent(NameTopics)
    assert (again.ids, again.request != asked.request) == ([7, 8], True)
    hand.endpoint.receive(Topics(asked.request, [info(7), info(8)]))
    assert hand.words() == [], "that was the answer of the connection before"
    hand.endpoint.receive(Topics(again.request, [info(7)]))
    effects = hand.done()
    assert [(each.event.topic, each.event.verdict) for each in effects if isinstance(each, Notify)] == [
        ("t/7", "in_order"),
        ("t/7", "in_order"),
        ("t/8", "unsequenced"),
    ]
    assert [each.stages for each in effects if isinstance(each, Need)] == [{0}]
    assert (hand.endpoint.describe()["clock"], hand.endpoint.describe()["naming"]) == ({7: 2}, [])


def test_so_many_names_fit_into_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "NAMES_ASKED", 2)
    hand = Hand()
    hand.subscribe("t/+")
    for topic in range(1, 6):
        hand.arrive(topic, 1)
    frames = hand.sent(NameTopics)
    assert [each.ids for each in frames] == [[1, 2], [3, 4], [5]]
    assert len({each.request for each in frames}) == 3
    assert NAMES_ASKED > 2


# -- publishing (R1, R16) ----------------------------------------------------------------------------------------------


def _publish(hand: Hand, topic: int = 1) -> Publication:
    publication = hand.endpoint.publish((SPACE, f"t/{topic}"), "x")
    if topic not in hand.endpoint.describe()["topics"]:
        hand.endpoint.receive(Topics(99, [info(topic)]))
    return publication


def _answered(hand: Hand, publication: Publication, number: int) -> None:
    hand.done()
    hand.endpoint.receive(Timestamps(0, 1, [StampedEvent(publication.counter, 1, number, [])]))


def test_a_publish_from_its_name_to_its_confirmation() -> None:
    hand = Hand()
    publication = hand.endpoint.publish((SPACE, "t/1"), "x")
    (named,) = hand.sent(Resolve)
    assert named.topics == [(SPACE, "t/1")]
    hand.endpoint.receive(Topics(named.request, [info(1)]))
    (asked,) = hand.sent(CreateTimestamps)
    assert [(each.counter, each.topic) for each in asked.events] == [(publication.counter, 1)]
    hand.endpoint.receive(Timestamps(0, 1, [StampedEvent(publication.counter, 1, 4, [])]))
    (given,) = hand.all(HandOver)
    assert (given.publication, decode_stamp(given.stamp)) == (publication, TotalStamp(DOMAIN, 1, 4, []))
    publication.handed = True
    began = hand.time = hand.time + 1.0
    hand.endpoint.tick()
    hand.endpoint.accepted(publication)
    effects = hand.done()
    assert [each.receipt.number for each in effects if isinstance(each, Published)] == [4]
    assert hand.endpoint.next_deadline() == pytest.approx(began + 0.02)
    hand.time = began + 0.01
    hand.endpoint.tick()
    assert hand.sent(Settle) == []
    hand.time = began + 0.02
    hand.endpoint.tick()
    (told,) = hand.sent(Settle)
    assert told.confirmed == [1, 4, 4]
    assert hand.endpoint.publishing.settle_at is None
    hand.endpoint.receive(Settled(0, 1, told.request))
    assert hand.endpoint.publishing.publisher.pending == 0


def test_r1_a_hello_tells_what_was_asked_for_and_not_what_could_not_leave() -> None:
    hello = Hello(1, 1, "", "p", 1, "test")
    hand = Hand()
    _publish(hand)
    assert hand.endpoint.greeting(hello).asked == []
    hand.done()
    assert hand.endpoint.greeting(hello).asked == [0, 1]
    hand = Hand()
    hand.endpoint.lost({0})
    hand.endpoint.reached({1}, 1)
    _publish(hand)
    assert [each.stage for each in hand.sent(CreateTimestamps)] == [0]
    assert hand.endpoint.greeting(hello).asked == []


def test_r16_an_answer_after_half_the_grace_is_asked_about_once_more() -> None:
    for seconds, times in ((4.9, 0), (5.1, 1)):
        hand = Hand()
        publication = _publish(hand)
        hand.done()
        hand.time += seconds
        _answered(hand, publication, 4)
        effects = hand.done()
        assert len([each for each in effects if isinstance(each, HandOver)]) == 1 - times
        hand.time += 20.0
        _answered(hand, publication, 4)
        assert len(hand.all(HandOver)) == times, "a worker may just be that slow"


@pytest.mark.parametrize("is_late", [False, True])
def test_r16_who_was_slow_hears_first_whether_its_number_was_given_up(is_late: bool) -> None:
    hand = Hand()
    publication = _publish(hand)
    _answered(hand, publication, 4)
    hand.done()
    publication.handed = True
    hand.time += 5.1
    hand.endpoint.accepted(publication)
    assert hand.all(Published) == []
    hand.pass_time(0.02)
    hand.endpoint.receive(Settled(0, 1, hand.endpoint.outbox._request, [7, 9, 1, 4] if is_late else []))
    effects = hand.done()
    assert [type(each.error) for each in effects if isinstance(each, Failed)] == [Abandoned] * is_late
    assert len([each for each in effects if isinstance(each, Published)]) == (not is_late)
    late = [(each.topic, each.name, each.number) for each in effects if isinstance(each, LateConfirmation)]
    assert late == ([(7, "7", 9), (1, "t/1", 4)] if is_late else []), "by name, where that is known"
    assert (hand.endpoint.publishing.late_confirms, hand.endpoint.publishing.accepted) == (2 * is_late, 1)


@pytest.mark.parametrize("owned", [0, 7])
def test_a_publish_beyond_what_may_be_unconfirmed_has_failed(owned: int) -> None:
    hand = Hand()
    hand.endpoint.welcomed(Welcome(1, DOMAIN, "w", 1, [], 8_000, 1 << 20, "", [], Access("client", max_unconfirmed=3)))
    publication = _publish(hand)
    hand.done()
    hand.endpoint.receive(Timestamps(0, 1, [], refused=[publication.counter], owned=owned))
    (failed,) = hand.all(Failed)
    assert isinstance(failed.error, TooManyUnconfirmed)
    assert str(failed.error) == str(TooManyUnconfirmed("t/1", owned or 3, is_shared=owned > 0))
    assert ("all clients with tokens of this name may have 7 unconfirmed" in str(failed.error)) == (owned > 0)
    assert hand.endpoint.publishing.grace == 8.0


def test_r18_what_cannot_be_logged_has_failed() -> None:
    hand = Hand()

    def spoilt() -> bytes:
        raise ValueError("too large")

    hand.endpoint.receive(Topics(99, [TopicInfo(1, SPACE, "t/1", 0, True)]))
    publication = hand.endpoint.publish((SPACE, "t/1"), "x", spoilt)
    failed = hand.all(Failed)
    assert [(each.publication, str(each.error)) for each in failed] == [
        (publication, "the event log cannot take what was published: too large")
    ]


def test_r16_what_is_cancelled_or_refused_is_void() -> None:
    hand = Hand()
    one, two = _publish(hand), _publish(hand)
    _answered(hand, one, 1)
    hand.endpoint.receive(Timestamps(0, 1, [StampedEvent(two.counter, 1, 2, [])]))
    hand.pass_time(1.0)
    hand.endpoint.cancel(one)
    hand.endpoint.refused(two, Refused("no"))
    assert [str(each.error) for each in hand.all(Failed)] == ["no"]
    hand.time += 0.02
    hand.endpoint.tick()
    assert [each.void for each in hand.sent(Settle)] == [[1, 1, 2]]


def test_in_another_domain_what_was_never_asked_for_is_published_and_all_else_has_failed() -> None:
    hand = Hand()
    asked = _publish(hand)
    _answered(hand, asked, 1)
    hand.done()
    queued, cancelled = _publish(hand), _publish(hand)
    hand.endpoint.cancel(cancelled)
    hand.endpoint.leave_domain()
    effects = list(hand.endpoint.take())
    assert [each.publication.content for each in effects if isinstance(each, Requeued)] == [queued.content]
    failed = [each for each in effects if isinstance(each, Failed)]
    assert [each.publication for each in failed] == [asked]
    assert all(isinstance(each.error, Forgotten) for each in failed)
    assert hand.endpoint.describe()["reached"] == []
    hand.endpoint.accepted(asked)
    assert list(hand.endpoint.take()) == [], "nobody is to be told"


# -- changes of the subscription (R7, R11) -----------------------------------------------------------------------------


def _change(hand: Hand, *filters: str, removes: tuple[str, ...] = ()) -> Change:
    gone = [(SPACE, mqtt_filter(each)) for each in removes]
    return hand.endpoint.change([subscription(each) for each in filters], gone)


def test_r11_changes_come_one_after_the_other() -> None:
    hand = Hand()
    first, second = _change(hand, "t/1"), _change(hand, "t/2")
    assert [each.change for each in hand.all(AskBroker)] == [first]
    hand.endpoint.broker_answered(second)
    assert hand.sent(Subscribe) == [], "that one has not begun"
    hand.endpoint.broker_answered(first)
    (asked,) = hand.sent(Subscribe)
    assert [each.filter.name for each in asked.filters] == ["t/1"]
    hand.endpoint.receive(Subscribed(1, [TopicStart(info(1), 3, [])]))
    effects = hand.done()
    assert [each.stages for each in effects if isinstance(each, Need)] == [{0}]
    assert any(isinstance(each, AskAllHeads) for each in effects)
    assert [(each.change, each.error) for each in effects if isinstance(each, Changed)] == [(first, None)]
    assert [each.change for each in effects if isinstance(each, AskBroker)] == [second]


def test_what_a_broker_refuses_is_taken_back() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    change = hand.endpoint.change([subscription("t/1"), subscription("t/2")])
    assert change.before == [subscription("t/1"), None]
    assert (change.subscribes, change.unsubscribes) == ([subscription("t/1"), subscription("t/2")], [])
    hand.arrive(1, 1, 9, 1)
    assert hand.words() == [], "the topic that is subscribed to may be that one (R9)"
    error = Refused("no")
    hand.endpoint.broker_answered(change, error)
    assert [each.change for each in hand.all(AskBroker)] == [change]
    assert (change.subscribes, change.unsubscribes) == ([], [(SPACE, mqtt_filter("t/2"))])
    hand.endpoint.broker_answered(change, Refused("still not"))
    effects = hand.done()
    assert [(each.change, each.error) for each in effects if isinstance(each, Changed)] == [(change, error)]
    assert [each.event.number for each in effects if isinstance(each, Notify)] == [1]
    assert [each.filter.text for each in hand.endpoint.routes.all()] == ["t/1"]
    assert not hand.endpoint.subscribing.is_changing


def test_a_change_without_total_order_is_none_of_the_workers_concern() -> None:
    hand = Hand()
    change = hand.endpoint.change([Subscription(SPACE, mqtt_filter("t/1"), "fifo", 0, True)])
    assert not change.is_total
    hand.endpoint.broker_answered(change)
    effects = hand.done()
    assert [each.change for each in effects if isinstance(each, Changed)] == [change]
    assert not any(isinstance(getattr(each, "frame", None), Subscribe) for each in effects)


def test_what_is_made_weaker_than_total_is_dropped() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    change = hand.endpoint.change([Subscription(SPACE, mqtt_filter("t/1"), "fifo", 0, True)])
    hand.endpoint.broker_answered(change)
    assert hand.endpoint.describe()["clock"] == {2: 0}
    (asked,) = hand.sent(Subscribe)
    assert [each.filter.name for each in asked.filters] == ["t/2"]


def test_r14_topics_that_have_moved_are_asked_about_where_they_are() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.endpoint.receive(Moved(0, 1, 2, 1, [1, 1]))
    assert [each.stages for each in hand.all(Need)] == [{1}]
    hand.arrive(1, 2)
    hand.time += 1.0
    assert [each.stage for each in hand.sent(AskNumbers)] == [1]


def test_who_closes_ends_its_subscription_once() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    queued = [_change(hand, "t/2"), _change(hand, "t/3")]
    hand.endpoint.stop()
    assert queued[0] in [each.change for each in hand.all(AskBroker)]
    hand.endpoint.leave()
    hand.endpoint.leave()
    frames = hand.sent(Subscribe)
    assert [each.filters for each in frames] == [[]]
    assert [each.filter.text for each in hand.endpoint.routes.all()] == ["t/1", "t/2"], "no other change was begun"


@pytest.mark.parametrize("is_known", [False, True])
def test_r12_what_is_lost_while_a_change_is_on_its_way_begins_anew_with_it(is_known: bool) -> None:
    """The change may have come and expired before its answer: to count on that answer would be to count on nothing.

    *Counter-example:* A={#} is on its way up while A is away, and expires; its answer comes when A is back. y is
    created on a new topic without an entry for x, because nobody has both. A gives y, then x.
    """
    hand = Hand()
    hand.endpoint.broker_answered(_change(hand, "t/1"))
    hand.done()
    hand.endpoint.opened(Opened(0, 1, is_known, 0, 30_000), hand.time)
    assert [(each.version, each.anew) for each in hand.sent(Subscribe)] == [(2, True)]
    hand.endpoint.receive(Subscribed(1, [TopicStart(info(1), 0, [])]))
    assert hand.endpoint.describe()["clock"] == {}
    hand.endpoint.stop()
    hand.endpoint.leave()
    assert hand.sent(Subscribe) == [], "one change at a time"


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_machine_begins_with_nothing_to_do() -> None:
    endpoint = Endpoint("strict", Still())
    assert (endpoint.take(), endpoint.next_deadline()) == ([], None)
    assert (endpoint.outbox.wants_flush, endpoint.outbox.wants_timer) == (False, False)
    change = Change([], [], None)
    assert (change.is_total, change.error, change.before) == (False, None, [])


def test_r12_the_first_stage_that_connects_tells_it_for_the_others() -> None:
    lease = Lease()
    lease.needs([1])
    lease.completed(10.0)
    lease.opened(0, 30.0, 10.0)
    assert lease.until == 25.0


def test_r12_the_lease_is_asked_for_six_times_in_a_timeout() -> None:
    hand = Hand()
    asked: dict[int, float] = {}
    while len(asked) < 12:
        due = hand.endpoint.next_deadline()
        assert due is not None
        hand.time = due
        hand.endpoint.tick()
        asked |= {each.request: hand.time for each in hand.all(AskLease)}
    times = list(asked.values())
    assert times == [times[0] + at * SESSION_TIMEOUT / 6 for at in range(12)]
    hand.endpoint.stop()
    hand.time += SESSION_TIMEOUT
    hand.endpoint.tick()
    assert hand.all(AskLease) == []


def test_r24_a_barrier_begins_while_something_is_missing() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    assert hand.all(BeginBarrier) == []
    hand.arrive(1, 3)
    hand.time += 1.0
    hand.endpoint.flush()
    hand.done()
    hand.endpoint.receive(Numbers(2, 1, [NumberAnswer(each, NumberState.CONFIRMED) for each in (1, 2)]))
    hand.time += 1.0
    assert [each.space for each in hand.all(BeginBarrier)] == [SPACE]
    hand.time += 1.0
    assert hand.all(BeginBarrier) == [], "one at a time"
    hand.endpoint.caught_up(SPACE, is_caught_up=False)
    assert hand.endpoint.outbox.wants_flush
    hand.time += 1.0
    assert [each.space for each in hand.all(BeginBarrier)] == [SPACE]
    hand.endpoint.stop()
    hand.endpoint.caught_up(SPACE)
    hand.time += 1.0
    assert hand.all(BeginBarrier) == []


def test_r17_the_end_of_a_burst_is_told_by_heads() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.endpoint.receive(Heads([1, 2]))
    assert hand.endpoint.next_deadline() == pytest.approx(hand.time + 1.0)
    hand.time += 1.0
    (asked,) = hand.sent(AskNumbers)
    assert asked.ranges == [1, 2]


def test_what_is_overdue_is_due_at_once() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.arrive(1, 2)
    hand.endpoint.lost({0})
    hand.pass_time(3.0)
    hand.endpoint.reached({0}, 0)
    assert hand.endpoint.next_deadline() == pytest.approx(hand.time + 0.001)
