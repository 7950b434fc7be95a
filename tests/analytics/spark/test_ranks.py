"""Two streams compared on arrays, against the obvious way."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from inorder_analytics.spark.ranks import NEAR, NOWHERE, compared, inversions


def obvious(ranks: list[int]) -> int:
    return sum(one > two for one, two in combinations(ranks, 2))


@pytest.mark.parametrize("length", range(7))
def test_inversions_of_all_short_permutations(length: int) -> None:
    for ranks in permutations(range(length)):
        assert inversions(np.array(ranks, np.int64)) == obvious(list(ranks))


@pytest.mark.parametrize("length", [1, 31, 32, 33, 200])
def test_inversions_of_longer_permutations(length: int) -> None:
    dice = np.random.default_rng(length)
    for _ in range(20):
        ranks = dice.permutation(length).astype(np.int64)
        assert inversions(ranks) == obvious(ranks.tolist())
    assert inversions(np.arange(length)[::-1].copy()) == length * (length - 1) // 2


@pytest.mark.parametrize("reach", [1, 2, NEAR - 1, NEAR, NEAR + 1, 3 * NEAR])
def test_inversions_of_streams_that_are_nearly_the_same(reach: int) -> None:
    """Near ranks are counted in another way than far ones."""
    dice = np.random.default_rng(reach)
    for _ in range(10):
        ranks = np.argsort(np.arange(300) + dice.uniform(0, reach, 300)).astype(np.int64)
        assert inversions(ranks) == obvious(ranks.tolist())
    swapped = np.arange(reach + 1)
    swapped[[0, -1]] = swapped[[-1, 0]]
    assert inversions(swapped) == 2 * reach - 1


def test_only_what_both_have_is_compared() -> None:
    """By place at the one: events 10 30 40 50; at the other they stand at 8 5 9 7, so the ranks are 2 0 3 1."""
    one = np.array([40, NOWHERE, 10, 20, 30, 50])
    two = np.array([9, 1, 8, NOWHERE, 5, 7])
    assert compared(one, two) == {
        "length": 4,
        "displaced": 2 + 1 + 1 + 2,
        "farthest": 2,
        "descents": 2,  # 2 0 and 3 1
        "opposite": 3,  # 2-0, 2-1, 3-1
        "detected": 0,
        "before": 10,
        "after": 30,
    }


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_equal_streams(length: int) -> None:
    places = np.arange(length) * 3
    found = compared(places, places)
    assert (found["length"], found["displaced"], found["opposite"], found["descents"]) == (length, 0, 0, 0)
    assert found["detected"] == max(length - 2, 0)
    assert found["before"] is None
