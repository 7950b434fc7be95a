"""Event logs at the stages, and repair at a subscriber (R18)."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, arrive, entries, reader, seen, wait
from tests.costs import steps

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, OrderingTimes
from inorder.protocol.filters import filter_of
from inorder.protocol.names import exact
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import Done, LoggedEvents, LogRule, Logs, NewEvent, NumberState, ShowLogs, Topics
from inorder_worker.sequencer import event_log
from inorder_worker.sequencer.commands import (
    Create,
    CreateTopics,
    LeaveSession,
    LogEvent,
    LogTrim,
    OpenSession,
    SetLogRule,
    StageSettings,
    Tick,
    TrimLog,
)
from inorder_worker.sequencer.event_log import split
from inorder_worker.sequencer.log_rules import LogRules
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.topic_manager import TopicManager


def manager(cluster: Cluster, name: str) -> TopicManager:
    topic = cluster.ids[name]
    home = cluster.stages[-1].stage_of(topic)
    assert home is not None
    return cluster.stages[home]._state.topics[topic]


def fetch(cluster: Cluster, module: OrderingModule, now: float) -> list[str]:
    """Put the due questions of a subscriber, to the stages and to the logs."""
    words: list[str] = []
    names = {number: name for name, number in cluster.ids.items()}
    for question in module.questions(now):
        words += seen(module.answered(cluster.ask(names[question.topic], *question.ranges), now))
    for wanted in module.fetches(now):
        answer = cluster.read_log(wanted.topic, wanted.ranges)
        words += seen(module.fetched(wanted.topic, wanted.ranges, answer.through, found(answer), now))
    return words


def found(answer: LoggedEvents) -> list[Found]:
    return [Found(each.number, each.deps, each.content, 1) for each in answer.events]


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_topics_bounds_are_the_widest_of_all_its_rules_however_many_others_there_are() -> None:
    def rule(text: str, *bounds: int, space: str = "m") -> LogRule:
        return LogRule(space, filter_of(space, text), *bounds)

    its = [rule("a", 1, 5, 0), rule("#", 3, 4, 7), rule("a/+", 9, 9, 9), rule("a", 8, 8, 8, space="n")]
    assert LogRules(its).widest("m", "a") == LogRule("m", exact("a"), 3, 5, 0)
    assert LogRules(its).widest("m", "b") == its[1]
    assert LogRules(its[2:]).widest("m", "a") is None
    few, many = (LogRules([*its, *(rule(f"t{at}", 1) for at in range(count))]) for count in (10, 1_000))
    assert steps(lambda: many.widest("m", "t5")) == steps(lambda: few.widest("m", "t5"))


def test_the_row_is_an_effect_of_the_very_step_that_gives_the_number() -> None:
    """So it is in the same commit; and only where the topic has a log."""
    cluster = Cluster({"a": 0, "b": 0})
    cluster.open("p")
    cluster.rule("a")
    command = Create("p", 1, 0, [NewEvent(1, 1, [], b"one"), NewEvent(2, 2, [], b"two"), NewEvent(3, 1, [])])
    effects = cluster.stages[0].step(command, cluster.now)
    assert [each for each in effects if isinstance(each, LogEvent)] == [
        LogEvent(1, 1, [], b"one", 1), LogEvent(1, 2, [], None, 3),
    ]  # fmt: skip
    again = cluster.stages[0].step(command, cluster.now)
    assert not [each for each in again if isinstance(each, LogEvent)], "asked again: it has its row"


def test_what_stands_beside_a_command_is_named_by_its_counter() -> None:
    """The journaled command is without the content, and means the same."""
    command = Create("p", 1, 0, [NewEvent(1, 1, [], b"one"), NewEvent(2, 2, [], b"two"), NewEvent(3, 1)])
    journaled, contents = split(command, [1])
    assert contents == {1: b"one"}
    assert [each.content for each in journaled.events] == [b"", b"two", None]
    assert command.events[0].content == b"one", "the command itself is left alone"


def test_a_request_that_rides_up_carries_its_content_and_its_row_is_completed_at_home() -> None:
    cluster = Cluster({"a": 0, "b": 1, "c": 2})
    cluster.open("p")
    cluster.subscribe("one", "a", "b", "c")
    cluster.subscribe("two", "a", "b", "c")
    cluster.rule("a", "b")
    cluster.stamp("p", "c")
    cluster.stamp("p", "a", at=2, content=b"rode up")
    assert [each.content for each in cluster.log[1].values()] == [b"rode up"]
    cluster.request("p", "b", content=b"goes up")
    (row,) = cluster.log[2].values()
    assert row.deps == [], "not complete: its timestamp is on its way"
    cluster.run()
    assert row.content == b"goes up"
    assert dict(pairs(row.deps)) == {1: 1, 3: 1}


def test_rules_reach_every_stage_and_topics_to_come() -> None:
    """And the sessions: those that know topics hear of them, also when they come back."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open("p")
    cluster.rule("a", "later")
    assert [stage._state.topics[1].logged for stage in cluster.stages] == [True, True]
    told = [frame for client, frame in cluster.frames if client == "p" and isinstance(frame, Topics)]
    assert [(info.name, info.logged) for frame in told for info in frame.topics] == [("a", True)]
    (answer,) = cluster.step(1, CreateTopics("p", 1, 1, [("m", "later")]))
    assert isinstance(answer, Topics)
    assert answer.topics[0].logged
    cluster.run()
    assert cluster.stages[0]._state.topics[3].logged
    again = [each for each in cluster.step(1, OpenSession("p", 1)) if isinstance(each, Topics)]
    assert [info.id for frame in again for info in frame.topics] == [1, 3]


