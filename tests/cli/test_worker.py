"""``inorder worker`` and ``inorder up`` as processes: start, clean stop, what keeps them from starting."""

from __future__ import annotations

import gc
import json
import re
import signal
import socket
import sqlite3
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.errors import PortInUse
from inorder_cli.failures import ExitCode
from inorder_worker.service.worker import COLLECTED_AFTER, SWITCH_INTERVAL

UP = ("up", "--port", 0, "--worker-port", 0)


@pytest.mark.parametrize("command", [("worker", "--port", 0), UP], ids=["worker", "up"])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_starts_says_so_and_stops_cleanly(start: Start, command: tuple[object, ...], number: int) -> None:
    child = start(*command, "--json")
    ready = json.loads(child.line())
    assert ready["type"] == "ready"
    assert ready["address"].startswith("127.0.0.1:")
    assert ready["store"] == "sqlite:///inorder.db"
    assert Path("inorder.db").exists()
    ended = child.interrupt(number)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    with sqlite3.connect("inorder.db") as store:  # nothing is left behind: no stage, and no token of our own
        assert store.execute("SELECT DISTINCT owner FROM stages").fetchall() == [("",)]
        assert store.execute("SELECT * FROM tokens WHERE internal AND revoked_ms IS NULL").fetchall() == []
    store.close()


@pytest.mark.parametrize("command", [("worker", "--port", 0), UP], ids=["worker", "up"])
def test_the_interpreter_goes_at_a_workers_pace(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    """From before the worker is made."""
    before, paces = (gc.get_threshold(), sys.getswitchinterval()), list[tuple[tuple[int, int, int], float]]()

    class Noting:
        def __init__(self, *_: object) -> None:
            paces.append((gc.get_threshold(), sys.getswitchinterval()))
            raise PortInUse("127.0.0.1:7401")

    monkeypatch.setattr("inorder_worker.service.Worker", Noting)
    try:
        assert cli(*command).code == ExitCode.FAILED
    finally:
        gc.set_threshold(*before[0])
        sys.setswitchinterval(before[1])
    ((collected, interval),) = paces
    assert collected == COLLECTED_AFTER
    assert interval == pytest.approx(SWITCH_INTERVAL)


def test_a_second_worker_on_a_store_is_a_standby(cli: Cli, start: Start) -> None:
    """It steals nothing, says whom it follows, and takes over when the first one has left."""
    first = start("worker", "--port", 0, "--json")
    assert json.loads(first.line())["state"] == "active"
    second = start(*UP, "--json")
    assert json.loads(second.line())["state"] == "standby"
    shown = cli("status", "--json")
    assert shown.code == 0, shown
    seen = json.loads(shown.out)
    assert [(each["epoch"], each["state"]) for each in seen["stages"]] == [(1, "active")]
    assert [(each["state"], each["stages"]) for each in seen["workers"]] == [("active", [0]), ("standby", [])]
    assert seen["workers"][1]["lag"] == {"0": 0}
    left = first.interrupt()
    assert left.code == 0
    assert "event=lost_stage" not in left.err
    third = start(*UP, "--json")
    assert json.loads(third.line())["state"] == "standby"
    said = second.interrupt().err
    assert "event=standby" in said
    assert f"/{first.pid}-" in said
    assert f"/{second.pid}-" in third.interrupt().err
    left = cli("status")
    assert left.code == 1
    assert left.out.startswith("stage 0: free nobody, epoch ")
    assert "worker" not in left.out


def test_a_worker_may_be_told_to_take_over(cli: Cli, start: Start) -> None:
    first = start("worker", "--port", 0, "--json")
    first.line()
    second = start("worker", "--port", 0, "--json", "--take-over")
    assert json.loads(second.line())["state"] == "active"
    for _ in range(60):
        workers = json.loads(cli("status", "--json").out)["workers"]
        if all(each["lag"] for each in workers if not each["stages"]):
            break  # the first one knows that it has lost the stage: it follows
    assert second.interrupt().code == 0
    stopped = first.interrupt()
    assert stopped.code == 0
    assert "event=stepped_down" in stopped.err


def test_up_tells_a_person_what_to_do_next(start: Start) -> None:
    child = start(*UP)
    said = [child.line() for _ in range(4)]
    assert said[0].startswith("inorder is up: worker 127.0.0.1:")
    assert re.fullmatch(r"page: http://127\.0\.0\.1:\d+/#token=ino_[\w-]{43}\n", said[1])
    assert said[2].startswith("broker: mqtt://localhost:1883")
    assert said[3].startswith("try: inorder sub")
    assert child.interrupt().err == ""


def test_a_taken_port(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cli("worker", "--port", port).assert_refused(1, f"{port} is in use", "(--port 0 takes")
        cli("worker", "--port", 0, "--http-port", port).assert_refused(1, f"{port} is in use", "(--http-port 0 takes")
        cli("up", "--port", port).assert_refused(1, f"{port} is in use", "(--port 0 takes")
        cli("up", "--port", 0, "--worker-port", port).assert_refused(1, f"{port} is in use", "(--worker-port 0 takes")
        cli("controlplane", "--port", port).assert_refused(1, f"{port} is in use", "(--port 0 takes")


def test_stores_that_cannot_be_used(cli: Cli) -> None:
    cli("worker", "--port", 0, "--store", "sqlite:///nowhere/x.db").assert_refused(1, "nowhere")
    Path("folder.db").mkdir()
    cli("worker", "--port", 0, "--store", "sqlite:///folder.db").assert_refused(1, "folder.db is a folder")
    if Path("/sys/kernel").is_dir():  # where not even root makes files
        shown = cli("worker", "--port", 0, "--store", "sqlite:////sys/x.db")
        shown.assert_refused(1, "no permission to make files in the folder /sys (dr-xr-xr-x")
    Path("garbage.db").write_bytes(b"this is no database" * 100)
    cli(*UP, "--store", "sqlite:///garbage.db").assert_refused(1, "garbage.db")
    shown = cli("worker", "--port", 0, "--store", "postgresql://me:hunter2@127.0.0.1:1/x")
    shown.assert_refused(1, "127.0.0.1", "me:***")
    assert "hunter2" not in shown.err


def test_log_lines_for_programs(start: Start, cli: Cli) -> None:
    child = start("worker", "--port", 0, "--json", "--log-format", "json", "--name", "desk one")
    child.line()
    ended = child.interrupt()
    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert [line["event"] for line in lines] == ["store_made", "started", "stopped"]
    assert [line["worker"] for line in lines[1:]] == ["desk one", "desk one"]
    cli("worker", "--log-format", "xml").assert_refused(2, "--log-format", "xml")
