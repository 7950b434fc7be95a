"""``inorder analytics``: runs and schedules of a store, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli

from inorder_worker.store.analyses import Analyses, Job, Progress
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.schedules import Schedules
from inorder_worker.store.store import Store

STORE = ("--store", "sqlite:///numbers.db")
ADD = ("analytics", "schedules", "add")


@pytest.fixture
def store() -> Any:
    store = Store("sqlite:///numbers.db")
    store.open(1)
    yield store
    store.close()


def test_runs_are_shown(cli: Cli, store: Store) -> None:
    runs = Analyses(store)
    done, failed = runs.begin(Job(source="/traces"), "me", "ann"), runs.begin(Job(source="/traces"), "me", "ann")
    assert "there are no runs" not in cli("analytics", "runs", *STORE).err
    runs.end(done.id, "me", "done", result={"events": 7, "by_run": [1]}, log="[1/1] all\n\x1b[31m\n")
    runs.end(failed.id, "me", "failed", reason="no Java")
    goes_on = runs.begin(Job(source="/other"), "me", "ben")
    runs.beat(goes_on.id, "me", progress=Progress(2, 9, "read"))
    listed = cli("analytics", "runs", *STORE)
    assert (listed.code, listed.out) == (0, "")
    lines = {line.split(":")[0]: line for line in listed.err.splitlines()}
    assert "/traces, failed, no Java" in lines[failed.id]
    assert "/other, running, 2/9 read, by ben" in lines[goes_on.id]
    found = [json.loads(line) for line in cli("analytics", "runs", *STORE, "--json").out.splitlines()]
    assert {each["id"] for each in found} == {done.id, failed.id, goes_on.id}
    assert cli("analytics", "runs", *STORE, "--json", "--outcome", "failed").json["reason"] == "no Java"
    shown = cli("analytics", "runs", done.id, *STORE)
    assert "  events: 7\n" in shown.err
    assert "  | \\x1b[31m\n" in shown.err
    detail = cli("analytics", "runs", done.id, *STORE, "--json").json
    assert (detail["result"], detail["summary"]) == ({"events": 7, "by_run": [1]}, {"events": 7})
    assert cli("analytics", "runs", done.id, "--log", *STORE).out == "[1/1] all\n\x1b[31m\n"
    cli("analytics", "runs", "nothing", *STORE).assert_refused(1, "nothing", "inorder analytics runs")
    cli("analytics", "runs", "--log", *STORE).assert_refused(2, "--log")


def test_runs_are_cancelled_and_removed(cli: Cli, store: Store) -> None:
    runs = Analyses(store)
    waits, goes_on = runs.queue(Job(source="/traces"), "ann"), runs.begin(Job(source="/traces"), "me", "ann")
    cli("analytics", "remove", goes_on.id, *STORE).assert_refused(
        1, "running", f"inorder analytics cancel {goes_on.id}"
    )
    assert cli("analytics", "cancel", waits.id, *STORE, "--json").json["outcome"] == "cancelled"
    told = cli("analytics", "cancel", goes_on.id, *STORE)
    assert (told.code, "to be ended by command line" in told.err) == (0, True)
    assert runs.beat(goes_on.id, "me") == "cancel"
    cli("analytics", "cancel", waits.id, *STORE).assert_refused(1, "has ended: it is cancelled")
    assert cli("analytics", "remove", waits.id, *STORE).code == 0
    cli("analytics", "remove", waits.id, *STORE).assert_refused(1, waits.id)
    cli("analytics", "cancel", "nothing", *STORE).assert_refused(1, "nothing")
    actions = [(each.who, each.via, each.action, each.outcome) for each in AuditLog(store).page()]
    assert actions == [
        ("command line", "store", "analysis.remove", "done"),
        ("command line", "store", "analysis.cancel", "done"),
        ("command line", "store", "analysis.cancel", "done"),
    ]


def test_a_schedule_from_its_making_to_its_end(cli: Cli, store: Store) -> None:
    made = cli(*ADD, "nightly", "0 3 * * *", "traces", "--timezone", "Europe/Berlin", "--out", "o", *STORE, "--json")
    assert made.code == 0, made
    job = {"source": str(Path("traces").absolute()), "out": str(Path("o").absolute()), "window_s": 60.0}
    assert {name: made.json["job"][name] for name in job} == job
    assert (made.json["name"], len(made.json["next"]), made.json["is_on"]) == ("nightly", 3, True)
    cli(*ADD, "nightly", "0 3 * * *", "traces", *STORE).assert_refused(1, "another schedule", "'nightly'")
    change = ("analytics", "schedules", "set")
    off = cli(*change, "nightly", "--off", "--max-pairs", 5, "--name", "weekly", *STORE, "--json").json
    assert (off["name"], off["is_on"], off["next"], off["job"]["max_pairs"]) == ("weekly", False, [], 5)
    assert (off["cron"], off["timezone"], off["job"]["source"]) == ("0 3 * * *", "Europe/Berlin", job["source"])
    on = cli(*change, off["id"], "--on", "--cron", "0 4 * * MON", *STORE)
    assert "weekly, 0 4 * * MON Europe/Berlin" in on.err
    assert "weekly" in cli("analytics", "schedules", "list", *STORE).err
    run = cli("analytics", "schedules", "run", "weekly", *STORE).out.strip()
    queued = Analyses(store).get(run)
    assert queued is not None
    assert (queued.outcome, queued.schedule, queued.job.max_pairs) == ("queued", off["id"], 5)
    assert cli("analytics", "schedules", "remove", "weekly", *STORE).code == 0
    assert Schedules(store).list() == []
    cli("analytics", "schedules", "run", "weekly", *STORE).assert_refused(1, "weekly", "schedules list")
    assert [each.action for each in AuditLog(store).page()] == [
        "schedule.remove", "schedule.run", "schedule.change", "schedule.change", "schedule.create", "schedule.create",
    ]  # fmt: skip


def test_what_cannot_be_done(cli: Cli) -> None:
    cli("analytics", "runs", "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    assert not Path("nothing.db").exists()
    cli(*ADD, "x", "0 24 * * *", "traces", *STORE).assert_refused(2, "CRON (hour)", "'24'", "0 to 23")
    cli(*ADD, "x", "daily", "traces", *STORE).assert_refused(2, "CRON", "five fields")
    cli(*ADD, "x" * 129, "0 3 * * *", "traces", *STORE).assert_refused(2, "NAME")
    assert not Path("numbers.db").exists()
