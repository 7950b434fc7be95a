"""R8 with R19: a topic begins behind what its publishers published before; random runs against what was published."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.core.cluster import Cluster, arrive, base_of, entries, reader
from tests.core.without import RULES

from inorder.protocol.wire import Subscribed
from inorder_worker.sequencer.commands import LeaveSession, OpenSession, StageSettings, Tick
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import Snapshot

NAMES = "abcdef"


def _away(cluster: Cluster, client: str) -> None:
    """Its session is dropped, and the client comes back."""
    for stage in range(len(cluster.stages)):
        cluster.step(stage, LeaveSession(client, 1))
    cluster.now += 30_000
    first = cluster.counters.get(client, 0) + 1
    for stage in range(len(cluster.stages)):
        cluster.step(stage, Tick())
        cluster.step(stage, OpenSession(client, 1, first, first, own=first))


def _recover(cluster: Cluster) -> None:
    cluster.stages = [Stage.restore(each.snapshot()) for each in cluster.stages]


class _Publisher:
    """What a client does for R19, one event after the other: where requests enter, and what they say."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.events: list[tuple[str, int]] = []
        self.lost = 0  # so many of them are of before its last connection
        cluster.open(name)

    def home(self, name: str) -> int:
        stage = self.cluster.stages[0].stage_of(self.cluster.ids[name])
        assert stage is not None
        return stage

    def last(self, name: str, before: int) -> int:
        """Return where its last event in a topic is, -1 for none."""
        return max((at for at in range(before) if self.events[at][0] == name), default=-1)

    def publish(self, name: str) -> None:
        end = len(self.events)
        home = self.home(name)
        entry = max(home, self.home(self.events[-1][0])) if self.events else home
        after: list[int] = []
        for other in NAMES:
            at = self.last(other, end)
            passed = home <= self.home(other) <= entry and at >= self.lost
            if other != name and at > self.last(name, end) and not passed:
                after += (self.cluster.ids[other], self.events[at][1])
        event = self.cluster.stamp(self.name, name, at=entry, after=after)
        self.events.append((name, event.number))

    def follows(self, name: str, other: str) -> tuple[int, bool]:
        """Return its last number in another topic before its last event in this one, and whether its next event here
        names a later one."""
        at = self.last(name, len(self.events))
        before = self.last(other, max(at, 0))
        return self.events[before][1] if before >= 0 else 0, self.last(other, len(self.events)) > at


def _wrong(publishers: list[_Publisher], had: dict[str, int], new: list[str], answer: Subscribed) -> list[str]:
    """Return the bases that say too little or too much. ``had``: the reader's topics, with their starts."""
    ids, wrong = publishers[0].cluster.ids, list[str]()
    for start in answer.topics:
        if start.topic.name in new:
            base = base_of(answer, start.topic.id)
            for other, began in had.items():
                follows = [each.follows(start.topic.name, other) for each in publishers]
                needed = max((number for number, is_named in follows if not is_named and number > began), default=0)
                reached = publishers[0].cluster.number(other)
                if not needed <= base.get(ids[other], 0) <= reached:
                    wrong.append(f"{start} after {other}: {follows}")
    return wrong


def _run(seed: int) -> list[str]:
    chance = random.Random(seed)
    stages = chance.choice((1, 1, 2, 3))
    cluster = Cluster(
        {name: chance.randrange(stages) for name in NAMES}, stages=stages, settings=StageSettings(linger_ms=10**9)
    )
    cluster.open("A")
    publishers = [_Publisher(cluster, name) for name in "pq"]
    had = {chance.choice(NAMES): 0}
    cluster.subscribe("A", *had)
    while len(had) < len(NAMES):
        for _ in range(chance.randint(1, 12)):
            publisher = chance.choice(publishers)
            what = chance.random()
            if what < 0.1:
                _away(cluster, publisher.name)
                publisher.lost = len(publisher.events)
            elif what < 0.2:
                homes = {name: chance.randrange(stages) for name in NAMES}
                cluster.reorder(*(" ".join(each for each in NAMES if homes[each] == at) for at in range(stages)))
                cluster.run()
            elif what < 0.3:
                _recover(cluster)
            else:
                publisher.publish(chance.choice(NAMES))
        new = chance.sample(
            [name for name in NAMES if name not in had], min(chance.randint(1, 2), len(NAMES) - len(had))
        )
        answer = cluster.subscribe("A", *had, *new)
        wrong = _wrong(publishers, had, new, answer)
        if wrong:
            return wrong
        had |= {each.topic.name: each.start for each in answer.topics if each.topic.name in new}
    return []


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_a_base_has_what_a_publisher_published_before_and_nothing_that_does_not_exist(seed: int) -> None:
    assert [_run(each) for each in range(seed, seed + 20)] == [[]] * 20


