"""``inorder analyze`` for a store or a control plane: who is told what, without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli

from inorder.errors import InorderError
from inorder_analytics.results import Result, TopicFigures
from inorder_analytics.spark import job as jobs
from inorder_cli import recording
from inorder_worker.store.analyses import Analyses, Job, Progress
from inorder_worker.store.store import Store

STORE = ("--store", "sqlite:///numbers.db")


@pytest.fixture
def runs() -> Iterator[Analyses]:
    store = Store("sqlite:///numbers.db")
    store.open(1)
    yield Analyses(store)
    store.close()


@pytest.fixture
def analysis(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[jobs.Job], Any]], list[jobs.Job]]:
    """Let a function take the place of the analysis; return what it was asked for."""

    def replace_by(work: Callable[[jobs.Job], Any], rows: int = 9) -> list[jobs.Job]:
        asked: list[jobs.Job] = []

        def run(job: jobs.Job, *, on_progress: jobs.Progress) -> Result:
            asked.append(job)
            on_progress(1, 2, "reading")
            on_progress(2, 2, "writing")
            work(job)
            topics = [TopicFigures(run="default", topic="mqtt:a", events=5)] * 600
            return Result(path=job.path, made_at=datetime.now(UTC), rows=rows, events=5, by_topic=topics)

        monkeypatch.setattr(jobs, "run", run)
        return asked

    return replace_by


def test_a_run_is_kept_in_a_store(cli: Cli, runs: Analyses, analysis: Any) -> None:
    analysis(lambda job: None)
    shown = cli("analyze", "/traces", "--max-pairs", 7, "--master", "local[2]", *STORE, "--json")
    assert (shown.code, shown.json["events"]) == (0, 5), shown
    (run,) = runs.list()
    assert f"the run is kept as {run.id}" in shown.err
    assert (run.outcome, run.by, run.job) == (
        "done", "command line", Job(source="/traces", max_pairs=7, master="local[2]"),
    )  # fmt: skip
    assert (run.progress, runs.log(run.id)) == (Progress(2, 2, "writing"), "[1/2] reading\n[2/2] writing")
    result = runs.result(run.id)
    assert result is not None
    assert (run.summary or {})["events"] == 5
    assert (len(result["by_topic"]), result["cut"]) == (500, {"by_topic": 600})


def test_an_analysis_of_nothing_is_told_from_one_of_something(cli: Cli, analysis: Any) -> None:
    analysis(lambda job: None, rows=0)
    shown = cli("analyze", "/traces", "--json")
    assert (shown.code, shown.json["rows"]) == (3, 0)
    assert "nothing was analysed" in shown.err


def test_one_that_fails_says_why(cli: Cli, runs: Analyses, analysis: Any) -> None:
    def fail(job: jobs.Job) -> None:
        raise InorderError("Spark needs Java")

    analysis(fail)
    cli("analyze", "/traces", *STORE)
    (run,) = runs.list()
    assert (run.outcome, run.reason, run.summary) == ("failed", "Spark needs Java", None)


def test_a_run_that_waits_is_done_as_the_store_says(cli: Cli, runs: Analyses, analysis: Any) -> None:
    asked = analysis(lambda job: None)
    waits = runs.queue(Job(source="/traces", out="/out", window_s=5.0, max_pairs=3, master="local[3]"), "ann")
    assert cli("analyze", "--run-id", waits.id, *STORE, "--json").code == 0
    assert asked == [jobs.Job("/traces", "/out", window_s=5.0, max_pairs=3, master="local[3]")]
    (run,) = runs.list()
    assert (run.id, run.outcome, run.by) == (waits.id, "done", "ann")
    cli("analyze", "--run-id", waits.id, *STORE).assert_refused(1, waits.id, "it is done")
    cli("analyze", "--run-id", "nothing", *STORE).assert_refused(1, "nothing", "there is none")
    cli("analyze", "/traces", "--run-id", waits.id, *STORE).assert_refused(2, "PATH", "--run-id")


def test_one_that_is_cancelled_ends(cli: Cli, runs: Analyses, analysis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cancels it in the store: it is interrupted at its next beat."""
    monkeypatch.setattr(recording, "BEAT_SECONDS", 0.01)

    def cancel() -> None:
        store = Store("sqlite:///numbers.db")
        Analyses(store).cancel(Analyses(store).list()[0].id, "ben")
        store.close()

    def wait(job: jobs.Job) -> None:
        thread = threading.Thread(target=cancel)
        threads.append(thread)
        thread.start()  # the interrupt may come wherever this thread is from now on
        signal.pause()

    threads: list[threading.Thread] = []
    analysis(wait)
    assert cli("analyze", "/traces", *STORE).code == 130
    threads[0].join()
    (run,) = runs.list()
    assert (run.outcome, run.cancelled_by) == ("cancelled", "ben")


CHILD = """
import sys
from datetime import UTC, datetime
from inorder_cli.app import run
from inorder_analytics.results import Result
from inorder_analytics.spark import job as jobs

def analysis(job, *, on_progress):
    on_progress(1, 1, "reading")
    if job.path == "/waits":
        import signal
        signal.pause()
    return Result(path=job.path, made_at=datetime.now(UTC), events=5)  # of no rows: done all the same

jobs.run = analysis
sys.exit(run(["analyze", *sys.argv[1:]]))
"""


def child(path: str) -> tuple[subprocess.Popen[bytes], Any]:
    """Start it as a control plane does; return it and what it reports."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", CHILD, "--window=60", f"--report-fd={writing}", "--", path]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, pass_fds=(writing,), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
    os.close(writing)
    return process, os.fdopen(reading)


def test_a_control_plane_is_told_over_a_pipe() -> None:
    process, reports = child("/traces")
    with process, reports:
        first, second = map(json.loads, reports)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"[1/1] reading\n"
    assert first == {"type": "progress", "step": 1, "of": 1, "what": "reading"}
    assert (second["type"], second["result"]["events"]) == ("result", 5)
    assert not Path("inorder.db").exists()


def test_it_ends_with_the_control_plane() -> None:
    process, reports = child("/waits")
    with process, reports:
        assert json.loads(reports.readline())["what"] == "reading"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == -signal.SIGTERM
        assert reports.read() == ""
