"""``inorder workers``: what it shows, and stages that move."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.cli.conftest import Cli, Start

STORE = ("--store", "sqlite:///numbers.db")


def listed(cli: Cli) -> list[dict[str, object]]:
    done = cli("workers", "list", *STORE, "--json")
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_worker_is_drained_before_it_is_stopped(cli: Cli, start: Start) -> None:
    Path("inorder.toml").write_text("[worker]\nbeat_interval = 0.1\n")
    one = start("worker", "--port", 0, *STORE, "--name", "one", "--json")
    address = json.loads(one.line())["address"]
    (alone,) = listed(cli)
    assert (alone["state"], alone["stages"], alone["is_drained"]) == ("active", [0], False)
    drain = ("workers", "drain", alone["owner"], "--worker", address)
    cli(*drain).assert_refused(1, "no other worker that lives may have stage 0")
    two = start("worker", "--port", 0, *STORE, "--name", "two", "--json")
    json.loads(two.line())
    deadline = time.monotonic() + 60
    while (done := cli(*drain)).code and time.monotonic() < deadline:
        assert "no other worker that lives" in done.err  # it has not looked since
    assert done.code == 0, done
    assert "it has no stage any more" in done.err
    states = {str(each["owner"]).split("/")[0]: (each["stages"], each["is_drained"]) for each in listed(cli)}
    assert states == {"one": ([], True), "two": ([0], False)}
    text = cli("workers", "list", *STORE).out
    assert ", drained" in text
    owners = {str(each["owner"]).split("/")[0]: each["owner"] for each in listed(cli)}
    move = ("workers", "move", 0, owners["one"], "--worker", address)
    cli(*move).assert_refused(1, "is drained; let it take stages again first")
    assert cli(*drain, "--undo").code == 0
    assert cli(*move).code == 0
    assert {str(each["owner"]).split("/")[0]: each["stages"] for each in listed(cli)} == {"one": [0], "two": []}
    cli("workers", "move", 5, owners["one"], "--worker", address).assert_refused(1, "there is no stage 5")
