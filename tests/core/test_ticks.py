"""Ticks of timestamps (R23): stages give them, take them along, and keep them; readers that take events out of turn go
by them. The scenarios r23 show what breaks without each part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.cluster import Cluster, seen
from tests.core.durables import publish
from tests.core.endpoints import DOMAIN, Hand
from tests.core.readers import get, new_reader, start_of

from inorder.endpoint import durable
from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found
from inorder.endpoint.ticks import Reached, Ticks
from inorder.endpoint.waiting import Sequenced, WaitingRoom
from inorder.protocol.stamp import MAX_NUMBER, MAX_STAGES, PlainStamp, TotalStamp, decode_stamp, encode_stamp
from inorder.protocol.wire import Done, SaveClock, Subscribed, Timestamps
from inorder_worker.sequencer.commands import SaveNumbers, Tick
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.ticks import announced, passed

THREE = {"top": 0, "mid": 1, "low": 2}


def cluster_of(topics: dict[str, int], *clients: str) -> Cluster:
    cluster = Cluster(topics)
    for client in clients:
        cluster.open(client)
    return cluster


def ticks_of(cluster: Cluster, name: str, client: str = "p") -> Ticks:
    """Stamp an event; return its ticks."""
    cluster.stamp(client, name)
    return last_ticks(cluster)


def last_ticks(cluster: Cluster) -> Ticks:
    """Return the ticks of the last timestamp that was answered."""
    frame = next(frame for _, frame in reversed(cluster.frames) if isinstance(frame, Timestamps))
    found = [each[1:] for each in frame.ticks if each[0] == frame.events[-1].counter]
    return found[0] if found else ()


# -- stages ------------------------------------------------------------------------------------------------------------


def test_topics_that_only_strict_readers_have_have_no_ticks() -> None:
    cluster = cluster_of({"a": 0, "b": 0}, "s", "t", "p")
    cluster.subscribe("s", "a", "b")
    cluster.subscribe("t", "b", bounded=True)
    assert ticks_of(cluster, "a") == ()
    assert ticks_of(cluster, "b") == (1, 0, 2)
    cluster.subscribe("t", "a", "b", bounded=True)
    assert ticks_of(cluster, "a") == (1, 1, 3)


def test_a_timestamp_has_its_own_tick_from_its_home_up_and_announced_ones_below() -> None:
    cluster = cluster_of(THREE, "s", "t", "p", "q")
    cluster.subscribe("s", "mid", "low")  # alone: nothing of these rides up
    for name in ("low", "low", "mid"):
        cluster.stamp("p", name)
    cluster.subscribe("t", "top", "mid", "low", bounded=True)
    # at stage 2 two were numbered, at stage 1 one, and the two of below were announced as one
    assert ticks_of(cluster, "top") == (1, 2 * 2 + 0, 2, 2, 3)
    assert ticks_of(cluster, "mid") == (1, 2 * 1 + 1, 2, 3)
    assert ticks_of(cluster, "low") == (1, 2 * 0 + 1, 3, 4)
    cluster.subscribe("s", "top", "mid", "low")
    assert ticks_of(cluster, "low") == (1, 2 * 0 + 1, 4, 5, 6)
    assert ticks_of(cluster, "top") == (1, 2 * 2 + 1, 3, 4, 7)


def test_what_left_the_group_makes_a_timestamp_grouped_once_more() -> None:
    """s keeps b, so what it was notified of on a comes before the next event on b; it gets no more of a."""
    cluster = cluster_of({"a": 0, "b": 0}, "s", "t", "p")
    cluster.subscribe("s", "a", "b")
    cluster.subscribe("t", "a", "b", bounded=True)
    cluster.stamp("p", "a")
    cluster.subscribe("s", "b")
    cluster.now += 100_000
    cluster.step(0, Tick())
    assert [ticks_of(cluster, name)[1] & 1 for name in ("a", "b", "b")] == [0, 1, 0]


def test_the_same_request_has_the_same_ticks_for_ever() -> None:
    """Through a snapshot, and where the topic is at home later (R1, R14)."""
    cluster = cluster_of({"a": 0, "b": 1}, "s", "t", "p")
    cluster.subscribe("s", "a", "b")
    cluster.subscribe("t", "a", "b", bounded=True)
    given = ticks_of(cluster, "b")
    assert given == (1, 1, 1, 1)
    cluster.stages = [Stage.restore(each.snapshot()) for each in cluster.stages]
    cluster.request("p", "b", counter=1)
    assert last_ticks(cluster) == given
    cluster.reorder("b", "a")
    cluster.run()
    cluster.request("p", "b", counter=1)
    assert last_ticks(cluster) == given
    assert ticks_of(cluster, "b")[:2] == (2, 2 * 1 + 1)


def test_a_request_from_below_its_topics_stage_is_answered_with_ticks() -> None:
    cluster = cluster_of({"a": 0, "b": 1}, "t", "p")
    cluster.subscribe("t", "a", bounded=True)
    assert cluster.request("p", "a", at=1) == []
    cluster.run()
    assert last_ticks(cluster) == (1, 2, 0, 1)


def test_rides_of_a_stage_without_ticks_begin_none_above() -> None:
    """Workers are upgraded one after the other: a stage in the middle may have dropped what it did not know."""
    state = Stage(0, 3)._state
    assert passed(state, ()) == ()
    state.tick = 7
    assert announced(state, (4,)) == (4, 0, 7)
    assert announced(state, (3, 5)) == (3, 5, 7)
    assert state.announced == [4, 5]


def test_event_logs_have_the_ticks_too() -> None:
    cluster = cluster_of({"a": 0, "b": 1}, "s", "t", "p")
    cluster.rule("a", "b")
    cluster.subscribe("s", "a", "b")
    cluster.subscribe("t", "a", "b", bounded=True)
    publish(cluster, "b")
    publish(cluster, "a")
    rows = [cluster.read_log(cluster.ids[name], [1, 1]).events[0].ticks for name in ("a", "b")]
    assert rows == [(1, 3, 0, 2), (1, 1, 1, 1)]


# -- stamps ------------------------------------------------------------------------------------------------------------

_number = st.integers(0, MAX_NUMBER)


@given(st.integers(1, MAX_NUMBER), st.integers(0, 5), st.booleans(), st.lists(_number, min_size=6, max_size=MAX_STAGES))
def test_ticks_survive_the_envelope(epoch: int, home: int, is_grouped: bool, ticks: list[int]) -> None:
    stamp = TotalStamp(1, 2, 3, [4, 5], (epoch, 2 * home + is_grouped, *ticks))
    assert decode_stamp(encode_stamp(stamp)) == stamp


def test_a_stamp_without_ticks_has_no_byte_for_them() -> None:
    assert encode_stamp(PlainStamp(1, 2, 3, [])) == b"lQABAgOQ"
    assert decode_stamp(b"lQABAgOQ") == TotalStamp(1, 2, 3, [])


@pytest.mark.parametrize(
    "ticks", [(1,), (1, 0), (0, 0, 1), (1, 2, 5), (1, 0, -1), (1, 0, 2**63), (2**63, 0, 1), (1, 0, *range(65))]
)
def test_ticks_that_no_stage_gives_make_no_stamp(ticks: Ticks) -> None:
    if max(ticks) < 2**64:
        assert decode_stamp(encode_stamp(TotalStamp(1, 2, 3, [], ticks))) is None


# -- readers -----------------------------------------------------------------------------------------------------------


def after(*taken: Ticks) -> Reached:
    reached = Reached()
    for each in taken:
        reached.take(each)
    return reached


@pytest.mark.parametrize(
    ("taken", "ticks", "is_behind"),
    [
        ([], (1, 0, 1), True),
        ([(1, 1, 5)], (1, 1, 6), True),
        ([(1, 1, 5)], (1, 1, 5), False),
        ([(1, 1, 5)], (1, 0, 4), False),
        ([(1, 0, 5)], (1, 1, 4), True),  # the former had no group
        ([(1, 1, 5, 9)], (1, 1, 6), True),
        ([(1, 1, 5, 9)], (1, 1, 6, 9), False),  # later at one stage is not enough
        ([(1, 1, 5)], (1, 3, 2, 1), True),  # what is announced of itself is not compared
        ([(1, 3, 7, 1)], (1, 1, 7), False),  # but its announced ticks count
        ([(1, 3, 7, 1)], (1, 1, 8), True),
        ([(2, 1, 5)], (1, 1, 6), False),
        ([(1, 1, 5)], (2, 1, 4), True),
        ([(1, 1, 5, 9), (2, 3, 0, 1)], (2, 1, 4), True),  # ticks of an earlier order are forgotten
        ([(2, 3, 4, 1)], (1, 1, 9, 9), False),
        ([(1, 1, 5)], (), False),  # nothing tells where it belongs
        ([(1, 1, 9), (1, 1, 3)], (1, 1, 9), False),
    ],
)
def test_whether_an_event_comes_behind_others(taken: list[Ticks], ticks: Ticks, is_behind: bool) -> None:
    assert after(*taken).is_behind(ticks) is is_behind


def test_what_is_saved_is_gone_on_from() -> None:
    reached, other = after((2, 1, 5, 9), (2, 3, 7, 8)), Reached()  # the second one is late
    assert reached.saved() == [2, 5, 9]
    other.resume(reached.saved())
    other.resume([])
    assert (other.epoch, other.ticks) == (2, [5, 9])
    assert Reached().saved() == []


def tick(module: OrderingModule, topic: int, number: int, *ticks: int, deps: tuple[int, ...] = ()) -> list[str]:
    return seen(module.receive(topic, number, list(deps), None, 1, 0.0, ticks=ticks))


def test_a_late_event_moves_no_clock_but_its_own() -> None:
    module = new_reader("tag", a=0, b=0)
    assert tick(module, 1, 1, 1, 1, 9) == ["1:1"]
    assert tick(module, 2, 2, 1, 1, 8, deps=(1, 3)) == ["2:2 late"]
    assert dict(module.clock) == {1: 1, 2: 2}
    assert tick(module, 1, 2, 1, 1, 10) == ["1:2"]
    assert tick(module, 2, 1, 1, 1, 7) == ["2:1 late"]


def test_strict_readers_do_not_look_at_ticks() -> None:
    module = new_reader(a=0, b=0)
    assert tick(module, 1, 1, 1, 1, 9) + tick(module, 2, 1, 1, 1, 8) == ["1:1", "2:1"]


def test_what_a_log_has_is_judged_by_its_ticks() -> None:
    module = new_reader("tag", a=0, b=0)
    module.receive(1, 1, [], None, 1, 0.0, ticks=(1, 1, 9))
    found = [Found(1, [], "x", 1, (1, 1, 8)), Found(2, [], "y", 1, (1, 1, 10))]
    assert seen(module.fetched(2, [1, 2], 2, found, 0.0)) == ["2:1 late", "2:2"]


def test_topics_that_begin_anew_stay_behind_what_was_reached_and_another_domain_does_not() -> None:
    module = new_reader("tag", a=0, b=0)
    assert tick(module, 1, 1, 1, 1, 9) == ["1:1"]
    module.expired([2], 0.0)
    module.subscribed([start_of(2, 4)], 0.0, filters=False)
    assert tick(module, 2, 5, 1, 1, 8) == ["2:5 late"]
    module.other_domain(0.0)
    module.subscribed([start_of(2, 0)], 0.0, filters=False)
    assert tick(module, 2, 1, 1, 1, 1) == ["2:1"]


def test_a_timestamp_without_ticks_counts_as_before_until_one_has_some() -> None:
    module = new_reader("tag", a=0, b=0)
    assert get(module, 2, 1) == ["2:1"]
    assert tick(module, 1, 1, 1, 1, 9) == ["1:1"]
    assert get(module, 2, 2) == ["2:2 late"]


def room(*waiting: Ticks) -> WaitingRoom:
    made = WaitingRoom(has_limits=True)
    for number, ticks in enumerate(waiting, start=1):
        entry = Sequenced(1, number, [], None, 1, 0.0)
        entry.ticks = ticks
        made.put(entry)
    return made


@pytest.mark.parametrize(
    ("waiting", "ticks", "first"),
    [
        ([(1, 1, 5), (1, 1, 3)], (1, 1, 6), 2),
        ([(1, 1, 5), (1, 1, 3)], (1, 1, 3), 0),
        ([(1, 1, 5, 2), (1, 1, 3)], (1, 3, 9, 3), 1),  # below its home it has no tick of its own
        ([(1, 3, 5, 2)], (1, 1, 9), 0),
        ([(2, 1, 5), (1, 3, 0, 9)], (2, 1, 4), 2),
        ([(2, 1, 5)], (1, 1, 9), 0),
        ([(1, 1, 5)], (), 0),
        ([()], (1, 1, 9), 0),
    ],
)
def test_which_of_the_waiting_events_comes_before_another(waiting: list[Ticks], ticks: Ticks, first: int) -> None:
    entry = Sequenced(2, 1, [], None, 1, 0.0)
    entry.ticks = ticks
    found = room(*waiting).before(entry)
    assert (found.number if found is not None else 0) == first


def test_events_that_have_left_are_not_found_and_not_kept() -> None:
    made = room(*((1, 1, number) for number in range(1, 1001)))
    last = Sequenced(2, 1, [], None, 1, 0.0)
    last.ticks = (1, 1, 5000)
    for number in range(1, 1000):
        entry = made.get(1, number)
        assert entry is not None
        made.remove(entry)
    found = made.before(last)
    assert found is not None
    assert found.number == 1000
    assert sum(map(len, made._by_ticks._heaps)) < 200


@pytest.mark.parametrize("bound", [Bounded(buffer=2), Bounded(buffer=None, max_wait=5.0)])
def test_forced_events_leave_in_the_order_of_their_ticks(bound: Bounded) -> None:
    """Whichever of them came first, and over two stages."""
    module = new_reader(bound, a=0, b=0, c=0)
    for topic, ticks in ((1, (1, 1, 9)), (2, (1, 1, 4, 6)), (3, (1, 3, 0, 5))):
        assert tick(module, topic, 2, *ticks) == [] or topic == 3
    assert seen(module.tick(6.0)) in ([], ["3:2", "2:2", "1:2"])
    assert dict(module.clock) == {1: 2, 2: 2, 3: 2}
    assert module.counts.duplicates == 0


# -- durable readers (R18) ---------------------------------------------------------------------------------------------


def test_the_bottom_stage_keeps_what_was_reached() -> None:
    cluster = cluster_of({"a": 0}, "d", "p")
    cluster.subscribe("d", "a", bounded=True, durable=True)
    for _ in range(3):
        cluster.stamp("p", "a")
    tick = cluster.stages[0]._state.tick

    def save(request: int, *reached: int) -> None:
        assert cluster.step(0, SaveNumbers("d", 1, request, [1, 1], list(reached))) == [Done(request)]
        cluster.stages = [Stage.restore(each.snapshot()) for each in cluster.stages]

    def saved() -> list[int]:
        return cluster.stages[0]._state.clocks["d"].reached

    save(1, 1, tick, 7, 8)
    assert saved() == [1, tick]  # there are no three stages
    save(2, 1, tick + 1)  # nothing has passed since
    save(3, 2, 1)  # nor has the order changed
    save(4)
    assert saved() == [1, tick]
    save(5, 1, tick - 1)  # the client had believed a forged stamp
    cluster.open("d", 2)
    cluster.versions["d"] = 0
    answer = cluster.subscribe("d", "a", bounded=True, durable=True, incarnation=2)
    assert answer.reached == [1, tick - 1]
    assert cluster.subscribe("d", "a", bounded=True, incarnation=2).reached == []


def test_a_durable_client_saves_what_its_application_was_done_with_and_goes_on_from_there() -> None:
    hand = Hand("tag", durable=True, times=EndpointTimes(save_delay=0.2))
    hand.subscribe("t/1", "t/2")
    for topic, number, ticks in ((1, 1, (1, 1, 3)), (2, 1, (1, 1, 4)), (1, 3, (1, 1, 9))):
        hand.arrive_with(TotalStamp(DOMAIN, topic, number, [], ticks), topic)
    first, second, _ = hand.told()
    hand.endpoint.done_with(first)
    hand.endpoint.done_with(second)
    hand.time += 0.2
    hand.endpoint.tick()
    (frame,) = hand.sent(SaveClock)
    assert (frame.numbers, frame.reached) == ([1, 1, 2, 1], [1, 4])

    again = Hand("tag", durable=True)
    again.subscribe("t/1", "t/2")
    again.endpoint.ordering.resume(frame.reached)
    again.arrive_with(TotalStamp(DOMAIN, 2, 2, [], (1, 1, 2)), 2)
    again.arrive_with(TotalStamp(DOMAIN, 1, 2, [], (1, 1, 5)), 1)
    assert again.words() == ["t/2 2 late", "t/1 2 in_order"]


def test_ticks_of_events_that_nobody_is_done_with_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "MAX_GIVEN", 2)
    hand = Hand("tag", durable=True)
    hand.subscribe("t/1")
    for number in range(1, 5):
        hand.arrive_with(TotalStamp(DOMAIN, 1, number, [], (1, 1, 10 * number)), 1)
    clock = hand.endpoint.durable
    assert clock is not None
    assert (len(clock._given), clock._reached.saved()) == (2, [1, 20])


def test_the_answer_to_a_subscribe_tells_where_a_durable_client_was() -> None:
    hand = Hand("tag", durable=True)
    change = hand.endpoint.change([])
    hand.endpoint.broker_answered(change)
    subscriber = hand.endpoint.subscriber
    subscriber.begin([])
    subscriber.completed(Subscribed(1, [], more=True, reached=[2, 7]))
    subscriber.completed(Subscribed(1, [], more=False))
    assert subscriber.reached == [2, 7]
