"""How many numbers an owner has open at a stage, and how many it may have: `Cluster.step` compares the count with what
the sessions have, behind each step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.cluster import Cluster

from inorder.protocol.wire import NewEvent, NumberState, Timestamps
from inorder_worker.sequencer.commands import (
    Create,
    LeaveSession,
    OpenSession,
    Release,
    Reorder,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.stage import Stage

WITHOUT_ABANDONING = StageSettings(confirm_timeout_ms=10**9, publisher_grace_ms=10**9)


def _opened(cluster: Cluster, **owners: tuple[str, int]) -> None:
    for client_id, (owner, most) in owners.items():
        for stage in range(len(cluster.stages)):
            cluster.step(stage, OpenSession(client_id, 1, owner=owner, max_owned=most))


def _asked(cluster: Cluster, stage: int, client_id: str, *counters: int, topic: int = 1) -> tuple[Any, ...]:
    """Ask for timestamps; return the counters that have one, those that were refused, and by which bound."""
    order_epoch = cluster.stages[stage].order_epoch
    frames = cluster.step(stage, Create(client_id, 1, 1, [NewEvent(each, topic) for each in counters], order_epoch))
    answers = [each for each in [*frames, *cluster.run()] if isinstance(each, Timestamps)]
    made = [event.counter for each in answers for event in each.events]
    return made, [counter for each in answers for counter in each.refused], max(each.owned for each in answers)


def _counts(cluster: Cluster) -> list[dict[str, int]]:
    return [each._state.open_numbers.by_owner for each in cluster.stages]


def test_all_sessions_of_an_owner_have_so_many_open_together_and_no_more() -> None:
    cluster = Cluster({"a": 0})
    _opened(cluster, p=("o", 3), q=("o", 3), other=("x", 3), admin=("", 0))
    assert _asked(cluster, 0, "p", 1, 2) == ([1, 2], [], 0)
    assert _asked(cluster, 0, "q", 1, 2, 3) == ([1], [2, 3], 3)
    assert _asked(cluster, 0, "p", 1, 3) == ([1], [3], 3), "what has a number is answered again"
    assert _asked(cluster, 0, "other", 1, 2, 3) == ([1, 2, 3], [], 0)
    assert _asked(cluster, 0, "admin", 1, 2, 3, 4) == ([1, 2, 3, 4], [], 0)
    assert _counts(cluster) == [{"o": 3, "x": 3, "": 4}]
    cluster.step(0, SettleNumbers("p", 1, 1, [1, 1, 1], [1, 2, 2]))
    assert _asked(cluster, 0, "q", 2, 3, 4) == ([2, 3], [4], 3)
    cluster.step(0, SettleNumbers("q", 1, 1, [1, 3, 3], [], [1, 11, 12]))
    assert _counts(cluster) == [{"x": 3, "": 4}]


@pytest.mark.parametrize(("its", "most", "owned"), [(2, 3, 0), (3, 3, 0), (3, 2, 2), (0, 2, 2)])
@pytest.mark.parametrize("entry", [0, 1])
def test_the_lower_bound_counts_also_where_a_request_enters_below(entry: int, its: int, most: int, owned: int) -> None:
    cluster = Cluster({"a": 0, "b": 1})
    cluster.step(entry, OpenSession("p", 1, owner="o", max_open=its, max_owned=most))
    bound = min(its or most, most)
    counters = list(range(1, 6))
    assert _asked(cluster, entry, "p", *counters) == (counters[:bound], counters[bound:], owned)
    assert _counts(cluster) == [{"o": bound}, {}]


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_is_given_up_counts_no_more(*, is_gone: bool) -> None:
    cluster = Cluster({"a": 0})
    _opened(cluster, p=("o", 2))
    assert _asked(cluster, 0, "p", 1, 2, 3) == ([1, 2], [3], 2)
    cluster.step(0, Release("op", 1, 1, 1, 1, 1, NumberState.VOID))
    assert _counts(cluster) == [{"o": 1}]
    if is_gone:
        cluster.step(0, LeaveSession("p", 1))
    cluster.now += 10**7
    cluster.step(0, Tick())
    assert _counts(cluster) == [{}]


def test_what_is_open_moves_with_its_topic_and_its_owner() -> None:
    """Also to a stage that the session has never been at; and a snapshot counts the same."""
    cluster = Cluster({"a": 0, "b": 1}, settings=WITHOUT_ABANDONING)
    cluster.step(1, OpenSession("p", 1, owner="o", max_owned=3))
    assert _asked(cluster, 1, "p", 1, 2, topic=2) == ([1, 2], [], 0)
    assert _counts(cluster) == [{}, {"o": 2}]
    cluster.step(1, Reorder("op", 1, 1, 2, [[2], [1]]))
    cluster.run()
    assert _counts(cluster) == [{"o": 2}, {}]
    assert _asked(cluster, 1, "p", 3, 4, topic=2) == ([3], [4], 3)
    assert Stage.restore(cluster.stages[0].snapshot())._state.open_numbers.by_owner == {"o": 3}
    cluster.step(0, OpenSession("p", 1, owner="new", max_owned=9))
    assert _counts(cluster) == [{"new": 3}, {}]
