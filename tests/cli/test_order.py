"""``inorder order``: the topic order shown, changed and pinned through a running worker (R14, R15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start


@pytest.fixture
def address(start: Start) -> str:
    """A worker with three stages and five topics."""
    order = '[["m:a"], ["m:b", "m:c"], ["m:d", "m:e"]]'
    Path("inorder.toml").write_text(f"[worker]\nstages = 3\ntopic_order = {order}\n")
    child = start("worker", "--port", 0, "--json")
    return json.loads(child.line())["address"]  # type: ignore[no-any-return]


def test_the_order_is_shown_and_what_is_shown_can_be_set(cli: Cli, address: str) -> None:
    shown = cli("order", "show", "--worker", address, "--json").json
    assert shown == {"order_epoch": 1, "stages": [["m:a"], ["m:b", "m:c"], ["m:d", "m:e"]], "pinned": []}
    shown["stages"] = [["m:e"], ["m:a"], ["m:c"]]
    Path("order.json").write_text(json.dumps(shown))
    assert cli("order", "set", "order.json", "--worker", address, "--json").json == {"order_epoch": 2}
    after = cli("order", "show", "--worker", address, "--json").json
    assert after["stages"] == [["m:e"], ["m:a", "m:b"], ["m:c", "m:d"]]
    text = cli("order", "show", "--worker", address).out
    assert text.splitlines() == ["stage 0", "  m:e", "stage 1", "  m:a", "  m:b", "stage 2", "  m:c", "  m:d"]


def test_topics_move_unless_they_are_pinned(cli: Cli, address: str) -> None:
    worker = ("--worker", address)
    assert cli("order", "move", "m:d", "m:e", *worker).code == 0
    assert cli("order", "show", *worker, "--json").json["stages"] == [["m:d", "m:e", "m:a"], ["m:b", "m:c"], []]
    assert cli("order", "pin", "m:b", *worker).code == 0
    shown = cli("order", "show", *worker)
    assert "  m:b (pinned)" in shown.out
    assert "stage 2 (no topics)" in shown.out
    cli("order", "move", "m:b", "--stage", "2", *worker).assert_refused(1, "pinned to stage 1")
    assert cli("order", "unpin", "m:b", *worker).code == 0
    assert cli("order", "move", "m:b", "--stage", "2", *worker).code == 0


def test_what_is_wrong_is_named(cli: Cli, address: str, unused_port: int) -> None:
    worker = ("--worker", address)
    cli("order", "move", "m:x", *worker).assert_refused(2, "m:x")
    cli("order", "move", "m:a", "--stage", "3", *worker).assert_refused(2, "0 to 2")
    cli("order", "move", "m:a", *worker).assert_refused(1, "present topic order")
    cli("order", "set", "missing.json", *worker).assert_refused(2, "missing.json")
    Path("order.json").write_text('{"a": 1}')
    cli("order", "set", "order.json", *worker).assert_refused(2, "order.json", "for each stage")
    Path("order.json").write_text('[["m:a"]]')
    cli("order", "set", "order.json", *worker).assert_refused(1, "3 stages")
    cli("order", "show", "--worker", f"127.0.0.1:{unused_port}").assert_refused(1, "refused")


def test_a_wrong_token_is_told(cli: Cli, start: Start) -> None:
    child = start("worker", "--port", 0, "--token", "right", "--json")
    address = json.loads(child.line())["address"]
    cli("order", "show", "--worker", address, "--token", "hunter2").assert_refused(1, "token")
    assert cli("order", "show", "--worker", address, "--token", "right").code == 0


def test_topics_change_places_by_themselves_or_not(cli: Cli, worker_address: str) -> None:
    command = ("order", "automatic", "--worker", worker_address)
    assert cli(*command).err == "off\n"
    assert cli(*command, "--window", 60, "--beta", 0.3).code == 0
    shown = cli(*command, "--json").json
    assert shown == {"on": True, "window_s": 60.0, "alpha": 0.1, "beta": 0.3}
    assert cli(*command).err == "every 60 s, alpha 0.1, beta 0.3\n"
    cli(*command, "--alpha", 0).assert_refused(2, "alpha", "a number over 0")
    assert cli(*command, "--window", 0, "--json").json["on"] is False
