"""``inorder topics``, ``gaps`` and ``events``: what a running worker shows; numbers released and repaired by hand."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Start
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import Logged, NewEvent, NumberState, encode_logged
from inorder_cli.events import _in_words, before
from inorder_cli.gaps import _plain, _text
from inorder_worker.admin import EventState, StuckNumber

BINARY = bytes([0xFF, 0])


@pytest.fixture
def address(start: Start) -> str:
    """A worker with two topics, of which one has an event log."""
    order, logs = '[["m:a", "m:b"]]', '["m:a"]'
    Path("inorder.toml").write_text(f"[worker]\ntopic_order = {order}\nlog_topics = {logs}\npublisher_grace = 3600.0\n")
    child = start("worker", "--port", 0, "--json")
    return json.loads(child.line())["address"]  # type: ignore[no-any-return]


async def _stamp(address: str) -> None:
    """Four numbers of a, the first confirmed; then three of b, the first void; and their client is gone."""
    async with RawClient(address, "silent") as raw:
        a, b = await raw.resolve("a", "b", space="m")
        raw.send_create(a, *(NewEvent(at, a.id, [], encode_logged(Logged(text))) for at, text in enumerate(TEXTS, 1)))
        first, *_ = await raw.stamped(1, 2, 3)
        await raw.confirm(first)
        await raw.create(b, 4, 5, 6)


TEXTS = (b"one", BINARY, b"\x1b[31mthree")


@pytest.fixture
def stamped(address: str) -> tuple[str, str]:
    asyncio.run(_stamp(address))
    return "--worker", address


def test_topics_are_listed_shown_and_created(cli: Cli, stamped: tuple[str, str]) -> None:
    listed = [json.loads(line) for line in cli("topics", "list", *stamped, "--json").out.splitlines()]
    assert [(each["topic"], each["rank"], each["number"], each["confirmed"], each["pending"]) for each in listed] == [
        ("m:a", 1, 3, 1, 2), ("m:b", 2, 3, 0, 3),
    ]  # fmt: skip
    assert [(each["logged"], each["pinned"], each["reached"]) for each in listed] == [
        (True, False, True), (False, False, True),
    ]  # fmt: skip
    assert cli("order", "pin", "m:a", *stamped).code == 0
    header, first, second = cli("topics", "list", *stamped).out.splitlines()
    assert header.split() == [
        "stage", "topic", "number", "per", "s", "confirmed", "pending", "void", "abandoned", "late",
    ]  # fmt: skip
    assert first.split()[:3] == ["0", "m:a", "3"]
    assert first.split()[4:] == ["1", "2", "0", "0", "0", "pinned", "log"]
    assert second.split()[4:] == ["0", "3", "0", "0", "0"]
    shown = cli("topics", "show", "m:a", *stamped, "--json").json
    assert (shown["topic"], shown["head"], shown["group"], shown["group_size"]) == ("m:a", 1, [], 0)
    assert {"head: 1", "group: no other topic", "pinned: yes"} <= {
        *cli("topics", "show", "m:a", *stamped).out.splitlines()
    }
    made = cli("topics", "create", "m:new", "m:a", *stamped, "--json").out.splitlines()
    assert [json.loads(each) for each in made] == [
        {"topic": "m:new", "id": 3, "stage": 0}, {"topic": "m:a", "id": 1, "stage": 0},
    ]  # fmt: skip
    assert "m:new: id 3, stage 0" in cli("topics", "create", "m:new", *stamped).err


def test_what_is_stuck_is_listed_released_and_repaired(cli: Cli, stamped: tuple[str, str]) -> None:
    while "connected" in cli("gaps", "list", "--older", "0", *stamped).out:
        pass  # until the worker has noticed that the client is gone
    listed = [json.loads(line) for line in cli("gaps", "list", "--older", "0", *stamped, "--json").out.splitlines()]
    assert [(each["topic"], each["first"], each["last"], each["logged"]) for each in listed] == [
        ("m:a", 2, 3, True), ("m:b", 1, 3, False),
    ]  # fmt: skip
    assert {(each["client"], each["state"], each["reason"]) for each in listed} == {
        ("silent", "pending", "publisher away")
    }
    assert listed[0]["away"] > 0
    assert "m:a 2 to 3: pending, publisher away" in cli("gaps", "list", "--older", "0", *stamped).out
    assert cli("gaps", "release", "m:b", "1", "--as", "void", *stamped, "--json").json == {"numbers": [1]}
    assert cli("gaps", "release", "m:b", "1", "3", *stamped).err == "released as abandoned: 2, 3\n"
    assert cli("gaps", "repair", "m:a", "2", "3", *stamped).err == "repaired: 2, 3\n"
    assert cli("gaps", "list", "--older", "0", *stamped).err == "nothing is stuck\n"
    listed = [json.loads(line) for line in cli("topics", "list", *stamped, "--json").out.splitlines()]
    assert [(each["confirmed"], each["void"], each["abandoned"]) for each in listed] == [(3, 0, 0), (0, 1, 2)]


def test_what_clients_wait_for_is_in_the_list_of_what_is_stuck() -> None:
    why = "was never given"
    never = StuckNumber(2, 99, 99, NumberState.UNKNOWN, why, None, "", 0, 7_000, False, ("c1", "c2"), (1, 7))
    assert _text(_plain(never, {1: "m:a", 2: "m:b"})) == (
        "m:b 99: unknown, was never given (7 s; waited for by c1, c2, with m:a 7)"
    )


def test_a_dependency_that_was_never_given_is_shown() -> None:
    found = EventState(1, 7, NumberState.CONFIRMED, True, ((2, 99), (3, 4)), "c", 1, 1, False)
    states = {(3, 4): NumberState.CONFIRMED}
    assert [_in_words(each) for each in before(found, {2: "m:b", 3: "m:c"}, states)] == [
        "m:b 99 (never given)", "m:c 4 (confirmed)",
    ]  # fmt: skip


def test_an_event_is_shown(cli: Cli, stamped: tuple[str, str]) -> None:
    shown = cli("events", "show", "m:a", "1", *stamped, "--json").json
    assert (shown["state"], shown["client"], shown["counter"], shown["payload"]) == ("confirmed", "silent", 1, "one")
    assert shown["stored_at"].endswith("+00:00")
    assert cli("events", "show", "m:a", "2", *stamped, "--json").json["payload_base64"] == "/wA="
    text = cli("events", "show", "m:a", "3", *stamped).out
    assert "\\x1b[31mthree" in text, "a payload cannot drive a terminal"
    assert "dependencies: nothing" in text
    other = cli("events", "show", "m:b", "1", *stamped, "--json").json
    assert (other["state"], other["logged"], other["stored_at"]) == ("pending", False, None)


def test_what_is_wrong_is_named_with_what_is_allowed(cli: Cli, stamped: tuple[str, str]) -> None:
    cli("topics", "show", "m:x", *stamped).assert_refused(2, "m:x", "space:name")
    cli("topics", "create", "x", *stamped).assert_refused(2, "'x'", "space:topic")
    cli("topics", "create", f"{'m' * 300}:x", *stamped).assert_refused(2, "300 bytes", "1 to 255")
    cli("gaps", "release", "m:b", "3", "2", *stamped).assert_refused(2, "3 (FIRST) and higher")
    cli("gaps", "release", "m:b", "0", *stamped).assert_refused(2, "FIRST")
    cli("gaps", "release", "m:b", "1", "--as", "lost", *stamped).assert_refused(2, "void", "abandoned")
    cli("gaps", "release", "m:b", "4", *stamped).assert_refused(1, "number 4 was not issued yet", "last one is 3")
    cli("gaps", "release", "m:a", "1", *stamped).assert_refused(1, "none of the numbers", "from 2 to 3 there are 2")
    cli("gaps", "release", "m:a", "2", *stamped).assert_refused(1, "repair them instead")
    cli("gaps", "repair", "m:b", "1", *stamped).assert_refused(1, "release them instead")
    cli("gaps", "repair", "m:b", str(2**63), *stamped).assert_refused(2, "first")
    cli("events", "show", "m:b", "4", *stamped).assert_refused(1, "no number 4")
