"""``inorder backup`` and ``inorder restore``: what they say, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli, Start


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


def test_what_cannot_be_done(cli: Cli) -> None:
    cli("backup", "x.backup", "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    Path("x.backup").write_bytes(b"no backup")
    cli("restore", "x.backup", "--store", "sqlite:///new.db").assert_refused(1, "x.backup", "no backup of inorder")
    cli("restore", "nowhere", "--store", "sqlite:///new.db").assert_refused(1, "nowhere", "No such file")
    assert not Path("new.db").exists()
    cli("restore", "x.backup", "--store", "oracle://x").assert_refused(2, "oracle")
    cli("backup").assert_refused(2, "FILE")
