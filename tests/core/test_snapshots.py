"""Snapshots of a stage: what is in them, and what is made again from it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.core.cluster import Cluster, wild
from tests.core.test_growth import _stage

from inorder.protocol.wire import NewEvent
from inorder_worker.sequencer import picture
from inorder_worker.sequencer.commands import (
    Create,
    LeaveSession,
    OpenSession,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.picture import SLICE_BYTES
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import StageData


def _busy() -> list[Stage]:
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("p", "x", "y")
    cluster.subscribe("x", "a", "b")
    cluster.subscribe("y", "a", wild("#"))
    cluster.subscribe("x", "b")
    cluster.stamp("p", "b")
    cluster.request("p", "b")
    return cluster.stages


def test_a_snapshot_restores_to_the_same_behaviour() -> None:
    for old in _busy():
        new = Stage.restore(old.snapshot())
        assert msgspec.msgpack.decode(old.snapshot()) == msgspec.msgpack.decode(new.snapshot())
        assert repr(old) == repr(new)
        assert (old.index, old.count, old.now) == (new.index, new.count, new.now)


def test_look_ups_are_made_again_as_they_were() -> None:
    for old in _busy():
        assert _look_ups(Stage.restore(old.snapshot())) == _look_ups(old)


def _look_ups(stage: Stage) -> dict[str, Any]:
    """Return what a stage has beside its data, so that it can be compared."""
    found = vars(stage._state).copy()
    for name in StageData.__dataclass_fields__:
        found.pop(name, None)
    del found["tally"], found["_rules"]  # counts of a process; data
    readers, deadlines, ages = (found.pop(name) for name in ("overlaps", "deadlines", "ages"))
    rules, bounds, lingers = found.pop("_logged"), found.pop("log_rules"), list(found.pop("lingers"))
    assert found.keys() > {"topics", "by_name", "on_stage", "latest", "sessions"}
    orders = {name: list(found[name]) for name in ("topics", "gone", "ended", "sessions")}
    return found | {
        "orders": orders,
        "overlaps": (list(readers), readers.anyone, [readers.group(topic) for topic in (1, 2)]),
        "classes": [
            (each.topics, each.side, [its.id for its in each.risen], each.tick)
            for each in readers.classes.latest_first()
        ],
        "changes": [found.pop(name).saved() for name in ("growths", "partings")],
        "deadlines": (deadlines.first(), ages.first()),
        "logged": [(rules.covers("s", name), bounds.widest("s", name)) for name in "ab"],
        "lingers": lingers,
    }


def _anything(rng: random.Random, cluster: Cluster, names: list[str]) -> None:
    """Do something that changes topics: here, above, or all of them."""
    cluster.now += rng.randrange(3_000)
    name = rng.choice(names)
    if any(cluster.stages[1].stage_of(cluster.ids[each]) is None for each in names):
        return  # topics have ended
    match rng.randrange(12):
        case 0:
            cluster.subscribe(rng.choice("xy"), *rng.sample(names, rng.randrange(4)))
        case 1:
            cluster.subscribe(rng.choice("xy"), wild("#"))
        case 2:
            cluster.settle("p", name, void=[cluster.stamp("p", name).number])
        case 3:
            cluster.step(0, Tick())
            cluster.step(1, Tick())
        case 4:
            order = rng.sample(names, len(names))
            cluster.reorder(" ".join(order[:2]), " ".join(order[2:]))
        case 5:
            for stage in (0, 1):
                cluster.step(stage, LeaveSession("q", 1))
                cluster.step(stage, OpenSession("q", 1))
        case 6:
            cluster.rule(name)
        case 7:
            cluster.request(rng.choice("pq"), name)  # it rides, or is open
        case _:
            number = cluster.stamp("p", name, content=b"x").number
            if rng.random() < 0.8:
                cluster.settle("p", name, confirmed=[number])
    cluster.run()


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_of_its_beginning_whatever_is_done_before_its_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written slice by slice, between the commands of clients."""
    monkeypatch.setattr(picture, "SLICE_BYTES", 200)
    monkeypatch.setattr(picture, "_RECORDS", 2)
    rng, names = random.Random(seed), ["a", "b", "c", "d", "e"]
    settings = StageSettings(number_retention=64, number_age_ms=60_000, linger_ms=5_000, topic_ttl_ms=9_000)
    cluster = Cluster({name: at % 2 for at, name in enumerate(names)}, settings=settings)
    for client in ("p", "q", "x", "y"):
        cluster.open(client)
    for _ in range(60):
        _anything(rng, cluster, names)
    slices = 0
    for _ in range(6):
        expected = [stage.snapshot() for stage in cluster.stages]
        pictures = [stage.picture() for stage in cluster.stages]
        unfinished = pictures[:]
        while unfinished := [each for each in unfinished if not each.go_on()]:
            for _ in range(rng.randrange(4)):
                _anything(rng, cluster, names)
            slices += len(unfinished)
        assert [bytes(each.data) for each in pictures] == expected
    assert slices > 40
    assert all(type(stage._state.topics) is dict for stage in cluster.stages)


def test_a_slice_of_a_snapshot_is_as_long_with_ten_times_as_many_numbers() -> None:
    """A stage does nothing else meanwhile."""
    longest, slices = list[int](), list[int]()
    for count in (2_000, 20_000):
        stage = _stage(2)
        for first in range(1, count, 1_000):
            topic = 1 + first // 1_000 % 2
            events = [NewEvent(counter, topic) for counter in range(first, first + 1_000)]
            stage.step(Create("publisher", 1, first, events), 0)
            stage.step(SettleNumbers("publisher", 1, 1, [topic, 1, count], []), 0)
        its, lengths = stage.picture(), [0]
        while not its.go_on():
            lengths.append(len(its.data))
        slices.append(len(lengths))
        longest.append(
            max(after - before for before, after in zip(lengths, [*lengths[1:], len(its.data)], strict=True))
        )
    assert max(longest) < 1.2 * SLICE_BYTES
    assert slices[1] > 2 + slices[0]


def test_a_small_stage_is_written_in_one_slice() -> None:
    assert all(stage.picture().go_on() for stage in _busy())


def test_a_picture_that_is_dropped_is_not_drawn_and_a_second_one_waits_for_its_end() -> None:
    stage = _busy()[0]
    first = stage.picture()
    with pytest.raises(RuntimeError, match="not finished"):
        stage.picture()
    first.drop()
    expected = stage.snapshot()
    assert Stage.restore(expected).snapshot() == expected
