"""From the broker's notification to the application's: which way an arrival goes, and what is said of it."""

from __future__ import annotations

import pytest
from tests.core.endpoints import DOMAIN, SESSION_TIMEOUT, SPACE, Hand, info

from inorder.endpoint import arrivals
from inorder.endpoint.arrivals import LOOP_COPIES, MAX_COUNTED
from inorder.endpoint.effects import (
    Alarm,
    AskBroker,
    Dropped,
    Expired,
    LeaseTurned,
    Missed,
    Notify,
    Unrouted,
    WasOverlap,
)
from inorder.endpoint.notifications import Bounded, Event, Gap, GapReason
from inorder.endpoint.routing import Subscription
from inorder.protocol.arrival import Arrival
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.stamp import FifoStamp, TotalStamp, encode_stamp
from inorder.protocol.wire import (
    AskNumbers,
    Logged,
    LoggedEvent,
    LoggedEvents,
    NumberAnswer,
    Numbers,
    NumberState,
    Opened,
    ReadLog,
    Renewed,
    Subscribed,
    TopicStart,
    encode_logged,
)

CONFIRMED, PENDING = NumberState.CONFIRMED, NumberState.PENDING


# -- which way an arrival goes -----------------------------------------------------------------------------------------


def test_what_no_subscription_covers_is_told_to_those_who_watch() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.arrive(2, 1)
    assert hand.all(Unrouted) == []
    hand.endpoint.watch()
    hand.arrive(2, 1)
    assert [each.arrival.topic for each in hand.all(Unrouted)] == ["t/2"]


@pytest.mark.parametrize(
    ("ordering", "stamp", "words"),
    [
        ("total", None, ["t/1 None unsequenced"]),
        ("total", b"nonsense", ["t/1 None unsequenced"]),
        ("total", FifoStamp(3, 7), ["t/1 None fifo"]),
        ("total", TotalStamp(DOMAIN, 1, 1, []), ["t/1 1 in_order"]),
        ("total", TotalStamp(DOMAIN, 1, 2, []), []),
        ("fifo", TotalStamp(DOMAIN, 1, 2, []), ["t/1 2 fifo"]),
        ("fifo", FifoStamp(3, 7), ["t/1 None fifo"]),
        ("fifo", TotalStamp(DOMAIN + 1, 1, 2, []), ["t/1 None unsequenced"]),
        ("fifo", None, ["t/1 None unsequenced"]),
        ("none", TotalStamp(DOMAIN, 1, 2, []), ["t/1 2 unsequenced"]),
        ("none", FifoStamp(3, 7), ["t/1 None unsequenced"]),
    ],
)
def test_the_way_of_an_arrival(ordering: str, stamp: object, words: list[str]) -> None:
    hand = Hand()
    hand.subscribe("t/1", ordering=ordering)  # type: ignore[arg-type]
    hand.arrive_with(stamp, 1)  # type: ignore[arg-type]
    assert hand.words() == words
    counts = hand.endpoint.arrivals.counts
    assert counts.corrupt == (stamp == b"nonsense")
    assert counts.unsequenced == sum(word.endswith("unsequenced") for word in words)
    assert sum(hand.endpoint.arrivals.delivered.values()) == len(words)


def test_the_stronger_subscription_decides() -> None:
    hand = Hand()
    hand.subscribe("t/+", ordering="none")
    hand.subscribe("t/1")
    hand.arrive(1, 2)
    assert hand.words() == []
    hand.arrive(1, 1)
    assert hand.words() == ["t/1 1 in_order", "t/1 2 in_order"]


def test_of_stampless_copies_for_several_filters_one_counts() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/+")
    for via in (("t/1",), ("t/+",), ("t/1", "t/+"), ()):
        hand.arrive_with(None, 1, via=via)
    assert hand.words() == ["t/1 None unsequenced"] * 3
    assert hand.endpoint.arrivals.counts.overlaps == 1
    hand.arrive_with(None, 2, via=("t/+",))
    hand.arrive_with(None, 2, via=("something",))
    assert hand.words() == ["t/2 None unsequenced"] * 2, "one filter has no other copies"
    hand.arrive(1, 1, via=("t/+",))
    assert hand.words() == ["t/1 1 in_order"], "a number tells copies apart, whichever comes first"


