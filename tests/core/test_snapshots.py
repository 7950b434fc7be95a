"""Snapshots of a stage: what is in them, and what is made again from it."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.core.cluster import Cluster, wild

from inorder_worker.sequencer.sequencing import Group
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import StageData


def _busy() -> list[Stage]:
    cluster = Cluster({"a": 0, "b": 1})
    for client in ("p", "x", "y"):
        cluster.open(client)
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
    groups = {topic: [getattr(each, name) for name in Group.__slots__] for topic, each in found.pop("groups").items()}
    rules, lingers = found.pop("_logged"), list(found.pop("lingers"))
    assert found.keys() > {"topics", "by_name", "recent", "on_stage", "connected", "last_topic", "sessions"}
    orders = {name: list(found[name]) for name in ("topics", "recent", "gone", "ended", "sessions")}
    return found | {
        "orders": orders,
        "groups": groups,
        "overlaps": (list(readers), readers.stale, readers.anyone, [readers.group(topic) for topic in (1, 2)]),
        "deadlines": (deadlines.first(), ages.first()),
        "logged": [rules.covers("s", name) for name in "ab"],
        "lingers": lingers,
    }
