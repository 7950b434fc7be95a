"""Subscriptions as bit sets, and the sequencing groups they make."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.core.cluster import Cluster, entries, wild

from inorder.protocol.names import exact
from inorder.protocol.wire import SpaceFilter
from inorder_worker.sequencer.bits import bit_set, members
from inorder_worker.sequencer.commands import ChangeSubscription, CreateTopics
from inorder_worker.sequencer.reader_classes import HERE
from inorder_worker.sequencer.sequencing import Overlaps, Subscription
from inorder_worker.sequencer.topic_manager import TopicManager

CLIENTS, TOPICS = ("A", "B", "C"), range(1, 7)
Change = tuple[str, set[int], set[int], bool, set[int]]
"""Whose subscription it is, its topics, those that linger, whether it takes events out of turn, what it cannot read."""


def _subscription(client: str, active: set[int], lingering: set[int], bounded: bool, plain: set[int]) -> Subscription:
    return Subscription(client, 1, 1, [], bounded, set(active), plain & active, dict.fromkeys(lingering, (1, 1)))


def _overlaps() -> Overlaps:
    overlaps = Overlaps()
    for topic in reversed(TOPICS):
        overlaps.classes.add(TopicManager(topic, "s", str(topic), 0, number=topic, tick=7 - topic), HERE)
    return overlaps


def _of(change: Change, overlaps: Overlaps) -> None:
    overlaps.put(_subscription(*change))


def _check(overlaps: Overlaps) -> None:
    """Compare what is kept with what the subscriptions say."""
    known, classes = list(overlaps), overlaps.classes
    had = {each.client_id: each.active | each.lingering.keys() for each in known}
    assert set(members(overlaps.anyone)) == set().union(*had.values())
    assert overlaps.plain == bit_set({topic for each in known for topic in each.plain})
    for topic in TOPICS:
        together = [topics - {topic} for topics in had.values() if topic in topics]
        once = set().union(*together)
        twice = {each for each in once if sum(each in topics for topics in together) > 1}
        assert overlaps.group(topic) == (bit_set(once), bit_set(twice))
        its = classes.of(topic)
        has_ticks = any((each.bounded or each.durable) and topic in had[each.client_id] for each in known)
        assert bool(its.readers & overlaps.ticked) == has_ticks
        assert its.topics == bit_set([each for each in TOPICS if _readers(known, each) == _readers(known, topic)])
        assert [each.tick for each in its.risen] == sorted((7 - each for each in members(its.topics)), reverse=True)
        assert its.tick == max(7 - each for each in members(its.topics))
    assert [each.tick for each in classes.latest_first()] == sorted(
        {classes.of(topic).tick for topic in TOPICS}, reverse=True
    )
    assert classes.latest in (None, next(classes.latest_first()))
    assert len(classes) == len({_readers(known, topic) for topic in TOPICS})


def _readers(known: list[Subscription], topic: int) -> tuple[frozenset[str], frozenset[str]]:
    """Return whose topic it is, and who reads it."""
    having = frozenset(each.client_id for each in known if topic in each.active or topic in each.lingering)
    return having, frozenset(each.client_id for each in known if topic in each.active)


_topics = st.sets(st.sampled_from(TOPICS), max_size=4)
_changes = st.tuples(st.sampled_from(CLIENTS), _topics, _topics, st.booleans(), _topics)


@given(st.lists(_changes, min_size=1, max_size=8))
def test_what_is_kept_beside_the_subscriptions_is_what_they_say(changes: list[Change]) -> None:
    """R1, R10, R13, R21, R22: also of clients that have left all of it, or become strict, or read properties again."""
    overlaps = _overlaps()
    for change in changes:
        _of(change, overlaps)
        _check(overlaps)


@given(st.lists(_changes, min_size=1, max_size=4), st.sets(st.sampled_from(CLIENTS), min_size=1))
def test_a_new_topic_is_as_the_whole_subscriptions_anew(changes: list[Change], clients: set[str]) -> None:
    overlaps = _overlaps()
    for change in changes:
        _of(change, overlaps)
    new = TopicManager(7, "s", "7", 0)
    overlaps.classes.add(new, HERE)
    covering = [known for client in sorted(clients) if (known := overlaps.get(client)) is not None]
    assume(covering)
    for known in covering:
        known.active.add(7)
    overlaps.gained(covering, 1 << 7)
    once, twice = overlaps.group(7)
    whole = Overlaps()
    for topic in (7, *reversed(TOPICS)):
        whole.classes.add(TopicManager(topic, "s", str(topic), 0), HERE)
    for known in overlaps:
        whole.put(known)
    assert (once, twice) == whole.group(7)
    assert [overlaps.group(topic) for topic in TOPICS] == [whole.group(topic) for topic in TOPICS]
    assert (overlaps.anyone, len(overlaps.classes)) == (whole.anyone, len(whole.classes))


def test_a_topic_that_another_client_still_has_is_somebodys() -> None:
    """R19: else nobody would be told what an event on a topic beside it follows there; and it would retire."""
    overlaps = _overlaps()
    _of(("A", {1, 2}, set(), False, set()), overlaps)
    _of(("B", {2, 3}, set(), False, set()), overlaps)
    _of(("B", {3}, set(), False, set()), overlaps)
    assert set(members(overlaps.anyone)) == {1, 2, 3}


@pytest.mark.parametrize("kind", ["exact", "wild", "new"])
def test_r13_stamps_go_into_the_payload_where_a_reader_cannot_read_properties(kind: str) -> None:
    """Also those of a topic that is made later under its wildcard; and not any more when it has left."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("p", "x", "y")
    cluster.step(1, CreateTopics("p", 1, 1, [] if kind == "new" else [("m", "n/1")]))
    cluster.run()
    plain = SpaceFilter("m", exact("n/1") if kind == "exact" else wild("n/#"), reads_properties=False)
    others = [SpaceFilter("m", exact("a")), SpaceFilter("m", wild("+/1"))]
    cluster.step(1, ChangeSubscription("x", 1, 1, [*others, plain], False))
    cluster.run()
    cluster.subscribe("y", wild("#"))
    topic = cluster.topic("p", "n/1")
    cluster.run()
    assert [cluster.stamp("p", name).in_payload for name in ("n/1", "a", "b")] == [True, False, False]
    cluster.reorder("n/1", "a b")
    cluster.run()
    assert cluster.stages[0].stage_of(topic) == 0
    assert cluster.stamp("p", "n/1").in_payload, "each stage knows it"
    cluster.step(1, ChangeSubscription("x", 1, 2, others, False))
    cluster.run()
    assert not cluster.stamp("p", "n/1").in_payload


