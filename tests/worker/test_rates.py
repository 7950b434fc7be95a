"""Numbers per second, by topic."""

from __future__ import annotations

from tests.core.cluster import Cluster

from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.rates import TopicRates


class Watch:
    """The rates of a cluster's stages, by a clock that the test moves."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.time = 100.0
        self.rates = TopicRates(lambda: dict(enumerate(cluster.stages)), lambda: self.time)
        self.rates.look()

    def of(self, stage: int) -> dict[int, float]:
        return self.rates.of(stage, self.cluster.stages[0].inspection.numbers())

    def span(self, **counts: int) -> None:
        """Let two seconds pass in which topics get numbers."""
        for name, count in counts.items():
            for _ in range(count):
                self.cluster.stamp("p", name)
        self.time += 2.0
        self.rates.look()


def cluster(topics: dict[str, int]) -> Cluster:
    made = Cluster(topics)
    made.open("p")
    for name in topics:
        made.stamp("p", name)
    return made


def test_rates_are_over_the_last_ten_seconds() -> None:
    watch = Watch(cluster({"a": 0, "b": 0}))
    assert watch.of(0) == {}, "what was there before does not count"
    watch.span(a=4)
    assert watch.of(0) == {1: 2.0}
    watch.span(a=2, b=2)
    assert watch.of(0) == {1: 1.5, 2: 0.5}
    for _ in range(3):
        watch.span()
    assert watch.of(0) == {1: 0.6, 2: 0.2}
    watch.span()
    assert watch.of(0) == {1: 0.2, 2: 0.2}
    watch.span()
    assert watch.of(0) == {}
    assert watch.of(7) == {}


def test_each_stage_counts_its_own_topics() -> None:
    """Timestamps that only pass a stage are not its own."""
    made = cluster({"a": 0, "b": 1})
    for each in ("x", "y"):
        made.open(each)
        made.subscribe(each, "a", "b")
    watch = Watch(made)
    watch.span(a=2, b=4)
    assert (watch.of(0), watch.of(1)) == ({1: 1.0}, {2: 2.0})


def test_a_new_topic_counts_from_its_first_number_on() -> None:
    watch = Watch(cluster({"a": 0}))
    watch.cluster.topic("p", "new")
    watch.span(new=6)
    assert watch.of(0) == {2: 3.0}


def test_numbers_that_came_with_a_topic_or_a_stage_were_not_given_here() -> None:
    made = cluster({"a": 0, "b": 1})
    watch = Watch(made)
    watch.span(a=2, b=2)
    made.reorder("a b", "")
    made.run()
    watch.span()
    assert watch.of(0) == {1: 1.0}
    watch.span(b=4)
    assert watch.of(0) == {1: 0.5, 2: 1.0}
    made.stages[0] = Stage.restore(made.stages[0].snapshot())
    watch.span(a=2)
    assert watch.of(0) == {}
    watch.span(a=2)
    assert watch.of(0) == {1: 1.0}


def test_a_look_costs_what_has_risen() -> None:
    """Of ten thousand topics one gets numbers: a look takes note of that one."""
    made = cluster({f"t{at}": 0 for at in range(100)})
    inspection = made.stages[0].inspection
    tick, _ = inspection.risen_since(0)
    made.stamp("p", "t7")
    assert inspection.risen_since(tick) == (tick + 1, [(8, 2)])