@pytest.mark.parametrize("rule", ["begun_behind", "parted"])
def test_that_is_seen_without_the_rule(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    assert any(_run(seed) for seed in range(400))


def test_a_thousand_topics_of_one_publisher_are_not_a_million_numbers() -> None:
    names = [f"t{at}" for at in range(1000)]
    cluster = Cluster(dict.fromkeys(names, 0))
    cluster.open("p")
    cluster.open("A")
    cluster.subscribe("A", "t1", "t2")
    for name in names * 2:
        cluster.stamp("p", name)
    snapshot = msgspec.msgpack.decode(cluster.stages[0].snapshot(), type=Snapshot)
    assert sum(len(each.base) for each in snapshot.topics) == 0


def test_what_a_dropped_session_has_published_counts() -> None:
    cluster = Cluster({"a": 0, "b": 0})
    for client in ("p", "A", "B"):
        cluster.open(client)
    cluster.subscribe("A", "a")
    cluster.subscribe("B", "a")
    cluster.stamp("p", "a")
    cluster.stamp("p", "b")
    _away(cluster, "p")
    _recover(cluster)
    answer = cluster.subscribe("A", "a", "b")
    assert (base_of(answer, 1), base_of(answer, 2)) == ({}, {1: 1})


def test_what_topics_of_two_stages_follow_is_remembered_until_the_order_changes() -> None:
    cluster = Cluster({"a": 0, "b": 1})
    for client in ("p", "q", "A"):
        cluster.open(client)
    cluster.subscribe("A", "a")
    cluster.stamp("p", "a")
    cluster.stamp("p", "b", at=1, after=[1, 1])
    cluster.stamp("q", "a")  # nothing on b follows it
    assert base_of(cluster.subscribe("A", "a", "b"), 2) == {1: 1}
    cluster.subscribe("A", "a")
    cluster.reorder("b", "a")
    cluster.run()
    assert base_of(cluster.subscribe("A", "a", "b"), 2) == {1: 2}, "what follows nothing is not told apart any more"
    assert all(not topic.base for stage in cluster.stages for topic in stage._state.topics.values())


def test_a_base_is_told_once_for_all_topics_that_begin_together() -> None:
    names = [f"t{at}" for at in range(40)]
    cluster = Cluster(dict.fromkeys(names, 0))
    for client in ("p", "A"):
        cluster.open(client)
    cluster.subscribe("A", *names[:20])
    for name in names:
        cluster.stamp("p", name)
    answer = cluster.subscribe("A", *names)
    assert all(not each.base for each in answer.topics)
    (shared,) = answer.bases
    assert (len(shared.topics), shared.numbers) == (20, [part for topic in range(1, 21) for part in (topic, 1)])


def test_a_durable_subscriber_that_is_back_begins_new_topics_behind_what_it_has_not_got_yet() -> None:
    cluster = Cluster({"a": 0, "b": 0})
    cluster.rule("a")
    cluster.open("p")
    cluster.open("D")
    cluster.subscribe("D", "a", durable=True)
    x = cluster.stamp("p", "a", content=b"x")
    cluster.stamp("p", "b")
    cluster.step(0, LeaveSession("D", 1))
    cluster.step(0, OpenSession("D", 2))
    cluster.versions["D"] = 0
    answer = cluster.subscribe("D", "a", "b", incarnation=2, durable=True)
    module = reader(answer)
    z = cluster.stamp("p", "b")
    assert entries(z) == {}
    assert arrive(module, z) == []
    assert arrive(module, x) == ["1:1", "2:2"]
