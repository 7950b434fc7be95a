"""R12: how long a subscription lives, what its end leaves behind, and what a client does that is not answered."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from tests.core.cluster import SPACE, Cluster, arrive, base_of, entries, reader, seen

from inorder.endpoint.lease import MAX_ASKED, Lease
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import OrderingTimes
from inorder.endpoint.publications import Publication, PublicationState
from inorder.endpoint.publisher import Publisher
from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.names import exact
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    Frame,
    NewEvent,
    NumberAnswer,
    Numbers,
    NumberState,
    Opened,
    Settled,
    SpaceFilter,
    StampedEvent,
    Subscribed,
    Timestamps,
    TopicInfo,
    TopicStart,
)
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Configure,
    Create,
    LeaveSession,
    OpenSession,
    RestartTimers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.rides import ExpireRide
from inorder_worker.sequencer.stage import Stage

TIMEOUT = 30_000
PLACES = [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "b": 0}, {"a": 0, "b": 2}]


def _cluster(topics: dict[str, int], *clients: str, **settings: Any) -> Cluster:
    cluster = Cluster(topics, settings=StageSettings(**{"linger_ms": 0, **settings}))
    for client in ("p", "q", *clients):
        cluster.open(client)
    return cluster


def _leave(cluster: Cluster, client: str, incarnation: int = 1) -> None:
    for stage in range(len(cluster.stages)):
        cluster.step(stage, LeaveSession(client, incarnation))


def _pass(cluster: Cluster, ms: int) -> None:
    """Time passes; what is due acts, everywhere, and so does the end of a linger that is due at once."""
    cluster.now += ms
    for _ in range(2):
        for stage in range(len(cluster.stages)):
            cluster.step(stage, Tick())
        cluster.run()


def _opened(cluster: Cluster, client: str, incarnation: int = 1) -> list[Opened]:
    """Let a client connect; return what the stages say, the top one first."""
    frames = [
        each for stage in range(len(cluster.stages)) for each in cluster.step(stage, OpenSession(client, incarnation))
    ]
    return [each for each in frames if isinstance(each, Opened)]


def _is_pair(cluster: Cluster) -> bool:
    """Tell whether a and b count as shared by two subscriptions, once what left the group was carried."""
    cluster.stamp("q", "b")
    x = cluster.stamp("p", "a")
    return entries(cluster.stamp("q", "b")).get(cluster.ids["a"]) == x.number


# -- the stages: when a subscription ends ----------------------------------------------------------------------


def test_r12_a_subscription_lives_while_its_client_is_connected() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    _pass(cluster, 10 * TIMEOUT)
    assert _is_pair(cluster)


@pytest.mark.parametrize("places", PLACES)
def test_r12_it_ends_when_its_client_was_away_for_the_timeout(places: dict[str, int]) -> None:
    cluster = _cluster(places, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT - 1)
    assert _is_pair(cluster)
    assert cluster.stages[-1].next_deadline() == cluster.now + 1
    _pass(cluster, 1)
    assert not _is_pair(cluster)
    assert [each.version for each in _opened(cluster, "A")] == [0] * len(cluster.stages)


def test_r12_one_that_is_back_in_time_is_not_expired_and_is_told_its_version() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT - 1)
    assert _opened(cluster, "A") == [Opened(stage, 0, True, 1, TIMEOUT) for stage in (0, 1)]
    _pass(cluster, 10 * TIMEOUT)
    assert _is_pair(cluster)
    assert [each.version for each in _opened(cluster, "A", 2)] == [0, 0], "that is of another process"


def test_r12_a_durable_subscription_stays() -> None:
    cluster = _cluster({"a": 0}, "A")
    filters = [SpaceFilter("m", exact("a"))]
    cluster.step(0, ChangeSubscription("A", 1, 1, filters, False, durable=True))
    _leave(cluster, "A")
    _pass(cluster, 100 * TIMEOUT)
    assert _opened(cluster, "A") == [Opened(0, 0, False, 1, TIMEOUT)]


def test_r12_the_end_of_an_older_subscription_does_not_end_the_one_after_it() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.change("A", "b", "a")
    stage = cluster.stages[0]
    for ride in (ExpireRide("A", 1, 1), ExpireRide("A", 2, 2), ExpireRide("C", 1, 1)):
        stage._deliver(ride, 0)
    assert _is_pair(cluster)
    stage._deliver(ExpireRide("A", 1, 2), 0)
    _pass(cluster, 0)
    assert not _is_pair(cluster)


def test_r12_only_the_bottom_stage_decides() -> None:
    """A client that is cut from an upper stage's worker only is heard by the bottom stage."""
    cluster = _cluster({"a": 0, "b": 1}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.step(0, LeaveSession("A", 1))
    _pass(cluster, 2 * TIMEOUT)
    assert _is_pair(cluster)


def test_r12_a_replaced_process_may_notify_while_its_lease_lasts_so_its_topics_count_as_long() -> None:
    """However short the linger is: the old process may be cut from the workers and not know of the new one."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", linger_ms=1)
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.open("A", 2)
    cluster.change("A", "b", version=1, incarnation=2)
    _pass(cluster, TIMEOUT - 1)
    assert _is_pair(cluster)
    _pass(cluster, 1)
    assert not _is_pair(cluster)


def test_r12_a_replaced_process_that_left_no_successor_expires() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.open("A", 2)
    _pass(cluster, TIMEOUT)
    assert not _is_pair(cluster)


def test_r12_timers_start_anew_after_a_recovery() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT - 1)
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    cluster.step(0, RestartTimers())
    _pass(cluster, TIMEOUT - 1)
    assert _is_pair(cluster)
    _pass(cluster, 1)
    assert not _is_pair(cluster)


def test_r12_a_client_counts_on_the_timeout_that_it_was_told() -> None:
    """The worker is started again with a shorter one; a client that is cut from it does not know."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.step(0, Configure(StageSettings(session_timeout_ms=1_000, publisher_grace_ms=1_000, linger_ms=0)))
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT - 1)
    assert _is_pair(cluster)
    _pass(cluster, 1)
    assert not _is_pair(cluster)


