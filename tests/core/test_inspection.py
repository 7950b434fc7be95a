"""What a stage shows operators: topics, open numbers, single numbers and events, in answers of a bounded size."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster

from inorder.protocol.wire import (
    EventFound,
    FindEvent,
    FindNumber,
    KnownNumber,
    NumberFound,
    NumberState,
    OpenNumbers,
    OpenNumbersFound,
    ShowOpenNumbers,
    ShowOrder,
    ShowTopics,
)
from inorder_worker.sequencer import inspection
from inorder_worker.sequencer.commands import LeaveSession, Pin, Tick, TrimLog
from inorder_worker.sequencer.inspection import Inspection

PENDING, CONFIRMED, VOID = NumberState.PENDING, NumberState.CONFIRMED, NumberState.VOID


def _cluster(**topics: int) -> Cluster:
    cluster = Cluster(topics)
    cluster.open_all("p", "q", "r", "s")
    return cluster


def _shown(cluster: Cluster, stage: int = 0, after: int = 0, *only: int, groups: bool = False) -> list[tuple[str, int]]:
    """Return names with last numbers; where there is more, with what to ask for next."""
    frame = cluster.stages[stage].inspection.topics(ShowTopics(1, stage, after, groups, list(only)))
    return [(each.name, each.number) for each in frame.topics] + ([("behind", frame.behind)] if frame.behind else [])


def _open(cluster: Cluster, older_ms: int = 0, stage: int = 0) -> list[OpenNumbersFound]:
    return cluster.stages[stage].inspection.open_numbers(ShowOpenNumbers(1, stage, older_ms), cluster.now)


def test_topics_are_shown_by_their_stage_as_they_are() -> None:
    cluster = _cluster(a=0, b=1, c=0)
    cluster.all_subscribe(("r", "s"), "a", "b", "c")
    for _ in range(4):
        cluster.stamp("p", "a")
    cluster.stamp("q", "c")
    cluster.settle("p", "a", [1], [2])
    assert _shown(cluster) == [("a", 4), ("c", 1)]
    assert _shown(cluster, 1) == [("b", 0)]
    assert _shown(cluster, 0, 1) == [("c", 1)]
    assert _shown(cluster, 0, 0, 3, 2, 99) == [("c", 1)]
    first, _ = cluster.stages[0].inspection.topics(ShowTopics(1, 0, 0, True)).topics
    assert (first.head, first.confirmed, first.pending, first.void) == (1, 1, 2, 1)
    assert (first.group_size, first.group) == (2, [2, 3])
    assert cluster.stages[0].inspection.topics(ShowTopics(1, 0)).topics[0].group == []
    assert cluster.stages[0].inspection.numbers() == {1: 4, 2: 0, 3: 1}


@pytest.mark.parametrize(
    ("limit", "at", "shown"),
    [
        ("TOPICS_SHOWN", 2, [("a", 0), ("b", 0), ("behind", 2)]),
        ("GROUP_PARTS", 2, [("a", 0), ("b", 0), ("behind", 2)]),
        ("GROUP_PARTS", 4, [("a", 0), ("b", 0), ("c", 0)]),
        ("PORTION_BYTES", 1, [("a", 0), ("b", 0), ("behind", 2)]),
        ("PORTION_BYTES", 2, [("a", 0), ("b", 0), ("c", 0)]),
    ],
)
def test_an_answer_ends_where_it_is_full(
    limit: str, at: int, shown: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _cluster(a=0, b=0, c=0)
    cluster.all_subscribe(("r", "s"), "a", "b", "c")
    monkeypatch.setattr(inspection, limit, at)
    assert _shown(cluster, groups=True) == shown


def test_of_those_that_are_named_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(a=0, b=0, c=0)
    monkeypatch.setattr(inspection, "TOPICS_SHOWN", 2)
    assert _shown(cluster, 0, 0, 3, 2, 1) == [("b", 0), ("c", 0)]


def test_what_rose_since_a_tick() -> None:
    cluster = _cluster(a=0, b=1, c=0)
    look = cluster.stages[0].inspection
    cluster.stamp("p", "a")
    tick, risen = look.risen_since(0)
    assert risen == [(1, 1)]
    cluster.stamp("p", "c")
    cluster.all_subscribe(("r", "s"), "a", "b")
    cluster.stamp("p", "b")
    assert look.risen_since(tick) == (tick + 2, [(3, 1)]), "b is at home on another stage, though it came by"
    assert look.risen_since(tick + 2) == (tick + 2, [])


def test_open_numbers_are_told_in_ranges_of_one_kind() -> None:
    cluster = _cluster(a=0, b=0)
    for client, name in (("p", "a"), ("p", "a"), ("q", "a"), ("p", "b"), ("p", "a")):
        cluster.stamp(client, name)
    cluster.step(0, LeaveSession("q", 1))
    cluster.now += 500
    cluster.stamp("p", "a")
    (found,) = _open(cluster)
    assert found.numbers == [
        OpenNumbers(1, 1, 2, PENDING, True, "p", 0, 500, False),
        OpenNumbers(1, 3, 3, PENDING, True, "q", 500, 500, False),
        OpenNumbers(1, 4, 5, PENDING, True, "p", 0, 500, False),
        OpenNumbers(2, 1, 1, PENDING, True, "p", 0, 500, False),
    ]
    assert (found.riding, found.more) == ([], False)
    assert [(each.topic, each.last) for each in _open(cluster, 500)[0].numbers] == [(1, 2), (1, 3), (1, 4), (2, 1)]
    assert _open(cluster, 501)[0].numbers == []
    cluster.settle("p", "a", [1, 2, 4, 5])
    assert [(each.topic, each.first) for each in _open(cluster)[0].numbers] == [(1, 3), (2, 1)]


def test_of_very_many_open_numbers_the_oldest_are_told_and_how_many_are_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One client may have millions, and whoever looks must not stop the stage for seconds."""
    cluster = _cluster(a=0, b=0)
    for client, name in (*(("p", "b"),) * 2, *(("p", "a"),) * 3, ("q", "a")):
        cluster.stamp(client, name)
    monkeypatch.setattr(inspection, "OPEN_SHOWN", 6)
    assert _open(cluster)[0].numbers == [
        OpenNumbers(1, 1, 1, PENDING, True, "p", 0, 0, False, behind=2),
        OpenNumbers(1, 4, 4, PENDING, True, "q", 0, 0, False),
        OpenNumbers(2, 1, 2, PENDING, True, "p", 0, 0, False),
    ]
    monkeypatch.setattr(inspection, "OPEN_SHOWN", 1)
    assert [(each.topic, each.first, each.last, each.behind) for each in _open(cluster)[0].numbers] == [
        (1, 4, 4, 0),
        (2, 1, 1, 4),
    ]


