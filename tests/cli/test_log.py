"""``inorder log``: event logs turned on and off through a running worker (R18)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start

from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import LogRule
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto
from inorder_worker.admin import Cluster


@pytest.fixture
def address(start: Start) -> str:
    """A worker whose new store has a log for some topics."""
    Path("inorder.toml").write_text('[worker]\nlog_topics = ["m:orders/#"]\nlog_max_count = 7\nstages = 2\n')
    child = start("worker", "--port", 0, "--json")
    return json.loads(child.line())["address"]  # type: ignore[no-any-return]


def test_logs_are_shown_turned_on_and_off(cli: Cli, address: str) -> None:
    worker = ("--worker", address)
    first = {"space": "m", "filter": "orders/#", "kind": "mqtt", "max_age": 604_800.0, "max_count": 7,
             "max_bytes": 268_435_456}  # fmt: skip
    assert cli("log", "show", *worker, "--json").json == {"rules": [first], "topics": []}
    assert cli("log", "on", "m:a", "redis:b.*", "--max-age", "0", "--max-count", "5", *worker).code == 0
    rules = cli("log", "show", *worker, "--json").json["rules"]
    assert [(each["filter"], each["kind"], each["max_age"], each["max_count"]) for each in rules[1:]] == [
        ("a", "exact", 0, 5), ("b.*", "redis", 0, 5),
    ]  # fmt: skip
    assert "m:a keeps of each topic: any age, 5 events" in cli("log", "show", *worker).err
    assert cli("log", "off", "m:orders/#", "redis:b.*", *worker).code == 0
    assert [each["filter"] for each in cli("log", "show", *worker, "--json").json["rules"]] == ["a"]
    assert cli("log", "on", "m:a", "--max-count", "6", *worker).code == 0
    assert [each["max_count"] for each in cli("log", "show", *worker, "--json").json["rules"]] == [6]


def test_what_was_published_can_be_replayed(cli: Cli, start: Start, mosquitto: Mosquitto) -> None:
    """By number and by time, as text and as JSON; what is not there is named."""
    child = start("worker", "--port", 0, "--store", "sqlite:///replay.db", "--json")
    at = ("--worker", json.loads(child.line())["address"], "--broker", mosquitto.url)
    topic = unique("logged")
    assert cli("log", "on", f"mqtt:{topic}", *at[:2]).code == 0
    for text in ("one", "two", "three"):
        assert cli("pub", topic, text, *at).code == 0
    assert cli("replay", topic, *at, "-F", "%p").out.split() == ["one", "two", "three"]
    shown = cli("replay", topic, *at, "--from", "2", "--json")
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert [(each["number"], each["verdict"]) for each in events] == [(2, "replayed"), (3, "replayed")]
    assert cli("replay", topic, *at, "--from", "2100-01-01T00:00:00Z").out == ""
    cli("replay", "plain", *at).assert_refused(1, "no event log")
    cli("replay", topic, *at, "--from", "yesterday").assert_refused(2, "--from")


def test_what_is_wrong_is_named(cli: Cli, address: str) -> None:
    worker = ("--worker", address)
    cli("log", "on", "orders", *worker).assert_refused(2, "space:filter")
    cli("log", "off", "m:never", *worker).assert_refused(1, "no such rule", "m:never")
    cli("log", "off", "m:orders/#", "m:never", *worker).assert_refused(1, "no such rule")
    assert [each["filter"] for each in cli("log", "show", *worker, "--json").json["rules"]] == ["orders/#"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("m:st/#/x", ["'st/#/x'", "# must be the last level"]),
        ("m:a+/b", ["'a+/b'", "must stand alone in its level"]),
        ("m:a/b#", ["'a/b#'", "must stand alone in its level"]),
        ("mqtt:$share/g/x", ["'$share/g/x'", "subscribe without $share"]),
        (f"redis:{'a' * 65_536}", ["over the limit of 65535"]),
    ],
)
def test_what_no_broker_would_take_is_refused_before_anything_is_connected(
    cli: Cli, text: str, parts: list[str]
) -> None:
    nobody = ("--worker", "127.0.0.1:1")
    cli("log", "on", text, *nobody).assert_refused(2, *parts, "--glob")


def test_filters_are_read_as_the_adapters_read_them(cli: Cli, address: str) -> None:
    worker = ("--worker", address)
    assert cli("log", "on", "redis:a\\*b", "m:x[12]", "m:y*/#", "--glob", *worker).code == 0
    rules = cli("log", "show", *worker, "--json").json["rules"]
    assert [(each["filter"], each["kind"]) for each in rules[1:]] == [
        ("a\\*b", "exact"), ("x[12]", "redis"), ("y*/#", "redis"),
    ]  # fmt: skip
    cli("log", "off", "m:x[12]", "--no-glob", *worker).assert_refused(1, "no such rule")
    assert cli("log", "off", "redis:a\\*b", "m:y*/#", "--glob", *worker).code == 0
    assert cli("log", "off", "m:x[12]", *worker).code == 0
    assert [each["filter"] for each in cli("log", "show", *worker, "--json").json["rules"]] == ["orders/#"]


async def _turn_on(address: str, *rules: LogRule) -> None:
    async with Cluster((address,)) as cluster:
        for rule in rules:
            await cluster.change_log(rule, is_on=True)


def test_a_rule_from_before_filters_were_checked_can_be_taken_back(cli: Cli, address: str) -> None:
    """Also one that was read otherwise then."""
    worker = ("--worker", address)
    old = ("st/#/x", FilterKind.MQTT), ("a+/b", FilterKind.EXACT), ("a\\*", FilterKind.REDIS)
    asyncio.run(_turn_on(address, *(LogRule("m", Filter(text, kind, text), 0, 0, 0) for text, kind in old)))
    assert len(cli("log", "show", *worker, "--json").json["rules"]) == 4
    assert cli("log", "off", *(f"m:{text}" for text, _ in old), *worker).code == 0
    assert [each["filter"] for each in cli("log", "show", *worker, "--json").json["rules"]] == ["orders/#"]


def test_settings_refuse_them_too(cli: Cli) -> None:
    Path("inorder.toml").write_text('[worker]\nlog_topics = ["m:ok/#", "m:st/#/x"]\n')
    cli("worker", "--port", 0).assert_refused(2, "log_topics", "'m:st/#/x'", "space:filter", "# must be the last level")
    assert not Path("inorder.db").exists()
