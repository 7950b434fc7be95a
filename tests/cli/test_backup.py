"""``inorder backup``, ``inorder restore`` and ``inorder renew``: what they say, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.errors import StoreReplaced
from inorder_worker.store.sql_journal import SqlJournal


def test_there_and_back(cli: Cli, start: Start) -> None:
    child = start("worker", "--port", 0, "--store", "sqlite:///numbers.db", "--json")
    child.line()
    made = cli("backup", "x.backup", "--store", "sqlite:///numbers.db", "--json")
    assert made.code == 0, made
    assert made.json["bytes"] == Path("x.backup").stat().st_size
    assert Path("x.backup").stat().st_mode & 0o077 == 0, "others can read it"
    cli("backup", "x.backup", "--store", "sqlite:///numbers.db").assert_refused(1, "x.backup", "there already")
    refused = cli("restore", "x.backup", "--store", "sqlite:///numbers.db", "--force")
    refused.assert_refused(1, f"/{child.pid}-", "stop it first")
    cli("renew", "--store", "sqlite:///numbers.db").assert_refused(1, f"/{child.pid}-", "stop it first")
    assert child.interrupt().code == 0
    cli("restore", "x.backup", "--store", "sqlite:///numbers.db").assert_refused(1, "holds numbers already", "--force")
    forced = cli("restore", "x.backup", "--store", "sqlite:///numbers.db", "--force", "--json")
    assert forced.code == 0, forced
    assert forced.json["former_domain"] == made.json["domain"] != forced.json["domain"]
    assert forced.json["rows"] == made.json["rows"]
    assert cli("verify", "--store", "sqlite:///numbers.db").code == 0
    text = cli("restore", "x.backup", "--store", "sqlite:///new.db")
    assert text.code == 0
    assert text.out.startswith("sqlite:///new.db: ")
    again = start("worker", "--port", 0, "--store", "sqlite:///new.db", "--json")
    assert json.loads(again.line())["type"] == "ready"


def test_a_store_that_was_found_an_older_copy_is_renewed(cli: Cli) -> None:
    here = ("--store", "sqlite:///numbers.db")
    journal = SqlJournal(here[1])
    former = journal.open(1)
    journal.mark_outdated("row 9 is missing")
    for command in ("status", "verify"):
        told = cli(command, *here)
        assert told.code == 1
        assert "an older copy of itself: row 9 is missing" in " ".join(told.out.split())
    cli("worker", "--port", 0, *here).assert_refused(1, "row 9 is missing", "inorder renew")
    done = cli("renew", *here, "--json")
    assert (done.code, done.json["former_domain"]) == (0, former.domain)
    assert cli("verify", *here, "--json").json["domain"] == done.json["domain"] != former.domain
    text = cli("renew", *here)
    assert (text.code, f"before {done.json['domain']}" in text.out) == (0, True)
    with pytest.raises(StoreReplaced):
        journal.mark_outdated("row 9 is missing")
    journal.close()


def test_what_cannot_be_done(cli: Cli) -> None:
    cli("renew", "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    cli("backup", "x.backup", "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    Path("x.backup").write_bytes(b"no backup")
    cli("restore", "x.backup", "--store", "sqlite:///new.db").assert_refused(1, "x.backup", "no backup of inorder")
    cli("restore", "nowhere", "--store", "sqlite:///new.db").assert_refused(1, "nowhere", "No such file")
    assert not Path("new.db").exists()
    cli("restore", "x.backup", "--store", "oracle://x").assert_refused(2, "oracle")
    cli("backup").assert_refused(2, "FILE")
