"""R10: what topics owe when somebody has left others beside them, and that little of it is kept."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.cluster import Cluster

from inorder_worker.sequencer import filling
from inorder_worker.sequencer.bits import bit_set, packed
from inorder_worker.sequencer.commands import StageSettings, Tick
from inorder_worker.sequencer.partings import OWED_KEPT, PARTINGS_KEPT, Parting, Partings, SavedParting


def _parting(tick: int, kept: list[int], left: list[int], **owed: list[int]) -> Parting:
    """``owed``: by the topics that owe it, as ``t1_2``; all others that are kept are bare."""
    by = [(bit_set([int(each) for each in name[1:].split("_")]), deps) for name, deps in owed.items()]
    return Parting(tick, bit_set(kept), bit_set(left), bit_set(kept) & ~sum(topics for topics, _ in by), by)


def test_what_was_left_beside_a_topic_and_what_it_owes() -> None:
    partings = Partings()
    partings.note(_parting(5, [1, 2], [3], t1=[3, 7]))
    partings.note(_parting(9, [1, 4], [6], t1_4=[6, 2]))
    assert partings.latest == 9
    assert partings.parted_from(1, 5) == (bit_set([3, 6]), 0, [[6, 2], [3, 7]])
    assert partings.parted_from(2, 0) == (bit_set([3]), bit_set([3]), [])
    assert partings.parted_from(1, 6) == partings.parted_from(4, 0) == (bit_set([6]), 0, [[6, 2]])
    assert partings.parted_from(3, 5) == partings.parted_from(1, 10) == (0, 0, [])


def test_who_keeps_nothing_or_left_nothing_is_not_noted() -> None:
    partings = Partings()
    partings.note(_parting(5, [], [3]))
    partings.note(_parting(5, [3], []))
    assert (partings.latest, partings.saved()) == (-1, [])


def test_the_oldest_of_too_many_become_one_that_owes_so_much_at_most() -> None:
    partings = Partings()
    for tick in range(PARTINGS_KEPT):
        partings.note(_parting(tick, [1, 2], [3], t1=[3, tick]))
    assert len(partings.saved()) == PARTINGS_KEPT
    for tick in range(OWED_KEPT):
        assert partings.parted_from(1, 0)[1] == 0, "all of it is still owed"
        partings.note(_parting(PARTINGS_KEPT + tick, [1, 2], [3], t1=[3, PARTINGS_KEPT + tick]))
    left, bare, owed = partings.parted_from(1, 0)
    assert (left, bare, len(owed)) == (bit_set([3]), bit_set([3]), PARTINGS_KEPT - 1 + OWED_KEPT)
    assert len(partings.saved()) == PARTINGS_KEPT
    assert partings.parted_from(1, OWED_KEPT + 1)[1] == 0


def test_topics_that_end_are_forgotten() -> None:
    partings = Partings()
    partings.note(_parting(5, [1, 2], [3, 4], t1=[3, 7]))
    partings.forget(bit_set([1, 4]))
    assert partings.parted_from(1, 0) == (0, 0, [])
    assert partings.parted_from(2, 0) == (bit_set([3]), bit_set([3]), [])


def test_it_is_saved_and_what_earlier_releases_saved_is_bare() -> None:
    partings = Partings()
    partings.note(_parting(5, [1, 2], [3], t1=[3, 7]))
    saved = msgspec.msgpack.encode(partings.saved())
    again = Partings(msgspec.msgpack.decode(saved, type=list[SavedParting]))
    assert (again.latest, again.saved()) == (5, partings.saved())
    assert again.parted_from(1, 0) == partings.parted_from(1, 0) == (bit_set([3]), 0, [[3, 7]])
    old = msgspec.msgpack.encode([(5, packed(bit_set([1, 2])), packed(bit_set([3])))])
    before = Partings(msgspec.msgpack.decode(old, type=list[SavedParting]))
    assert before.parted_from(1, 0) == (bit_set([3]), bit_set([3]), [])


# -- at a stage ----------------------------------------------------------------------------------------------------


def _left(kept: int, topics: int = 200) -> tuple[Cluster, list[str]]:
    """Of two readers of everything one keeps so few topics; its linger is over, and everything has risen since."""
    names = [f"t{at}" for at in range(topics)]
    cluster = Cluster(dict.fromkeys(names, 0), settings=StageSettings(linger_ms=1_000))
    cluster.open_all("A", "B", "p", "q")
    cluster.all_subscribe(("A", "B"), *names)
    for name in names:
        cluster.stamp("p", name)
    cluster.subscribe("B", *names[:kept])
    cluster.now += 1_000
    cluster.step(0, Tick())
    for name in names[kept:]:
        cluster.stamp("p", name)
    return cluster, names


@pytest.mark.parametrize("kept", [1, 100])
def test_what_is_kept_names_one_event_for_all_that_was_left(kept: int) -> None:
    cluster, names = _left(kept)
    stamps = [cluster.stamp("q", name).deps for name in names[:kept]]
    last = [cluster.ids[names[-1]], 1]
    assert all(each[:2] == last for each in stamps), "the last event before the linger ended"
    assert max(map(len, stamps)) <= 6, "and the last one in what is kept, then and now"


def test_what_is_owed_and_what_a_publisher_follows_are_named_once() -> None:
    """R19: its last event on a topic that was left may be later than the one that is owed."""
    cluster, names = _left(1, topics=3)
    assert cluster.stamp("p", names[0]).deps == [cluster.ids[names[-1]], 2]


def test_of_very_many_classes_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next events of the others name all that was left."""
    monkeypatch.setattr(filling, "OWED_AT_ONCE", 1)
    names = ["a", "b", "u", "v"]
    cluster = Cluster(dict.fromkeys(names, 0), settings=StageSettings(linger_ms=1_000))
    cluster.open_all("A", "B", "C", "p", "q")
    cluster.all_subscribe(("A", "B"), *names)
    cluster.subscribe("C", "b")
    for name in ("u", "v"):
        cluster.stamp("p", name)
    cluster.subscribe("B", "a", "b")
    cluster.now += 1_000
    cluster.step(0, Tick())
    u, v, b = (cluster.ids[each] for each in ("u", "v", "b"))
    assert cluster.stamp("q", "b").deps == [v, 1, u, 1]
    assert cluster.stamp("q", "a").deps == [v, 1, b, 1]
