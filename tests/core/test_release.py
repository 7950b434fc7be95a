"""An operator settles numbers in place of their publisher: R16, and what R17 makes of it at subscribers."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.core.cluster import Cluster, arrive, reader, seen

from inorder.endpoint.ordering import OrderingModule
from inorder.protocol.wire import Frame, Moved, NumberState, Released, Settled, Timestamps
from inorder_worker.sequencer.commands import AnyCommand, LeaveSession, Release, StageSettings, Tick
from inorder_worker.sequencer.stage import Stage

VOID, ABANDONED, CONFIRMED = NumberState.VOID, NumberState.ABANDONED, NumberState.CONFIRMED


def release(cluster: Cluster, name: str, first: int, last: int, to: NumberState, at: int | None = None) -> Frame:
    topic = cluster.ids[name]
    stage = cluster.stages[-1].stage_of(topic) if at is None else at
    assert stage is not None
    (answer,) = cluster.step(stage, Release("op", 1, 7, topic, first, last, to))
    return answer


def one_stage(*clients: str, topics: str = "a b") -> Cluster:
    cluster = Cluster(dict.fromkeys(topics.split(), 0))
    for each in ("p", *clients):
        cluster.open(each)
    return cluster


def states(cluster: Cluster, name: str, last: int) -> str:
    """Return the states of numbers from 1 on, by their first letters."""
    return "".join(each.state.name[0] for each in cluster.ask(name, 1, last).answers)


def ask(cluster: Cluster, module: OrderingModule, now: float) -> list[str]:
    """Put the due questions of a subscriber."""
    names = {number: name for name, number in cluster.ids.items()}
    words: list[str] = []
    for question in module.questions(now):
        words += seen(module.answered(cluster.ask(names[question.topic], *question.ranges), now))
    return words


@pytest.mark.parametrize(("to", "told"), [(VOID, []), (ABANDONED, ["gap 1:2-3 abandoned"])])
def test_nobody_waits_for_a_released_number(to: NumberState, told: list[str]) -> None:
    """As void it is skipped silently, as abandoned it is a gap; only what is pending changes."""
    cluster = one_stage("x")
    module = reader(cluster.subscribe("x", "a"))
    events = [cluster.stamp("p", "a") for _ in range(4)]
    cluster.settle("p", "a", confirmed=[1, 4])
    assert arrive(module, events[0]) == ["1:1"]
    assert arrive(module, events[3]) == []
    assert ask(cluster, module, 5.0) == []
    assert release(cluster, "a", 1, 4, to) == Released(7, 1, [2, 3])
    assert states(cluster, "a", 4) == f"C{to.name[0] * 2}C"
    assert ask(cluster, module, 10.0) == [*told, "1:4"]
    topic = cluster.stages[0]._state.topics[1]
    assert (topic.confirmed, topic.void + topic.abandoned, topic.late) == (2, 2, 0)


@pytest.mark.parametrize("to", [VOID, ABANDONED])
def test_a_later_confirmation_is_late(to: NumberState) -> None:
    """Its publisher had handed it over: it hears that subscribers may have skipped the number."""
    cluster = one_stage()
    cluster.stamp("p", "a")
    release(cluster, "a", 1, 1, to)
    (answer,) = cluster.settle("p", "a", confirmed=[1])
    assert isinstance(answer, Settled)
    assert answer.late == [1, 1]
    assert cluster.stages[0]._state.topics[1].late == 1


def test_its_publishers_own_void_is_not_late() -> None:
    cluster = one_stage()
    cluster.stamp("p", "a")
    release(cluster, "a", 1, 1, VOID)
    (answer,) = cluster.settle("p", "a", void=[1])
    assert isinstance(answer, Settled)
    assert answer.late == []


@pytest.mark.parametrize("to", [VOID, ABANDONED])
def test_a_request_made_again_hears_that_the_number_was_given_up(to: NumberState) -> None:
    """So its event is not handed over under a number that subscribers have skipped."""
    cluster = one_stage()
    cluster.stamp("p", "a")
    release(cluster, "a", 1, 1, to)
    cluster.request("p", "a", counter=1)
    answer = cluster.frames[-1][1]
    assert isinstance(answer, Timestamps)
    assert (answer.events, answer.abandoned) == ([], [1, 1, 1])


@pytest.mark.parametrize("to", [VOID, ABANDONED])
def test_a_request_that_entered_below_hears_it_too(to: NumberState) -> None:
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open("p")
    cluster.request("p", "a", at=1)
    cluster.run()
    release(cluster, "a", 1, 1, to)
    cluster.request("p", "a", at=1, counter=1)
    (answer,) = [each for each in cluster.run() if isinstance(each, Timestamps)]
    assert (answer.events, answer.abandoned) == ([], [1, 1, 1])


def test_a_released_event_that_arrives_nonetheless_stays_in_its_place() -> None:
    """Before the number is skipped it is the event itself; afterwards it is a duplicate that nobody is told of."""
    cluster = one_stage("x", "y")
    early, late = (reader(cluster.subscribe(each, "a", "b")) for each in "xy")
    one = cluster.stamp("p", "a")
    other = cluster.stamp("p", "b")
    release(cluster, "a", 1, 1, VOID)
    assert arrive(early, other) == arrive(late, other) == []
    assert arrive(early, one) == ["1:1", "2:1"]
    assert ask(cluster, late, 5.0) == ["2:1"]
    assert arrive(late, one) == []
    assert late.counts.duplicates == 1


def test_an_incomplete_number_is_released_and_skipped_when_its_timestamp_is_complete() -> None:
    """Its dependencies must be met before anybody skips it (R17)."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("p", "x", "y")
    module = reader(cluster.subscribe("x", "a", "b"))
    cluster.subscribe("y", "a", "b")
    above = cluster.stamp("p", "a")
    assert cluster.request("p", "b") == []
    assert release(cluster, "b", 1, 1, VOID) == Released(7, 2, [1, 1])
    assert states(cluster, "b", 1) == "P"
    (answer,) = [each for each in cluster.run() if isinstance(each, Timestamps)]
    assert answer.abandoned == [2, 2, 1]
    assert states(cluster, "b", 1) == "V"
    module.heads([2, 1], 0.0)
    assert ask(cluster, module, 5.0) == []
    assert module.clock == {1: 0, 2: 0}, "number 1 of a comes before it"
    assert arrive(module, above, 6.0) == ["1:1"]
    assert module.clock == {1: 1, 2: 1}