def test_r12_a_stage_that_was_read_again_ends_subscriptions_in_the_same_order() -> None:
    """The rides must be the same, number by number: the stage above may have some of them."""
    cluster = _cluster({"a": 0, "b": 1}, "C", "A", "B")
    cluster.all_subscribe(("A", "B", "C"), "a", "b")
    for client in ("B", "C", "A"):
        _leave(cluster, client)
    cluster.now += TIMEOUT
    again = Stage.restore(cluster.stages[1].snapshot())
    cluster.step(1, Tick())
    again.step(Tick(), cluster.now)
    assert [each.ride for each in again.unacknowledged(0)] == [
        each.ride for each in cluster.stages[1].unacknowledged(0)
    ]
    assert [each.client_id for each in cluster.waiting(1, 0) if isinstance(each, ExpireRide)] == ["B", "C", "A"]


# -- the stages: what an end leaves behind (R10) ---------------------------------------------------------------


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("keeps_b", [True, False])
def test_r12_the_first_timestamp_after_an_end_still_carries_what_left(places: dict[str, int], keeps_b: bool) -> None:
    """A was notified of x, has left a and keeps b; y on b must still come after x at B. Where nothing is left of A,
    there is nobody who could see them the other way round."""
    cluster = _cluster(places, "A", "B")
    cluster.subscribe("A", "a", "b")
    answer = cluster.subscribe("B", "a", "b")
    x = cluster.stamp("p", "a")
    if keeps_b:
        cluster.subscribe("A", "b")
    else:
        _leave(cluster, "A")
    _pass(cluster, TIMEOUT)
    y = cluster.stamp("q", "b")
    assert [entries(each) for each in (y, cluster.stamp("q", "b"))] == [{x.topic: 1} if keeps_b else {}, {}]
    module = reader(answer)
    assert (arrive(module, y) == []) == keeps_b