def test_an_operator_hears_what_became_of_a_rule_and_which_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    rules = [LogRule("m", exact(name)) for name in "abc"]

    def change(rule: LogRule, is_on: bool, client: str = "op") -> list[object]:
        return list(cluster.step(0, SetLogRule(client, 1, 7, rule, is_on)))

    assert change(rules[0], False) == [Done(7, "there is no such rule")]
    assert cluster.stages[0].log.show(ShowLogs(3)) == Logs(3, [], [])
    assert [change(each, True) for each in rules] == [[Done(7)]] * 3
    assert change(rules[1], False) == [Done(7)]
    assert change(rules[1], True, client="") == [], "settings ask for it, and hear nothing"
    told = [rules[0], rules[2], rules[1]]
    topics = [cluster.stages[0]._state.info(topic) for topic in (1, 2, 3)]
    assert cluster.stages[0].log.show(ShowLogs(3)) == Logs(3, told, topics)
    assert cluster.stages[0].log.show(ShowLogs(3, limit=2)) == Logs(3, told, topics[:2], 2)
    assert cluster.stages[0].log.show(ShowLogs(3, 2, limit=2)) == Logs(3, [], topics[2:])
    monkeypatch.setattr(event_log, "TOPICS_IN_FRAME", 1)
    assert cluster.stages[0].log.show(ShowLogs(3, 1)) == Logs(3, [], topics[1:2], 2)


def test_a_log_that_is_turned_off_is_forgotten() -> None:
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"x")
    cluster.rule("a", is_on=False)
    assert cluster.log[1] == {}
    assert cluster.ask("a", 1, 1).logged_from == 0
    cluster.stamp("p", "a", content=b"y")
    assert cluster.log[1] == {}
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"z")
    assert list(cluster.log[1]) == [3]
    assert manager(cluster, "a").log_first == 3


# -- states of logged numbers (R16) --------------------------------------------------------------------------------


def test_void_and_abandoned_numbers_of_a_log_are_confirmed() -> None:
    """A logged event is never void; heads tell of it, whoever was to confirm it."""
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.rule("a")
    for content in (b"void", b"left", None):
        cluster.stamp("p", "a", content=content)
    cluster.settle("p", "a", void=[1, 3])
    cluster.step(0, LeaveSession("p", 1))
    cluster.now += 10_000
    cluster.step(0, Tick())
    answers = [(each.state, each.logged) for each in cluster.ask("a", 1, 3).answers]
    confirmed = (NumberState.CONFIRMED, True)
    assert answers == [confirmed, confirmed, (NumberState.VOID, False)], "3 has no content, so it may be void"
    assert manager(cluster, "a").head == 2


