"""WebSockets: live figures, and the tail of a broker's events; test events (R21, B69, B71, B73)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import PATIENCE
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, live_site
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from inorder import Client
from inorder.testing.services import Mosquitto
from inorder_controlplane.brokers import MAX_TAIL_UNREAD, MAX_TAIL_UNREAD_BYTES, tail_client
from inorder_controlplane.serving import Service
from inorder_worker.store.analyses import Analyses, Job, Progress

pytestmark = pytest.mark.usefixtures("quick_looks")

SCRIPT = "<img src=x onerror=alert(1)>/é 🦊"


@asynccontextmanager
async def served(live: Live) -> AsyncIterator[str]:
    """Serve an app on a port, and return its address."""
    async with Service(live.app, live.app.state.context.settings) as service:
        yield service.address


@asynccontextmanager
async def socket_of(
    live: Live, address: str, path: str, role: str | None = "viewer"
) -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {live.secrets[role]}"} if role is not None else {}
    async with connect(f"ws://{address}/api/v1{path}", additional_headers=headers, proxy=None) as socket:
        yield socket


async def message(socket: ClientConnection, is_wanted: Callable[[Any], bool]) -> Any:
    """Return the first message of the kind that is wanted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = json.loads(await socket.recv())
            if is_wanted(found):
                return found


@pytest.fixture
async def live(tmp_path: Path, mosquitto: Mosquitto) -> AsyncIterator[Live]:
    """A site whose control plane knows a real broker as space ``m``."""
    settings = {"port": 0, "brokers": (f"m={mosquitto.url}",)}
    async with live_site(tmp_path, settings, is_running=False, beat_interval=0.1) as made:
        yield made


# -- live --------------------------------------------------------------------------------------------------------------


async def test_live_tells_of_runs_of_analyses(live: Live) -> None:
    """Those that are open with their progress, and the one that ended last; again only when that changes."""
    runs = Analyses(live.store)
    ended = [runs.begin(Job(), "elsewhere/x/1-1/a", "ann") for _ in range(2)][-1]
    runs.end(ended.id, ended.owner, "failed", reason="no Java")
    (run,) = runs.open()

    def is_of(step: int) -> Callable[[Any], bool]:
        return lambda each: each["type"] == "runs" and (each["runs"][0]["progress"] or {}).get("step", 0) == step

    async with served(live) as address, socket_of(live, address, "/live") as socket:
        first = await message(socket, is_of(0))
        assert [(each["id"], each["outcome"]) for each in first["runs"]] == [(run.id, "running"), (ended.id, "failed")]
        runs.beat(run.id, run.owner, progress=Progress(2, 6, "reading"))
        second = await message(socket, lambda each: each["type"] == "runs")
        assert second["runs"][0]["progress"] == {"step": 2, "of": 6, "what": "reading"}
        runs.cancel(run.id, "ben")
        third = await message(socket, lambda each: each["type"] == "runs")
        assert third["runs"][0]["cancelled_by"] == "ben"


async def test_live_tells_everything_at_first_and_figures_each_second(live: Live) -> None:
    async with served(live) as address, socket_of(live, address, "/live") as socket:
        states = await message(socket, lambda each: each["type"] == "states")
        assert [each["state"] for each in states["stages"]] == ["active"] * 3
        assert len(states["workers"]) == 1
        order = await message(socket, lambda each: each["type"] == "order")
        assert order == {"type": "order", "order_epoch": "1"}
        alarms = await message(socket, lambda each: each["type"] == "alarms")
        assert alarms == {"type": "alarms", "alarms": [], "state": "ok"}
        first = await message(socket, lambda each: each["type"] == "sample")
        second = await message(socket, lambda each: each["type"] == "sample")
        assert first["at"] < second["at"]
        assert first["totals"]["timestamps"] == "0"
        await live.edit("PUT", "/order", {"swap": ["1", "2"]})
        order = await message(socket, lambda each: each["type"] == "order")
        assert order["order_epoch"] == "2"


async def test_live_tells_when_the_workers_are_gone(live: Live) -> None:
    async with served(live) as address, socket_of(live, address, "/live") as socket:
        await message(socket, lambda each: each["type"] == "sample")
        await live.events.stop()
        told = await message(socket, lambda each: each["type"] == "alarms" and each["alarms"])
        assert told["state"] == "down"
        assert "workers" in {each["id"] for each in told["alarms"]}
        await live.events.start(stages=3)
        await message(socket, lambda each: each["type"] == "alarms" and not each["alarms"])


