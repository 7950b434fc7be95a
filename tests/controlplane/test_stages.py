"""``/stages``, ``/workers`` and ``/overview``: who has what, and how it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.client.helpers import PATIENCE, times, worker_settings
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, live_site

from inorder_worker.service import Worker, gate
from inorder_worker.store import schema
from inorder_worker.store.records import now_ms
from inorder_worker.store.tokens import TokenStore

pytestmark = pytest.mark.usefixtures("quick_looks")


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_site(tmp_path, beat_interval=0.1) as made:
        yield made


async def test_stages_and_their_worker(live: Live) -> None:
    found = await live.get("/stages")
    assert [(each["stage"], each["state"], each["topics"]) for each in found["items"]] == [
        (0, "active", 1),
        (1, "active", 2),
        (2, "active", 2),
    ]
    first = found["items"][0]
    assert first["address"] == live.events.address
    assert int(first["epoch"]) >= 1
    assert int(first["row"]) >= 1
    assert first["rate"] == 0.0
    assert [each["stage"] for each in (await live.get("/stages", sort="-stage"))["items"]] == [2, 1, 0]


async def test_workers(live: Live) -> None:
    (worker,) = (await live.found("/workers", lambda found: found["items"]))["items"]  # from its first beat on
    assert (worker["state"], worker["stages"], worker["pins"], worker["lag"]) == ("active", [0, 1, 2], [], {})
    assert worker["owner"].startswith(f"{worker['name']}/")


@pytest.mark.parametrize("how", ["revoked", "restored"])
async def test_a_token_of_its_own_that_is_no_good_any_more_is_made_anew(live: Live, how: str) -> None:
    """Somebody has revoked it, or a backup was restored, which does not have it."""
    before = await live.access.token()
    await live.get("/topics")
    if how == "revoked":
        token = TokenStore(live.store).find(before)
        assert token is not None
        TokenStore(live.store).revoke(token.id)
    else:
        own = schema.tokens.delete().where(schema.tokens.c.internal.is_(True))
        live.store.write(lambda connection: connection.execute(own))
    async with asyncio.timeout(PATIENCE):
        while await live.access.token() == before:  # until the worker has thrown it out, and somebody has asked
            await live.client("viewer").get("/api/v1/topics")
            await asyncio.sleep(0.05)
    await live.get("/topics")


async def test_a_worker_whose_clock_is_ahead_is_named_by_its_clock(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other token would do: its own stays, and those in the store do not pile up."""
    before = await live.access.token()
    await live.get("/topics")
    monkeypatch.setattr(gate, "now_ms", lambda: now_ms() + 86_400_000)
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await live.client("viewer").get("/api/v1/topics")
            if answer.status_code != 200 and "clock" in answer.json()["detail"]:
                break
            await asyncio.sleep(0.05)
    detail = assert_problem(answer, "workers-unavailable")["detail"]
    assert "refuse the control plane's token" in detail
    assert "has expired at 20" in detail
    assert await live.access.token() == before


async def test_takeovers_are_read_from_the_store(live: Live) -> None:
    found = await live.get("/stages/takeovers", sort="stage")
    assert [(each["stage"], each["kind"], each["address"]) for each in found["items"]] == [
        (stage, "claim", live.events.address) for stage in range(3)
    ]
    assert all(each["epoch"] == "1" and each["at"].endswith("Z") for each in found["items"])


