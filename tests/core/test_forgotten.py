"""R1: what is forgotten, and what is not. A stage that meets a client without a session has dropped it, or has never
had it; in the one case an event id may have a number here, in the other it is on its way here at most."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.core.cluster import SPACE, Cluster, entries, stamps

from inorder.endpoint.publisher import Publisher
from inorder.endpoint.request_history import RequestHistory
from inorder.protocol.wire import Frame, NewEvent, Opened, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer import sessions
from inorder_worker.sequencer.commands import Create, Deliver, LeaveSession, OpenSession, StageSettings, Tick
from inorder_worker.sequencer.rides import FlushRide, MarkRide, SwitchRide
from inorder_worker.sequencer.stage import Stage

KEPT = 600_000
SETTINGS = StageSettings(session_timeout_ms=20_000, ended_kept_ms=KEPT)


def _cluster(topics: dict[str, int], *opened: int, settings: StageSettings = SETTINGS) -> Cluster:
    """Stages, and a client that is connected to some of them."""
    cluster = Cluster(topics, settings=settings)
    for stage in opened:
        cluster.step(stage, OpenSession("p", 1, recent=1))
    return cluster


def _drop(cluster: Cluster, at: int) -> None:
    cluster.step(at, LeaveSession("p", 1))
    cluster.now += 20_000
    cluster.step(at, Tick())
    assert ("p", 1) not in cluster.stages[at]._state.sessions


def _forgotten(frames: Iterable[Frame]) -> list[int]:
    return [counter for frame in frames if isinstance(frame, Timestamps) for counter in frame.forgotten]


# -- who was never away ------------------------------------------------------------------------------------------


def test_a_hello_may_overtake_requests_that_ride_up() -> None:
    """p asks stage 1 for a timestamp on a, and connects to stage 0 before the request has ridden there."""
    cluster = _cluster({"a": 0, "b": 1}, 1)
    cluster.request("p", "b")
    cluster.request("p", "a", at=1)
    cluster.step(0, OpenSession("p", 1, first=3, anywhere=3, recent=1))
    frames = cluster.run()
    assert (_forgotten(frames), [each.number for each in stamps(frames)]) == ([], [1])


def test_requests_that_were_not_taken_are_asked_of_a_stage_that_was_never_met() -> None:
    """c moves from stage 2 to stage 0 while p, which has never met that, asks for it."""
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, 1, 2)
    cluster.reorder("a c", "b", "")
    assert cluster.request("p", "c") == []  # sealed: not taken
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, recent=1))
    cluster.run()
    assert cluster.request("p", "c", counter=1)[0].number == 1


def test_the_same_when_the_change_is_over() -> None:
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, 1, 2)
    cluster.reorder("a c", "b", "")
    assert cluster.request("p", "c") == []
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, asked_epoch=1, recent=1))
    assert cluster.request("p", "c", counter=1)[0].number == 1


def test_a_number_that_was_given_up_and_is_not_known_any_more_is_abandoned() -> None:
    """p is away for longer than the grace, and not for longer than its session; others publish meanwhile."""
    settings = StageSettings(session_timeout_ms=60_000, number_retention=2)
    cluster = _cluster({"a": 0}, 0, settings=settings)
    cluster.open("q")
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 10_000
    cluster.step(0, Tick())
    for number in (2, 3, 4, 5):
        cluster.stamp("q", "a")
        cluster.settle("q", "a", [number])
    assert not cluster.stages[0].has_number(1, 1)
    cluster.step(0, OpenSession("p", 1, first=2))
    (answer,) = cluster.step(0, Create("p", 1, 0, [NewEvent(1, 1)]))
    assert isinstance(answer, Timestamps)
    assert (answer.forgotten, answer.abandoned) == ([], [1, 1, 1])


def test_what_comes_with_a_topic_to_a_session_that_a_ride_began_is_relied_on() -> None:
    """v rides up from stage 2 and is the first that stage 1 hears of p; then stage 1 gets the topic of x, which is
    older. y relies on stage 1 to say that it follows x (R19)."""
    cluster = _cluster({"y": 0, "v": 1, "x": 2, "w": 2}, 2)
    x = cluster.stamp("p", "x")
    cluster.stamp("p", "v", at=2)
    cluster.reorder("y", "v x", "w")
    cluster.run()
    for name in "rs":
        cluster.subscribe(name, "y", "x")
    asked = NewEvent(3, cluster.ids["y"], [], None, [1, 1])
    cluster.step(2, Create("p", 1, 1, [asked], 2))
    frames = cluster.run()
    assert _forgotten(frames) == []
    assert [entries(each)[cluster.ids["x"]] for each in stamps(frames)] == [x.number]


# -- whose session was dropped -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recent", [0, 1])
def test_what_a_dropped_session_asked_for_is_never_numbered(recent: int) -> None:
    """Whatever its client says."""
    cluster = _cluster({"a": 0}, 0)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    opened, *_ = cluster.step(0, OpenSession("p", 1, first=1 + (not recent), recent=recent))
    assert opened == Opened(0, 0, False, 0, 20_000)
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)]))) == [1]
    assert cluster.request("p", "a", counter=2)[0].number == 2


def test_nor_is_it_when_it_comes_up_from_another_stage() -> None:
    """p asks for it again at stage 1, because the order changed meanwhile or its way is another one now."""
    cluster = _cluster({"a": 0, "b": 1}, 0, 1)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.request("p", "a", at=1, counter=1)
    assert _forgotten(cluster.run()) == [1]
    cluster.request("p", "a", at=1, counter=2)
    assert [each.number for each in stamps(cluster.run())] == [2]


def test_nor_is_it_at_a_stage_to_which_its_topic_moves() -> None:
    """Stage 0 has never met p. What stage 2 has dropped, it is told with the topic."""
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, 2)
    cluster.stamp("p", "c")
    _drop(cluster, at=2)
    cluster.reorder("a c", "b", "")
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=1, anywhere=2, asked_epoch=1, recent=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 3)], 2))) == [1]


def test_a_session_that_comes_with_a_topic_to_where_it_was_dropped_begins_behind_that() -> None:
    cluster = _cluster({"a": 0, "b": 1, "c": 2}, 0, 2)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.reorder("a c", "b", "")
    cluster.run()
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, own=2, recent=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)], 2))) == [1]


def test_it_is_in_the_snapshot() -> None:
    cluster = _cluster({"a": 0}, 0)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    cluster.step(0, OpenSession("p", 1, recent=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)]))) == [1]


# -- for how long ------------------------------------------------------------------------------------------------


def test_what_was_dropped_long_ago_is_not_known_and_what_is_not_recent_is_forgotten() -> None:
    cluster = _cluster({"a": 0}, 0)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.now += KEPT
    cluster.step(0, Tick())
    assert not cluster.stages[0]._state.ended
    cluster.step(0, OpenSession("p", 1, first=3, anywhere=3, recent=2))
    frames = cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1), NewEvent(2, 1)]))
    assert (_forgotten(frames), [each.counter for each in stamps(frames)]) == ([1], [2])


def test_a_stage_that_has_dropped_too_many_sessions_knows_them_for_less_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_ENDED", 1)
    cluster = _cluster({"a": 0}, 0)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.step(0, OpenSession("q", 1, recent=1))
    cluster.stamp("q", "a")
    cluster.step(0, LeaveSession("q", 1))
    cluster.now += 20_000
    cluster.step(0, Tick())
    assert list(cluster.stages[0]._state.ended) == [("q", 1)]
    # it knows of p no more, so p counts by its own word, which is to the safe side
    cluster.step(0, OpenSession("p", 1, first=2, anywhere=2, recent=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)]))) == [1]


def test_a_client_that_never_published_leaves_nothing_behind() -> None:
    cluster = _cluster({"a": 0}, 0)
    _drop(cluster, at=0)
    assert not cluster.stages[0]._state.ended


def test_a_stage_that_has_forgotten_dropped_sessions_believes_its_clients_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has dropped one of which it knows nothing any more."""
    monkeypatch.setattr("inorder_worker.sequencer.sessions.MAX_ENDED", 0)
    cluster = _cluster({"a": 0}, 0)
    cluster.stamp("p", "a")
    _drop(cluster, at=0)
    cluster.now += KEPT // 2
    cluster.step(0, OpenSession("p", 1, first=2, recent=1))
    cluster.step(0, OpenSession("q", 1, first=2, recent=1))
    assert _forgotten(cluster.step(0, Create("p", 1, 1, [NewEvent(1, 1)]))) == [1]
    assert _forgotten(cluster.step(0, Create("q", 1, 1, [NewEvent(1, 1)]))) == [1]
    cluster.now += 1
    cluster.step(0, OpenSession("r", 1, first=2, recent=1))
    assert cluster.request("r", "a", counter=1)[0].number == 2