def test_what_the_event_log_has_is_repaired_and_never_given_up() -> None:
    cluster = one_stage("x")
    cluster.rule("a")
    cluster.stamp("p", "a", content=b"one")
    cluster.stamp("p", "a")  # its publisher did not know of the log yet
    for to in (VOID, ABANDONED):
        answer = release(cluster, "a", 1, 1, to)
        assert isinstance(answer, Released)
        assert "repair them" in answer.refusal
    answer = release(cluster, "a", 2, 2, CONFIRMED)
    assert isinstance(answer, Released)
    assert "release them" in answer.refusal
    assert release(cluster, "a", 1, 2, CONFIRMED) == Released(7, 1, [1, 1])
    assert release(cluster, "a", 1, 2, VOID) == Released(7, 1, [2, 2])
    assert states(cluster, "a", 2) == "CV"
    assert cluster.stages[0].changed_heads() == [1]


def test_bad_ranges_are_refused_with_what_is_allowed() -> None:
    cluster = one_stage()
    refused = {
        (99, 1, 1): "there is no topic with the id 99",
        (1, 1, 1): "number 1 was not issued yet; the topic's last one is 0",
    }
    for (topic, first, last), why in refused.items():
        (answer,) = cluster.step(0, Release("op", 1, 7, topic, first, last, VOID))
        assert answer == Released(7, topic, [], why)
    for _ in range(5):
        cluster.stamp("p", "a")
    cluster.settle("p", "a", confirmed=[1, 2, 4])
    assert release(cluster, "a", 5, 6, VOID) == Released(
        7, 1, [], "number 6 was not issued yet; the topic's last one is 5"
    )
    none = "none of the numbers 1 to 2 is pending; "
    assert release(cluster, "a", 1, 2, VOID) == Released(7, 1, [], none + "from 3 to 5 there are 2")
    cluster.settle("p", "a", confirmed=[3, 5])
    assert release(cluster, "a", 1, 2, VOID) == Released(7, 1, [], none + "the topic has none")
    answer = release(cluster, "a", 1, 10_001, VOID)
    assert isinstance(answer, Released)
    assert answer.refusal == "10001 numbers are too many at once; allowed are 10000"


