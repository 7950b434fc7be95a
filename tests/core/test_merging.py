"""A durable subscriber that comes back merges what is old by its ticks; all else comes behind it (R18, R22, R23)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core import without
from tests.core.cluster import Cluster, entries, seen
from tests.core.durables import change, publish, save

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, OrderingTimes
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState, Subscribed, Wait
from inorder_worker.sequencer.commands import TrimLog


class Resumed:
    """The next process of d, at the wheel of its log's answers."""

    def __init__(self, cluster: Cluster, *names: str, mode: Mode = "strict", room: int = 1_000) -> None:
        self.cluster = cluster
        cluster.open("d", 2)
        self.module = OrderingModule(mode, OrderingTimes(max_waiting=room))
        self.told = self.subscribed(change(cluster, "d", *names, incarnation=2))

    def subscribed(self, answer: Subscribed) -> list[str]:
        return seen(self.module.subscribed(answer.topics, 0.0, filters=False, bases=answer.bases))

    def read(self, name: str, number: int, *, ticks: bool = True) -> list[str]:
        """The log, or the broker, has brought an event."""
        row = self.cluster.log[self.cluster.ids[name]][number]
        its = row.ticks if ticks else ()
        return seen(self.module.receive(self.cluster.ids[name], number, row.deps, "x", 1, 0.0, ticks=its))


def cluster_of(homes: dict[str, int], *logged: str) -> Cluster:
    """All topics are read by d, which is durable, and by another one."""
    cluster = Cluster(homes)
    cluster.open_all("d", "x", "p", "q")
    cluster.rule(*logged)
    cluster.subscribe("x", *homes)
    change(cluster, "d", *homes)
    return cluster


def of_v_c_t() -> Resumed:
    """z on c, which is gone, stands for x on v (R22), so y on t names z alone."""
    cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "t")
    publish(cluster, "v")
    publish(cluster, "c")
    (y,) = publish(cluster, "t")
    assert entries(y) == {2: 1}
    return Resumed(cluster, "v", "c", "t")


def test_a_number_that_is_gone_implies_nothing() -> None:
    resumed = of_v_c_t()
    assert resumed.told == ["gap 2:1-1 expired"]
    assert resumed.read("t", 1) == []
    assert resumed.module.describe()["merging"]["ends"] == {1: 1, 3: 1}
    assert resumed.read("v", 1) == ["1:1", "3:1"]
    assert resumed.module.describe()["merging"] is None, "nothing old is left"


def test_an_old_number_that_is_waited_for_is_told() -> None:
    """No event names it: only the merge knows that y waits."""
    resumed = of_v_c_t()
    assert resumed.module.waits(30.0) == [], "nothing is here that could wait"
    resumed.read("t", 1)
    assert resumed.module.waits(0.5) == []
    assert resumed.module.waits(30.0) == [Wait(1, 1, 3, 1, 1, 30_000)]
    resumed.read("v", 1)
    assert resumed.module.waits(30.0) == []


@pytest.mark.parametrize("bug", [without.merge, without.next_of_all])
def test_without_a_merge_it_would(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert of_v_c_t().read("t", 1) == ["3:1"]


def test_what_is_new_comes_behind_all_that_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """w on c comes behind z, which is gone, and z behind x: that is what y on t relies on, and it has no other word."""

    def run() -> list[str]:
        cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "t")
        publish(cluster, "v")
        publish(cluster, "c")
        resumed = Resumed(cluster, "v", "c", "t")
        y = cluster.stamp("q", "t", content=b"y")
        assert entries(y) == {2: 1}
        return resumed.read("t", 1) + resumed.read("v", 1)

    assert run() == ["1:1", "3:1"]
    without.old_first(monkeypatch)
    assert run() == ["3:1", "1:1"]


def test_a_topic_that_the_former_process_has_left_implies_nothing() -> None:
    cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "c", "t")
    for name in "vct":
        publish(cluster, name)
    change(cluster, "d", "v", "t", version=2)
    resumed = Resumed(cluster, "v", "t")
    assert resumed.read("t", 1) == []
    assert resumed.read("v", 1) == ["1:1", "3:1"]


