"""A stage remembers so many settled numbers of a topic, so many of all topics together, and none for too long."""

from __future__ import annotations

import random

import pytest
from tests.core.cluster import Cluster
from tests.core.test_growth import _stage, _steps

from inorder.protocol.wire import NewEvent, NumberState
from inorder_worker.sequencer.commands import Configure, Create, SettleNumbers, StageSettings, Tick
from inorder_worker.sequencer.forgetting import AT_ONCE, PAUSE_MS
from inorder_worker.sequencer.stage import Stage

AGE = 80_000
NAMES = [f"t{at}" for at in range(12)]


def _cluster(**settings: int) -> Cluster:
    cluster = Cluster(dict.fromkeys(NAMES, 0), settings=StageSettings(confirm_timeout_ms=10**9, **settings))
    cluster.open("p")
    return cluster


def _published(cluster: Cluster, name: str, count: int = 1) -> None:
    for _ in range(count):
        cluster.settle("p", name, [cluster.stamp("p", name).number])


def _known(cluster: Cluster) -> dict[int, list[int]]:
    topics = cluster.stages[0]._state.topics.values()
    return {each.id: list(each.records) for each in topics if each.records}


def _kept(stage: Stage) -> int:
    count = sum(len(each.records) for each in stage._state.topics.values())
    assert stage._state.kept == count
    return count


def _tick(cluster: Cluster) -> int:
    """Step what is due, as a host does; return how many ticks that took."""
    ticks = 0
    while (due := cluster.stages[0].next_deadline()) is not None and due <= cluster.now:
        cluster.step(0, Tick())
        ticks += 1
        assert ticks < 1000, "a stage rests after its work"
    return ticks


def test_all_topics_together_keep_so_many_numbers_and_forget_the_oldest() -> None:
    cluster = _cluster(numbers_kept=30)
    for _ in range(20):
        for name in NAMES:
            cluster.now += 1
            _published(cluster, name)
            assert _kept(cluster.stages[0]) <= 30
    known = _known(cluster)
    assert all(numbers[-1] == 20 for numbers in known.values())
    assert min(numbers[0] for numbers in known.values()) > 14, "of each topic the last ones are left"
    answer = cluster.ask("t0", 1, 20)
    assert answer.expired_through == known.get(1, [21])[0] - 1
    assert [each.state for each in answer.answers] == [NumberState.CONFIRMED] * (20 - answer.expired_through)


def test_no_more_is_forgotten_than_is_too_much() -> None:
    cluster, kept = _cluster(numbers_kept=3), []
    for name in NAMES[:5]:
        cluster.now += 1
        _published(cluster, name)
        kept.append(_kept(cluster.stages[0]))
    assert kept == [1, 2, 3, 3, 3]


def test_topics_that_nobody_uses_any_more_are_forgotten_for_those_that_are_used() -> None:
    cluster = _cluster(numbers_kept=20)
    for name in NAMES[1:]:
        _published(cluster, name)
    cluster.now += 1
    _published(cluster, NAMES[0], 100)
    assert _kept(cluster.stages[0]) <= 20
    assert list(_known(cluster)) == [1]


def test_a_number_that_is_open_stays_and_holds_up_no_other_topic() -> None:
    """R16: its publisher may confirm it yet, and readers ask for it."""
    cluster = _cluster(numbers_kept=20)
    cluster.stamp("p", "t0")
    cluster.now += 1
    _published(cluster, "t1", 15)
    cluster.now += 1
    _published(cluster, "t2", 100)
    assert _known(cluster)[1] == [1]
    assert _kept(cluster.stages[0]) <= 21
    cluster.settle("p", "t0", [1])
    _published(cluster, "t2")
    assert 1 not in _known(cluster)