async def test_a_stage_is_moved_and_a_worker_drained(live: Live) -> None:
    client = live.client("operator")
    assert_problem(await client.post("/api/v1/workers/nobody%2F1/drain"), "not-found")
    (first,) = (await live.found("/workers", lambda found: found["items"]))["items"]
    assert_problem(await client.post(f"/api/v1/workers/{quote(first['owner'], safe='')}/drain"), "conflict")
    async with Worker(worker_settings(live.events.store, stages=3, beat_interval=0.1)):
        listed = await live.found("/workers", lambda found: len(found["items"]) == 2)
        second = next(each["owner"] for each in listed["items"] if each["owner"] != first["owner"])
        assert_problem(await client.post("/api/v1/stages/1/move", json={"to": "nobody"}), "not-found")
        assert_problem(await client.post("/api/v1/stages/3/move", json={"to": second}), "not-found")
        answer = await client.post("/api/v1/stages/1/move", json={"to": second})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["stage"], answer.json()["owner"]) == (1, second)
        taken = (await live.get("/stages/takeovers", sort="-epoch"))["items"][0]
        assert (taken["stage"], taken["owner"], taken["kind"]) == (1, second, "handover")
        path = f"/api/v1/workers/{quote(second, safe='')}/drain"
        answer = await client.post(path)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["stages"], answer.json()["drained"]) == ([], True)
        await live.found("/stages", lambda page: {each["owner"] for each in page["items"]} == {first["owner"]})
        assert (await client.post(path, params={"off": True})).status_code == 200
        await live.found("/workers", lambda found: not any(each["drained"] for each in found["items"]))
        actions = [each["action"] for each in (await live.get("/audit", role="admin"))["items"]]
        assert actions == ["worker.drain", "worker.drain", "stage.move", "worker.drain"]


async def test_analytics_are_read_from_the_store(live: Live) -> None:
    assert await live.get("/analytics/runs") == {"items": [], "next": None, "total": 0}
    assert await live.get("/analytics/schedules") == {"items": [], "next": None, "total": 0}


async def test_the_overview_counts_what_workers_and_clients_say(live: Live) -> None:
    clock = times(report_interval=0.05)
    async with live.events.client("p", clock=clock) as one, live.events.client("s", clock=clock) as two:
        await one.subscribe("a")
        await two.subscribe("a", "b")
        await one.publish("a", b"x")
        await live.found("/overview", lambda found: found["series"] and found["totals"]["delivered"] == "2")
        await one.publish("a", b"y")
        found = await live.found(
            "/overview",
            lambda found: found["totals"]["delivered"] == "4" and found["latency"] and found["latency"]["total_ms"],
        )
        total = found["latency"]["total_ms"]
        assert found["counts"] | {"workers": 1} == {
            "topics": 5, "clients": 2, "subscriptions": 2, "workers": 1, "stages": 3,
        }  # fmt: skip
        assert found["totals"]["late"] == "0"
        assert found["totals"]["void"] == "0"
        assert total["p50"] <= total["p90"] <= total["p99"]
        assert found["totals"]["in_order"] == "4"
        assert found["rates"]["timestamps"] > 0


async def test_what_nobody_reports_is_null(live: Live) -> None:
    found = await live.get("/overview")
    assert found["totals"]["timestamps"] == "0"
    assert found["totals"]["delivered"] is None
    assert found["latency"] is None


async def test_the_overview_says_that_the_workers_are_gone(live: Live) -> None:
    await live.get("/overview")
    await live.events.stop()
    found = await live.found("/overview", lambda found: found["state"] == "down")
    assert "workers" in {each["id"] for each in found["alarms"]}
    assert [each["stage"] for each in (await live.get("/stages"))["items"]] == [0, 1, 2]
    await live.events.start(stages=3, beat_interval=0.1)


async def test_while_the_store_does_not_answer(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from inorder.errors import StoreUnreachable

    async def fail(work: object) -> None:
        raise StoreUnreachable("sqlite:///x", "locked")

    context = live.app.state.context
    await live.get("/overview")
    real = context.database.call
    monkeypatch.setattr(context.database, "call", fail)
    part = context.parts["watching"]
    part._looked = float("-inf")
    picture = await part.picture()
    assert picture.state == "down"
    assert {alarm.id for alarm, _ in picture.alarms} >= {"store"}
    assert_problem(await live.client("viewer").get("/api/v1/stages"), "store-unavailable")
    monkeypatch.setattr(context.database, "call", real)
