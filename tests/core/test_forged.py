"""Who may publish on a broker may forge stamps: what a client remembers of them has bounds."""

from __future__ import annotations

import sys
from typing import Literal

import pytest
from tests.core.cluster import seen
from tests.core.endpoints import DOMAIN, Hand

from inorder.endpoint import arrivals, unbegun
from inorder.endpoint.effects import Alarm
from inorder.endpoint.endpoint import Endpoint, EndpointTimes
from inorder.endpoint.gaps import MAX_PASSED
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import OrderingTimes
from inorder.endpoint.routing import Subscription
from inorder.protocol.arrival import Arrival
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.stamp import FifoStamp, Stamp, TotalStamp, encode_stamp
from inorder.protocol.wire import TopicInfo, TopicStart


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return 1.0

    uptime = now


def test_so_many_topics_are_said_to_have_foreign_stamps_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may publish on the broker makes up as many topics as he likes: logs and memory stay as they are."""
    monkeypatch.setattr(arrivals, "MAX_ALARMED", 3)
    endpoint = Endpoint("strict", Still())
    endpoint.change([Subscription("m", mqtt_filter("#"), "total", 0, True)])
    for topic in range(9):
        endpoint.arrived("m", Arrival(f"t/{topic}", b"", stamp=encode_stamp(TotalStamp(77, 1, 1, []))))
    assert [each.topic for each in endpoint.take() if isinstance(each, Alarm)] == ["t/0", "t/1", "t/2"]
    assert endpoint.arrivals.counts.foreign == 9


def test_ids_of_others_topics_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forged dependencies may name any id; one that was forgotten is asked for again."""
    monkeypatch.setattr(unbegun, "MAX_FOREIGN", 3)
    reader = OrderingModule()
    reader.subscribed([TopicStart(TopicInfo(1, "m", "t", 0), 0, [])], 0.0, filters=True)
    for number in range(1, 10):
        reader.receive(1, number, [100 + number, 1], None, 0, 0.0)
        assert reader.unnamed() == [100 + number]
        assert seen(reader.named([], [100 + number], 0.0)) == [f"1:{number}"]
    assert len(reader.describe()["unbegun"]["foreign"]) <= 3
    assert reader.receive(1, 10, [101, 1], None, 0, 0.0) == []
    assert reader.unnamed() == [101]


@pytest.mark.parametrize("is_begun", [True, False], ids=["begun", "unbegun"])
def test_numbers_that_find_no_room_are_remembered_as_ranges_up_to_a_bound(is_begun: bool) -> None:
    """Forged ones need not follow one another."""
    reader = OrderingModule("strict", OrderingTimes(max_waiting=0))
    if is_begun:
        reader.subscribed([TopicStart(TopicInfo(1, "m", "t", 0), 0, [])], 0.0, filters=False)
    else:
        reader.subscribing()
    for number in range(3, 2 * MAX_PASSED + 9, 2):
        assert reader.receive(1, number, [], None, 0, 0.0) == []
    known = reader.describe()["readers" if is_begun else "unbegun"]
    assert len((known if is_begun else known["topics"])[1]["given_up"]) == MAX_PASSED


LONG = 40_000
OTHERS = [part for topic in range(10_000) for part in (300 + topic, 1)]


@pytest.mark.parametrize("what", ["stamp", "properties"])
@pytest.mark.parametrize("ordering", ["total", "fifo"])
def test_what_is_long_beside_a_payload_is_within_the_limit_of_bytes(
    ordering: Literal["total", "fifo"], what: str
) -> None:
    """A stamp of 64 KB beside an empty payload is half a megabyte of dependencies; what is usual counts as nothing."""
    hand = Hand(times=EndpointTimes(ordering=OrderingTimes(max_waiting_bytes=600_000)))
    endpoint = hand.endpoint
    endpoint.arrivals.fifo.max_bytes = 600_000
    hand.subscribe("t/1", ordering=ordering)
    hand.arrive(1, 1)
    for number in range(4, 13, 2):
        is_stamp = what == "stamp"
        more = () if is_stamp else (("x", "y" * 8 * LONG),)
        hand.arrive_with(TotalStamp(DOMAIN, 1, number, OTHERS if is_stamp else []), 1, properties=more)
    left = endpoint.ordering.waiting if ordering == "total" else 5 - (len(hand.words()) - 1)
    assert left == 1
    small = Hand()
    small.subscribe("t/1")
    small.arrive(1, 3, 2, 7, properties=(("trace", "17"),))
    assert small.endpoint.ordering.waiting_bytes == len(b"x")


@pytest.mark.parametrize("is_retained", [False, True])
@pytest.mark.parametrize("ordering", ["total", "fifo", "none"])
@pytest.mark.parametrize(
    "stamp",
    [None, FifoStamp(9, 4), TotalStamp(DOMAIN, 8, 4, []), TotalStamp(77, 8, 4, [])],
    ids=lambda each: repr(each)[:9],
)
def test_no_long_name_that_somebody_made_up_is_remembered(
    stamp: Stamp | None, ordering: Literal["total", "fifo", "none"], is_retained: bool
) -> None:
    """Of a hundred thousand topics it is known how they are read: with names of 64 KB that were gigabytes."""
    hand = Hand()
    hand.subscribe("#", ordering=ordering)
    name = "made/up/" + "x" * LONG
    before = sys.getrefcount(name)
    data = None if stamp is None else encode_stamp(stamp)
    hand.endpoint.arrived("m", Arrival(name, b"", data, retained=is_retained))
    if hand.endpoint.ordering.unnamed():
        hand.endpoint.ordering.named([], [8], 0.0)
    hand.done()
    assert sys.getrefcount(name) == before