# -- bounds --------------------------------------------------------------------------------------------------------


def test_the_base_of_a_log_tells_what_ticks_do_not() -> None:
    """R18: what the numbers below it follow on other stages (R19): those from before the log, and those trimmed."""
    cluster = Cluster({"a": 0, "x": 0, "b": 1, "c": 1})
    cluster.open_all("p", "q", "d")
    cluster.subscribe("d", "a", "x", "b", "c", durable=True)
    a, x, b, c = (cluster.ids[each] for each in "axbc")
    cluster.stamp("p", "a")
    cluster.stamp("p", "c")
    cluster.stamp("p", "b", after=[a, 1])  # b:1 follows a:1 and c:1, and is not in the log
    cluster.rule("b")
    cluster.stamp("q", "x")
    for after in ([x, 1], [], []):
        cluster.stamp("q", "b", content=b"x", after=after)
    state = manager(cluster, "b")
    assert (state.log_first, state.log_base) == (2, {a: 1, x: 1}), "c is of the same stage"
    trim = TrimLog(b, 2, [x, 1, c, 1], has_ticks=True)
    cluster.step(1, trim)
    assert state.log_first == 2, "its numbers are not settled"
    cluster.settle("p", "b", confirmed=[1])
    cluster.settle("q", "b", confirmed=[2, 3, 4])
    cluster.step(1, trim)
    assert (list(cluster.log[b]), state.log_base) == ([3, 4], {a: 1, x: 1})
    assert not cluster.ask("b", 2, 2).answers[0].logged
    cluster.step(1, TrimLog(b, 3, [c, 1]))
    assert state.log_base == {a: 1, x: 1, c: 1}, "the next row has no ticks: it goes by all that it names"
    cluster.rule("b", is_on=False)
    assert (state.log_first, state.log_base) == (0, {})


def test_the_base_of_a_log_forgets_what_an_earlier_topic_order_says() -> None:
    """Events of the new order come behind all of the old one by their epochs."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("p", "d")
    cluster.subscribe("d", "a", "b", durable=True)
    cluster.rule("b")
    cluster.stamp("p", "a")
    for after in ([1, 1], []):
        cluster.stamp("p", "b", content=b"x", after=after)
    cluster.settle("p", "b", confirmed=[1, 2])
    cluster.reorder("b", "a")
    cluster.run()
    cluster.stamp("p", "b", content=b"x")
    cluster.settle("p", "b", confirmed=[3])
    cluster.step(0, TrimLog(2, 1, [1, 1], has_ticks=True))
    assert manager(cluster, "b").log_base == {1: 1}, "b:2 is of the old order, too"
    cluster.step(0, TrimLog(2, 2, [], has_ticks=True))
    assert manager(cluster, "b").log_base == {}


def test_a_log_moves_with_its_topic() -> None:
    """R14: records, first number and base go to the new home; rows stay where they are."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("p", "one", "two")
    cluster.subscribe("one", "a", "b")
    cluster.subscribe("two", "a", "b")
    cluster.stamp("p", "b")
    cluster.stamp("p", "a", at=1)
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", confirmed=[2])
    cluster.reorder("b", "a")
    cluster.run()
    assert [stage.stage_of(1) for stage in cluster.stages] == [1, 1]
    assert cluster.stages[0]._state.topics[1].log_first == 0
    assert manager(cluster, "a").log_first == 2
    assert cluster.ask("a", 2, 2).answers[0].logged
    cluster.stamp("p", "a", content=b"y")
    assert [each.content for each in cluster.log[1].values()] == [b"x", b"y"]


def test_a_snapshot_holds_the_rules_and_the_ranges() -> None:
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"x")
    cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
    assert cluster.ask("a", 1, 1).answers[0].logged
    cluster.stamp("p", "a", content=b"y")
    assert len(cluster.log[1]) == 2
    bounds = cluster.stages[0].log.bounds(1)
    assert bounds is not None
    assert bounds.max_count == 0


# -- repair --------------------------------------------------------------------------------------------------------


