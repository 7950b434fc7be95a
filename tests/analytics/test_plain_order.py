"""How two orders differ, by hand: every figure with its arithmetic, and against the obvious O(n^2)."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analytics.traces import Trace

from inorder_analytics.plain import measure_rows
from inorder_analytics.plain.streams import compare, inversions
from inorder_analytics.reading import Row
from inorder_analytics.results import Displacement, EventName, Result, Witness

# one, two, S, sum of D, greatest D, inversions, descents, triples in both, in either
HAND = [
    ("", "", 0, 0, 0, 0, 0, 0, 0),
    ("a", "a", 1, 0, 0, 0, 0, 0, 0),
    ("abc", "abc", 3, 0, 0, 0, 0, 1, 1),
    # ranks at the other 2 1 3: D = 1 1 0; b a is the one inversion and the one descent; abc and bac are 2 sequences
    ("abc", "bac", 3, 2, 1, 1, 1, 0, 2),
    # ranks 4 3 2 1: D = 3 1 1 3; all 6 pairs, all 3 neighbours; 2 + 2 sequences
    ("abcd", "dcba", 4, 8, 3, 6, 3, 0, 4),
    # ranks 4 1 2 3: D = 3 1 1 1; a is behind three; a b alone is a descent; abc bcd, bcd cda: 1 in both, 3 in all
    ("abcd", "bcda", 4, 6, 3, 3, 1, 1, 3),
    # only a, c, d are common: streams acd, cda: ranks 3 1 2, D = 2 1 1
    ("axcd", "cyda", 3, 4, 2, 2, 1, 0, 2),
    ("abc", "xyz", 0, 0, 0, 0, 0, 0, 0),
]


@pytest.mark.parametrize(("one", "two", "length", "displaced", "furthest", "pairs", "descents", "both", "either"), HAND)
def test_a_pair_of_streams(
    one: str, two: str, length: int, displaced: int, furthest: int, pairs: int, descents: int, both: int, either: int
) -> None:
    found = compare(one, two)
    assert (found.length, found.displaced, found.farthest) == (length, displaced, furthest)
    assert (found.opposite, found.descents) == (pairs, descents)
    assert (found.detected, found.occurred) == (both, either)
    assert found.degree == (None if length == 0 else pytest.approx((length**2 - displaced) / length**2))


def test_the_papers_examples_of_the_ordering_degree() -> None:
    """One publication displaced by 1 gives 0.9949 at S = 14; a fully reversed stream gives 0.5, not 0."""
    swapped = compare([*range(14)], [1, 0, *range(2, 14)])
    assert swapped.degree == pytest.approx(1 - 2 * (1 - 0.9949), abs=5e-5)  # a swap displaces two
    assert compare([*range(100)], [*reversed(range(100))]).degree == 0.5


@given(st.permutations(range(30)), st.permutations(range(3, 40)))
def test_random_streams_against_the_obvious(one: list[int], two: list[int]) -> None:
    first = [each for each in one if each in two]
    second = [each for each in two if each in one]
    found = compare(one, two)
    pairs = [(x, y) for x, y in combinations(first, 2) if second.index(x) > second.index(y)]
    assert found.opposite == len(pairs)
    assert inversions([second.index(each) for each in first]) == len(pairs)
    distances = [abs(first.index(each) - second.index(each)) for each in first]
    assert (found.displaced, found.farthest) == (sum(distances), max(distances))
    assert found.descents == sum(pair in pairs for pair in pairwise(first))
    triples = [set(zip(each, each[1:], each[2:], strict=False)) for each in (first, second)]
    assert (found.detected, found.occurred) == (len(triples[0] & triples[1]), len(triples[0] | triples[1]))
    mirrored = compare(two, one)
    assert (mirrored.opposite, mirrored.displaced) == (found.opposite, found.displaced)


def measured(*traces: Trace, max_pairs: int = 200, seed: int = 0) -> Result:
    return measure_rows((Row(**row) for trace in traces for row in trace.rows), max_pairs=max_pairs, seed=seed)


def three() -> Trace:
    """Three subscribers, of whom the last swaps the middle two of four in what it is notified of; the second got two
    events from the broker in another order.

    ======  ==================  ==================
    client  raw                 delivered
    ======  ==================  ==================
    s1      a1 b1 a2 b2         a1 b1 a2 b2
    s2      b1 a1 a2 b2         a1 b1 a2 b2
    s3      a1 b1 a2            a1 a2 b1
    ======  ==================  ==================

    Raw: (s1, s2) S 4, D 1 1 0 0, degree 1 - 2/16 = 0.875, 1 inversion; (s1, s3) S 3, degree 1; (s2, s3) S 3 (b1 a1
    a2 and a1 b1 a2), degree 1 - 2/9, 1 inversion. Delivered: (s1, s2) 4, degree 1; (s1, s3) and (s2, s3) 3, a1 b1 a2
    and a1 a2 b1: D 0 1 1, degree 7/9, 1 inversion.
    """
    return (
        Trace()
        .streams(s1="a1 b1 a2 b2", s2="a1 b1 a2 b2", s3="a1 a2 b1")
        .arrive(s1="a1 b1 a2 b2", s2="b1 a1 a2 b2", s3="a1 b1 a2")
    )


def test_three_subscribers() -> None:
    result = measured(three())
    assert result.ordering_degree_raw == pytest.approx((4 * 0.875 + 3 * 1 + 3 * 7 / 9) / 10)
    assert result.ordering_degree_raw_min == pytest.approx(7 / 9)
    assert result.ordering_degree_delivered == pytest.approx((4 * 1 + 3 * 7 / 9 + 3 * 7 / 9) / 10)
    assert result.ordering_degree_delivered_min == pytest.approx(7 / 9)
    assert (result.tno_violations_raw, result.tno_violations_delivered) == (2, 2)
    # neighbours 3 + 2 + 2; each violation above is between neighbours
    assert result.conflict_rate_raw == pytest.approx(2 / 7)
    assert result.conflict_rate_delivered == pytest.approx(2 / 7)
    assert result.displacement_raw == Displacement(mean=(2 + 0 + 2) / 10, max=1)
    assert result.displacement_delivered == Displacement(mean=(0 + 2 + 2) / 10, max=1)
    # raw: s1 s2 have 2 sequences each and none in both: 0 of 4; s1 s3 1 of 1; s2 s3 0 of 2. Delivered 2/2, 0/2, 0/2.
    assert result.sequence_detection_raw_percent == pytest.approx(100 * 1 / 7)
    assert result.sequence_detection_percent == pytest.approx(100 * 2 / 6)
    assert (result.subscribers, result.events, result.topics, result.rows) == (3, 4, 2, 11)
    worst = result.worst_pairs[0]
    assert (worst.a, worst.b, worst.length, worst.length_raw) == ("s2", "s3", 3, 3)  # lower raw degree than s1 and s3
    assert worst.witness == Witness(
        first=EventName(topic="mqtt:b", number=1), second=EventName(topic="mqtt:a", number=2)
    )
    assert [(pair.a, pair.b, pair.witness is None) for pair in result.worst_pairs] == [
        ("s2", "s3", False),
        ("s1", "s3", False),
        ("s1", "s2", True),
    ]


def test_runs_are_apart_and_summed() -> None:
    other = three()
    for row in other.rows:
        row["run"] = "q"
    result = measured(three(), other, Trace("z").streams(s1="a1"))
    assert [each.run for each in result.by_run] == ["q", "r", "z"]
    assert result.tno_violations_raw == 4
    assert result.ordering_degree_raw == pytest.approx((4 * 0.875 + 3 * 1 + 3 * 7 / 9) / 10)
    assert (result.pairs.total, result.by_run[0].pairs.total, result.by_run[2].pairs.total) == (6, 3, 0)
    assert (result.subscribers, result.events, result.by_run[2].events) == (3, 9, 1)
    assert result.by_run[2].ordering_degree_raw is None
    assert result.by_run[0].tno_violations_delivered == 2


def test_a_sample_of_pairs_is_stated() -> None:
    result = measured(three(), max_pairs=1, seed=5)
    assert (result.pairs.total, result.pairs.used, result.pairs.limit, result.pairs.seed) == (3, 1, 1, 5)
    assert len(result.worst_pairs) == 1
    assert measured(three(), max_pairs=1, seed=5) == result


def test_what_counts_as_an_arrival() -> None:
    """Late, duplicate and before are arrivals, too; repaired ones are not; each event counts where it came first."""
    trace = Trace()
    for client in ("s1", "s2"):
        trace.notified(client, "a", 1)
        trace.notified(client, "a", 2, "late")
        trace.notified(client, "a", 3, "before")
        trace.notified(client, "a", 1, "duplicate")
        trace.notified(client, "a", 4, repaired=True)
        trace.notified(client, "a", 5, "retained")
    (pair,) = measured(trace).worst_pairs
    assert (pair.length_raw, pair.length) == (3, 2)
    assert measured(trace).tno_violations_raw == 0
    assert measured(trace).events == 4
    # s2's duplicate of a1 came before a2 and a3 at the other: no change, only where it came first counts
    trace.rows[6]["arrival_index"], trace.rows[9]["arrival_index"] = 4, 1
    assert measured(trace).tno_violations_raw == 0


def test_incarnations_follow_each_other_by_their_first_row() -> None:
    """A later incarnation with a lower number, whose indexes begin at 1 again."""
    trace = Trace().streams(s1="a1 a2 a3")
    trace.notified("s2", "a", 1, at=10, incarnation=9)
    trace.notified("s2", "a", 2, at=11, incarnation=9)
    trace.notified("s2", "a", 2, at=20, incarnation=3, redelivered=True)
    trace.notified("s2", "a", 3, at=21, incarnation=3)
    result = measured(trace)
    assert (result.ordering_degree_delivered, result.tno_violations_raw) == (1, 0)
    trace.rows[-1]["recorded_at"] = trace.rows[-2]["recorded_at"] = 1  # now incarnation 3 is the first: a2 a3 a1
    assert measured(trace).tno_violations_delivered == 2


def test_domains_and_topics_are_apart() -> None:
    trace = Trace().streams(s1="a1 a2", s2="a1 a2")
    for row in trace.rows[:2]:
        row["domain"] = 78
    result = measured(trace)
    assert (result.events, result.ordering_degree_delivered, result.topics) == (4, None, 1)


def test_nothing_recorded() -> None:
    result = measured(Trace())
    assert (result.events, result.rows, result.by_run) == (0, 0, [])
    assert result.ordering_degree_raw is None
    assert result.late_percent is None