def test_r13_a_new_topic_joins_the_groups_of_topics_that_had_events_before() -> None:
    """Also where so many others have had events that only the members of the group are looked at."""
    others = [f"t{at}" for at in range(12)]
    cluster = Cluster(dict.fromkeys(["m/a", *others], 0))
    for client in ("p", "q", "x", "y", *others):
        cluster.open(client)
    for client in ("x", "y"):
        cluster.subscribe(client, wild("m/#"))
    for name in others:
        cluster.subscribe(name, name, "m/a")
    cluster.stamp("p", "m/a")
    new = cluster.topic("q", "m/b")
    for name in ("m/b", *others):
        cluster.stamp("q", name)
    assert cluster.stamp("p", "m/a").deps == [new, 1]


def test_r22_an_entry_covers_no_event_of_a_topic_outside_of_its_group() -> None:
    """R22, rule 3: the active reader of all three waits for both; v has its place beside t for one that lingers."""
    cluster = Cluster({"t": 0, "v": 0, "c": 0})
    cluster.open_all("p", "q", "A", "B", "C")
    cluster.subscribe("A", "t", "v", "c")
    cluster.subscribe("B", "t", "v")
    cluster.subscribe("C", "t", "c")
    cluster.subscribe("B")
    for name in "vc":
        cluster.stamp("p", name)
    assert entries(cluster.stamp("q", "t")) == {cluster.ids["v"]: 1, cluster.ids["c"]: 1}
