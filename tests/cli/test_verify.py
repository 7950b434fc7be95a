"""``inorder verify``: 0 all is well, 1 something is not, 2 wrong usage."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.cli.conftest import Cli


def test_a_store_with_its_worker_running(cli: Cli, worker_address: str) -> None:
    shown = cli("verify", "--store", "sqlite:///numbers.db", "--json")
    assert shown.code == 0, shown
    assert (shown.json["ok"], shown.json["problems"]) == (True, [])
    assert [stage["stage"] for stage in shown.json["stages"]] == [0]
    text = cli("verify", "--store", "sqlite:///numbers.db")
    assert text.code == 0
    assert "ok      stage 0: epoch 1" in text.out
    assert "all is well" in text.out


def test_damage_is_named(cli: Cli, worker_address: str) -> None:
    with sqlite3.connect("numbers.db") as connection:
        connection.execute("UPDATE journal SET entries = x'00' WHERE seq = 1")
    connection.close()
    shown = cli("verify", "--store", "sqlite:///numbers.db", "--json")
    assert shown.code == 1
    assert shown.json["ok"] is False
    (problem,) = shown.json["problems"]
    assert (problem["what"], problem["stage"], problem["seq"]) == ("journal", 0, 1)
    text = cli("verify", "--store", "sqlite:///numbers.db")
    assert text.code == 1
    assert "problem journal of stage 0: row 1 is damaged" in text.out
    assert "failed  stage 0" in text.out


def test_a_table_that_was_renamed_is_named(cli: Cli, worker_address: str) -> None:
    with sqlite3.connect("numbers.db") as connection:
        connection.execute("ALTER TABLE event_log RENAME TO others")
    connection.close()
    shown = cli("verify", "--store", "sqlite:///numbers.db")
    assert (shown.code, shown.err) == (1, "")
    assert "problem there is no table event_log; were its tables changed by hand?" in shown.out


def test_no_store(cli: Cli) -> None:
    cli("verify", "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    assert not Path("nothing.db").exists()
    cli("verify", "--store", "oracle://x").assert_refused(2, "store", "oracle")