def cluster_of_two() -> tuple[Cluster, OrderingModule]:
    cluster = Cluster({"a": 0, "b": 0})
    cluster.open("p")
    cluster.rule("a")
    cluster.subscribe("other", "a", "b")
    return cluster, reader(cluster.subscribe("one", "a", "b"))


def test_a_missing_number_is_fetched_in_its_turn() -> None:
    """Confirmed and missing: fetched after gap_timeout, and what waited for it follows."""
    cluster, module = cluster_of_two()
    cluster.stamp("p", "a", content=b"x")
    second = cluster.stamp("p", "b")
    assert entries(second) == {1: 1}
    assert arrive(module, second, 1.0) == []
    cluster.settle("p", "a", confirmed=[1])
    assert fetch(cluster, module, 1.9) == []
    assert fetch(cluster, module, 2.0) == ["1:1", "2:1"]
    assert module.counts.repaired == 1
    assert module.questions(9.0) == []
    assert module.is_idle


def test_a_pending_number_is_fetched_when_it_is_overdue() -> None:
    """The broker may be slow; nobody waits for the publisher for longer than loss_timeout."""
    cluster, module = cluster_of_two()
    cluster.stamp("p", "a", content=b"x")
    arrive(module, cluster.stamp("p", "b"), 1.0)
    assert fetch(cluster, module, 2.0) == []
    assert fetch(cluster, module, 5.5) == []
    assert fetch(cluster, module, 6.5) == ["1:1", "2:1"]


def test_what_arrives_meanwhile_is_not_notified_twice() -> None:
    cluster, module = cluster_of_two()
    events = [cluster.stamp("p", "a", content=b"x") for _ in range(3)]
    cluster.settle("p", "a", confirmed=[1, 2, 3])
    assert arrive(module, events[2], 1.0) == []
    (question,) = module.questions(2.0)
    module.answered(cluster.ask("a", *question.ranges), 2.0)
    (wanted,) = module.fetches(2.0)
    assert wanted.ranges == [1, 2]
    answer = cluster.read_log(1, wanted.ranges)
    assert arrive(module, events[0], 2.1) == ["1:1"]
    assert seen(module.fetched(1, answer.ranges, answer.through, found(answer), 2.2)) == ["1:2", "1:3"]
    assert arrive(module, events[1], 2.3) == []
    assert module.counts.duplicates == 1


def test_pages_come_one_after_the_other_and_a_lost_answer_is_asked_for_again() -> None:
    cluster, module = cluster_of_two()
    for _ in range(10):
        cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", confirmed=list(range(1, 11)))
    module.heads([1, 10], 1.0)
    (question,) = module.questions(2.0)
    module.answered(cluster.ask("a", *question.ranges), 2.0)
    (wanted,) = module.fetches(2.0)
    assert wanted.ranges == [1, 10]
    assert module.questions(2.0) == []
    assert module.fetches(2.5) == [], "it is on its way"
    assert module.next_deadline() == pytest.approx(3.0)
    (again,) = module.fetches(3.0)
    page = cluster.read_log(1, again.ranges, limit=4)
    assert seen(module.fetched(1, page.ranges, page.through, found(page), 3.1)) == ["1:1", "1:2", "1:3", "1:4"]
    (rest,) = module.fetches(3.1)
    assert rest.ranges == [5, 10]


def test_an_answer_says_nothing_of_what_it_was_not_asked() -> None:
    """Seen in a random run: 2 was pending when 3 was asked for, and confirmed when the answer came."""
    cluster, module = cluster_of_two()
    events = [cluster.stamp("p", "a", content=b"x") for _ in range(3)]
    arrive(module, events[0], 1.0)
    cluster.settle("p", "a", confirmed=[3])
    module.heads([1, 3], 1.0)
    (question,) = module.questions(2.0)
    module.answered(cluster.ask("a", *question.ranges), 2.0)
    (wanted,) = module.fetches(2.0)
    assert wanted.ranges == [3, 3]
    answer = cluster.read_log(1, wanted.ranges)
    cluster.settle("p", "a", confirmed=[2])
    (question,) = module.questions(3.0)
    module.answered(cluster.ask("a", *question.ranges), 3.0)
    assert seen(module.fetched(1, answer.ranges, answer.through, found(answer), 3.0)) == []
    assert fetch(cluster, module, 9.0) == ["1:2", "1:3"]