def test_a_publisher_that_has_just_gone_is_away() -> None:
    cluster = _cluster(a=0)
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    assert _open(cluster)[0].numbers[0].away_ms == 1


def test_what_rides_is_open_though_its_publisher_has_confirmed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds up who waits for it, and its session may be gone long since."""
    cluster = _cluster(a=0, b=1)
    cluster.all_subscribe(("r", "s"), "a", "b")
    for _ in range(3):
        cluster.request("p", "b")
    cluster.settle("p", "b", [1])
    (found,) = _open(cluster, stage=1)
    assert found.numbers == [
        OpenNumbers(2, 1, 1, CONFIRMED, False, "p", 0, 0, False),
        OpenNumbers(2, 2, 3, PENDING, False, "p", 0, 0, False),
    ]
    assert found.riding == [2, 1, 0, 2, 2, 0, 2, 3, 0]
    monkeypatch.setattr(inspection, "RANGES_SHOWN", 1)
    frames = _open(cluster, stage=1)
    assert [(each.numbers[0].first, each.riding, each.more) for each in frames] == [
        (1, [2, 1, 0], True),
        (2, [], False),
    ]
    for stage in (0, 1):
        cluster.step(stage, LeaveSession("p", 1))
    cluster.now += 60_000
    for stage in (0, 1):
        cluster.step(stage, Tick())
    assert {each.away_ms for frame in _open(cluster, stage=1) for each in frame.numbers} == {-1}


def test_one_number() -> None:
    cluster = _cluster(a=0)
    cluster.rule("a")
    for _ in range(3):
        cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", [1, 2, 3])
    cluster.now += 70

    def found(number: int, topic: int = 1) -> KnownNumber | None:
        frame = cluster.stages[0].inspection.number(FindNumber(7, 0, topic, number), cluster.now)
        assert frame == NumberFound(7, frame.known)
        return frame.known

    assert found(3) == KnownNumber(CONFIRMED, [], "p", 1, 3, True, 70)
    assert [found(0), found(4), found(1, 2)] == [None, None, None]
    cluster.step(0, TrimLog(1, 1, []))
    records = cluster.stages[0]._state.topics[1].records
    for number in (1, 2, 3):
        del records[number]
    expired = [found(number) for number in (1, 2, 3)]
    assert [each and (each.state, each.logged) for each in expired] == [
        (NumberState.EXPIRED, False),
        (NumberState.EXPIRED, True),
        (NumberState.EXPIRED, True),
    ]


def test_the_number_of_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(a=0, b=0)
    for client, name in (("p", "a"), ("q", "a"), ("q", "b"), ("p", "b")):
        cluster.stamp(client, name)
    look = cluster.stages[0].inspection

    def found(client: str, counter: int, after: int = 0, incarnation: int = 1) -> EventFound:
        return look.event(FindEvent(1, 0, client, incarnation, counter, after))

    assert found("p", 2) == EventFound(1, 2, 2), "its session knows it"
    cluster.request("p", "a", low=3)
    assert found("p", 2) == EventFound(1, 2, 2), "its session has let go of it"
    assert found("p", 1) == EventFound(1, 1, 1)
    assert found("p", 1, after=1) == found("p", 1, incarnation=2) == found("p", 9) == EventFound(1)
    monkeypatch.setattr(inspection, "RECORDS_SEARCHED", 3)
    assert found("p", 2) == EventFound(1, behind=1), "topic a was looked at, and has four places"
    assert found("p", 2, after=1) == EventFound(1, 2, 2)
    monkeypatch.setattr(inspection, "RECORDS_SEARCHED", 4)
    assert found("p", 2) == EventFound(1, 2, 2)


def test_the_topic_order_is_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(a=0, b=1, c=0)
    cluster.step(1, Pin("op", 1, 1, [3, 1], True))
    monkeypatch.setattr(inspection, "TOPICS_IN_FRAME", 2)
    frames = cluster.stages[1].inspection.order(ShowOrder(7))
    assert [([each.id for each in frame.topics], frame.more) for frame in frames] == [([1, 2], True), ([3], False)]
    assert {(frame.request, tuple(frame.pinned)) for frame in frames} == {(7, (1, 3))}


def test_the_topics_that_got_a_number_last() -> None:
    cluster = _cluster(a=0, b=1, c=0)
    for name in ("a", "c", "b", "a"):
        cluster.stamp("p", name)
    look = cluster.stages[0].inspection
    assert [(each.name, each.number, each.remembered) for each in look.busiest_topics(5)] == [("a", 2, 2), ("c", 1, 1)]
    assert [each.name for each in look.busiest_topics(1)] == ["a"]


def test_a_look_changes_nothing() -> None:
    cluster = _cluster(a=0, b=1)
    cluster.all_subscribe(("r", "s"), "a", "b")
    before = cluster.stages[0].snapshot()
    look = Inspection(cluster.stages[0]._state)
    assert [each.group for each in look.topics(ShowTopics(1, 0, 0, True)).topics] == [[2]]
    assert cluster.stages[0].snapshot() == before
