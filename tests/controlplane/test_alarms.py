"""Alarms: what an operator must know of, while it is so."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from inorder.protocol.wire import NumberState
from inorder_controlplane.alarms import MAX_OF_A_KIND, Alarm, AlarmBook, Limits, Seen, alarms
from inorder_controlplane.models.common import moment
from inorder_worker.admin import StuckNumber
from inorder_worker.store.overview import StageView, WorkerView
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.watch import State


def stage(number: int, owner: str, state: State | Literal["free"]) -> StageView:
    return StageView(number, 1, 0, owner, "h:1", state)


def worker(owner: str, address: str, state: State, lag: dict[int, int] | None = None) -> WorkerView:
    return WorkerView(owner, address, state, [], [], lag or {})


def stuck_number(topic: int, count: int, age_s: float, reason: str) -> StuckNumber:
    return StuckNumber(topic, 1, count, NumberState.PENDING, reason, None, "p", 0, round(age_s * 1000), logged=False)


QUIET = Seen(
    1_000_000,
    stages=[stage(0, "w1", "active"), stage(1, "w1", "active")],
    workers=[worker("w1", "h:1", "active"), worker("w2", "h:2", "standby", {0: 3})],
    stuck=[stuck_number(7, 1, 4.9, "publisher away")],
    labels={7: "m:a"},
    order_change_s=1.0,
    lost={"desk": 0},
)


def found(seen: Seen, limits: Limits = Limits()) -> list[tuple[str, str, str]]:  # noqa: B008
    return [(each.id, each.severity, each.page) for each in alarms(seen, limits)]


def test_there_is_none_while_all_is_well() -> None:
    assert alarms(QUIET, Limits()) == []


def test_what_does_not_answer() -> None:
    seen = replace(QUIET, store_error="store x: locked", workers_error="no worker is reachable")
    assert found(seen) == [("store", "critical", "/workers"), ("workers", "critical", "/workers")]
    assert "locked" in alarms(seen, Limits())[0].detail


def test_a_store_that_is_an_older_copy() -> None:
    """Nobody has a stage there, or shows that it lives, and no worker that is started changes that."""
    seen = replace(QUIET, stages=[stage(0, "", "free")], workers=[worker("w1", "h:1", "suspect")])
    (alarm,) = alarms(replace(seen, outdated="clients were told of row 9 of stage 0"), Limits())
    assert (alarm.id, alarm.severity) == ("outdated", "critical")
    assert "row 9 of stage 0. Nothing is numbered: stop all workers, run inorder renew" in alarm.detail


def test_a_log_that_grows_and_a_disk_that_it_fills() -> None:
    assert found(replace(QUIET, room=Room(4_000_000, 4_600_000))) == []
    assert found(replace(QUIET, room=Room(40_000_000, 10**9))) == [("store-log", "warning", "/workers")]
    full = replace(QUIET, room=Room(40_000_000, 40_000_000))
    assert found(full) == [("store-room", "critical", "/workers")]
    assert "has 38 MiB, 38 MiB are free" in alarms(full, Limits())[0].detail


def test_stages_that_nobody_has() -> None:
    stages = [stage(0, "", "free"), stage(1, "w1", "dead"), stage(2, "w2", "suspect")]
    assert found(replace(QUIET, stages=stages)) == [
        ("stage-0", "critical", "/workers"),
        ("stage-1", "critical", "/workers"),
    ]


def test_workers_that_are_silent_gone_or_behind() -> None:
    workers = [
        worker("w1", "h:1", "suspect"),
        worker("w2", "h:2", "dead", {0: 99}),
        worker("w3", "h:3", "standby", {0: 10, 1: 11}),
    ]
    ids = [each for each, _, _ in found(replace(QUIET, workers=workers), Limits(lag_rows=10))]
    assert ids == ["worker-w1", "worker-w2", "lag-1-w3"]


def test_numbers_that_hold_subscribers_up() -> None:
    stuck = [stuck_number(7, 1, 5.0, "publisher away"), stuck_number(8, 3, 50.0, "waits for stage 1")]
    made = alarms(replace(QUIET, stuck=stuck), Limits())
    assert [(each.id, each.severity, each.began_ms) for each in made] == [
        ("stuck-8", "critical", 950_000),
        ("stuck-7", "warning", 995_000),
    ]
    assert "8: 3 numbers for 50 s (waits for stage 1)" in made[0].detail
    assert "m:a: a number for 5 s (publisher away)" in made[1].detail


def test_a_change_of_the_order_that_takes_long() -> None:
    assert found(replace(QUIET, order_change_s=5.0)) == [("order-change", "warning", "/topics")]


def test_clients_that_lose_events() -> None:
    assert [each for each, _, _ in found(replace(QUIET, lost={"a": 1, "b": 2}))] == ["loss-b", "loss-a"]


def test_of_many_of_a_kind_the_number_is_told() -> None:
    stuck = [stuck_number(at, 1, 6.0 + at, "publisher away") for at in range(MAX_OF_A_KIND + 3)]
    made = found(replace(QUIET, stuck=stuck))
    assert len(made) == MAX_OF_A_KIND + 1
    assert made[-1] == ("more-stuck", "warning", "/gaps")
    assert made[0][0] == f"stuck-{MAX_OF_A_KIND + 2}"  # the oldest are shown


def test_a_topic_with_many_stuck_numbers_leaves_room_for_the_alarms_of_others() -> None:
    many = [replace(stuck_number(7, at, 60.0, "was never given"), first=at) for at in range(1, 2 * MAX_OF_A_KIND)]
    made = found(replace(QUIET, stuck=[*many, stuck_number(8, 1, 6.0, "publisher away")]))
    assert [each for each, _, _ in made] == ["stuck-7", "stuck-8"]


def test_an_alarm_keeps_its_beginning_until_it_is_over() -> None:
    book, one = AlarmBook(), Alarm("store", "critical", "t", "d", "/workers")
    began = replace(one, id="stuck-1", began_ms=500)
    assert book.since([one, began], 1000) == [(one, 1000), (began, 500)]
    assert book.since([replace(one, detail="other words"), replace(began, began_ms=700)], 2000)[0][1] == 1000
    assert book.since([began], 3000) == [(began, 500)]
    assert book.since([one], 4000) == [(one, 4000)]


def test_a_time_that_no_calendar_has_is_told_as_the_nearest() -> None:
    """Clients say for how long they wait, and the page must not fail for it."""
    assert [moment(each) for each in (-(2**62), 0, 2**62)] == [
        "1000-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "9999-01-01T00:00:00.000Z",
    ]  # fmt: skip