@pytest.mark.parametrize("places", PLACES)
def test_r12_the_topics_of_an_expired_subscription_linger(places: dict[str, int]) -> None:
    """So do those that lingered already, to their own end; nothing is left of the subscription then."""
    cluster = _cluster(places, "A", "B", linger_ms=100_000)
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.subscribe("A", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT)
    assert [each.version for each in _opened(cluster, "A")] == [0] * len(cluster.stages)
    _pass(cluster, 100_000 - TIMEOUT - 1)
    assert _is_pair(cluster)
    _pass(cluster, 1)
    assert not _is_pair(cluster)
    _pass(cluster, TIMEOUT)
    assert cluster.stages[-1]._state.lingers.next_deadline() is None
    assert [each.client_id for stage in cluster.stages for each in stage._state.overlaps] == ["B"] * len(cluster.stages)


def test_r12_who_comes_back_for_other_topics_is_still_the_subscriber_it_was() -> None:
    """Its old topic and the new one are a pair, though it never had both."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", linger_ms=60_000)
    cluster.subscribe("A", "a")
    cluster.subscribe("B", "a", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT)
    cluster.open("A", 2)
    cluster.change("A", "b", version=1, incarnation=2)
    assert _is_pair(cluster)
    _pass(cluster, 60_000)
    assert not _is_pair(cluster)


def test_r12_a_topic_that_is_taken_again_after_an_expiry_does_not_end_with_the_linger() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B", linger_ms=60_000)
    cluster.all_subscribe(("A", "B"), "a", "b")
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT)
    cluster.open("A")
    cluster.subscribe("A", "a", "b", anew=True)
    _pass(cluster, 60_000)
    assert _is_pair(cluster)


# -- the stages: sessions (R1) ---------------------------------------------------------------------------------


def test_r12_the_session_of_a_client_that_is_gone_for_good_is_dropped() -> None:
    cluster = _cluster({"a": 0, "b": 1})
    cluster.stamp("p", "a")
    _leave(cluster, "p")
    _pass(cluster, TIMEOUT - 1)
    assert all(("p", 1) in stage._state.sessions for stage in cluster.stages)
    _pass(cluster, 1)
    assert not any(("p", 1) in stage._state.sessions for stage in cluster.stages)
    assert ("q", 1) in cluster.stages[0]._state.sessions


def test_r1_an_event_id_of_a_dropped_session_never_gets_a_second_number() -> None:
    cluster = _cluster({"a": 0})
    cluster.stamp("p", "a")
    _leave(cluster, "p")
    _pass(cluster, TIMEOUT)
    assert cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1)])) == [Timestamps(0, 0, [], [1])]
    assert cluster.step(0, OpenSession("p", 1, first=2)) == [Opened(0, 0, False, 0, TIMEOUT)]
    again = cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1), NewEvent(2, 1)]))
    answers = [each for each in again if isinstance(each, Timestamps)]
    assert [number for each in answers for number in each.forgotten] == [1]
    assert [(event.counter, event.number) for each in answers for event in each.events] == [(2, 2)]


def test_r1_a_session_that_only_came_up_the_belt_does_not_vouch_for_earlier_requests() -> None:
    """It was dropped at the upper stage, and made again there by a request from below; then its client comes back."""
    cluster = _cluster({"a": 0, "b": 1})
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    _pass(cluster, TIMEOUT)
    cluster.stamp("p", "a", at=1)
    cluster.step(0, OpenSession("p", 1))
    assert cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1)])) == [Timestamps(0, 0, [], [1])]


class _Publishing:
    """A publisher that is connected to stages, one by one."""

    def __init__(self, cluster: Cluster, client: str, **topics: int) -> None:
        self.cluster, self.client, self.publisher = cluster, client, Publisher()
        self.publisher.named(TopicInfo(cluster.ids[name], SPACE, name, stage) for name, stage in topics.items())

    def publish(self, *names: str) -> list[Publication]:
        """Publish and ask for timestamps; what is answered at once is taken."""
        made = [self.publisher.publish((SPACE, name), name) for name in names]
        for frame in self.publisher.requests():
            self.take(self.cluster.step(frame.stage, Create(self.client, 1, frame.low, frame.events)))
        return made

    def take(self, frames: list[Frame]) -> list[Publication]:
        """Take answers; return what is forgotten."""
        answers = [self.publisher.answered(frame) for frame in frames if isinstance(frame, Timestamps)]
        return [each for answer in answers for each in answer.forgotten]

    def cut(self, stage: int, ms: int) -> None:
        """It is cut from one stage for that long, while the others hear it."""
        self.cluster.step(stage, LeaveSession(self.client, 1))
        self.publisher.lost(stage)
        self.cluster.now += ms
        self.cluster.step(stage, Tick())


@pytest.mark.parametrize("above", [0, 1], ids=["at its home", "on its way"])
def test_r19_a_request_on_a_link_for_longer_than_its_session_lives_is_never_numbered(above: int) -> None:
    """y rides up, and leaves it to the stage of x to say that it follows x. A worker that is cut from its clients and
    from the others, and not from the store, gets y when it has dropped the session and knows nothing of x; y's
    timestamp would not name x, and a subscriber that alone has both topics could see y first."""
    cluster = _cluster({"x": above, "y": 0, "v": 2})
    p = _Publishing(cluster, "p", x=above, y=0, v=2)
    (x,) = p.publish("x")
    assert (x.state, x.number) == (PublicationState.STAMPED, 1)
    _, y = p.publish("v", "y")  # y enters behind v, below its stage
    p.cut(above, TIMEOUT)
    assert p.take(cluster.run()) == [y]
    assert cluster.ask("y", 1, 1).answers[0].state is NumberState.UNKNOWN
    cluster.step(above, OpenSession("p", 1, first=4))
    _, again = p.publish("v", "y")  # p names x itself now
    p.take(cluster.run())
    assert (again.number, again.after) == (1, [cluster.ids["x"], 1])


def test_r19_so_is_one_that_relies_on_another_that_was_on_its_way() -> None:
    """x, too, was in flight when y was asked for: it comes in time, y does not."""
    cluster = _cluster({"x": 0, "y": 0, "v": 1})
    p = _Publishing(cluster, "p", x=0, y=0, v=1)
    _, x, y = p.publish("v", "x", "y")
    cluster.move(1, 0)
    p.take(cluster.move(0, 1))
    p.cut(0, 2 * TIMEOUT)
    assert p.take(cluster.run()) == [y]
    assert x.state is not PublicationState.DONE


def test_r19_one_that_relies_on_nothing_that_was_dropped_is_numbered() -> None:
    """Its client was cut for as long; but what y follows came with it."""
    cluster = _cluster({"x": 0, "y": 0, "v": 1}, "A")
    cluster.subscribe("A", "x", "y", "v")
    p = _Publishing(cluster, "p", x=0, y=0, v=1)
    p.publish("x", "y")
    p.cut(0, TIMEOUT)
    _, x, y = p.publish("v", "x", "y")
    assert p.take(cluster.run()) == []
    assert (x.number, y.number) == (2, 2)
    assert dict(pairs(y.deps))[cluster.ids["x"]] == 2


def test_r16_a_request_that_comes_up_after_its_session_is_gone_is_given_up_in_the_end() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "A")
    cluster.request("p", "a", at=1)
    _leave(cluster, "p")
    cluster.now += TIMEOUT
    for stage in (0, 1):
        cluster.step(stage, Tick())
    cluster.run()
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.PENDING
    _pass(cluster, 10_000)
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.ABANDONED


def test_r16_who_confirms_after_its_session_was_dropped_hears_that_the_number_was_given_up() -> None:
    cluster = _cluster({"a": 0})
    cluster.stamp("p", "a")
    _leave(cluster, "p")
    _pass(cluster, TIMEOUT)
    cluster.open("p")
    assert cluster.settle("p", "a", confirmed=[1]) == [Settled(0, 0, 1, [1, 1])]


def test_r19_after_a_connection_was_lost_requests_carry_what_its_stage_knew() -> None:
    publisher = Publisher()
    publisher.named([TopicInfo(1, "m", "a", 0), TopicInfo(2, "m", "b", 0)])
    publisher.publish(("m", "a"), None)
    publisher.requests()
    publisher.answered(Timestamps(0, 0, [StampedEvent(1, 1, 7, [])]))
    publisher.lost(0)
    publisher.publish(("m", "b"), None)
    publisher.publish(("m", "a"), None)
    publisher.publish(("m", "b"), None)
    (frame,) = publisher.requests()
    assert [each.after for each in frame.events] == [[1, 7], [], []]


# -- the client: the lease -------------------------------------------------------------------------------------


def test_r12_a_lease_lasts_half_a_timeout_from_when_the_question_left() -> None:
    lease = Lease()
    assert (lease.until, lease.pause) == (inf, None)
    lease.needs([0])
    assert lease.until == -inf
    lease.opened(0, 30.0, greeted=100.0)
    assert (lease.until, lease.pause) == (115.0, 5.0)
    request = lease.ask(110.0)
    lease.ask(114.0)
    lease.answered(request, [0])
    assert lease.until == 125.0
    lease.answered(99, [0])
    lease.opened(0, 30.0, greeted=90.0)  # an answer that was long on its way
    assert lease.until == 125.0
    lease.needs(None)
    assert lease.until == inf


def test_r12_every_stage_of_the_subscription_must_answer_and_the_bottom_one() -> None:
    lease = Lease()
    lease.bottom = 2
    for stage in range(3):
        lease.opened(stage, 30.0, 100.0)
    lease.needs([0])
    request = lease.ask(110.0)
    lease.answered(request, [0, 1])
    assert lease.until == 115.0
    lease.answered(request, [2])
    assert lease.until == 125.0
    lease.completed(112.0)
    assert lease.until == 127.0


def test_r12_the_shortest_timeout_sets_the_pace_and_each_stage_has_its_own() -> None:
    lease = Lease()
    lease.bottom = 1
    lease.needs([0])
    lease.opened(0, 6.0, 100.0)
    lease.opened(1, 30.0, 100.0)
    assert (lease.until, lease.pause) == (103.0, 1.0)


def test_r12_a_stage_that_has_not_told_its_timeout_yet_counts_as_the_others_do() -> None:
    """A subscription has passed it; its client connects to it only now that it knows that."""
    lease = Lease()
    lease.bottom = 1
    lease.opened(1, 30.0, 100.0)
    lease.needs([0])
    lease.completed(101.0)
    assert lease.until == 116.0
    lease.opened(0, 6.0, 111.0)
    assert lease.until == 114.0


def test_questions_that_are_never_answered_are_forgotten() -> None:
    lease = Lease()
    lease.needs([0])
    lease.opened(0, 2.0, 0.0)
    first = lease.ask(1.0)
    for at in range(MAX_ASKED):
        lease.ask(2.0 + at)
    lease.answered(first, [0])
    assert lease.until == 1.0


# -- the client: holding and tagging ---------------------------------------------------------------------------


def _counter_example() -> tuple[Cluster, Subscribed, StampedEvent, StampedEvent]:
    """A=B={a,b}; A is cut from the workers only and expires; x on a and y on b get no dependencies (the first events
    after the end still carry what left, so they come before). Both go on to get everything from their brokers."""
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    answer = cluster.subscribe("A", "a", "b")
    assert cluster.subscribe("B", "a", "b").topics == answer.topics
    _leave(cluster, "A")
    _pass(cluster, TIMEOUT)
    cluster.stamp("p", "a"), cluster.stamp("q", "b")
    for each in answer.topics:
        each.start = 1
    x, y = cluster.stamp("p", "a"), cluster.stamp("q", "b")
    assert (entries(x), entries(y)) == ({}, {})
    return cluster, answer, x, y


def test_r12_counter_example_a_strict_reader_holds_and_begins_anew() -> None:
    cluster, answer, x, y = _counter_example()
    cut, other = reader(answer), reader(answer)
    cut.lapse()
    assert arrive(other, y) + arrive(other, x) == ["2:2", "1:2"]
    assert arrive(cut, x) + arrive(cut, y) == []
    assert cut.waiting == 2

    later = cluster.stamp("p", "a")
    assert arrive(cut, later) == []
    assert [each.version for each in _opened(cluster, "A")] == [0]
    assert seen(cut.expired([1, 2], 1.0)) == []
    anew = cluster.subscribe("A", "a", "b")
    last = cluster.stamp("q", "b")
    assert arrive(cut, last) == []
    cut.renewed(1.0)
    assert seen(cut.subscribed(anew.topics, 2.0, filters=False)) == [
        "gap 1:2-3 expired",
        "gap 2:2-2 expired",
        "2:3",
    ]
    assert (cut.waiting, cut.is_idle) == (0, True)


@pytest.mark.parametrize("mode", ["tag", Bounded(buffer=3)])
def test_r12_counter_example_a_bounded_reader_tags(mode: Any) -> None:
    _, answer, x, y = _counter_example()
    cut = reader(answer, mode)
    cut.lapse()
    assert arrive(cut, x) + arrive(cut, y) == ["1:2 late", "2:2 late"]
    cut.renewed(1.0)
    assert arrive(cut, StampedEvent(3, 1, 3, [2, 2])) == ["1:3"]


def test_r12_what_was_held_goes_when_the_stages_answer_again() -> None:
    module = OrderingModule()
    _begin(module, {1: 0, 2: 0})
    module.lapse()
    assert _get(module, 2, 1, [1, 1]) + _get(module, 1, 1) + _get(module, 1, 2) + _get(module, 2, 2) == []
    assert seen(module.renewed(1.0)) == ["1:1", "2:1", "1:2", "2:2"]
    assert _get(module, 1, 3) == ["1:3"]
    assert module.waiting == 0


def test_r12_nothing_is_skipped_while_events_are_held() -> None:
    """A void takes its turn like an event: else what comes after it would be before what is held."""
    module = OrderingModule()
    _begin(module, {1: 0, 2: 0})
    _get(module, 1, 2)
    module.lapse()
    assert seen(module.answered(Numbers(1, 1, [NumberAnswer(1, NumberState.VOID)]), 1.0)) == []
    assert module.clock == {1: 0, 2: 0}
    assert seen(module.renewed(1.0)) == ["1:2"]


def test_r12_what_is_left_while_it_is_held_never_goes() -> None:
    module = OrderingModule()
    _begin(module, {1: 0, 2: 0})
    module.lapse()
    _get(module, 1, 1)
    assert module.clock == {1: 0, 2: 0}
    module.unsubscribed([1], 1.0)
    assert seen(module.renewed(1.0)) == []
    assert module.clock == {2: 0}


def test_r12_what_is_held_is_bounded_and_what_is_given_up_is_let_go_of() -> None:
    module = OrderingModule(times=OrderingTimes(max_waiting=2))
    _begin(module, {1: 0, 2: 0, 3: 0})
    module.lapse()
    contents = [_Content() for _ in range(3)]
    for topic, content in enumerate(contents, start=1):
        module.receive(topic, 1, [], content, 1, 0.0)
    assert (module.waiting, module.counts.overflow) == (2, 1)
    assert not any(each.content is contents[2] for each in module.describe()["on_hold"])
    assert seen(module.renewed(1.0)) == ["1:1", "2:1"]


def test_r12_what_waits_beyond_the_new_start_is_kept() -> None:
    module = OrderingModule()
    _begin(module, {1: 0, 2: 4})
    _get(module, 1, 5, [2, 5])
    _get(module, 1, 6)
    module.expired([1, 2], 1.0)
    assert _get(module, 1, 7) == []
    anew = module.subscribed([_start(1, 5, [2, 3]), _start(2, 4)], 2.0, filters=False)
    assert seen(anew) == ["gap 1:1-5 expired", "1:6", "1:7"]
    assert module.counts.before == 1


def test_r12_a_topic_that_is_left_meanwhile_has_no_gap() -> None:
    module = OrderingModule()
    _begin(module, {1: 0, 2: 0})
    module.expired([1, 2], 1.0)
    module.unsubscribed([1], 2.0)
    assert seen(module.subscribed([_start(2, 3)], 2.0, filters=False)) == ["gap 2:1-3 expired"]


def test_r12_numbers_that_were_jumped_are_reported_before_their_topic_begins_anew() -> None:
    module = OrderingModule("tag")
    _begin(module, {1: 0})
    assert _get(module, 1, 4) == ["1:4"]
    assert seen(module.expired([1], 1.0)) == ["gap 1:1-3 skipped"]
    assert seen(module.subscribed([_start(1, 6)], 2.0, filters=False)) == ["gap 1:5-6 expired"]


class _Content:
    """Something that only identity tells apart."""


def _start(topic: int, start: int, base: list[int] | None = None) -> TopicStart:
    return TopicStart(TopicInfo(topic, "m", f"t{topic}", 0), start, base or [])


def _begin(module: OrderingModule, starts: dict[int, int]) -> None:
    module.subscribed([_start(*each) for each in starts.items()], 0.0, filters=False)


def _get(module: OrderingModule, topic: int, number: int, deps: list[int] | None = None) -> list[str]:
    return seen(module.receive(topic, number, deps or [], None, 1, 0.0))


# -- the client: subscribing anew ------------------------------------------------------------------------------


def test_r12_a_subscription_is_lost_where_the_bottom_stage_has_none_of_it() -> None:
    subscriber = Subscriber(bounded=False)
    assert not subscriber.is_lost(version=0)
    subscriber.begin([SpaceFilter("m", exact("t1"))])
    assert subscriber.is_lost(version=0)  # who knows what became of it
    subscriber.completed(Subscribed(1, [_start(1, 3)]))
    assert not subscriber.is_lost(version=1)
    assert subscriber.is_lost(version=0)


def test_r12_a_change_on_its_way_begins_anew_under_a_new_version() -> None:
    """Its old answer may still come, with clocks from before the end."""
    subscriber = Subscriber(bounded=False)
    subscriber.begin([SpaceFilter("m", exact("t1"))])
    subscriber.begin_anew()
    request = subscriber.request()
    assert request is not None
    assert (request.version, request.anew) == (2, True)
    assert subscriber.completed(Subscribed(1, [_start(1, 3)])) is None
    assert subscriber.completed(Subscribed(2, [_start(1, 5)])) == [_start(1, 5)]


def test_r13_a_topic_made_while_the_subscription_was_gone_begins_where_the_answer_says() -> None:
    subscriber = Subscriber(bounded=False)
    subscriber.begin([SpaceFilter("m", exact("t1"))])
    subscriber.completed(Subscribed(1, [_start(1, 3)]))
    subscriber.expired()
    subscriber.begin_anew()
    assert subscriber.completed(Subscribed(2, [_start(1, 5), _start(2, 9)])) == [_start(1, 5), _start(2, 9)]


def test_r8_who_begins_anew_keeps_nothing_that_a_topic_could_begin_behind() -> None:
    cluster = _cluster({"a": 0, "b": 0}, "A", "B")
    cluster.all_subscribe(("A", "B"), "a", "b")
    cluster.stamp("p", "a")
    cluster.stamp("q", "b")
    filters = [SpaceFilter("m", exact(name)) for name in ("a", "b")]
    for version in (2, 3):
        (answer,) = cluster.step(0, ChangeSubscription("A", 1, version, filters, False, anew=version == 3))
        assert isinstance(answer, Subscribed)
        assert (base_of(answer, 1), base_of(answer, 2)) == ({}, {})
    (again,) = cluster.step(0, ChangeSubscription("A", 1, 3, filters, False))
    assert isinstance(again, Subscribed)
    assert base_of(again, 2) == {1: 1, 2: 1}, "which topics are new to A is not known here, where it only asks again"
