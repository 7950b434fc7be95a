"""``inorder subscriptions`` and ``inorder sub --durable`` (R12, R18)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli, Start

from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto


def test_a_durable_subscriber_goes_on_and_is_ended(cli: Cli, start: Start, mosquitto: Mosquitto) -> None:
    """Three runs of the same command: what was published between them is not lost; then the operator ends it."""
    Path("inorder.toml").write_text('[worker]\nsession_timeout = 1.0\nbeat_interval = 0.2\nlog_topics = ["mqtt:#"]\n')
    child = start("worker", "--port", 0, "--store", "sqlite:///durable.db", "--json")
    address = json.loads(child.line())["address"]
    at = ("--worker", address, "--broker", mosquitto.url)
    topic, worker = unique("logged"), ("--worker", address)
    sub = ("sub", topic, *at, "--durable", "--client-id", "desk", "-F", "%p")
    assert cli(*sub, "-W", "0.5").code == 0
    for text in ("one", "two"):
        assert cli("pub", topic, text, *at).code == 0
    assert cli(*sub, "-C", "2").out.split() == ["one", "two"]
    assert cli("pub", topic, "three", *at).code == 0
    seen = cli(*sub, "-C", "2").out.split()
    assert seen == ["two", "three"], "the last one of a run was not done with: it comes again"
    (known,) = [json.loads(line) for line in cli("subscriptions", "list", *worker, "--json").out.splitlines()]
    assert (known["client"], known["durable"], known["filters"]) == ("desk", True, [f"mqtt:{topic}"])
    assert "desk: durable" in cli("subscriptions", "list", *worker).err
    ended = cli("subscriptions", "end", "desk", *worker)
    while ended.code == 1 and "session_timeout" in ended.err:
        ended = cli("subscriptions", "end", "desk", *worker)
    assert ended.code == 0
    assert "nobody" in cli("subscriptions", "list", *worker).err
    cli("subscriptions", "end", "desk", *worker).assert_refused(1, "no subscription")