def test_a_stage_that_gets_a_topic_of_one_that_does_not_know_enough_does_not_either() -> None:
    cluster = Cluster({"a": 0, "b": 1}, settings=SETTINGS)
    assert [each._state.ended_since for each in cluster.stages] == [0, 0]
    cluster.stages[0]._state.ended_since = 1000
    cluster.now += 5000
    cluster.reorder("", "b a")
    cluster.run()
    assert cluster.stages[1]._state.ended_since == 1000


# -- what hellos tell --------------------------------------------------------------------------------------------


def test_counters_are_recent_for_a_while_after_they_were_asked_for_first() -> None:
    history = RequestHistory(recent=100.0)
    history.note(2, 3, now=0.0)
    history.note(0, 5, now=9.0)  # counts as asked for at 0
    history.note(0, 6, now=10.0)
    history.note(1, 7, now=50.0)
    history.note(2, 4, now=60.0)  # once more
    assert history.pairs() == [2, 4, 0, 6, 1, 7]
    assert [history.of(stage) for stage in range(4)] == [6, 7, 4, 0]
    assert [history.recent(now) for now in (99.0, 100.0, 110.0, 149.0, 150.0, 1000.0)] == [1, 6, 7, 7, 8, 8]
    history.note(2, 7, now=1000.0)  # once more
    assert history.recent(1000.0) == 8
    history.note(2, 9, now=1000.0)
    assert history.recent(1000.0) == 8
    history.clear()
    assert (history.pairs(), history.recent(1000.0), history.recent(2000.0)) == ([], 1, 1)


