"""What a stage tells fits into frames, however long names and filters are that strangers made."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TypeVar, cast
from unittest.mock import Mock

import pytest
from tests.costs import steps

from inorder.client.replaying import Replaying
from inorder.endpoint.asking import NAMES_ASKED
from inorder.errors import ProtocolError
from inorder.protocol.names import MAX_NAME_BYTES, Filter, FilterKind, exact, mqtt_covers
from inorder.protocol.portions import PORTION_BYTES, fitting, portions
from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    ClientCounts,
    EventLife,
    Frame,
    LogRule,
    Logs,
    NameTopics,
    ReadLog,
    Report,
    ShowLogs,
    ShowOrder,
    ShowReports,
    ShowTopics,
    SpaceFilter,
    Subscribed,
    TopicInfo,
    TopicOrder,
    TopicsShown,
    encode_frame,
)
from inorder_worker.sequencer import state
from inorder_worker.sequencer.commands import ChangeSubscription, CreateTopics, OpenSession, Reply, SetLogRule
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service import reports
from inorder_worker.service.event_logs import EventLogs
from inorder_worker.service.host import StageHost
from inorder_worker.service.reports import ClientReports
from inorder_worker.service.router import route
from inorder_worker.store import log_rows

COUNT = 140
"""Topics: their names do not fit into one frame."""
ALL = Filter("#", FilterKind.MQTT, "#")


def made(stage: Stage) -> None:
    """Have a stranger make topics with names as long as they may be."""
    stage.step(OpenSession("stranger", 1), 0)
    names = [("s", f"{at:03d}".ljust(MAX_NAME_BYTES, "n")) for at in range(COUNT)]
    stage.step(CreateTopics("stranger", 1, 1, names), 0)


def told(stage: Stage, command: OpenSession | ChangeSubscription | SetLogRule) -> list[Frame]:
    return [each.frame for each in stage.step(command, 0) if isinstance(each, Reply)]


def fit(frames: Iterable[Frame]) -> bool:
    sizes = [len(encode_frame(each)) for each in frames]
    return len(sizes) > 1 and max(sizes) <= MAX_FRAME_BYTES


P = TypeVar("P", TopicsShown, Logs)


def shown(ask: Callable[[int], P]) -> list[P]:
    """Ask until all was shown."""
    parts = [ask(0)]
    while parts[-1].behind:
        assert len(parts) <= COUNT, "the same topics come again and again"
        parts.append(ask(parts[-1].behind))
    return parts


def test_whoever_subscribes_to_long_names_is_told_them_in_frames_that_fit() -> None:
    stage = Stage(0, 1)
    made(stage)
    stage.step(OpenSession("reader", 1), 0)
    frames = told(stage, ChangeSubscription("reader", 1, 1, [SpaceFilter("s", ALL)], bounded=False))
    subscribed = [each for each in frames if isinstance(each, Subscribed)]
    assert fit(subscribed)
    assert sum(len(each.topics) for each in subscribed) == COUNT
    assert [each.more for each in subscribed] == [True] * (len(subscribed) - 1) + [False]


@pytest.mark.parametrize("only", [[], [*range(1, COUNT + 1)]], ids=["all", "some"])
def test_operators_are_shown_topics_of_long_names(only: list[int]) -> None:
    stage = Stage(0, 1)
    made(stage)
    parts = shown(lambda after: stage.inspection.topics(ShowTopics(1, 0, after, only=only)))
    assert fit(parts)
    assert [each.id for part in parts for each in part.topics] == [*range(1, COUNT + 1)]
    order: list[TopicOrder] = stage.inspection.order(ShowOrder(1))
    assert fit(order)
    assert [each.id for part in order for each in part.topics] == [*range(1, COUNT + 1)]
    assert [each.more for each in order] == [True] * (len(order) - 1) + [False]


def test_logs_of_topics_with_long_names_are_told_in_frames_that_fit() -> None:
    stage = Stage(0, 1)
    made(stage)
    told(stage, SetLogRule("boss", 1, 1, LogRule("s", ALL), is_on=True))
    assert fit(told(stage, OpenSession("reader", 1)))
    logs = shown(lambda after: stage.log.show(ShowLogs(1, after)))
    assert fit(logs)
    assert [len(each.rules) for each in logs] == [1] + [0] * (len(logs) - 1)
    assert [each.id for part in logs for each in part.topics] == [*range(1, COUNT + 1)]
    named = stage.log.show(ShowLogs(1, names=[("s", "none"), ("s", "007".ljust(MAX_NAME_BYTES, "n"))]))
    assert (named.rules, [each.id for each in named.topics], named.behind) == ([], [8], 0)
    assert len(stage.log.show(ShowLogs(1, limit=0)).rules) == 1
    assert stage.log.show(ShowLogs(1, limit=0)).behind == 0


def test_a_page_costs_what_it_holds_however_many_topics_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the topics in question are few, and far behind."""

    def costs(count: int) -> list[int]:
        stage = Stage(0, 1)
        stage.step(OpenSession("p", 1), 0)
        stage.step(CreateTopics("p", 1, 1, [("s", str(at)) for at in range(count)]), 0)
        stage.step(SetLogRule("boss", 1, 1, LogRule("s", exact("1")), is_on=True), 0)
        asked = [
            lambda: stage.inspection.topics(ShowTopics(1, 0, count - 10)),
            lambda: stage.inspection.topics(ShowTopics(1, 0)),
            lambda: stage.log.show(ShowLogs(1)),
            lambda: stage.log.show(ShowLogs(1, names=[("s", "1")])),
        ]
        logs = shown(lambda after: stage.log.show(ShowLogs(1, after)))
        assert [each.id for part in logs for each in part.topics] == [2]
        return [steps(each) for each in asked]

    monkeypatch.setattr(state, "TOPICS_LOOKED_AT", 100)
    once, many = costs(200), costs(2_000)
    assert all(later <= 1.1 * first for first, later in zip(once, many, strict=True)), (once, many)