def test_a_stamp_of_another_domain_or_topic_is_none_and_an_alarm_once() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    hand.arrive(1, 1, domain=DOMAIN + 1)
    hand.arrive(1, 2, domain=DOMAIN + 1)
    assert hand.alarms() == [("foreign_stamp", "t/1", 1)]
    hand.arrive_with(TotalStamp(DOMAIN, 1, 4, []), 2)
    assert hand.alarms() == [("foreign_stamp", "t/2", 4)]
    assert (hand.endpoint.arrivals.counts.foreign, hand.endpoint.describe()["clock"]) == (3, {1: 0, 2: 0})


def test_what_is_foreign_says_why() -> None:
    hints = []
    for stamp in (TotalStamp(DOMAIN + 1, 2, 1, []), TotalStamp(DOMAIN, 1, 1, [])):
        hand = Hand()
        hand.subscribe("t/1", "t/2")
        hand.arrive_with(stamp, 2)
        hints += [each.hint for each in hand.endpoint.take() if isinstance(each, Alarm)]
    assert hints == [
        f"not sequenced: its stamp is of another domain ({DOMAIN + 1})",
        "not sequenced: its stamp is of the topic 't/1' in space 'm'; does a bridge rename topics?",
    ]


# -- copies ------------------------------------------------------------------------------------------------------------


def test_further_copies_for_overlapping_filters_are_no_repetitions() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/+")
    hand.endpoint.watch()
    counts = hand.endpoint.ordering.counts
    for _ in range(3):
        hand.arrive(1, 1, via=("t/1",))
    assert (hand.endpoint.arrivals.counts.overlaps, counts.duplicates) == (1, 1)
    assert len(hand.all(WasOverlap)) == 1
    hand.arrive(1, 2)
    hand.arrive(1, 2, redelivered=True)
    assert (hand.endpoint.arrivals.counts.overlaps, counts.duplicates) == (1, 2), "the broker says that it repeats it"
    hand.arrive(1, 3)
    hand.arrive(1, 3, via=("t/1", "t/+"))
    assert (hand.endpoint.arrivals.counts.overlaps, counts.duplicates) == (1, 3), "one copy for both filters"


def test_events_that_come_again_and_again_are_an_alarm() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/+")
    hand.arrive(1, 1)
    for _ in range(LOOP_COPIES + 1):
        hand.arrive(1, 1)
    assert hand.alarms() == []
    hand.arrive(1, 1)
    assert hand.alarms() == [("loop_suspected", "t/1", 1)]


def test_copies_of_so_many_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/+")
    monkeypatch.setattr(arrivals, "MAX_COUNTED", 2)
    for number in (1, 2, 3):
        for _ in range(2):
            hand.arrive(1, number)
    assert MAX_COUNTED > 2
    assert hand.endpoint.arrivals._copies == {(1, 3): 1}, "one more is room for none of those before"


def test_r5_a_copy_that_the_broker_kept_is_one_only_where_it_was_asked_for() -> None:
    hand = Hand()
    hand.subscribe("t/1", starts=3)
    hand.endpoint.kept_wanted(SPACE, hand.endpoint.subscriber.filters[0].filter)
    hand.arrive(1, 3, retained=True, redelivered=True)
    assert hand.words() == [], "a repetition is none"
    hand.arrive(1, 3, retained=True)
    hand.arrive(1, 3, retained=True)
    assert hand.words() == ["t/1 3 retained"]
    hand.endpoint.kept_wanted(SPACE, hand.endpoint.subscriber.filters[0].filter)
    hand.arrive(1, 4, retained=True)
    hand.arrive(1, 4, retained=True)
    assert hand.words() == ["t/1 4 in_order"], "behind a new event no copies come"


def test_r5_of_fifo_events_as_well() -> None:
    hand = Hand()
    hand.subscribe("t/1", ordering="fifo")
    filter = hand.endpoint.routes.all()[0].filter
    hand.endpoint.kept_wanted(SPACE, filter)
    hand.arrive_with(FifoStamp(3, 7), 1)
    hand.arrive_with(FifoStamp(3, 7), 1, retained=True)
    hand.arrive_with(FifoStamp(3, 7), 1, retained=True)
    assert hand.words() == ["t/1 None fifo", "t/1 None retained"]
    hand.endpoint.kept_wanted(SPACE, filter)
    hand.arrive_with(FifoStamp(3, 8), 1, retained=True)
    hand.arrive_with(FifoStamp(3, 8), 1, retained=True)
    assert hand.words() == ["t/1 None fifo"]