# -- what follows a publication that is forgotten (R19) ------------------------------------------------------------


def _publisher(cluster: Cluster) -> Publisher:
    publisher = Publisher()
    stages = {name: cluster.stages[0].stage_of(topic) for name, topic in cluster.ids.items()}
    publisher.named(TopicInfo(cluster.ids[name], SPACE, name, stage or 0) for name, stage in stages.items())
    return publisher


def _publish(cluster: Cluster, publisher: Publisher, *names: str) -> list[StampedEvent]:
    """Publish events and let everything arrive; return the timestamps."""
    for name in names:
        publisher.publish((SPACE, name), None)
    return _exchange(cluster, publisher)


def _exchange(cluster: Cluster, publisher: Publisher) -> list[StampedEvent]:
    got: list[StampedEvent] = []
    while frames := publisher.requests():
        answers = [
            answer
            for each in frames
            for answer in cluster.step(each.stage, Create("p", 1, each.low, each.events, each.order_epoch))
        ]
        for answer in answers + cluster.run():
            assert isinstance(answer, Timestamps)
            publisher.answered(answer)
            got += answer.events
    return got


def test_r19_what_relied_on_a_forgotten_one_to_name_what_it_follows_is_forgotten_too() -> None:
    """p is connected to stage 1 only, and stage 0 drops the session that p's requests began there. p publishes c, b and
    b: the first b relies on a at stage 0 and is forgotten, and stage 1 named c only to that one. A reader of b and c
    may not see the second b before c."""
    cluster = _cluster({"a": 0, "b": 0, "c": 1}, 1)
    cluster.subscribe("r", "b", "c")
    publisher = _publisher(cluster)
    assert [each.counter for each in _publish(cluster, publisher, "c", "a")] == [1, 2]
    cluster.now += 20_000
    cluster.step(0, Tick())
    assert ("p", 1) not in cluster.stages[0]._state.sessions
    assert [each.counter for each in _publish(cluster, publisher, "c", "b", "b")] == [3]


def test_r19_what_comes_behind_a_forgotten_one_follows_what_that_would_have_followed() -> None:
    """As above; then p publishes d, a, d and b: stage 1 takes the b that was forgotten for the last one before this."""
    cluster = _cluster({"a": 0, "b": 0, "c": 1, "d": 1}, 1)
    cluster.subscribe("r", "b", "c")
    publisher = _publisher(cluster)
    _publish(cluster, publisher, "c", "a")
    cluster.now += 20_000
    cluster.step(0, Tick())
    _publish(cluster, publisher, "c", "b")
    _publish(cluster, publisher, "d", "a")
    _, b = _publish(cluster, publisher, "d", "b")
    assert entries(b)[cluster.ids["c"]] == 2


