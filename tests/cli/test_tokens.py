"""``inorder tokens``: what it prints, what it keeps, and that workers heed it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.errors import StoreFull
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

STORE = ("--store", "sqlite:///numbers.db")


def test_a_token_from_its_making_to_its_end(cli: Cli, start: Start) -> None:
    child = start("worker", "--port", 0, *STORE, "--require-token", "--json")
    address = json.loads(child.line())["address"]
    order = ("order", "show", "--worker", address)
    cli(*order).assert_refused(1, "a token is needed here")
    made = cli("tokens", "create", "desk", "--role", "viewer", "--expires", 3600, *STORE, "--json")
    assert made.code == 0, made
    secret, token = made.json["secret"], made.json["id"]
    assert (made.json["name"], made.json["role"], made.json["publish"]) == ("desk", "viewer", None)
    assert cli(*order, "--token", secret).code == 0
    forbidden = cli("log", "on", "s:a", "--worker", address, "--token", secret)
    forbidden.assert_refused(1, "role viewer may not send ChangeLog, a token with role operator or admin may")
    listed = cli("tokens", "list", *STORE, "--json")
    assert (listed.json["id"], listed.json["revoked_at"], "secret" in listed.json) == (token, None, False)
    ended = cli("tokens", "revoke", token, *STORE, "--json")
    assert ended.json["revoked_at"]
    cli("tokens", "revoke", "nothing", *STORE).assert_refused(1, "nothing", "inorder tokens list")
    stopped = child.interrupt()
    assert stopped.code == 0
    assert "event=connection_ended" in stopped.err
    assert secret not in stopped.err + stopped.out


def test_a_token_before_the_first_worker(cli: Cli, start: Start) -> None:
    """As a worker that asks for tokens needs it: the store is made for it, and is that worker's."""
    Path("inorder.toml").write_text('[worker]\nstages = 2\ntopic_order = [["s:a"], ["s:b"]]\n')
    made = cli("tokens", "create", "root", "--role", "admin", *STORE)
    assert made.code == 0, made
    assert made.out.startswith("ino_")
    assert "made the store sqlite:///numbers.db, as there was none" in made.err
    assert "made the store" not in cli("tokens", "create", "other", *STORE).err
    child = start("worker", "--port", 0, *STORE, "--require-token", "--json")
    address = json.loads(child.line())["address"]
    shown = cli("order", "show", "--worker", address, "--token", made.out.strip(), "--json")
    assert shown.json["stages"] == [["s:a"], ["s:b"]], shown
    assert child.interrupt().code == 0


def test_what_people_read(cli: Cli, start: Start) -> None:
    """The secret alone is on stdout, so that a shell can take it."""
    child = start("worker", "--port", 0, *STORE, "--json")
    child.line()
    limits = ("--publish", "mqtt:in/#", "--subscribe", "mqtt:#", "--max-unconfirmed", 5, "--max-topics", 9)
    made = cli("tokens", "create", "plant", *limits, "--max-subscriptions", 3, *STORE)
    assert made.code == 0
    assert made.out.startswith("ino_")
    assert len(made.out.split()) == 1
    assert made.out.strip() not in made.err
    assert "plant, client, publishes to mqtt:in/#, subscribes to mqtt:#, 5 unconfirmed, makes 9 topics" in made.err
    assert "makes 9 topics, 3 durable subscriptions" in made.err
    assert "plant, client" in cli("tokens", "list", *STORE).err


def test_what_cannot_be_done(cli: Cli) -> None:
    for command in (("tokens", "list"), ("tokens", "revoke", "it")):
        cli(*command, "--store", "sqlite:///nothing.db").assert_refused(1, "nothing.db")
    assert not Path("nothing.db").exists()
    cli("tokens", "create", "desk", "--store", "sqlite:///none/x.db").assert_refused(1, "there is no folder")
    cli("tokens", "create", "desk", "--role", "root").assert_refused(2, "root")
    cli("tokens", "create").assert_refused(2, "NAME")


def test_each_change_is_in_the_audit_log_from_before_it_is_made(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is killed in the middle, or whose outcome nobody can know, leaves what it was about to do."""
    first = cli("tokens", "create", "root", "--role", "admin", *STORE, "--json").json["id"]
    assert cli("tokens", "revoke", first, *STORE).code == 0
    cli("tokens", "create", "desk", "--role", "viewer", "--max-topics", 1, *STORE).assert_refused(2, "role viewer")

    def fail(*_: object) -> None:
        raise StoreFull("numbers.db", "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(TokenStore, "revoke", fail)
        cli("tokens", "revoke", first, *STORE).assert_refused(1, "no space left")
    with monkeypatch.context() as patched:
        patched.setattr(AuditLog, "end", fail)
        made = cli("tokens", "create", "late", *STORE)
    assert made.out.startswith("ino_")  # the one time that it is shown
    assert "entry 5 of the audit log stays started" in made.err
    with monkeypatch.context() as patched:
        patched.setattr(AuditLog, "begin", fail)
        cli("tokens", "create", "never", *STORE).assert_refused(1, "no space left")
    store = Store(STORE[1])
    found = [(each.action, each.target, each.outcome) for each in AuditLog(store).page()]
    assert found == [
        ("token.issue", "late", "started"), ("token.revoke", first, "unknown"), ("token.issue", "desk", "refused"),
        ("token.revoke", first, "done"), ("token.issue", "root", "done"),
    ]  # fmt: skip
    assert [each.name for each in TokenStore(store).list()] == ["late", "root"]
    store.close()