def test_a_number_is_forgotten_when_it_is_old_enough_and_not_much_later() -> None:
    cluster = _cluster(number_age_ms=AGE)
    born = dict[tuple[int, int], int]()
    for step in range(400):
        cluster.now += 1_000
        name = "t0" if step % 2 else NAMES[1 + step // 40]
        event = cluster.stamp("p", name)
        cluster.settle("p", name, [event.number])
        born[event.topic, event.number] = cluster.now
        _tick(cluster)
        known = {(topic, number) for topic, numbers in _known(cluster).items() for number in numbers}
        ages = {place: cluster.now - when for place, when in born.items()}
        assert known >= {place for place, age in ages.items() if age < AGE}
        assert all(ages[place] <= AGE + AGE // 8 for place in known)
    cluster.now += 2 * AGE
    while _tick(cluster):
        cluster.now += PAUSE_MS
    assert (_kept(cluster.stages[0]), cluster.stages[0].next_deadline()) == (0, None)
    assert cluster.stamp("p", "t0").number == 201
    assert cluster.ask("t0", 1, 201).expired_through == 200


def test_who_has_forgotten_what_was_old_enough_waits_for_the_next_one_and_no_longer() -> None:
    cluster = _cluster(number_age_ms=AGE)
    for name in NAMES[:2]:
        _published(cluster, name)
        cluster.now += PAUSE_MS // 5
    due = cluster.stages[0].next_deadline()
    assert due is not None
    cluster.now = due
    cluster.step(0, Tick())
    assert cluster.stages[0].next_deadline() == due + PAUSE_MS // 5


def test_a_topic_without_an_event_log_keeps_nothing_for_one() -> None:
    """R18: what a log that begins later would begin behind is told by what is remembered then."""
    cluster = _cluster(number_retention=32)
    _published(cluster, NAMES[0], 80)
    manager = cluster.stages[0]._state.topics[1]
    assert manager.expired > 0
    assert not manager.log_base


def test_an_old_number_that_is_open_is_looked_at_again_after_a_pause() -> None:
    cluster = _cluster(number_age_ms=AGE)
    cluster.stamp("p", "t0")
    _published(cluster, "t1")
    cluster.now += 2 * AGE
    assert _tick(cluster) == 1
    assert _known(cluster) == {1: [1]}
    assert cluster.stages[0].next_deadline() == cluster.now + PAUSE_MS
    cluster.settle("p", "t0", [1])
    cluster.now += PAUSE_MS
    _tick(cluster)
    assert _known(cluster) == {}


def test_one_tick_forgets_no_more_than_it_may() -> None:
    stage = _stage(count := 3 * AT_ONCE)
    stage.step(Configure(StageSettings(number_age_ms=AGE)), 0)
    for topic in range(1, count + 1):
        stage.step(Create("publisher", 1, topic, [NewEvent(topic, topic)]), 0)
        stage.step(SettleNumbers("publisher", 1, topic, [topic, 1, 1], []), 0)
    due, left = 2 * AGE, [count]
    while left[-1]:
        stage.step(Tick(), due)
        left.append(_kept(stage))
        due += PAUSE_MS
    assert left == [3 * AT_ONCE, 2 * AT_ONCE, AT_ONCE, 0]


@pytest.mark.parametrize("seed", range(6))
def test_a_recovery_at_any_moment_forgets_the_same(seed: int) -> None:
    """It follows from the numbers alone which are the oldest."""
    whole, halved = (_cluster(numbers_kept=25, number_age_ms=AGE, number_retention=96) for _ in range(2))
    for cluster in (whole, halved):
        rng = random.Random(seed)
        for _ in range(150):
            cluster.now += rng.randrange(3_000)
            name = rng.choice(NAMES)
            event = cluster.stamp("p", name)
            if rng.random() < 0.9:
                cluster.settle("p", name, [event.number])
            _tick(cluster)
            if rng.random() < 0.2 and cluster is halved:
                cluster.stages[0] = Stage.restore(cluster.stages[0].snapshot())
        assert _kept(cluster.stages[0]) > 0
    assert _known(whole) == _known(halved)


def _one_more(topics: int) -> int:
    """A number is one too many; each topic has one."""
    stage = _stage(topics + 1)
    stage.step(Configure(StageSettings(numbers_kept=topics)), 0)
    for topic in range(1, topics + 2):
        steps = _steps(lambda topic=topic: stage.step(Create("publisher", 1, topic, [NewEvent(topic, topic)]), topic))  # type: ignore[misc]
        stage.step(SettleNumbers("publisher", 1, topic, [topic, 1, 1], []), topic)
    assert _kept(stage) == topics
    return steps


def test_it_costs_the_same_to_find_the_oldest_of_many_topics() -> None:
    few, many = _one_more(20), _one_more(400)
    assert many < 1.2 * few


def test_of_numbers_that_are_known_nothing_is_said_to_be_forgotten() -> None:
    """R17: who asks for older ones as well hears up to where all is forgotten."""
    cluster = _cluster(number_retention=1)
    _published(cluster, "t0", 40)
    oldest = _known(cluster)[1][0]
    assert oldest > 1
    assert cluster.ask("t0", oldest, 40).expired_through == 0
    assert cluster.ask("t0", oldest - 1, 40).expired_through == oldest - 1


def test_a_stage_may_keep_a_single_number() -> None:
    cluster = _cluster(numbers_kept=1)
    for name in ("t0", "t1", "t0"):
        _published(cluster, name)
    assert _known(cluster) == {1: [2]}