def test_what_the_log_does_not_have_is_lost_when_it_is_overdue() -> None:
    """Only after repair failed: a damaged row, or one without content."""
    cluster, module = cluster_of_two()
    for content in (b"x", b"damaged", b"x"):
        cluster.stamp("p", "a", content=content)
    cluster.settle("p", "a", confirmed=[1, 2, 3])
    del cluster.log[1][2]
    module.heads([1, 3], 1.0)
    assert fetch(cluster, module, 2.0) == ["1:1"]
    assert seen(wait(module, 2.0, 5.9)) == []
    assert seen(wait(module, 5.9, 6.1)) == ["gap 1:2-2 lost", "1:3"]


def test_while_the_log_does_not_answer_nothing_is_lost() -> None:
    """Strict mode waits: the event can be repaired, and will be."""
    cluster, module = cluster_of_two()
    cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", confirmed=[1])
    module.heads([1, 1], 1.0)
    (question,) = module.questions(2.0)
    module.answered(cluster.ask("a", *question.ranges), 2.0)
    for second in range(3, 60):
        assert module.fetches(float(second))
        assert seen(wait(module, float(second), second + 0.5)) == []


def test_numbers_that_the_stage_has_forgotten_are_in_the_log() -> None:
    """R17, R18: they expired one by one, but the log has them: the topic does not begin anew."""
    cluster = Cluster({"a": 0}, settings=StageSettings(number_retention=32))
    cluster.open("p")
    cluster.rule("a")
    module = reader(cluster.subscribe("one", "a"))
    for _ in range(100):
        event = cluster.stamp("p", "a", content=b"x")
        cluster.settle("p", "a", confirmed=[event.number])
    module.heads([1, 100], 1.0)
    words, now = list[str](), 2.0
    while len(words) < 100 and now < 20:
        words += fetch(cluster, module, now)
        now += 1.0
    assert words == [f"1:{number}" for number in range(1, 101)]


def test_a_full_room_takes_no_more_from_the_log() -> None:
    """What it cannot keep is asked for again later, not at once and not for ever in a circle."""
    cluster, _ = cluster_of_two()
    module = OrderingModule("strict", OrderingTimes(max_waiting=2))
    module.subscribed(cluster.subscribe("one", "a", "b").topics, 0.0, filters=False)
    cluster.stamp("p", "b")  # nobody confirms it, and it never arrives
    for _ in range(6):
        cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", confirmed=list(range(1, 7)))
    module.heads([1, 6], 1.0)
    assert fetch(cluster, module, 2.0) == []
    assert (module.waiting, module.counts.overflow) == (2, 4)
    assert module.questions(2.0) == []
    assert module.questions(3.0)


def test_trim_is_an_effect() -> None:
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"x")
    cluster.settle("p", "a", confirmed=[1])
    assert LogTrim(1, 1) in cluster.stages[0].step(TrimLog(1, 1, []), cluster.now)
    assert cluster.stages[0].step(TrimLog(1, 1, []), cluster.now) == []
    assert cluster.stages[0].step(TrimLog(9, 1, []), cluster.now) == []


@pytest.mark.parametrize(("is_known", "told", "deps"), [
    (True, None, [2, 1]), (True, [9, 9], [2, 1]), (False, [2, 1], [2, 1]), (False, None, []),
])  # fmt: skip
def test_what_a_stage_knows_of_a_number_is_believed_before_its_row(
    is_known: bool, told: list[int] | None, deps: list[int]
) -> None:
    cluster = Cluster({"a": 0, "b": 0})
    for name in ("r", "s"):
        cluster.open(name)
        cluster.subscribe(name, "a", "b")
    cluster.open("p")
    cluster.rule("a")
    cluster.stamp("p", "b")
    cluster.stamp("p", "a", content=b"x")
    if not is_known:
        cluster.stages[0]._state.topics[1].records.clear()
    assert cluster.stages[0].log.known_deps(1, 1, told) == deps
