"""Topics change places by popularity: R15, with the figures of the TR's sections 5 and 6."""

from __future__ import annotations

import random
from math import exp

import pytest
from tests.core.cluster import Cluster

from inorder.protocol.wire import Done, Moved, ShowOrder
from inorder_worker.sequencer.commands import Automatic, Configure, Pin, SetAutomatic, StageSettings, Tick
from inorder_worker.sequencer.popularity import MIN_EVENTS, swaps, worth
from inorder_worker.sequencer.stage import Stage

ALPHA, BETA = 0.1, 0.2
"""The paper's choice: "the value beta = 0.2 represents a good trade-off", "setting alpha = 0.1"."""


# -- the formula ---------------------------------------------------------------------------------------------------


def test_r15_a_swap_is_worth_more_than_beta() -> None:
    """x is of 1,000 events, and just as much as beta is not enough."""
    counts = {1: 1980, 2: 20}
    beta = worth(10, ALPHA) - worth(0, ALPHA)
    assert swaps([[3], [2], [1]], {**counts, 3: 0}, [1], ALPHA, beta) == []
    assert swaps([[3], [2], [1]], {**counts, 3: 0}, [1], ALPHA, beta - 1e-9) == [(3, 2)]


def test_r15_f_rises_towards_one() -> None:
    """ "it eventually converges to f(x) = 1": only exp(-1/(alpha(x+1))) does, exp(-(x+1)/alpha) would tend to 0."""
    values = [worth(x, ALPHA) for x in (0, 1, 5, 10, 44, 100, 1000)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(exp(-10))
    assert 0.98 < values[-1] < 1


def test_r15_a_smaller_alpha_delays_the_convergence() -> None:
    """ "with alpha = 0.5 [...] function f() grows rapidly allowing few topic swaps"."""
    assert worth(10, 0.1) < worth(10, 0.3) < worth(10, 0.5)


@pytest.mark.parametrize(("beta", "last"), [(0.1, 93), (0.2, 43), (0.3, 27)])
def test_r15_from_some_popularity_on_nothing_is_worth_a_swap_any_more(beta: float, last: int) -> None:
    """f saturates: with the paper's alpha and beta a topic with x of 44 or more is never swapped down. So x cannot be
    a count of all time, as in the paper, and is one per 1,000 events of a window."""
    assert worth(last, ALPHA) + beta < 1
    assert not worth(last + 1, ALPHA) + beta < 1


def test_r15_the_greater_beta_the_fewer_swaps() -> None:
    """Figure 17: 51.8 swaps with beta 0.1, 7.8 with 0.3. Figure 16: 15.1 with alpha 0.1, 7.4 with 0.5."""
    rng = random.Random(1)
    counts = {topic: rng.randint(1, 40) for topic in range(1, 51)}
    stages = [list(range(first, first + 10)) for first in range(1, 51, 10)]

    def count(alpha: float, beta: float) -> int:
        return len(swaps(stages, counts, (), alpha, beta))

    assert count(0.1, 0.1) > count(0.1, 0.2) > count(0.1, 0.3) > 0
    assert count(0.1, 0.2) > count(0.5, 0.2)


# -- which topics --------------------------------------------------------------------------------------------------


def test_r15_a_lower_topic_with_more_events_changes_places_with_a_higher_one() -> None:
    assert swaps([[1], [2]], {1: 5, 2: 995}, (), ALPHA, BETA) == [(1, 2)]


def test_r15_a_higher_topic_with_more_events_stays() -> None:
    """The direction: T proposes to a *lower* T' with f(x') > f(x) + beta."""
    assert swaps([[1], [2]], {1: 995, 2: 5}, (), ALPHA, BETA) == []


def test_r15_beta_keeps_topics_of_about_the_same_popularity_where_they_are() -> None:
    assert swaps([[1], [2]], {1: 490, 2: 510}, (), ALPHA, BETA) == []
    assert swaps([[1], [2]], {1: 450, 2: 550}, (), ALPHA, 0.0) == [(1, 2)]


def test_r15_the_most_popular_topic_meets_the_least_popular_one() -> None:
    counts = {1: 2, 2: 10, 3: 40, 4: 400, 5: 548}
    assert swaps([[1, 2], [3], [4, 5]], counts, (), ALPHA, BETA) == [(1, 5), (2, 4)]


def test_r15_a_pinned_topic_takes_no_part() -> None:
    counts = {1: 5, 2: 5, 3: 990}
    assert swaps([[1, 2], [3]], counts, {3}, ALPHA, BETA) == []
    assert swaps([[1, 2], [3]], counts, {1}, ALPHA, BETA) == [(2, 3)]


def test_r15_a_few_events_say_nothing() -> None:
    assert swaps([[1], [2]], {2: MIN_EVENTS - 1}, (), ALPHA, BETA) == []
    assert swaps([[1], [2]], {2: MIN_EVENTS}, (), ALPHA, BETA) == [(1, 2)]


def test_r15_swaps_come_to_rest() -> None:
    rng = random.Random(7)
    for _ in range(50):
        counts = {topic: rng.randint(0, 60) for topic in range(20)}
        stages: list[list[int]] = [[], [], []]
        for topic in counts:
            rng.choice(stages).append(topic)
        for one, other in swaps(stages, counts, (), ALPHA, BETA):
            at = next(stage for stage in stages if one in stage)
            below = next(stage for stage in stages if other in stage)
            assert stages.index(at) < stages.index(below)
            at[at.index(one)], below[below.index(other)] = other, one
        assert swaps(stages, counts, (), ALPHA, BETA) == []


# -- in the cluster ------------------------------------------------------------------------------------------------


def _cluster(window_ms: int = 1000) -> Cluster:
    cluster = Cluster({"a": 0, "b": 1, "c": 2}, settings=StageSettings(popularity_window_ms=window_ms))
    cluster.open("p")
    return cluster


def _publish(cluster: Cluster, **counts: int) -> None:
    for name, count in counts.items():
        for _ in range(count):
            cluster.stamp("p", name)


def _end_window(cluster: Cluster) -> None:
    cluster.now += 1000
    cluster.step(2, Tick())
    cluster.run()


def _order(cluster: Cluster) -> str:
    (answer,) = cluster.stages[0].inspection.order(ShowOrder(1))
    return "".join(each.name for each in answer.topics)


def test_r15_topics_change_places_when_a_window_ends() -> None:
    cluster = _cluster()
    _publish(cluster, a=2, b=18, c=80)
    assert cluster.stages[2].next_deadline() == cluster.now + 1000
    _end_window(cluster)
    assert _order(cluster) == "cba"
    assert [stage.order_epoch for stage in cluster.stages] == [2, 2, 2]
    assert any(isinstance(frame, Moved) for _, frame in cluster.frames)
    assert cluster.stages[2].next_deadline() == cluster.now + 1000


def test_r15_only_the_recent_window_counts() -> None:
    """A topic that was popular once gives way (the TR's figure 20: an abrupt change of popularity)."""
    cluster = _cluster()
    _publish(cluster, a=500, c=1)
    _end_window(cluster)
    assert _order(cluster) == "abc"
    _publish(cluster, c=120)
    _end_window(cluster)
    assert _order(cluster) == "cba"


def test_r15_pinned_topics_stay() -> None:
    cluster = _cluster()
    cluster.step(2, Pin("op", 1, 1, [3], True))
    _publish(cluster, c=120)
    _end_window(cluster)
    assert _order(cluster) == "abc"


def _proposed() -> Cluster:
    """A proposal to swap is on its way to the bottom stage."""
    cluster = _cluster()
    _publish(cluster, c=120)
    cluster.now += 1000
    cluster.step(2, Tick())
    cluster.move(2, 1)
    cluster.move(1, 0)
    assert len(cluster.waiting(0, 2)) == 1
    return cluster


def test_r15_a_topic_that_was_pinned_meanwhile_stays() -> None:
    cluster = _proposed()
    cluster.step(2, Pin("op", 1, 1, [3], True))
    cluster.run()
    assert _order(cluster) == "abc"


def test_r15_switched_off_nothing_is_counted() -> None:
    cluster = _cluster(window_ms=0)
    _publish(cluster, c=120)
    assert cluster.stages[2].next_deadline() != cluster.now + 1000
    _end_window(cluster)
    assert _order(cluster) == "abc"
    for stage in range(3):
        cluster.step(stage, Configure(StageSettings(popularity_window_ms=1000)))
    _end_window(cluster)
    assert _order(cluster) == "abc"  # what was published before it was switched on is not in the window
    _publish(cluster, c=120)
    _end_window(cluster)
    assert _order(cluster) == "cba"


def test_r15_a_proposal_that_comes_during_another_change_is_dropped() -> None:
    cluster = _proposed()
    cluster.reorder("b", "a", "c")
    cluster.run()
    assert _order(cluster) == "bac"
    assert cluster.stages[2].order_epoch == 2


def _set(cluster: Cluster, window_ms: int, alpha: float = ALPHA, beta: float = BETA) -> None:
    assert cluster.step(2, SetAutomatic("op", 1, 7, Automatic(window_ms, alpha, beta))) == [Done(7)]
    cluster.run()


def test_r15_an_operator_turns_it_on_and_off() -> None:
    """What was published before is in no window; and the top stage goes by what the bottom stage was told."""
    cluster = _cluster(window_ms=0)
    _publish(cluster, c=120)
    _set(cluster, 1000, beta=0.9)
    assert cluster.stages[2].next_deadline() == cluster.now + 1000
    _end_window(cluster)
    assert _order(cluster) == "abc"
    _publish(cluster, b=95, c=5)
    _end_window(cluster)
    assert _order(cluster) == "bac"  # from nothing to everything: even over this beta
    _publish(cluster, b=1, a=2, c=97)
    _set(cluster, 1000, alpha=1.0, beta=0.0)
    _publish(cluster, b=40, c=60)
    _end_window(cluster)
    assert _order(cluster) == "cba"
    _set(cluster, 0)
    assert cluster.stages[2].next_deadline() != cluster.now + 1000
    _publish(cluster, a=120)
    _end_window(cluster)
    assert _order(cluster) == "cba"


def test_r15_what_an_operator_said_outlives_settings_and_restarts() -> None:
    cluster = _cluster(window_ms=1000)
    assert cluster.stages[2].automatic == Automatic(1000, ALPHA, BETA)
    _set(cluster, 0, 0.3, 0.4)
    cluster.step(2, Configure(StageSettings(popularity_window_ms=2000)))
    assert cluster.stages[2].automatic == Automatic(0, 0.3, 0.4)
    assert Stage.restore(cluster.stages[2].snapshot()).automatic == Automatic(0, 0.3, 0.4)


def test_r14_a_sealed_stage_keeps_it_for_later() -> None:
    """Nothing of the old order may leave behind the flush."""
    cluster = _cluster(window_ms=0)
    cluster.reorder("b", "a", "c")
    assert cluster.stages[2].is_sealed
    assert cluster.step(2, SetAutomatic("op", 1, 7, Automatic(1000, ALPHA, BETA))) == []
    cluster.run()
    assert cluster.stages[2].automatic.window_ms == 1000
    assert ("op", Done(7)) in cluster.frames
    assert _order(cluster) == "bac"