def test_what_is_missing_of_a_fifo_stream_is_passed_over_in_time() -> None:
    hand = Hand()
    hand.subscribe("t/1", ordering="fifo")
    hand.arrive_with(FifoStamp(3, 1), 1)
    hand.done()
    hand.endpoint.outbox.wants_flush = False
    began = hand.time
    hand.arrive_with(FifoStamp(3, 3), 1)
    assert hand.endpoint.outbox.wants_flush
    assert hand.endpoint.next_deadline() == pytest.approx(began + 1.0)
    hand.time += 1.0
    hand.endpoint.tick()
    notified = hand.all(Notify)
    assert [(each.event.verdict, each.arrived) for each in notified] == [("fifo", began)]
    hand.arrive_with(FifoStamp(3, 2), 1)
    assert hand.words() == ["t/1 None late"]


# -- gaps, logs, repetitions -------------------------------------------------------------------------------------------


def _lost(hand: Hand, *numbers: int) -> None:
    """What the broker never delivers: confirmed, overdue, and read behind barriers."""
    hand.pass_time(1.0)
    hand.endpoint.receive(Numbers(2, 1, [NumberAnswer(each, CONFIRMED) for each in numbers]))
    for _ in range(8):
        hand.time += 1.0
        hand.endpoint.flush()
        hand.endpoint.caught_up(SPACE)


def test_a_gap_is_counted_with_its_numbers() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.arrive(1, 4)
    _lost(hand, 1, 2, 3)
    assert hand.told() == [
        Gap(SPACE, "t/1", 1, 3, GapReason.LOST),
        Event(SPACE, "t/1", b"x", "in_order", 4),  # type: ignore[arg-type]
    ]
    machine = hand.endpoint.arrivals
    assert (machine.gaps, machine.missed, machine.delivered["in_order"]) == (1, 3, 1)


def test_messages_without_stamps_instead_are_an_alarm() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.arrive_with(None, 1)
    hand.arrive(1, 2)
    _lost(hand, 1)
    effects = hand.done()
    assert [each.gap.reason for each in effects if isinstance(each, Missed)] == ["unstamped"]
    assert [each.kind for each in effects if isinstance(each, Alarm)] == ["unstamped"]


def test_r18_what_the_log_has_is_notified_as_repaired() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    hand.arrive(1, 3)
    hand.time += 1.0
    (asked,) = hand.sent(AskNumbers)
    assert (asked.stage, asked.topic, asked.ranges) == (0, 1, [1, 2])
    logged = [NumberAnswer(each, CONFIRMED, [], True) for each in (1, 2)]
    hand.endpoint.receive(Numbers(asked.request, 1, logged))
    (read,) = hand.sent(ReadLog)
    assert (read.stage, read.topic, read.ranges) == (0, 1, [1, 2])
    assert read.request != asked.request
    content = encode_logged(Logged(b"one", 1, [("k", "v")]))
    rows = [LoggedEvent(1, 0, [2, 0], content), LoggedEvent(2, 0, [], None)]
    refused = LoggedEvents(read.request, 1, [1, 2], 2, rows, 1, 3, "no")
    hand.endpoint.receive(refused)
    assert hand.told() == []
    hand.endpoint.receive(LoggedEvents(read.request, 1, [1, 2], 2, rows, 1, 3))
    assert hand.told() == [
        Event(SPACE, "t/1", b"one", "in_order", 1, (("t/2", 0),), qos=1, properties=(("k", "v"),), repaired=True)  # type: ignore[arg-type]
    ]


def test_r18_what_a_former_process_may_have_been_notified_of_says_so() -> None:
    hand = Hand(durable=True)
    starts = [TopicStart(info(1), 2, [], 2, 4, 6), TopicStart(info(2), 2, [], -1, 0, 0)]
    change = hand.endpoint.change([Subscription(SPACE, mqtt_filter(each), "total", 0, True) for each in ("t/1", "t/2")])
    hand.endpoint.broker_answered(change)
    hand.endpoint.receive(Subscribed(1, starts))
    for topic, number in ((1, 3), (1, 4), (1, 5), (1, 6), (2, 3)):
        hand.arrive(topic, number)
    told = [each for each in hand.told() if isinstance(each, Event)]
    assert [(each.topic, each.number, each.redelivered) for each in told] == [
        ("t/1", 3, True),
        ("t/1", 4, True),
        ("t/1", 5, False),
        ("t/1", 6, False),
        ("t/2", 3, False),
    ]
    hand.endpoint.arrivals.enter_domain(6)
    assert hand.endpoint.arrivals.topic_id(SPACE, "t/1") is None
    assert hand.endpoint.arrivals.name_of(1) is None