@pytest.mark.parametrize("path", ["/live", "/tail?space=m&filter=%23"])
async def test_sockets_need_a_token(live: Live, path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with served(live) as address:
        for role, status in ((None, 401), ("client", 403)):
            with pytest.raises(InvalidStatus) as refused:
                async with socket_of(live, address, path, role):
                    pass
            assert refused.value.response.status_code == status
    assert not [each for each in caplog.records if each.levelname == "ERROR"]  # a stranger's refusal is no fault here


async def test_open_sockets_do_not_hold_up_the_end(live: Live) -> None:
    """B69: the server stops while a dashboard looks on, and says so to it."""
    async with served(live) as address:
        one = await connect(
            f"ws://{address}/api/v1/live",
            additional_headers={"Authorization": f"Bearer {live.secrets['viewer']}"},
            proxy=None,
        )
        await message(one, lambda each: each["type"] == "alarms")
        began = time.monotonic()
    assert time.monotonic() - began < 30  # it would be for ever
    async with asyncio.timeout(PATIENCE):
        await one.wait_closed()
    assert one.close_code in (1001, 1012)


# -- the tail ----------------------------------------------------------------------------------------------------------


def publisher(live: Live, mosquitto: Mosquitto) -> Client:
    return Client({"m": mosquitto.url}, workers=[live.events.address], client_id=f"pub-{live.events.store.parent.name}")


async def test_a_tail_shows_what_the_broker_delivers(live: Live, mosquitto: Mosquitto) -> None:
    async with (
        served(live) as address,
        socket_of(live, address, "/tail?space=m&filter=tail%2F%23") as socket,
        publisher(live, mosquitto) as client,
    ):
        await client.publish("tail/x", SCRIPT.encode())
        await client.publish(f"tail/{SCRIPT}", b"\xff\x00")
        await client.publish("tail/x", b"y" * 40_000, order="none")
        first, second, third = [json.loads(await socket.recv()) for _ in range(3)]
        at = first.pop("at")
        assert at.endswith("Z")
        assert first == {
            "type": "event",
            "topic": {"space": "m", "name": "tail/x"},
            "number": "1",
            "late": False,
            "retained": False,
            "payload_text": SCRIPT,
            "payload_base64": None,
            "size": len(SCRIPT.encode()),
            "truncated": False,
        }
        assert second["topic"]["name"] == f"tail/{SCRIPT}"
        assert (second["payload_text"], second["payload_base64"], second["number"]) == (None, "/wA=", "1")
        assert (third["number"], third["size"], third["truncated"]) == (None, 40_000, True)
        assert len(third["payload_text"]) < 40_000
        # R21: topic managers know nothing of a tail
        assert (await live.get("/subscriptions"))["items"] == []


async def test_a_tail_that_cannot_be(live: Live) -> None:
    async with served(live) as address:
        for path, status in (
            ("/tail?space=other&filter=a", 422),
            ("/tail?space=m&filter=a%2F%23%2Fb", 422),
            ("/tail?space=m", 422),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with socket_of(live, address, path):
                    pass
            assert refused.value.response.status_code == status, path
            assert json.loads(refused.value.response.body)["type"] == "/problems/invalid"


# -- a test event ------------------------------------------------------------------------------------------------------


async def test_a_test_event_is_ordered_as_any_other(live: Live, mosquitto: Mosquitto) -> None:
    name = f"try/{live.events.store.parent.name}/{SCRIPT}"
    async with live.app.router.lifespan_context(live.app), publisher(live, mosquitto) as reader:
        await reader.subscribe(name)
        body = {"space": "m", "topic": name, "payload": SCRIPT, "qos": 1}
        answer = await live.client("operator").post("/api/v1/events", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json() == {"topic": {"id": "6", "space": "m", "name": name}, "number": "1"}
        event = await anext(reader.events())
        assert (event.payload, event.number) == (SCRIPT.encode(), 1)  # type: ignore[union-attr]
        assert_problem(await live.client("operator").post("/api/v1/events", json={**body, "space": "x"}), "invalid")
        assert_problem(await live.client("operator").post("/api/v1/events", json={**body, "topic": "a/#"}), "invalid")


def test_what_a_tail_keeps_for_a_slow_browser_is_bounded_in_bytes() -> None:
    stream = tail_client("mqtt", "mqtt://localhost")._stream
    assert (stream._max_events, stream._max_bytes) == (MAX_TAIL_UNREAD, MAX_TAIL_UNREAD_BYTES)
