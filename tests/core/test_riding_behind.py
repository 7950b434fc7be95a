"""R19: a request may follow unanswered ones of its publisher that are created above its topic's stage: its timestamp
rides on behind them, and the stages where they are created add what it follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.cluster import SPACE, Cluster, entries

from inorder.endpoint.publisher import Publisher
from inorder.protocol.wire import AskNumbers, Frame, NumberState, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer.commands import Create, LeaveSession, OpenSession, StageSettings, Tick
from inorder_worker.sequencer.following import Following
from inorder_worker.sequencer.rides import StampRide

SETTINGS = StageSettings(session_timeout_ms=20_000, ended_kept_ms=600_000)


class Asking:
    """p's side: its publisher, and the stages on a table."""

    def __init__(self, topics: dict[str, int], *, logged: str = "") -> None:
        self.cluster = Cluster(topics, settings=SETTINGS)
        for stage in range(len(self.cluster.stages)):
            self.cluster.step(stage, OpenSession("p", 1, recent=1))
        self.publisher = Publisher()
        ids = self.cluster.ids
        self.publisher.named(TopicInfo(ids[name], SPACE, name, stage, name == logged) for name, stage in topics.items())
        self.stamped: dict[int, StampedEvent] = {}
        self.abandoned: list[int] = []

    def publish(self, *names: str) -> list[tuple[int, list[int]]]:
        """Return the entry stage and the counters of each frame that leaves."""
        for name in names:
            self.publisher.publish((SPACE, name), None, lambda: b"content")
        return self.ask()

    def ask(self) -> list[tuple[int, list[int]]]:
        frames = self.publisher.requests()
        for each in frames:
            self.take(self.cluster.step(each.stage, Create("p", 1, each.low, each.events, each.order_epoch)))
        return [(frame.stage, [event.counter for event in frame.events]) for frame in frames]

    def take(self, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, Timestamps)
            answers = self.publisher.answered(frame)
            self.stamped |= {event.counter: event for event in frame.events}
            self.abandoned += [each.counter for each in answers.abandoned]

    def run(self) -> None:
        self.take(self.cluster.run())

    def deps(self, counter: int) -> dict[int, int]:
        return entries(self.stamped[counter])


def test_it_does_not_wait_and_names_them() -> None:
    p = Asking({"a": 0, "b": 1, "c": 2})
    p.cluster.subscribe("r", "a", "b", "c")
    assert p.publish("a", "b", "c", "a") == [(2, [1, 2, 3, 4])]
    assert p.stamped == {}
    p.run()
    a, b, c = p.cluster.ids.values()
    assert [p.deps(counter) for counter in (1, 2, 3, 4)] == [{}, {a: 1}, {a: 1, b: 1}, {b: 1, c: 1}]


def test_its_number_is_pending_until_it_has_passed_them() -> None:
    p = Asking({"a": 0, "b": 1})
    p.publish("a", "b")
    b = p.cluster.ids["b"]
    question = AskNumbers(1, 1, b, [1, 1])
    assert [each.state for each in p.cluster.stages[1].numbers(question).answers] == [NumberState.PENDING]
    p.run()
    assert p.stamped[2].number == 1


def test_what_its_client_knew_already_is_named_once() -> None:
    """The request names the first a, whose number is known; stage 0 knows of the second one."""
    p = Asking({"a": 0, "b": 1})
    p.cluster.subscribe("r", "a", "b")
    p.publish("a")
    p.run()
    assert p.publish("a", "b") == [(1, [2, 3])]
    p.run()
    assert p.stamped[3].deps == [p.cluster.ids["a"], 2]


def test_it_names_only_what_came_behind_the_one_before_it_in_its_topic() -> None:
    p = Asking({"a": 0, "b": 1})
    p.cluster.subscribe("r", "a", "b")
    p.publish("a", "b", "b")
    p.run()
    assert [p.deps(counter) for counter in (2, 3)] == [{p.cluster.ids["a"]: 1}, {}]


def test_who_begins_its_topic_later_begins_behind_them() -> None:
    """R8: r has a when p publishes a, b, and begins b then; nobody had both, so no timestamp of b names a."""
    p = Asking({"a": 0, "b": 1})
    p.cluster.subscribe("r", "a")
    p.cluster.subscribe("q", "b")
    p.publish("a", "b")
    p.run()
    a, b = p.cluster.ids.values()
    assert p.deps(2) == {}
    assert [start.base for start in p.cluster.subscribe("r", "a", "b").topics if start.topic.id == b] == [[a, 1]]


def test_what_a_stage_cannot_add_any_more_is_never_published() -> None:
    """Stage 0 drops p's session behind a; b comes there without anybody who knows that it follows that. Its number is
    void, and what p publishes on b afterwards names a itself."""
    p = Asking({"a": 0, "b": 1})
    p.cluster.subscribe("r", "a", "b")
    p.publish("a", "b")
    p.take(p.cluster.move(1, 0))
    p.cluster.step(0, LeaveSession("p", 1))
    p.cluster.now += 20_000
    p.cluster.step(0, Tick())
    p.run()
    a, b = p.cluster.ids.values()
    assert (list(p.stamped), p.abandoned) == ([1], [2])
    assert [each.state for each in p.cluster.stages[1].numbers(AskNumbers(1, 1, b, [1, 1])).answers] == [
        NumberState.VOID
    ]
    assert p.publish("b") == [(1, [3])]
    p.run()
    assert (p.stamped[3].number, p.deps(3)) == (2, {a: 1})


def test_without_that_its_timestamp_would_say_that_it_follows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that adds what it knows of a publisher, though it may have dropped its session meanwhile."""
    whole = Following.add_from_above

    def add(self: Following, manager: Any, group: Any, ride: StampRide, deps: list[int]) -> bool:
        whole(self, manager, group, replace(ride, required=[]), deps)
        return True

    monkeypatch.setattr(Following, "add_from_above", add)
    with pytest.raises(AssertionError):
        test_what_a_stage_cannot_add_any_more_is_never_published()


def test_what_comes_behind_it_relies_on_the_same() -> None:
    """As above, with another b behind the one that is given up: it follows a only through that."""
    p = Asking({"a": 0, "b": 1})
    p.cluster.subscribe("r", "a", "b")
    p.publish("a", "b")
    p.take(p.cluster.move(1, 0))
    p.take(p.cluster.move(0, 1))
    assert list(p.stamped) == [1]
    p.publish("b")
    p.cluster.step(0, LeaveSession("p", 1))
    p.cluster.now += 20_000
    p.cluster.step(0, Tick())
    p.run()
    assert (list(p.stamped), p.abandoned) == ([1], [2, 3])


def test_it_waits_where_it_could_not_be_taken_back() -> None:
    """R18: an event log would serve it all the same."""
    p = Asking({"a": 0, "b": 1}, logged="b")
    p.cluster.subscribe("r", "a", "b")
    assert p.publish("a", "b") == [(0, [1])]
    assert p.ask() == [(1, [2])]
    p.run()
    assert p.deps(2) == {p.cluster.ids["a"]: 1}


def test_what_is_asked_again_is_not_for_a_log_that_its_topic_got_meanwhile() -> None:
    p = Asking({"a": 0, "b": 1})
    p.publisher.publish((SPACE, "a"), None, lambda: b"content")
    p.publisher.publish((SPACE, "b"), None, lambda: b"content")
    assert p.publisher.requests()
    p.publisher.named([TopicInfo(p.cluster.ids["b"], SPACE, "b", 1, True)])
    p.publisher.connected([1])
    (frame,) = p.publisher.requests()
    assert [event.content for event in frame.events] == [None, None]