def test_what_waited_for_a_topic_that_was_left_is_not_notified() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    hand.arrive(1, 2)
    removed = hand.endpoint.change([], [(SPACE, hand.endpoint.subscriber.filters[0].filter)])
    hand.endpoint.broker_answered(removed)
    hand.arrive(1, 1)
    assert hand.told() == []


def test_dependencies_are_told_by_name() -> None:
    hand = Hand()
    hand.subscribe("t/1", "t/2")
    assert hand.endpoint.arrivals.named([1, 4, 9, 1, 2, 7]) == (("t/1", 4), ("t/2", 7))
    hand.arrive(2, 1)
    hand.arrive(1, 1, 2, 1, 9, 3)
    told = hand.told()
    assert [each.deps for each in told if isinstance(each, Event)] == [(), (("t/2", 1),)]


# -- who watches -------------------------------------------------------------------------------------------------------


def test_what_was_dropped_is_told_with_why() -> None:
    hand = Hand()
    hand.subscribe("t/1", starts=1)
    hand.endpoint.watch()
    for number in (1, 3, 3, 2, 2):
        hand.arrive(1, number)
    dropped = hand.all(Dropped)
    assert [(each.entry.number, each.why, each.twin_waits) for each in dropped] == [
        (1, "before", False),
        (3, "duplicate", True),
        (2, "duplicate", False),
    ]


# -- the lease (R12) ---------------------------------------------------------------------------------------------------


def test_r12_a_lease_ends_at_half_the_timeout_and_not_later() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    began = hand.time
    hand.time = began + SESSION_TIMEOUT / 2 - 0.01
    hand.arrive(1, 1)
    assert hand.words() == ["t/1 1 in_order"]
    hand.time = began + SESSION_TIMEOUT / 2
    hand.arrive(1, 2)
    effects = hand.done()
    assert [each.is_leased for each in effects if isinstance(each, LeaseTurned)] == [False]
    assert not any(isinstance(each, Notify) for each in effects)
    request = hand.endpoint.lease.ask(hand.time)
    hand.endpoint.receive(Renewed(request, [0, 1]))
    effects = hand.done()
    assert [each.is_leased for each in effects if isinstance(each, LeaseTurned)] == [True]
    assert [each.event.number for each in effects if isinstance(each, Notify)] == [2]


def test_r12_a_bounded_reader_goes_on_with_a_tag() -> None:
    hand = Hand(Bounded(buffer=None, max_wait=1.0))
    hand.subscribe("t/1")
    hand.arrive(1, 2)
    hand.time += SESSION_TIMEOUT / 2
    hand.endpoint.tick()
    assert hand.words() == ["t/1 2 late"], "the lease is looked at before time lets it go"


def test_r12_a_barrier_looks_at_the_lease_first() -> None:
    hand = Hand("tag")
    hand.subscribe("t/1")
    hand.time += SESSION_TIMEOUT / 2
    hand.endpoint.caught_up(SPACE)
    assert [each.is_leased for each in hand.all(LeaseTurned)] == [False]


def test_r12_a_subscription_that_has_expired_begins_anew() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.endpoint.opened(Opened(0, 1, True, 1, 30_000), hand.time)
    assert hand.all(Expired) == []
    hand.endpoint.opened(Opened(0, 1, False, 0, 30_000), hand.time)
    assert len(hand.all(Expired)) == 1
    assert hand.endpoint.describe()["interrupted"] == {1: 1}


def test_r12_after_an_expiry_a_topic_under_a_wildcard_begins_where_the_stages_say() -> None:
    """Nobody has counted for this client meanwhile, so it is not one that was created under its filter (R13)."""
    for expires, start in ((False, 0), (True, 7)):
        hand = Hand()
        hand.subscribe("t/+")
        if expires:
            hand.endpoint.opened(Opened(0, 1, False, 0, 30_000), hand.time)
        else:
            hand.endpoint.change([Subscription(SPACE, mqtt_filter("u"), "total", 0, True)])
            hand.endpoint.broker_answered(hand.all(AskBroker)[-1].change)
        hand.endpoint.receive(Subscribed(2, [TopicStart(info(2), 7, [])]))
        assert hand.endpoint.describe()["clock"] == {2: start}


def test_an_arrival_with_an_unknown_envelope_is_counted_once() -> None:
    hand = Hand()
    hand.subscribe("t/1")
    hand.endpoint.arrived(SPACE, Arrival("t/1", b"x", encode_stamp(FifoStamp(1, 1))[:-1] + b"~~"))
    assert hand.endpoint.arrivals.counts.corrupt == 1
