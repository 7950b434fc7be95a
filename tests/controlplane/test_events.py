"""``/events`` and ``/gaps``: one event's life, stuck numbers, and their release (R1, R16, R17, R18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import take, take_events, times
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, live_site
from tests.worker.raw_client import RawClient

from inorder import Event, Gap, GapReason
from inorder.protocol.wire import (
    ClientCounts,
    CreateTimestamps,
    Logged,
    NewEvent,
    Report,
    Reported,
    Timestamps,
    Wait,
    encode_logged,
)

pytestmark = pytest.mark.usefixtures("quick_looks")

SCRIPT = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_site(tmp_path, publisher_grace=60.0) as made:
        yield made


async def test_an_event_is_found_by_its_number_and_by_its_id(live: Live) -> None:
    clock = times(report_interval=0.05)
    async with live.events.client(SCRIPT, clock=clock) as one, live.events.client("s2", clock=clock) as two:
        await one.subscribe("a", "d")
        await two.subscribe("a", "d")
        await one.publish("a", b"first")
        await one.publish("d", b"second")
        await asyncio.gather(take_events(one, 2), take_events(two, 2))
        event = await live.found(
            "/events", lambda each: each["state"] == "confirmed" and len(each["life"]) == 7, topic="4", number="1"
        )
        assert event["topic"] == {"id": "4", "space": "memory", "name": "d"}
        assert event["dependencies"] == [
            {"topic": {"id": "1", "space": "memory", "name": "a"}, "number": "1", "state": "confirmed"}
        ]
        assert (event["client"], event["counter"]) == (SCRIPT, "2")
        assert (event["logged"], event["payload_base64"]) == (False, None)
        whats = [each["what"] for each in event["life"]]
        assert sorted(whats) == sorted(
            ["published", "stamped", "accepted by the broker", "received", "delivered", "received", "delivered"]
        )
        by_id = {"client": SCRIPT, "incarnation": event["incarnation"], "counter": "2"}
        assert (await live.get("/events", **by_id))["number"] == "1"


async def test_events_that_are_not_known(live: Live) -> None:
    client = live.client("viewer")
    for query in ({"topic": "1", "number": "1"}, {"topic": "99", "number": "1"},
                  {"client": "x", "incarnation": "-1", "counter": "1"}):  # fmt: skip
        assert_problem(await client.get("/api/v1/events", params=query), "not-found")
    half: list[dict[str, str]] = [{}, {"topic": "1"}, {"client": "x", "counter": "1"}]
    wrong = [{"topic": "x", "number": "1"}, {"topic": "1", "number": "0"},
             {"client": "x", "incarnation": str(2**63), "counter": "1"}]  # fmt: skip
    for query in half + wrong:
        assert_problem(await client.get("/api/v1/events", params=query), "invalid")


async def test_a_logged_event_shows_its_payload(live: Live) -> None:
    await live.edit("PATCH", "/topics/1", {"log": {}})
    async with live.events.client("p") as one:
        await one.publish("a", SCRIPT.encode())
        event = await live.get("/events", topic="1", number="1")
    assert (event["logged"], event["payload_text"]) == (True, SCRIPT)
    assert event["stored_at"].endswith("Z")
    assert "stored" in {each["what"] for each in event["life"]}


# -- gaps --------------------------------------------------------------------------------------------------------------


async def test_stuck_numbers_are_listed_and_released(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async with live.events.client("reader") as reader, RawClient(live.events.address, SCRIPT) as raw:
        await reader.subscribe("a")
        await reader.publish("a", b"before")
        raw.send(CreateTimestamps(0, 1, [NewEvent(1, 1), NewEvent(2, 1)]))
        await raw.next(Timestamps)
        (gap,) = (await live.found("/gaps", lambda each: each["items"]))["items"]
        assert gap.pop("age_s") >= 1
        assert gap == {
            "topic": {"id": "1", "space": "memory", "name": "a"},
            "first": "2",
            "last": "3",
            "state": "pending",
            "reason": "publisher connected, not confirmed",
            "client": SCRIPT,
            "away_s": None,
            "logged": False,
            "waiting": [],
            "holds": None,
        }
        raw.send(Report(1, True, ClientCounts(), waits=[Wait(1, 2, 1, 4, 1, 5_000), Wait(2, 77, 1, 5, 1, 6_000)]))
        await raw.next(Reported)
        waited_for, never = (await live.get("/gaps", sort="topic"))["items"]
        assert (waited_for["waiting"], waited_for["holds"]["number"]) == ([SCRIPT], "4")
        assert (never["state"], never["reason"], never["client"]) == ("unknown", "was never given", None)
        assert (never["first"], never["holds"]["topic"]["name"]) == ("77", "a")
        assert (await live.get("/events", topic="1", number="2"))["waiting"] == [SCRIPT]
        monkeypatch.setattr("inorder_worker.admin.cluster.WAITS_ASKED", 2)
        many = [Wait(at, 0, 1, 4, 1, 9_000) for at in (0, 7, 8, 9)] + [
            Wait(1, at, 1, 4, 1, 9_000) for at in range(90, 99)
        ]
        async with RawClient(live.events.address, "another") as another:
            another.send(Report(1, True, ClientCounts(), waits=many))
            await another.next(Reported)
            shown = (await live.get("/gaps", sort="topic"))["items"]
            assert {each["first"] for each in shown} >= {"2", "77"}, "another's waits leave them their places"
        raw.send(Report(2, False, ClientCounts()))
        await raw.next(Reported)
        await live.found(
            "/overview", lambda each: ("stuck-1", "/gaps") in {(a["id"], a["page"]) for a in each["alarms"]}
        )
        await reader.publish("a", b"behind")
        body = {"topic": "1", "first": "2", "last": "3", "as": "abandoned"}
        client = live.client("operator")
        assert (await client.post("/api/v1/gaps/release", json=body)).json() == {"changed": ["2", "3"], "unchanged": 0}
        assert_problem(await client.post("/api/v1/gaps/release", json=body), "conflict")  # nothing is pending now
        _, gap_told, behind = await take(reader, 3)
        assert gap_told == Gap("memory", "a", 2, 3, GapReason.ABANDONED)
        assert isinstance(behind, Event)
        assert behind.payload == b"behind"
        assert (await live.get("/gaps"))["items"] == []
        entries = (await live.get("/audit", role="admin"))["items"]
        assert [(each["action"], each["target"], each["outcome"]) for each in entries] == [
            ("numbers.release", "1", "refused"),
            ("numbers.release", "1", "done"),
        ]


async def test_logged_numbers_are_repaired(live: Live) -> None:
    await live.edit("PATCH", "/topics/1", {"log": {}})
    content = encode_logged(Logged(b"from the log"))
    async with live.events.client("reader") as reader, RawClient(live.events.address) as raw:
        await reader.subscribe("a")
        raw.send(CreateTimestamps(0, 1, [NewEvent(1, 1, [], content)]))
        await raw.next(Timestamps)
        (gap,) = (await live.found("/gaps", lambda each: each["items"]))["items"]
        assert gap["logged"]
        body = {"topic": "1", "first": "1", "last": "1"}
        client = live.client("operator")
        released = await client.post("/api/v1/gaps/release", json={**body, "as": "void"})
        assert_problem(released, "conflict")  # R16: what is logged is never void
        assert (await client.post("/api/v1/gaps/repair", json=body)).json() == {"changed": ["1"], "unchanged": 0}
        (event,) = await take_events(reader, 1)
        assert isinstance(event, Event)
        assert (event.payload, event.repaired) == (b"from the log", True)


@pytest.mark.parametrize(
    "body",
    [{"topic": "1", "first": "2", "last": "1", "as": "void"}, {"topic": "1", "first": "0", "last": "1", "as": "void"},
     {"topic": "1", "first": "1", "last": "10001", "as": "void"},
     {"topic": "1", "first": "1", "last": "1", "as": "lost"},
     {"topic": "1", "first": 1, "last": 1, "as": "void"}, {"topic": "1", "first": "1", "last": "1"}],
)  # fmt: skip
async def test_what_cannot_be_released(live: Live, body: Any) -> None:
    assert_problem(await live.client("operator").post("/api/v1/gaps/release", json=body), "invalid")


async def test_numbers_of_a_topic_that_is_not_there(live: Live) -> None:
    body = {"topic": "99", "first": "1", "last": "1"}
    client = live.client("operator")
    assert_problem(await client.post("/api/v1/gaps/release", json={**body, "as": "void"}), "not-found")
    assert_problem(await client.post("/api/v1/gaps/repair", json=body), "not-found")
