"""Which rides of another worker a stage may step: one that it could not process would be sent again for ever."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.cluster import SPACE, Cluster

from inorder.errors import ProtocolError
from inorder.protocol.names import exact
from inorder.protocol.wire import MAX_NUMBER, LogRule, NumberState, TopicInfo
from inorder_worker.sequencer.commands import Deliver
from inorder_worker.sequencer.moved import MovedSession, MovedTopic
from inorder_worker.sequencer.ride_check import check_ride
from inorder_worker.sequencer.rides import (
    AnyRide,
    CompleteRide,
    ExpireRide,
    FlushRide,
    LingerEndRide,
    LogRulesRide,
    MarkRide,
    OrderRide,
    PopularityRide,
    Resumed,
    SettleRide,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    SwapRide,
    SwitchRide,
    TopicRide,
)
from inorder_worker.sequencer.topic_manager import NumberRecord

TOP, MIDDLE, BOTTOM = 0, 1, 2
A, B, C, NEW = 1, 2, 3, 4
"""Topics: one on each stage, from the top; one that nobody knows."""

UP = StampRide("p", 1, 7, 2, A, TOP, 0, [], [], 0, False)
NUMBERED = StampRide("p", 1, 7, 2, C, BOTTOM, 3, [], [C, 2], 0, False, required=[2, 5])
COMPLETE = CompleteRide("p", 1, 1, B, 1, [A, 1], False)
SUBSCRIPTION = SubscriptionRide("r", 1, 1, [], False, [B, C], [C], [B], [C, 0], {B: [A, 1]}, saved=[C, 1])
SUBSCRIPTION.passed = [C, 2, 7, 0]
SUBSCRIBED = SubscribedRide("r", 1, 1, [B, C], [A, 1, B, 2, C, 0], {B: [A, 1]})
TOPICS = TopicRide([TopicInfo(NEW, SPACE, "d", BOTTOM)])
LINGER, EXPIRE = LingerEndRide("r", 1, 1), ExpireRide("r", 1, 1)
RULES = LogRulesRide([LogRule(SPACE, exact("a"))])
SETTLE = SettleRide("p", 1, 1, [B, 1, 1], [B, 2, 3], [B, 4, 4])
FLUSH, MARK = FlushRide(2, [[A], [B], [C]]), MarkRide(2)
ORDER, POPULARITY = OrderRide(2, [A, B, C]), PopularityRide(1, [A, 5, B, 7], [], 0.1, 0.2)
SWAP = SwapRide(1, [A, C])
SESSION = MovedSession("p", 1, 1, True, 30_000, True, [1, A, 1], [A, 1, 1], [A, 1])
RECORD = NumberRecord("p", 1, 1, A, 1, [], NumberState.PENDING, 0, False)
SWITCH = SwitchRide(2, [A, 1], [MovedTopic(A, 0, 0, {}, [], 0)], [RECORD], [SESSION], passed=[A, 0, 5, 1])


def _cluster() -> Cluster:
    cluster = Cluster({"a": TOP, "b": MIDDLE, "c": BOTTOM})
    cluster.open("p")
    cluster.stamp("p", "b")
    return cluster


def _error(cluster: Cluster, stage: int, origin: int, ride: AnyRide) -> str:
    try:
        check_ride(ride, origin, cluster.stages[stage])
    except ProtocolError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("stage", "origin", "ride"),
    [
        (MIDDLE, BOTTOM, UP),
        (TOP, MIDDLE, UP),
        (MIDDLE, BOTTOM, NUMBERED),
        (MIDDLE, BOTTOM, replace(NUMBERED, top=1, number=MAX_NUMBER)),
        (MIDDLE, TOP, COMPLETE),
        (BOTTOM, MIDDLE, replace(COMPLETE, topic=B, number=99)),  # who is not its home does not know its numbers
        (MIDDLE, BOTTOM, SUBSCRIPTION),
        (MIDDLE, BOTTOM, replace(SUBSCRIPTION, resumed=[Resumed(C, 0, None, 0, 0)])),
        (BOTTOM, TOP, SUBSCRIBED),
        (MIDDLE, BOTTOM, TOPICS),
        (MIDDLE, BOTTOM, LINGER),
        (MIDDLE, BOTTOM, EXPIRE),
        (MIDDLE, BOTTOM, RULES),
        (MIDDLE, TOP, SETTLE),
        (BOTTOM, TOP, SETTLE),
        (MIDDLE, BOTTOM, FLUSH),
        (MIDDLE, TOP, MARK),
        (BOTTOM, TOP, MARK),
        (TOP, BOTTOM, MARK),
        (MIDDLE, BOTTOM, ORDER),
        (MIDDLE, BOTTOM, POPULARITY),
        (BOTTOM, TOP, SWAP),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, int) else str(each),
)
def test_what_stages_send_is_taken(stage: int, origin: int, ride: AnyRide) -> None:
    assert _error(_cluster(), stage, origin, ride) == ""


def _wrong(ride: AnyRide, **wrong: list[Any]) -> list[tuple[AnyRide, dict[str, Any]]]:
    return [(ride, {name: value}) for name, values in wrong.items() for value in values]


PLACES = [[C, 2], [C, 2, 7, 0, C, 2], [C, 2, -7, 0], [C, 2, 7, -1]]
ODD = [[A], [A, 1, B], [A, -1], [-1, 1], [A, MAX_NUMBER + 1]]
WRONG = [
    *_wrong(UP, entry=[1, 3], home=[1, 2], topic=[B, NEW], after=ODD, deps=ODD),
    *_wrong(UP, required=[[1], [0, 1, 2], [0, 1] * 4, [0, -1]]),
    *_wrong(NUMBERED, number=[-1, MAX_NUMBER + 1], home=[TOP, MIDDLE], top=[-1, 2], deps=[*ODD, [NEW, 1]]),
    *_wrong(COMPLETE, topic=[NEW], number=[0, 2], deps=ODD),
    *_wrong(SUBSCRIPTION, starts=ODD, saved=ODD, bases=[{B: each} for each in ODD]),
    *_wrong(SUBSCRIPTION, passed=PLACES),
    *_wrong(SUBSCRIPTION, topics=[[NEW]], plain=[[NEW]], fresh=[[NEW]]),
    *_wrong(SUBSCRIPTION, starts=[[NEW, 1]], saved=[[NEW, 1]], resumed=[[Resumed(NEW, 0, None, 0, 0)]]),
    *_wrong(SUBSCRIBED, starts=[*ODD, [B, 2]], bases=[{B: each} for each in ODD], topics=[[B, C, NEW]]),
    *_wrong(TOPICS, topics=[[TopicInfo(NEW, SPACE, "d", stage)] for stage in (TOP, MIDDLE, 3)]),
    *_wrong(TOPICS, topics=[[*TOPICS.topics, TopicInfo(number, SPACE, "e", BOTTOM)] for number in (0, -1)]),
    *_wrong(SETTLE, confirmed=[[B, 1]], void=[[B]], abandoned=[[B, 1, 1, B]]),
    *_wrong(FLUSH, stages=[[[A, B, C]], [[A], [B], [C], []], [[A], [B], [C, NEW]]]),
    *_wrong(ORDER, order=[[A, B, NEW]]),
    *_wrong(POPULARITY, counts=[*ODD, [NEW, 1]]),
    *_wrong(SWAP, pairs=[*ODD, [A, NEW]]),
]
"""Rides, each with what is wrong about it."""


@pytest.mark.parametrize(("ride", "wrong"), WRONG, ids=[f"{type(ride).__name__} {wrong}"[:80] for ride, wrong in WRONG])
def test_what_no_stage_sends_is_refused(ride: AnyRide, wrong: dict[str, Any]) -> None:
    stage, origin = (BOTTOM, TOP) if isinstance(ride, SubscribedRide | SwapRide) else (MIDDLE, BOTTOM)
    origin = TOP if isinstance(ride, CompleteRide) else origin
    error = _error(_cluster(), stage, origin, replace(ride, **wrong))
    assert error.startswith(
        (f"a {type(ride).__name__} from stage {origin} is not well", "a ride names topics that did")
    )


@pytest.mark.parametrize(
    "ride",
    [UP, NUMBERED, SUBSCRIPTION, TOPICS, LINGER, EXPIRE, RULES, FLUSH, ORDER, POPULARITY],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize(("stage", "origin"), [(MIDDLE, TOP), (MIDDLE, MIDDLE), (TOP, BOTTOM)])
def test_what_goes_up_comes_from_the_next_stage_below(ride: AnyRide, stage: int, origin: int) -> None:
    assert "is not well formed" in _error(_cluster(), stage, origin, ride)


@pytest.mark.parametrize(
    ("stage", "origin", "ride"),
    [
        (MIDDLE, BOTTOM, COMPLETE),
        (MIDDLE, MIDDLE, COMPLETE),
        (MIDDLE, TOP, SUBSCRIBED),
        (BOTTOM, MIDDLE, SUBSCRIBED),
        (MIDDLE, TOP, SWAP),
        (BOTTOM, MIDDLE, SWAP),
        (MIDDLE, BOTTOM, MARK),
        (MIDDLE, MIDDLE, MARK),
        (MIDDLE, TOP, SWITCH),  # nothing is sealed
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, int) else str(each),
)
def test_what_goes_down_comes_from_where_it_is_made(stage: int, origin: int, ride: AnyRide) -> None:
    assert "is not well formed" in _error(_cluster(), stage, origin, ride)


def _sealed() -> Cluster:
    """The middle stage has seen the flush of an order in which a and c have changed places."""
    cluster = _cluster()
    cluster.step(MIDDLE, Deliver(BOTTOM, cluster.stages[MIDDLE].received(BOTTOM) + 1, FlushRide(2, [[C], [B], [A]])))
    return cluster


@pytest.mark.parametrize(
    ("wrong", "is_taken"),
    [
        ({}, True),
        *(({"numbers": each}, False) for each in [*ODD, [NEW, 1]]),
        *(({"passed": each}, False) for each in PLACES),
        ({"topics": [MovedTopic(NEW, 0, 0, {}, [], 0)]}, False),
        ({"records": [replace(RECORD, topic=NEW)]}, False),
        ({"sessions": [replace(SESSION, answers=[1, A])]}, False),
        ({"sessions": [replace(SESSION, used=[A, 1])]}, False),
        ({"sessions": [replace(SESSION, open=[A])]}, False),
    ],
)
def test_a_hand_over_is_looked_at_whole(wrong: dict[str, Any], is_taken: bool) -> None:
    assert (_error(_sealed(), MIDDLE, TOP, replace(SWITCH, **wrong)) == "") is is_taken


def test_behind_a_hand_over_everything_is_of_the_new_order() -> None:
    cluster = _sealed()
    up = replace(NUMBERED, topic=A, home=BOTTOM, deps=[])
    assert _error(cluster, MIDDLE, BOTTOM, NUMBERED) == ""
    assert _error(cluster, MIDDLE, BOTTOM, up) != ""
    cluster.step(MIDDLE, Deliver(BOTTOM, cluster.stages[MIDDLE].received(BOTTOM) + 1, SwitchRide(2, [C, 0])))
    assert _error(cluster, MIDDLE, BOTTOM, SwitchRide(2, [C, 0])) != "", "it has handed over"
    assert _error(cluster, MIDDLE, BOTTOM, NUMBERED) != ""
    assert _error(cluster, MIDDLE, BOTTOM, up) == ""
    assert _error(cluster, MIDDLE, BOTTOM, replace(up, topic=NEW)) == "", "a topic that came up may be held back here"
    assert _error(cluster, MIDDLE, TOP, replace(COMPLETE, topic=NEW)) != "", "nothing of this stage is"
