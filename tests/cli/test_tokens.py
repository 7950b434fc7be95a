"""``inorder tokens``: what it prints, what it keeps, and that workers heed it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli, Start

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
