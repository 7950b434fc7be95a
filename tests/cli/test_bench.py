"""``inorder bench``: names and files are checked before anything starts; what is measured, as JSON and in a history."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.testing.services import wait_until
from inorder_bench import WORKLOADS
from inorder_bench.workloads import Workload
from inorder_cli import bench
from inorder_cli.entry import version


@pytest.fixture
def _nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("it was measured")

    for name in WORKLOADS:
        monkeypatch.setitem(WORKLOADS, name, Workload("", started))  # type: ignore[arg-type]


@pytest.mark.usefixtures("_nothing_starts")
@pytest.mark.parametrize("names", [["W10"], ["W1", "throughput"], ["W1", "W"]])
def test_a_workload_that_there_is_not_is_named_with_those_that_there_are(cli: Cli, names: list[str]) -> None:
    cli("bench", *names).assert_refused(2, names[-1], ", ".join(bench.NAMES), "inorder bench --help")


@pytest.mark.usefixtures("_nothing_starts")
@pytest.mark.parametrize(
    ("option", "value", "part"), [("--events", "99", "100"), ("--events", "x", "integer"), ("--repeats", "0", "to 1")]
)
def test_a_size_that_is_none(cli: Cli, option: str, value: str, part: str) -> None:
    cli("bench", option, value).assert_refused(2, option, part)


@pytest.mark.usefixtures("_nothing_starts")
@pytest.mark.parametrize(("file", "why"), [("no/such/folder", "No such file or directory"), (".", "Is a directory")])
def test_a_history_that_cannot_be_written(cli: Cli, file: str, why: str) -> None:
    refused = cli("bench", "W6", "--history", file)
    refused.assert_refused(2, f"invalid --history '{file}': allowed is a file that can be written", why)


def test_json_and_a_history_line_hold_every_row_and_people_get_a_table(cli: Cli) -> None:
    shown = cli("bench", "w6", "W6", "--quick", "--events", 100, "--json", "--history", "runs.jsonl")
    assert shown.code == 0, shown
    assert (shown.json["workload"], shown.json["left_out"]) == ("W6", {})
    assert all(row.keys() >= {"name", "events_per_s", "ratio"} for row in shown.json["rows"])
    assert "W6: repeat 1 of 1: 10% disorder: " in shown.err
    table = cli("bench", "W6", "--quick", "--events", 100, "--repeats", 2, "--history", "runs.jsonl")
    assert table.code == 0
    assert "50% disorder" in table.out
    assert ">= 300,000" in table.out
    first, second = [json.loads(line) for line in Path("runs.jsonl").read_text().splitlines()]
    assert first["workloads"] == [shown.json]
    assert first["workloads"][0]["workload"] == second["workloads"][0]["workload"]
    assert [(each["events"], each["repeats"], each["version"]) for each in (first, second)] == [
        (100, repeats, version()) for repeats in (1, 2)
    ]
    assert first["machine"]["processors"] >= 1


def test_without_the_extra_the_hint_names_it() -> None:
    script = (
        "import sys\nsys.modules['hdrh'] = None\nsys.modules['hdrh.histogram'] = None\n"
        "sys.argv = ['inorder', 'bench']\nfrom inorder_cli import main\nmain()"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stderr == "error: a benchmark needs an optional part: pip install 'inorder[bench]'\n"


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long), (signal.SIGINT, 130)]
)
def test_a_run_that_is_ended_leaves_no_process_behind(start: Start, number: int, code: int) -> None:
    child = start("bench", "W1", "--events", 1_000_000)
    assert child.said().startswith("W1: two publishers")
    wait_until(lambda: len(_group(child.pid)) == 3, what="publishers and subscribers run", timeout=60)
    assert child.interrupt(number).code == code
    assert _group(child.pid) == []


def _group(leader: int) -> list[int]:
    """Return the processes of a group."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = each.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                found.append(int(each.parent.name))
    return found
