"""Who shares what: filters, clients and the pairs of topics that must be sequenced (R7, R13)."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.protocol.names import Filter, FilterKind, exact
from inorder_controlplane import sharing
from inorder_controlplane.sharing import ClientPair, Names, Overlap, Topic, TopicPair, overlap, subscribed, subscribers


def mqtt(text: str) -> Filter:
    return Filter(text, FilterKind.MQTT, text)


def redis(text: str) -> Filter:
    return Filter(text, FilterKind.REDIS, text)


# -- which topics a filter covers --------------------------------------------------------------------------------------

LEVELS = st.sampled_from(["", "a", "b", "$a", "é"])
NAMES = st.lists(st.lists(LEVELS, min_size=1, max_size=4).map("/".join), unique=True, max_size=12)
MQTT = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(st.one_of(LEVELS, st.just("+")), min_size=1, max_size=4),
    st.sampled_from([(), ("#",)]),
)
GLOBS = st.lists(st.sampled_from(["a", "b", "/", "é", "*", "?", "[ab]", "[^a]", "\\*", "["]), max_size=5).map("".join)


@given(NAMES, st.one_of(MQTT.map(mqtt), st.just(mqtt("#")), GLOBS.map(redis), LEVELS.map(exact)))
def test_a_filter_finds_the_topics_that_it_covers(names: list[str], filter: Filter) -> None:
    """The search says the same as the rule that stages go by (R13), topic by topic."""
    expected = sum(1 << at for at, name in enumerate(names) if filter.covers(name))
    assert Names(enumerate(names)).covered(filter) == expected


def test_a_filter_covers_topics_of_its_own_space_only() -> None:
    topics = [Topic("m", "a", 0), Topic("r", "a", 0), Topic("m", "b", 0)]
    clients = [[("m", mqtt("#"))], [("r", exact("a")), ("m", exact("b"))], [("other", exact("a"))], []]
    assert subscribed(topics, clients) == [0b101, 0b110, 0, 0]


@given(st.lists(st.integers(0, 31), max_size=9))
def test_subscribers_are_counted(masks: list[int]) -> None:
    assert subscribers(5, masks) == [sum(mask >> topic & 1 for mask in masks) for topic in range(5)]
    assert subscribers(0, []) == []


# -- who shares what ---------------------------------------------------------------------------------------------------

STAGES = [Topic("m", f"t{at}", at // 2) for at in range(6)]  # two topics on each of three stages


def test_the_matrix_holds_what_each_two_clients_share() -> None:
    found = overlap(STAGES, [0b111, 0b110, 0b1000], 10)
    assert found == Overlap(
        clients=[0, 1, 2],
        matrix=[[3, 2, 0], [2, 2, 0], [0, 0, 1]],
        pairs=[ClientPair(0, 1, 2, [1, 2])],
        topic_pairs=[TopicPair(2, 1, 2, 1)],
        topic_pairs_total=1,
    )


def test_the_clients_shown_are_those_that_share_most() -> None:
    masks = [0b1, 0b111100, 0b1100, 0b110000, 0b1]
    found = overlap(STAGES, masks, 2)
    assert found.clients == [1, 2]
    assert found.matrix == [[4, 2], [2, 2]]


def test_a_pair_of_clients_names_some_of_its_topics() -> None:
    assert overlap(STAGES, [0b111111] * 2, 5, named=3).pairs == [ClientPair(0, 1, 6, [0, 1, 2])]


def test_nobody_shares_anything() -> None:
    assert overlap([], [], 5) == Overlap([], [], [], [], 0)
    assert overlap([], [0, 0], 5) == Overlap([0, 1], [[0, 0], [0, 0]], [], [], 0)
    assert overlap(STAGES, [0b1, 0b10], 5).topic_pairs == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 0.0, 1.0, 5.0])), max_size=7),
    st.lists(st.integers(0, 127), max_size=6),
)
def test_pairs_of_topics_by_what_they_cost(places: list[tuple[int, float | None]], wide: list[int]) -> None:
    """Against every pair looked at one by one."""
    topics = [Topic("m", str(at), stage, rate) for at, (stage, rate) in enumerate(places)]
    masks = [mask & (1 << len(topics)) - 1 for mask in wide]
    expected = []
    for one, other in combinations(range(len(topics)), 2):
        lower, higher = (other, one) if topics[other].stage > topics[one].stage else (one, other)
        both = sum(mask >> one & mask >> other & 1 for mask in masks)
        if both > 1:
            expected.append(TopicPair(lower, higher, both, topics[lower].stage - topics[higher].stage))

    def cost(pair: TopicPair) -> tuple[float, ...]:
        rate = topics[pair.lower].rate or 0.0
        return -pair.stages_apart * rate, -pair.stages_apart, -pair.subscribers, pair.lower, pair.higher

    found = overlap(topics, masks, 5)
    assert found.topic_pairs == sorted(expected, key=cost)[:5]
    assert found.topic_pairs_total == len(expected)


# -- how much ----------------------------------------------------------------------------------------------------------


def test_a_thousand_clients_with_ten_thousand_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that could be asked for is bounded: pairs that are looked at, and what is answered."""
    monkeypatch.setattr(sharing, "MAX_PAIRS_LOOKED_AT", 20_000)
    rng = random.Random(5)
    topics = [Topic("m", f"site/{at % 100}/sensor/{at}", at % 8, float(at % 7)) for at in range(10_000)]
    filters = [
        [("m", mqtt(f"site/{rng.randrange(100)}/#")), ("m", exact(f"site/{at % 100}/sensor/{at}"))] for at in range(990)
    ]
    filters += [[("m", mqtt("#"))]] * 10
    masks = subscribed(topics, filters)
    found = overlap(topics, masks, 50)
    assert len(found.clients) == len(found.matrix) == len(found.topic_pairs) == 50
    assert found.topic_pairs_total == 10_000 * 9_999 // 2
    assert found.clients[:10] == list(range(990, 1000))