def test_what_has_expired_is_left_alone() -> None:
    cluster = Cluster({"a": 0}, settings=StageSettings(number_retention=2))
    cluster.open("p")
    for number in range(1, 7):
        cluster.stamp("p", "a")
        cluster.settle("p", "a", confirmed=[number] if number < 6 else [])
    assert cluster.stages[0]._state.topics[1].expired >= 3
    assert release(cluster, "a", 1, 6, VOID) == Released(7, 1, [6, 6])


def test_a_topic_elsewhere_is_named_with_its_home() -> None:
    cluster = Cluster({"a": 0, "b": 1})
    answer = release(cluster, "a", 1, 1, VOID, at=1)
    assert isinstance(answer, Moved)
    assert answer.homes == [1, 0]


def test_while_the_topic_order_changes_it_waits() -> None:
    """R14: then it is done, or its new home is named."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open("p")
    cluster.stamp("p", "a")
    cluster.stamp("p", "b")
    cluster.reorder("a b", "")
    assert cluster.step(1, Release("op", 1, 7, 2, 1, 1, VOID)) == []
    moved = [each for each in cluster.run() if isinstance(each, Moved)]
    assert moved[-1].homes == [2, 0]
    assert release(cluster, "b", 1, 1, VOID, at=0) == Released(7, 2, [1, 1])
    topic = cluster.stages[0]._state.topics[2]
    assert (topic.void, cluster.stages[1]._state.topics[2].void) == (1, 0)
    cluster.reorder("a", "b")
    cluster.run()
    assert cluster.stages[1]._state.topics[2].void == 1, "the counts go with the topic"


def test_a_publisher_that_is_gone_leaves_nothing_to_abandon() -> None:
    cluster = one_stage()
    cluster.stamp("p", "a")
    cluster.step(0, LeaveSession("p", 1))
    release(cluster, "a", 1, 1, VOID)
    assert cluster.stages[0].inspection.figures().pending == 0
    cluster.now += 3_600_000
    cluster.step(0, Tick())
    assert states(cluster, "a", 1) == "V"


class Recorded(Cluster):
    """Keeps what was stepped."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.steps: list[tuple[int, AnyCommand, int]] = []
        super().__init__(topics)

    def step(self, stage: int, command: AnyCommand) -> list[Frame]:
        self.steps.append((stage, command, self.now))
        return super().step(stage, command)


def test_a_replay_comes_to_the_same_state() -> None:
    """A release is journaled like any other command, and what it did is in a snapshot."""
    rng, cluster = random.Random(3), Recorded({"a": 0, "b": 0, "c": 1})
    cluster.open_all("p", "x")
    cluster.subscribe("x", "a", "b", "c")
    for _ in range(100):
        cluster.stamp("p", rng.choice("abc"))
        name, first = rng.choice("abc"), rng.randint(1, 30)
        release(cluster, name, first, first + rng.randint(0, 9), rng.choice((VOID, ABANDONED)))
    again = [Stage(index, 2) for index in range(2)]
    for stage, command, now in cluster.steps:
        again[stage].step(command, now)
    for one, other in zip(cluster.stages, again, strict=True):
        assert msgspec.msgpack.decode(one.snapshot()) == msgspec.msgpack.decode(other.snapshot())
        assert sum(each.void + each.abandoned for each in one._state.topics.values()) > 10


@pytest.mark.parametrize(("away", "given_up"), [(0, [1]), (9_999, [1]), (10_000, [1, 2])])
def test_r16_only_what_is_old_enough_is_given_up_unless_its_publisher_is_gone_for_long(
    away: int, given_up: list[int]
) -> None:
    """``away``: ms since its connection went; 0: it is there."""
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.stamp("p", "a")
    began = cluster.now
    cluster.now = began + 40_000
    cluster.stamp("p", "a")
    if away:
        cluster.now = began + 60_000 - away
        cluster.step(0, LeaveSession("p", 1))
    cluster.now = began + 60_000
    cluster.step(0, Tick())
    answers = cluster.ask("a", 1, 2).answers
    assert [each.number for each in answers if each.state is NumberState.ABANDONED] == given_up