@pytest.mark.parametrize("forgotten", ["a", "b"])
def test_r19_what_is_published_after_a_connection_waits_for_what_was_asked_for_over_it(forgotten: str) -> None:
    """p has published a; its next request is lost with the connection, and the session is dropped. Only what is
    requested when p knows that this one is forgotten names a."""
    cluster = _cluster({"a": 0, "b": 0}, 0)
    cluster.subscribe("r", "a", "b")
    publisher = _publisher(cluster)
    _publish(cluster, publisher, "a")
    publisher.publish((SPACE, forgotten), None)
    assert publisher.requests()
    publisher.lost(0)
    _drop(cluster, at=0)
    publisher.publish((SPACE, "b"), None)
    cluster.step(0, OpenSession("p", 1, first=3, anywhere=3, own=3))
    publisher.connected([0])
    (b,) = _exchange(cluster, publisher)
    assert (b.counter, entries(b)) == (3, {cluster.ids["a"]: 1})


def test_r19_what_is_asked_again_of_a_new_session_carries_what_it_follows() -> None:
    """p has published a; its request for b is lost with the connection, and the session is dropped. The stage has never
    heard of that request, so it is numbered."""
    cluster = _cluster({"a": 0, "b": 0}, 0)
    cluster.subscribe("r", "a", "b")
    publisher = _publisher(cluster)
    _publish(cluster, publisher, "a")
    publisher.publish((SPACE, "b"), None)
    assert publisher.requests()
    publisher.lost(0)
    _drop(cluster, at=0)
    cluster.step(0, OpenSession("p", 1, first=3, anywhere=3, own=3, recent=1))
    publisher.connected([0])
    (b,) = _exchange(cluster, publisher)
    assert (b.counter, entries(b)) == (2, {cluster.ids["a"]: 1})


@pytest.mark.parametrize("is_dropped", [True, False])
def test_r19_what_is_asked_again_behind_one_that_a_dropped_session_knew_is_forgotten_with_it(is_dropped: bool) -> None:
    """As above, but p had asked for another a before b; that one was numbered, and p has not heard of it."""
    cluster = _cluster({"a": 0, "b": 0}, 0)
    cluster.subscribe("r", "a", "b")
    publisher = _publisher(cluster)
    _publish(cluster, publisher, "a")
    publisher.publish((SPACE, "a"), None)
    (frame,) = publisher.requests()
    cluster.step(0, Create("p", 1, frame.low, frame.events, frame.order_epoch))
    publisher.publish((SPACE, "b"), None)
    assert publisher.requests()
    publisher.lost(0)
    if is_dropped:
        _drop(cluster, at=0)
    cluster.step(0, OpenSession("p", 1, first=4, anywhere=4, own=4, recent=1))
    publisher.connected([0])
    got = _exchange(cluster, publisher)
    if is_dropped:
        assert got == []
    else:
        assert [(each.counter, entries(each)) for each in got] == [(2, {}), (3, {cluster.ids["a"]: 2})]


# -- whose client lets go of nothing -----------------------------------------------------------------------------


def _published(cluster: Cluster, name: str, count: int, *, at: int | None = None) -> None:
    for _ in range(count):
        event = cluster.stamp("p", name, at=at)
        cluster.settle("p", name, [event.number])


def _kept(cluster: Cluster, at: int = 0) -> int:
    return len(cluster.stages[at]._state.sessions["p", 1].answers)


def test_the_answers_to_so_many_requests_are_kept() -> None:
    """Older ones get no second number."""
    cluster = _cluster({"a": 0}, 0, settings=StageSettings(answers_kept=20))
    _published(cluster, "a", 100)
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    _published(cluster, "a", 100)
    assert 20 <= _kept(cluster) <= 22
    assert [each.number for each in cluster.request("p", "a", counter=190)] == [190]
    old = cluster.step(0, Create("p", 1, 0, [NewEvent(5, 1)]))
    assert (_forgotten(old), stamps(old)) == ([5], [])
    assert cluster.stamp("p", "a").number == 201


def test_large_frames_do_not_get_ahead_of_that() -> None:
    cluster = _cluster({"a": 0}, 0, settings=StageSettings(answers_kept=20))
    for first in range(1, 1001, 100):
        numbers = list(range(first, first + 100))
        cluster.step(0, Create("p", 1, 0, [NewEvent(counter, 1) for counter in numbers]))
        cluster.settle("p", "a", numbers)
    assert _kept(cluster) <= 120


