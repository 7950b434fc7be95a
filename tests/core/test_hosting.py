"""What hosts ask of a stage: what may have to be sent again, and what was done."""

from __future__ import annotations

from tests.core.cluster import Cluster

from inorder_worker.sequencer.commands import SettleNumbers, Tick


def _cluster(topics: dict[str, int], *clients: str) -> Cluster:
    cluster = Cluster(topics)
    for client in ("p", *clients):
        cluster.open(client)
    return cluster


def test_what_is_not_acknowledged_may_have_to_be_sent_again() -> None:
    cluster = _cluster({"a": 0, "b": 1}, "x", "y")
    cluster.all_subscribe(("x", "y"), "a", "b")
    top, bottom = cluster.stages
    before = bottom.sent(0)
    assert (before, top.received(1), top.sent(1), bottom.received(0)) == (2, 2, 2, 2)
    assert [each.number for each in bottom.unacknowledged(0)] == [1, 2]
    bottom.acknowledge(0, 2)
    assert (bottom.unacknowledged(0), bottom.waiting(0)) == ([], 0)
    for _ in range(4):
        cluster.request("p", "b")
    found = {
        (after, through): [each.number for each in bottom.unacknowledged(0, after, through)]
        for after in (0, 2, 3, 6, 9) for through in (None, 1, 2, 4, 6, 9)
    }  # fmt: skip
    assert found == {
        (after, through): [each for each in (3, 4, 5, 6) if each > after and (through is None or each <= through)]
        for after, through in found
    }
    assert bottom.unacknowledged(7) == []
    bottom.acknowledge(0, 1)
    assert bottom.waiting(0) == 4, "those were acknowledged before"
    bottom.acknowledge(0, 4)
    assert ([each.number for each in bottom.unacknowledged(0)], bottom.sent(0)) == ([5, 6], 6)


def test_what_was_done_is_counted() -> None:
    cluster = _cluster({"a": 0}, "x")
    stage = cluster.stages[0]
    for _ in range(7):
        cluster.stamp("p", "a")
    cluster.step(0, SettleNumbers("p", 1, 1, [1, 1, 3], [1, 4, 4], [1, 5, 6]))
    tally = stage.tally
    assert (tally.numbers, tally.confirmed, tally.void, tally.abandoned, tally.late) == (7, 3, 1, 2, 0)
    cluster.step(0, SettleNumbers("p", 1, 2, [1, 4, 5], []))
    assert (tally.confirmed, tally.late) == (3, 2)
    cluster.now += 60_000
    cluster.step(0, Tick())
    assert tally.abandoned == 3
    stage.begin_tally()
    assert (stage.tally.numbers, stage.tally.abandoned) == (0, 0)