def test_subscriptions_with_long_filters_are_shown_in_frames_that_fit() -> None:
    stage = Stage(0, 1)
    filters = [SpaceFilter("s", Filter(text, FilterKind.MQTT, "#")) for text in ["f" * 60_000 + "/#"] * 120]
    for name in ("a", "b", "c", "d", "e"):
        stage.step(OpenSession(name, 1), 0)
        stage.step(ChangeSubscription(name, 1, 1, filters, bounded=False), 0)
    parts = stage.show_subscriptions(1)
    assert fit(parts)
    found = [each for part in parts for each in part.subscriptions]
    assert [each.client_id for each in found] == ["a", "b", "c", "d", "e"]
    assert 0 < len(found[0].filters) < len(filters)


def test_a_topic_that_is_asked_for_many_times_is_named_once() -> None:
    stage = Stage(0, 1)
    made(stage)
    assert [each.id for each in stage.name_topics(NameTopics(1, [2, 1, 2] * 1000)).topics] == [2, 1]
    names = stage.name_topics(NameTopics(1, [*range(1, NAMES_ASKED + 1)]))
    assert len(encode_frame(names)) <= MAX_FRAME_BYTES


def test_what_clients_report_fits_into_a_frame_and_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_SEEN", 5_000)
    found = ClientReports(0)
    for at in range(7):
        lives = [EventLife(1 + at, 1 + number, [2**52, 2**52], "v" * 32) for number in range(1_000)]
        found.take(("\U0001f600" * 128, 1), Report(1, False, ClientCounts(), lives=lives), at)
    answer = found.show(ShowReports(1), 0)
    assert PORTION_BYTES < len(encode_frame(answer)) + 10_000 <= MAX_FRAME_BYTES
    assert (answer.lives[-1].life.topic, answer.lives[-1].life.number) == (7, 1_000)  # the newest are told
    assert not found.show(ShowReports(1, 0, 1, 1), 0).lives  # the oldest are forgotten
    assert found.show(ShowReports(1, 0, 7, 1), 0).lives


def test_portions_have_all_items_in_order_and_one_at_least() -> None:
    infos = [TopicInfo(at, "s", "n", 0) for at in range(1, 6)]
    assert list(portions(infos, 2)) == [infos[:2], infos[2:4], infos[4:]]
    assert list(portions([], 2)) == [[]]
    large = TopicInfo(9, "s", "n" * (PORTION_BYTES + 1), 0)
    assert list(portions([large, infos[0], large], 9)) == [[large], [infos[0]], [large]]
    assert fitting([infos[0], large, infos[1]]) == [infos[0]]


def test_a_name_of_many_levels_costs_no_more_than_the_filter_has() -> None:
    """A list of all levels of a longest name takes half a million bytes; tried on each filter it stops the worker."""
    name = "x/" + "/" * (MAX_NAME_BYTES - 2)
    tracemalloc.start()
    try:
        assert not mqtt_covers("x/+", name)
        assert mqtt_covers("x/#", name)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_names_that_do_not_fit_into_one_answer_are_not_told() -> None:
    """Clients do not take them in parts; who asks for too many is told so."""
    stage = Stage(0, 1)
    made(stage)
    host = SimpleNamespace(count=1, has=lambda stage: True, stage=lambda index: stage)
    route(NameTopics(1, [*range(1, NAMES_ASKED + 1)] * 9), ("reader", 1), cast(StageHost, host))
    with pytest.raises(ProtocolError, match="the names of 140 topics are too long for one answer"):
        route(NameTopics(1, [*range(1, COUNT + 1)]), ("reader", 1), cast(StageHost, host))


def test_so_many_pieces_of_a_log_are_looked_at_for_one_answer() -> None:
    """Each is a question to the store; whoever wants more asks behind where the answer ends."""
    store = Mock()
    store.execute.return_value = SimpleNamespace(one=lambda: (None, None), all=list)
    ranges = [each for each in range(1, 20_001) for _ in "ab"]
    page = log_rows._read(store, 1, ranges, 0, 1_000, 1_000_000)
    assert (page.through, store.execute.call_count) == (log_rows.MAX_RANGES, log_rows.MAX_RANGES + 1)


async def test_a_question_that_waits_for_a_log_is_no_larger_than_what_is_looked_at() -> None:
    logs = EventLogs(Mock(), Mock())
    logs.ask(("reader", 1), ReadLog(1, 0, 1, [1, 1] * 20_000))
    *_, waiting = logs._questions.take()
    assert len(waiting.ranges) == 2 * log_rows.MAX_RANGES


async def test_a_replay_asks_for_its_topic_alone() -> None:
    sent: list[Frame] = []
    replaying = Replaying(sent.append, lambda: len(sent) + 1, lambda deps: ())
    finding = asyncio.create_task(replaying._find("s", "far"))
    await asyncio.sleep(0)  # it asks at once
    assert sent == [ShowLogs(1, names=[("s", "far")])]
    far = TopicInfo(2, "s", "far", 0)
    assert replaying.answered(Logs(1, [], [far]))
    assert not replaying.answered(Logs(1, [], []))
    assert await finding == far