def test_an_open_number_is_answered_however_old_it_is() -> None:
    """Its client is told of it by its broker in a while. Given up, it is forgotten like all others, in the end."""
    settings = StageSettings(answers_kept=20, confirm_timeout_ms=60_000)
    cluster = _cluster({"a": 0, "b": 0}, 0, settings=settings)
    cluster.stamp("p", "a")
    _published(cluster, "b", 100)
    assert [each.number for each in cluster.request("p", "a", counter=1)] == [1]
    cluster.now += 60_000
    cluster.step(0, Tick())
    _published(cluster, "b", 100)
    assert _kept(cluster) <= 22
    assert _forgotten(cluster.step(0, Create("p", 1, 0, [NewEvent(1, cluster.ids["a"])]))) == [1]


def test_a_request_whose_timestamp_is_on_its_way_is_answered_however_many_come_behind_it() -> None:
    """Its number is given up meanwhile; nobody would ever hear that if its answer were forgotten."""
    settings = StageSettings(answers_kept=20, confirm_timeout_ms=60_000)
    cluster = _cluster({"a": 0, "b": 1, "c": 1}, 0, 1, settings=settings)
    for client in ("A", "B"):
        cluster.open(client)
        cluster.subscribe(client, "a", "b")
    assert cluster.request("p", "b") == []
    cluster.now += 60_000
    cluster.step(1, Tick())
    _published(cluster, "c", 100)
    assert cluster.waiting(1, 0)
    assert [each.abandoned for each in cluster.run() if isinstance(each, Timestamps)] == [[1, cluster.ids["b"], 1]]
    _published(cluster, "c", 100)
    assert _kept(cluster, at=1) <= 22


def test_what_a_stage_forgets_of_its_own_does_not_ride_up() -> None:
    """Stage 1 has let go of the request that entered there; its home has it open."""
    cluster = _cluster({"a": 0, "b": 1}, 0, 1, settings=StageSettings(answers_kept=20))
    cluster.stamp("p", "a", at=1)
    _published(cluster, "b", 100)
    cluster.stamp("p", "a", at=1)
    assert _kept(cluster, at=1) <= 22
    assert [each.number for each in cluster.request("p", "a", counter=1)] == [1]


def test_what_rides_up_is_forgotten_at_its_home_too() -> None:
    cluster = _cluster({"a": 0, "b": 1}, 0, 1, settings=StageSettings(answers_kept=20))
    for _ in range(30):
        cluster.settle("p", "a", [cluster.stamp("p", "a", at=1).number])
    assert _kept(cluster, at=0) <= 22


def test_it_stays_forgotten_where_the_topic_goes() -> None:
    cluster = _cluster({"a": 0, "b": 1}, 0, 1, settings=StageSettings(answers_kept=20))
    _published(cluster, "b", 100)
    cluster.reorder("a b", "")
    cluster.run()
    assert _kept(cluster) <= 22, "nor does it come back with the numbers"
    assert _forgotten(cluster.step(0, Create("p", 1, 0, [NewEvent(5, cluster.ids["b"])], 2))) == [5]
    assert cluster.stamp("p", "b").number == 101


def test_r1_what_a_session_asked_where_it_was_dropped_is_forgotten_where_its_topics_go() -> None:
    """Up to the very counter; who has connected here says itself what it has asked for."""
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    for client in ("p", "q"):
        cluster.step(2, OpenSession(client, 1))
    cluster.step(1, OpenSession("q", 1))
    for client in ("p", "q"):
        cluster.request(client, "b", at=2)
    cluster.run()
    arrived = {origin: cluster.stages[1].received(origin) for origin in (0, 2)}
    ended = [("p", 1, 9), ("q", 1, 9), ("r", 1, 9)]
    for origin, ride in (
        (2, FlushRide(2, [[3], [2], [1]])),
        (0, MarkRide(2)),
        (0, SwitchRide(2, [1, 0], ended=ended)),
        (2, SwitchRide(2, [3, 0])),
    ):
        arrived[origin] += 1
        cluster.step(1, Deliver(origin, arrived[origin], ride))
    state = cluster.stages[1]._state
    sessions = [state.sessions[client, 1] for client in ("p", "q")]
    assert [(each.low, each.began) for each in sessions] == [(10, 10), (1, 1)]
    assert [(key, mark) for key, (mark, _) in state.ended.items()] == [(("r", 1), 9)]
