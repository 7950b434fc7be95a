"""Subscriptions as bit sets, and the sequencing groups they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.cluster import Cluster, wild

from inorder.protocol.names import exact
from inorder.protocol.wire import SpaceFilter
from inorder_worker.sequencer.commands import ChangeSubscription, CreateTopics
from inorder_worker.sequencer.sequencing import Overlaps, Subscription, bit_set, members, turned

CLIENTS, TOPICS = ("A", "B", "C"), range(1, 7)
Change = tuple[str, set[int], set[int], bool, set[int]]
"""Whose subscription it is, its topics, those that linger, whether it takes events out of turn, what it cannot read."""


def _subscription(client: str, active: set[int], lingering: set[int], bounded: bool, plain: set[int]) -> Subscription:
    return Subscription(client, 1, 1, [], bounded, set(active), plain & active, dict.fromkeys(lingering, (1, 1)))


def _of(change: Change, overlaps: Overlaps) -> None:
    overlaps.put(_subscription(*change))


def _check(overlaps: Overlaps) -> None:
    """Compare what is kept with what the subscriptions say."""
    known = list(overlaps)
    had = {each.client_id: each.active | each.lingering.keys() for each in known}
    assert set(members(overlaps.anyone)) == set().union(*had.values())
    for topic in TOPICS:
        together = [topics - {topic} for topics in had.values() if topic in topics]
        once = set().union(*together)
        twice = {each for each in once if sum(each in topics for topics in together) > 1}
        assert overlaps.group(topic) == (bit_set(once), bit_set(twice))
        assert overlaps.has_bounded(topic) == any(each.bounded and topic in had[each.client_id] for each in known)
        assert overlaps.has_plain(topic) == any(topic in each.plain for each in known)


_topics = st.sets(st.sampled_from(TOPICS), max_size=4)
_changes = st.tuples(st.sampled_from(CLIENTS), _topics, _topics, st.booleans(), _topics)


@given(st.lists(_changes, min_size=1, max_size=8))
def test_what_is_kept_beside_the_subscriptions_is_what_they_say(changes: list[Change]) -> None:
    """R1, R10, R13, R21: also of clients that have left all of it, or become strict, or read properties again."""
    overlaps = Overlaps()
    for change in changes:
        before = overlaps.get(change[0])
        had = set() if before is None else before.active | before.lingering.keys()
        overlaps.stale = 0
        _of(change, overlaps)
        assert set(members(overlaps.stale)) == had | change[1] | change[2]
        _check(overlaps)


@given(st.lists(_changes, min_size=1, max_size=4), st.sampled_from(CLIENTS), st.sampled_from(TOPICS))
def test_a_topic_more_and_a_topic_less_are_as_the_whole_subscription_anew(
    changes: list[Change], client: str, topic: int
) -> None:
    overlaps = Overlaps()
    for change in changes:
        _of(change, overlaps)
    known = overlaps.get(client)
    if known is None:
        return
    overlaps.stale = 0
    if topic not in known.active and topic not in known.lingering:
        known.active.add(topic)
        overlaps.gained([known], 1 << topic)
    elif topic in known.lingering and topic not in known.active:
        _, before = overlaps.group(topic)
        del known.lingering[topic]
        left = overlaps.lost(known, topic)
        _, after = overlaps.group(topic)
        assert left == before & ~after, "and nothing joins a group by it"
    else:
        return
    assert overlaps.stale >> topic & 1, "its group is another one"
    assert all(overlaps.stale >> each & 1 for each in known.active | known.lingering.keys())
    _check(overlaps)


@given(st.dictionaries(st.integers(0, 90), st.sets(st.integers(0, 300)), max_size=20))
def test_sets_that_are_turned_round_have_the_same_pairs(sets: dict[int, set[int]]) -> None:
    pairs = {(topic, other) for topic, others in sets.items() for other in others}
    found = list(turned({topic: bit_set(others) for topic, others in sets.items()}))
    assert {(topic, other) for other, topics in found for topic in members(topics)} == pairs
    assert len(found) == len({other for _, other in pairs}), "each once"


def test_a_topic_that_another_client_still_has_is_somebodys() -> None:
    """R19: else nobody would be told what an event on a topic beside it follows there; and it would retire."""
    overlaps = Overlaps()
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
