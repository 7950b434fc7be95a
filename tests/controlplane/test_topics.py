"""``/topics``: lists, one with its group, new ones, pins, event logs; odd names (R13, R15, R18, B71, B73)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import until
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, cluster_of, live_site

from inorder.errors import WorkerUnreachable
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.wire import LogRule
from inorder_controlplane.payloads import MAX_TEXT_BYTES, fields_of, text_of
from inorder_worker.admin import Cluster
from inorder_worker.store.audit import MAX_TARGET

ODD = ["a/b/c", "%2F%00", "🦊/é", "<img src=x onerror=alert(1)>", "..", " ", "a?b#c", '"', "x" * 65_535]


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_site(tmp_path) as made:
        yield made


async def test_topics_are_listed_with_their_numbers(live: Live) -> None:
    async with live.events.client("p") as one, live.events.client("s") as two:
        await one.subscribe("a", "b")
        await two.subscribe("#")
        for _ in range(3):
            await one.publish("b", b"x")
        found = await live.found("/topics", lambda page: page["items"][1]["rate"])
        assert [each["name"] for each in found["items"]] == ["a", "b", "c", "d", "e"]
        b = found["items"][1]
        assert b.pop("rate") > 0
        assert b == {
            "id": "2",
            "space": "memory",
            "name": "b",
            "stage": 1,
            "rank": 2,
            "number": "3",
            "head": b["head"],
            "confirmed": b["confirmed"],
            "pending": b["pending"],
            "void": "0",
            "abandoned": "0",
            "late": "0",
            "subscribers": 2,
            "group_size": 1,
            "pinned": False,
            "log": None,
        }
        names = [each["name"] for each in (await live.get("/topics", sort="-number", limit=2))["items"]]
        assert names[0] == "b"
        assert [each["name"] for each in (await live.get("/topics", q="memory:d"))["items"]] == ["d"]


async def test_a_topic_with_its_sequencing_group(live: Live) -> None:
    async with live.events.client("s1") as one, live.events.client("s2") as two:
        await one.subscribe("a", "d", "e")
        await two.subscribe("a", "d")
        found = await live.get("/topics/4")
        assert found["group"] == [{"id": "1", "space": "memory", "name": "a", "stage": 0}]
        assert found["group_size"] == 1
        assert (await live.get("/topics/5"))["group"] == []


async def test_numbers_of_64_bits_are_exact(live: Live) -> None:
    """B71: beyond what a browser can hold in a number."""
    stage = live.events.worker._host.stage(0)
    manager = stage._state.topics[1]
    manager.number, manager.head = 2**53 + 1, 2**63 - 1
    (first,) = (await live.get("/topics", limit=1))["items"]
    assert (first["number"], first["head"]) == ("9007199254740993", "9223372036854775807")


async def test_topics_that_are_not_there(live: Live) -> None:
    client = live.client("viewer")
    assert_problem(await client.get("/api/v1/topics/99"), "not-found")
    assert_problem(await client.get("/api/v1/topics/9223372036854775808"), "invalid")
    assert_problem(await client.get("/api/v1/topics/one"), "invalid")
    assert_problem(await client.get("/api/v1/topics/99/log"), "not-found")


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
async def test_topics_of_any_name_are_created(live: Live, name: str) -> None:
    client = live.client("operator")
    body = {"space": "memory", "name": name}
    answer = await client.post("/api/v1/topics", json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["id"], made["name"], made["stage"], made["rank"]) == ("6", name, 2, 6)
    assert answer.headers["location"] == "/api/v1/topics/6"
    assert (await live.get("/topics/6"))["name"] == name
    assert_problem(await client.post("/api/v1/topics", json=body), "conflict")
    (entry,) = (await live.get("/audit", role="admin"))["items"]
    assert (entry["action"], entry["detail"]["id"]) == ("topic.create", "6")
    assert entry["target"].removesuffix("...") == f"memory:{name}"[:MAX_TARGET]


@pytest.mark.parametrize(
    "body",
    [{}, {"space": "", "name": "a"}, {"space": "m", "name": ""}, {"space": "m", "name": 1},
     {"space": "m" * 256, "name": "a"},
     {"space": "é" * 128, "name": "a"}, {"space": "m", "name": "x" * 65_536}, {"space": "m", "name": "a\u0000"},
     {"space": "m", "name": "a", "id": "1"}],
)  # fmt: skip
async def test_names_that_no_topic_has(live: Live, body: Any) -> None:
    assert_problem(await live.client("operator").post("/api/v1/topics", json=body), "invalid")


async def test_a_topic_is_pinned_and_let_go(live: Live) -> None:
    assert (await live.edit("PATCH", "/topics/1", {"pinned": True})).json()["pinned"]
    assert (await live.get("/order"))["stages"][0]["topics"][0]["pinned"]
    assert not (await live.edit("PATCH", "/topics/1", {"pinned": False})).json()["pinned"]
    assert (await live.edit("PATCH", "/topics/1", {})).status_code == 200
    actions = [each["action"] for each in (await live.get("/audit", role="admin"))["items"]]
    assert actions == ["topic.unpin", "topic.pin"]


async def test_a_lost_update_of_a_topic_is_refused(live: Live) -> None:
    client = live.client("operator")
    old = (await client.get("/api/v1/topics/1")).headers["etag"]
    await live.edit("PATCH", "/topics/1", {"pinned": True})
    answer = await client.patch("/api/v1/topics/1", json={"log": {}}, headers={"If-Match": old})
    assert_problem(answer, "stale")
    assert_problem(await client.patch("/api/v1/topics/1", json={"log": {}}), "precondition-required")
    assert (await live.get("/topics/1"))["log"] is None


@pytest.mark.parametrize(
    ("at", "to", "one", "other"),
    [("/topics/1", "/topics/1", {"log": {"max_count": 1}}, {"log": {"max_count": 2}}),
     ("/order", "/order/automatic", {"on": True, "window_s": 60}, {"on": True, "window_s": 70})],
)  # fmt: skip
async def test_of_two_changes_of_one_version_at_a_time_one_is_refused(
    live: Live, at: str, to: str, one: Any, other: Any
) -> None:
    client = live.client("operator")
    headers = {"If-Match": (await client.get(f"/api/v1{at}")).headers["etag"]}
    method = "PATCH" if at == to else "PUT"
    asked = (client.request(method, f"/api/v1{to}", json=body, headers=headers) for body in (one, other))
    done, refused = sorted(await asyncio.gather(*asked), key=lambda each: each.status_code)
    assert done.status_code == 200
    assert_problem(refused, "stale")


async def test_a_change_of_two_parts_is_refused_as_a_whole(live: Live) -> None:
    async with cluster_of(live) as cluster:
        await cluster.change_log(LogRule("memory", mqtt_filter("#")), is_on=True)
    assert_problem(await live.edit("PATCH", "/topics/1", {"pinned": True, "log": None}), "conflict")
    assert not (await live.get("/topics/1"))["pinned"]


async def test_a_change_whose_second_part_fails_says_what_was_made(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any, **__: Any) -> None:
        raise WorkerUnreachable(["w:1"], "the worker is gone")

    monkeypatch.setattr(Cluster, "pin", lost)
    problem = assert_problem(await live.edit("PATCH", "/topics/1", {"pinned": True, "log": {}}), "unknown-outcome")
    assert "the log was turned on" in problem["detail"]
    assert_problem(await live.edit("PATCH", "/topics/1", {"pinned": True}), "workers-unavailable")


async def test_what_is_published_does_not_make_a_version_stale(live: Live) -> None:
    client = live.client("operator")
    etag = (await client.get("/api/v1/topics/1")).headers["etag"]
    async with live.events.client("p") as publisher:
        await publisher.publish("a", b"x")
    answer = await client.patch("/api/v1/topics/1", json={"pinned": True}, headers={"If-Match": etag})
    assert answer.status_code == 200


async def test_an_event_log_is_turned_on_bounded_read_and_ended(live: Live) -> None:
    bounds = {"max_age_s": 60.5, "max_count": 10, "max_bytes": 0}
    assert (await live.edit("PATCH", "/topics/1", {"log": bounds})).json()["log"] == bounds
    async with live.events.client("p") as publisher:
        await publisher.subscribe("a")
        await publisher.publish("a", "é".encode())
        await publisher.publish("a", b"\xff")
        await publisher.publish("a", b"last", qos=1)
    found = await live.get("/topics/1/log")
    assert [(each["number"], each["payload_text"], each["qos"]) for each in found["items"]] == [
        ("1", "é", 0),
        ("2", None, 0),
        ("3", "last", 1),
    ]
    assert base64.b64decode(found["items"][1]["payload_base64"]) == b"\xff"
    assert (found["first"], found["last"], found["next"]) == ("1", "3", None)
    part = await live.get("/topics/1/log", limit=1, **{"from": "2"})
    assert ([each["number"] for each in part["items"]], part["next"]) == (["2"], "3")
    assert (await live.edit("PATCH", "/topics/1", {"log": None})).json()["log"] is None
    assert_problem(await live.client("viewer").get("/api/v1/topics/1/log"), "not-found")


@pytest.mark.parametrize(
    "log", [{"max_age_s": -1}, {"max_count": 1.5}, {"max_bytes": 2**53}, {"x": 1}, 1, {"max_age_s": "1"}]
)
async def test_bounds_that_no_log_has(live: Live, log: Any) -> None:
    assert_problem(await live.edit("PATCH", "/topics/1", {"log": log}), "invalid")


async def test_a_log_by_a_wider_rule_is_not_ended_for_one_topic(tmp_path: Path) -> None:
    async with live_site(tmp_path, log_topics=["memory:#"]) as live:
        assert (await live.get("/topics/1"))["log"] is not None
        answer = await live.edit("PATCH", "/topics/1", {"log": None})
        assert "memory:#" in assert_problem(answer, "conflict")["detail"]


async def test_all_requests_share_a_connection_to_the_workers(live: Live) -> None:
    """Each new one would be a session that the stages write down."""
    await asyncio.gather(*(live.get("/topics") for _ in range(5)))
    await live.get("/subscriptions")
    assert len(live.events.worker._server.sessions) == 1


async def test_while_no_worker_answers(live: Live) -> None:
    await live.events.stop()
    answer = await live.client("viewer").get("/api/v1/topics")
    assert_problem(answer, "workers-unavailable")
    assert answer.headers["retry-after"] == "1"
    await live.events.start(stages=3)
    await until(lambda: True)
    assert (await live.get("/topics"))["total"] == 5


def test_payloads_as_texts() -> None:
    assert fields_of(None) == {"payload_base64": None, "payload_text": None}
    assert fields_of(b"<b>") == {"payload_base64": "PGI+", "payload_text": "<b>"}
    assert text_of(b"a\0") is None
    assert text_of(b"\xc3") is None
    assert text_of(b"x" * MAX_TEXT_BYTES) is not None
    assert text_of(b"x" * (MAX_TEXT_BYTES + 1)) is None
