"""Runs of analyses and schedules in the store: one owner at a time, one run for what is due, whole after a backup."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from inorder.testing.services import PostgresServer
from inorder_worker.store import records, schema
from inorder_worker.store.analyses import Analyses, Job, Progress, Run
from inorder_worker.store.backup import back_up
from inorder_worker.store.restoring import restore
from inorder_worker.store.results import LOG_BYTES, RESULT_BYTES, last_lines, storable, summary_of
from inorder_worker.store.schedules import Schedule, Schedules
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Conflict
from inorder_worker.store.verification import verify

T = TypeVar("T")
JOB = Job(source="/traces", out="/out", window_s=5, max_pairs=7, master="local[2]")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inorder.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url)
    store.open(1)
    yield store
    store.close()


def at_once(url: str, count: int, work: Callable[[Store, int], T]) -> list[T]:
    """Let so many threads, each with a connection of its own, do the same thing at the same time."""
    barrier, found = threading.Barrier(count), []

    def one(at: int) -> None:
        own = Store(url, timeout=30)
        own.run(own.require_current)
        barrier.wait()
        try:
            found.append(work(own, at))
        finally:
            own.close()

    threads = [threading.Thread(target=one, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    return found


def got(runs: Analyses, run: Run) -> Run:
    found = runs.get(run.id)
    assert found is not None
    return found


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_run_from_its_queue_to_its_result(store: Store) -> None:
    runs = Analyses(store)
    asked = runs.queue(JOB, "ann", schedule="s")
    assert (asked.outcome, asked.job, asked.owner, asked.started_ms) == ("queued", JOB, "", None)
    assert runs.open() == [asked]
    run = runs.claim_next("owner")
    assert run is not None
    assert (run.id, run.outcome, run.owner, run.beat) == (asked.id, "running", "owner", 0)
    assert runs.claim_next("owner") is None
    assert runs.beat(run.id, "owner", progress=Progress(1, 3, "read"), log="a\n") == "go on"
    assert runs.beat(run.id, "owner") == "go on"
    seen = got(runs, run)
    assert (seen.progress, seen.beat, runs.log(run.id)) == (Progress(1, 3, "read"), 2, "a\n")
    assert runs.end(run.id, "owner", "done", result={"events": 3, "by_run": [1]}, log="a\nb\n")
    seen = got(runs, run)
    assert (seen.outcome, seen.summary, seen.ended_ms is not None) == ("done", {"events": 3}, True)
    assert (runs.result(run.id), runs.log(run.id)) == ({"events": 3, "by_run": [1]}, "a\nb\n")
    assert runs.list() == [seen]
    assert runs.open() == []
    assert [runs.get("none"), runs.result("none"), runs.log("none")] == [None] * 3


def test_the_longest_waiting_run_is_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([2000, 1000, 3000])
    monkeypatch.setattr(records, "now_ms", lambda: next(times, 9000))
    runs = Analyses(store)
    second, first, third = (runs.queue(JOB, "ann") for _ in range(3))
    assert [run.id for run in runs.open()] == [first.id, second.id, third.id]
    claimed = [runs.claim_next("owner") for _ in range(3)]
    assert [run and run.id for run in claimed] == [first.id, second.id, third.id]
    assert [run.id for run in runs.list()] == [third.id, second.id, first.id]


def test_of_many_that_want_a_run_one_gets_it(url: str, store: Store) -> None:
    asked = {Analyses(store).queue(JOB, "ann").id for _ in range(3)}
    claims = at_once(url, 8, lambda own, at: Analyses(own).claim_next(f"owner {at}"))
    ours = [run for run in claims if run is not None]
    assert sorted(run.id for run in ours) == sorted(asked)
    assert {run.id: run.owner for run in Analyses(store).list()} == {run.id: run.owner for run in ours}
    assert verify(url).problems == []


def test_who_is_not_the_owner_any_more_writes_nothing(store: Store) -> None:
    runs = Analyses(store)
    run = runs.begin(JOB, "owner", "ann")
    assert runs.beat(run.id, "other") == "lost"
    assert not runs.end(run.id, "other", "done", result={})
    assert not runs.give_up(run._replace(beat=4), "silent"), "it has shown life since"
    assert runs.give_up(run, "silent")
    assert runs.beat(run.id, "owner", log="late") == "lost"
    assert not runs.end(run.id, "owner", "done", result={"events": 1})
    seen = got(runs, run)
    assert (seen.outcome, seen.reason, seen.summary, runs.log(run.id)) == ("failed", "silent", None, "")
    assert not runs.give_up(run, "again")


def test_of_beat_and_giving_up_one_happens(url: str, store: Store) -> None:
    """Whoever is first: a run that is given up beats no more, and one that has beaten is not given up."""
    for _ in range(5):
        run = Analyses(store).begin(JOB, "owner", "ann")

        def work(own: Store, at: int, run: Run = run) -> object:
            return Analyses(own).give_up(run, "silent") if at else Analyses(own).beat(run.id, "owner")

        found = at_once(url, 2, work)
        assert set(map(str, found)) in ({"True", "lost"}, {"False", "go on"})


def test_a_run_is_cancelled(store: Store) -> None:
    runs = Analyses(store)
    waits, goes_on, over = runs.queue(JOB, "ann"), runs.begin(JOB, "owner", "ann"), runs.begin(JOB, "owner", "ann")
    runs.end(over.id, "owner", "done", result={})
    cancelled = [runs.cancel(run.id, who) for run in (waits, goes_on, over) for who in ("ben", "cleo")]
    assert [run and (run.outcome, run.cancelled_by) for run in cancelled] == [
        *[("cancelled", "ben")] * 2,
        *[("running", "ben")] * 2,
        *[("done", None)] * 2,
    ]
    assert runs.claim_next("owner") is None
    assert runs.beat(goes_on.id, "owner") == "cancel"
    assert runs.give_up(got(runs, goes_on), "its owner is gone")
    assert got(runs, goes_on).outcome == "cancelled"
    assert runs.cancel("none", "ben") is None


def test_runs_that_have_ended_are_forgotten(store: Store) -> None:
    runs = Analyses(store)
    waits, goes_on = runs.queue(JOB, "ann"), runs.begin(JOB, "owner", "ann")
    over = [runs.begin(JOB, "owner", "ann") for _ in range(4)]
    for run in over:
        runs.end(run.id, "owner", "done", result={})
    assert not runs.remove(waits.id)
    assert not runs.remove(goes_on.id)
    assert runs.remove(over[0].id)
    assert not runs.remove(over[0].id)
    newest = next(run.id for run in runs.list() if run.outcome == "done")
    assert runs.trim(1) == 2
    assert {run.id for run in runs.list()} == {waits.id, goes_on.id, newest}
    assert runs.trim(1) == 0


def test_what_a_store_cannot_keep_is_made_so_that_it_can(store: Store) -> None:
    runs = Analyses(store)
    run = runs.begin(JOB, "owner", "ann")
    runs.beat(run.id, "owner", progress=Progress(1, 2, "a\0b\ud800" + "x" * 500), log="\0" + "line\n" * 20_000)
    progress, log = got(runs, run).progress, runs.log(run.id)
    assert progress is not None
    assert (progress.what[:6], len(progress.what)) == ("a\\0b?x", 200)
    assert log is not None
    assert (len(log) <= LOG_BYTES, set(log.splitlines())) == (True, {"line"})
    with pytest.raises(ValueError, match="over the limit"):
        runs.end(run.id, "owner", "done", result={"by_run": ["x" * 100] * (RESULT_BYTES // 100)})
    assert got(runs, run).outcome == "running"
    assert runs.end(run.id, "owner", "failed", reason="a\0b" + "x" * 3000)
    assert got(runs, run).reason[:5] == "a\\0bx"


def test_last_lines() -> None:
    assert last_lines("short\n", 100) == "short\n"
    assert last_lines("one\ntwo\nthree\n", 9) == "three\n"
    assert last_lines("x" * 50, 10) == "x" * 10
    assert last_lines("é" * 10, 5) == "éé", "no half of a character"
    assert storable("plain") == "plain"


def test_the_summary_is_what_is_no_list() -> None:
    result = {"events": 1, "late": None, "latency": {"p50": 1.0}, "files": {"read": 1, "damaged": [1, 2]}, "rows": [1]}
    assert summary_of(result) == {
        "events": 1,
        "late": None,
        "latency": {"p50": 1.0},
        "files": {"read": 1, "damaged": 2},
    }
    assert summary_of({"gaps": {str(at): at for at in range(65)}}) == {}


# -- schedules ---------------------------------------------------------------------------------------------------------


def made(store: Store, name: str = "nightly") -> Schedule:
    return Schedules(store).add(name, "0 3 * * *", "UTC", JOB, is_on=True, by="ann")


def test_a_schedule_is_kept_changed_and_forgotten(store: Store) -> None:
    schedules = Schedules(store)
    schedule = made(store)
    assert schedules.list() == [schedule] == [schedules.find("nightly")] == [schedules.find(schedule.id)]
    with pytest.raises(Conflict):
        made(store)
    other = made(store, "other")
    values: dict[str, Any] = {"cron": "0 4 * * *", "timezone": "UTC", "job": JOB, "is_on": False}
    with pytest.raises(Conflict):
        schedules.change(other, name="nightly", **values)
    changed = schedules.change(schedule, name="n", **values)
    assert changed is not None
    assert (changed.name, changed.cron, changed.is_on) == ("n", "0 4 * * *", False)
    assert schedules.change(schedule, name="m", **values) is None, "it was changed since it was seen"
    assert schedules.remove(schedule.id)
    assert not schedules.remove(schedule.id)
    assert schedules.get(schedule.id) is schedules.find("n") is None


def test_of_many_that_see_it_due_one_makes_the_run(url: str, store: Store) -> None:
    schedule = made(store)
    found = at_once(url, 8, lambda own, _: Schedules(own).fire(schedule, 5_000))
    (run,) = [run for run in found if run is not None]
    assert Analyses(store).list() == [run]
    assert (run.schedule, run.by, run.job, run.outcome) == (schedule.id, "ann", JOB, "queued")
    fired = Schedules(store).get(schedule.id)
    assert fired is not None
    assert (fired.after_ms, fired.fired_ms) == (5_000, 5_000)
    assert verify(url).problems == []


def test_a_time_at_which_its_last_run_goes_on_is_passed_over(store: Store) -> None:
    runs, schedules = Analyses(store), Schedules(store)
    first = schedules.fire(made(store), 1_000)
    assert first is not None
    (seen,) = schedules.list()
    assert schedules.fire(seen, 2_000) is None
    (seen,) = schedules.list()
    assert (seen.after_ms, seen.fired_ms) == (2_000, 1_000)
    runs.cancel(first.id, "ben")
    assert schedules.fire(seen, 3_000) is not None
    assert len(runs.list()) == 2


# -- seals, backups ----------------------------------------------------------------------------------------------------


def test_damaged_rows_are_found(url: str, store: Store) -> None:
    run, schedule = Analyses(store).queue(JOB, "ann"), made(store)
    assert verify(url).problems == []
    for table, key in ((schema.analytics_runs, run.id), (schema.schedules, schedule.id)):
        store.run(lambda connection, table=table: connection.execute(table.update().values(job="{}")))  # type: ignore[misc]
        assert f"{table.name}: the row of id {key} is damaged" in verify(url).problems[-1].detail


def test_a_backup_holds_them(url: str, store: Store, tmp_path: Path) -> None:
    runs = Analyses(store)
    run, schedule = runs.begin(JOB, "owner", "ann"), made(store)
    runs.end(run.id, "owner", "done", result={"events": 2**60}, log="said")
    before = runs.list()
    back_up(url, tmp_path / "b.inorder")
    restored = f"sqlite:///{tmp_path}/restored.db"
    restore(restored, tmp_path / "b.inorder", beat_interval=0.001)
    copy = Store(restored)
    assert Analyses(copy).list() == before
    assert Analyses(copy).result(run.id) == {"events": 2**60}
    assert Schedules(copy).list() == [schedule]
    copy.close()
    assert verify(restored).problems == []