def trimmed_over_stages() -> list[str]:
    """b:1 follows a:1 of the same publisher on another stage, where no tick tells of b; it is trimmed."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("d", "p")
    cluster.rule("a", "b")
    change(cluster, "d", "a", "b")
    publish(cluster, "a")
    cluster.stamp("p", "b", content=b"x", at=1, after=[1, 1])
    cluster.stamp("p", "b", content=b"x", at=1)
    cluster.settle("p", "b", confirmed=[1, 2])
    cluster.step(1, TrimLog(2, 1, cluster.log[2][1].deps, has_ticks=True))
    resumed = Resumed(cluster, "a", "b")
    return resumed.told + resumed.read("b", 2) + resumed.read("a", 1)


def test_publisher_order_over_stages_outlives_a_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    """R19: of events without a common stage the base tells."""
    assert trimmed_over_stages() == ["gap 2:1-1 expired", "1:1", "2:2"]
    without.followed_by_what_is_gone(monkeypatch)
    assert trimmed_over_stages()[1:] == ["2:2", "1:1"]


def test_what_a_subscription_announced_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """R7, R23: x on a never passes the stage of b and c, but a subscription tells of it there. z on c, which is gone,
    stands for it."""

    def run() -> list[str]:
        cluster = Cluster({"b": 0, "c": 0, "a": 1})
        cluster.open_all("d", "x", "p", "q")
        cluster.rule("a", "b")
        change(cluster, "d", "a", "b", "c")
        cluster.subscribe("x", "a")
        publish(cluster, "a")
        cluster.subscribe("x", "a", "b", "c")
        assert entries(cluster.stamp("q", "c")) == {3: 1}
        assert entries(cluster.stamp("q", "b", content=b"y")) == {2: 1}
        resumed = Resumed(cluster, "b", "c", "a")
        return resumed.read("b", 1) + resumed.read("a", 1)

    assert run() == ["3:1", "1:1"]
    without.announced_to_a_merge(monkeypatch)
    assert run() == ["3:1", "1:1"][::-1]


def test_holes_are_passed_over_when_their_own_dependencies_are_met() -> None:
    """R17: nothing of what is old relies on them, but their publisher's order may (R19)."""
    resumed = of_v_c_t()
    resumed.module.questions(2.0)
    told = Numbers(1, 1, [NumberAnswer(1, NumberState.VOID, [])])
    assert resumed.read("t", 1) == []
    assert seen(resumed.module.answered(told, 2.0)) == ["3:1"]


def test_events_without_ticks_come_first_by_what_they_name() -> None:
    """They are from before a stage made ticks for durable subscribers, and name all that they follow."""
    cluster = cluster_of({"v": 0, "t": 0, "w": 0}, "v", "t", "w")
    for name in "vtw":
        publish(cluster, name)
    resumed = Resumed(cluster, "v", "t", "w")
    assert resumed.read("w", 1) == []
    assert resumed.read("t", 1, ticks=False) == []
    assert resumed.read("v", 1, ticks=False) == ["1:1", "2:1", "3:1"]


def test_the_next_event_of_a_topic_has_room_always() -> None:
    cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "c", "t")
    for name in ("v", "c", "t", "t", "t"):
        publish(cluster, name)
    resumed = Resumed(cluster, "v", "c", "t", room=2)
    assert [resumed.read("t", number) for number in (3, 2, 1)] == [[], [], []]
    assert resumed.module.waiting == 3
    assert resumed.read("c", 1) == []
    assert resumed.read("v", 1) == ["1:1", "2:1", "3:1", "3:2", "3:3"]


def test_a_later_event_of_a_topic_whose_next_one_lacks_has_no_room_beyond_the_bound() -> None:
    cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "c", "t")
    for name in ("v", "c", "t", "t", "t", "t"):
        publish(cluster, name)
    resumed = Resumed(cluster, "v", "c", "t", room=2)
    assert [resumed.read("t", number) for number in (4, 3, 2)] == [[], [], []]
    assert (resumed.module.waiting, resumed.module.counts.overflow) == (2, 1)


def test_a_topic_that_ends_holds_nothing_back() -> None:
    """Nor does one that begins anew, with all that waits in it (R17)."""
    resumed = of_v_c_t()
    assert resumed.read("t", 1) == []
    assert seen(resumed.module.unsubscribed([1], 0.0)) == ["3:1"]
    resumed = of_v_c_t()
    assert resumed.read("t", 1) == []
    assert seen(resumed.module.expired([1, 2, 3], 0.0)) == []


@pytest.mark.parametrize("mode", ["tag", Bounded(buffer=1)])
def test_who_does_not_wait_for_ever_does_not_for_this(mode: Mode) -> None:
    cluster = cluster_of({"v": 0, "c": 0, "t": 0}, "v", "c", "t")
    for name in "vct":
        publish(cluster, name)
    resumed = Resumed(cluster, "v", "c", "t", mode=mode)
    got = [told for name in "tcv" for told in resumed.read(name, 1)]
    assert got == (["3:1", "2:1 late", "1:1 late"] if mode == "tag" else ["2:1", "3:1", "1:1 late"])


def test_a_resume_makes_no_timestamp_longer() -> None:
    """R22: nothing is stale because of a subscriber that was there all the time, nor are bases told."""
    names = [f"t{at}" for at in range(50)]
    cluster = cluster_of(dict.fromkeys(names, 0))
    for name in names:
        publish(cluster, name)
    assert len(entries(publish(cluster, "t3")[0])) == 1, "with a durable reader of all, and another one"
    cluster.open("d", 2)
    answer = change(cluster, "d", *names, incarnation=2)
    assert answer.bases == []
    assert [len(entries(cluster.stamp("q", name))) for name in ("t5", "t9")] == [1, 1]
    save(cluster, "d", 2, t5=2)
