"""``inorder check``: 0 all is well, 1 something is not, 2 wrong usage (in test_usage)."""

from __future__ import annotations

import os
import socket
import sqlite3
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.testing.services import Mosquitto, RedisServer


def test_all_is_well(cli: Cli, worker_address: str, mosquitto: Mosquitto, redis_server: RedisServer) -> None:
    brokers = ("--broker", f"plant={mosquitto.url}", "--broker", redis_server.url)
    shown = cli("check", *brokers, "--worker", worker_address, "--store", "sqlite:///numbers.db", "--json")
    assert shown.code == 0, shown
    assert shown.json["ok"] is True
    assert [(found["what"], found["status"]) for found in shown.json["checks"]] == [
        ("broker", "ok"),
        ("broker", "ok"),
        ("worker", "ok"),
        ("store", "ok"),
    ]
    text = cli("check", *brokers, "--worker", worker_address)
    assert text.code == 0
    assert text.out.count("ok ") == 3
    assert "skipped store" in text.out


def test_what_is_unreachable_is_named(cli: Cli, unused_port: int) -> None:
    shown = cli("check", "-b", f"mqtt://127.0.0.1:{unused_port}", "-w", f"127.0.0.1:{unused_port}", "--json")
    assert shown.code == 1
    broker, worker, store = shown.json["checks"]
    assert (broker["status"], worker["status"], store["status"]) == ("failed", "failed", "skipped")
    assert "refused" in broker["detail"]
    assert "refused" in worker["detail"]
    assert list(Path().iterdir()) == []


def test_a_wrong_token_is_told(cli: Cli, start: Start) -> None:
    child = start("worker", "--port", 0, "--token", "right", "--json")
    address = child.line().split('"address": "')[1].split('"')[0]
    wrong = cli("check", "-b", "memory://x", "-w", address, "--token", "hunter2")
    assert wrong.code == 1
    assert "token" in wrong.out
    assert "hunter2" not in wrong.out
    assert cli("check", "-b", "memory://x", "-w", address, "--token", "right").code == 0


def test_all_workers_are_looked_at(cli: Cli, start: Start) -> None:
    """Given one of them; also one that is not there any more."""
    addresses = []
    children = []
    for stage in (0, 1):
        children.append(start("worker", "--port", 0, "--stages", 3, "--stage", stage, "--json"))
        addresses.append(children[-1].line().split('"address": "')[1].split('"')[0])
    shown = cli("check", "-b", "memory://x", "-w", addresses[1], "--json")
    assert shown.code == 0, shown
    workers = [found for found in shown.json["checks"] if found["what"] == "worker"]
    assert [found["name"] for found in workers] == addresses[::-1]
    assert "3 stage(s), it has 1, no worker has had 2 yet" in workers[0]["detail"]
    assert "3 stage(s), it has 0" in workers[1]["detail"]
    children[0].interrupt()
    shown = cli("check", "-b", "memory://x", "-w", addresses[1], "--json")
    assert shown.code == 1
    assert [(found["name"], found["status"]) for found in shown.json["checks"] if found["what"] == "worker"] == [
        (addresses[1], "ok"),
        (addresses[0], "failed"),
    ]


def test_something_else_on_the_workers_port(cli: Cli, mosquitto: Mosquitto) -> None:
    shown = cli("check", "-b", "memory://x", "-w", f"127.0.0.1:{mosquitto.port}", "--timeout", "2")
    assert shown.code == 1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        shown = cli("check", "-b", "memory://x", "-w", address, "--timeout", "0.3")
    assert shown.code == 1
    assert "no answer within 0.3 s" in shown.out


def test_a_store_that_makes_no_sense_is_wrong_usage(cli: Cli, shared_worker: str) -> None:
    cli("check", "-b", "memory://x", "-w", shared_worker, "--store", "oracle://x").assert_refused(2, "store", "oracle")


def test_stores(cli: Cli, shared_worker: str) -> None:
    base = ("check", "-b", "memory://x", "-w", shared_worker, "--store")
    fresh = cli(*base, "sqlite:///new.db")
    assert fresh.code == 0
    assert "does not exist yet" in fresh.out
    assert not Path("new.db").exists()
    Path("folder").mkdir()
    wrong = cli(*base, "sqlite:///folder")
    assert (wrong.code, "folder is a folder, not a file" in wrong.out) == (1, True)
    Path("garbage.db").write_bytes(b"this is no database" * 100)
    assert cli(*base, "sqlite:///garbage.db").code == 1
    with sqlite3.connect("other.db") as other:
        other.execute("create table meta (key text)")
    other.close()
    assert cli(*base, "sqlite:///other.db").code == 1


def test_a_store_that_cannot_be_made(cli: Cli, shared_worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root, as in containers, may write everywhere
    shown = cli("check", "-b", "memory://x", "-w", shared_worker, "--store", "sqlite:///locked/new.db")
    assert shown.code == 1
    assert "cannot be written" in shown.out
