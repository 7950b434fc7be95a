"""``/subscriptions``: who is subscribed, who shares what, and the end of those who do not come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.client.helpers import times
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, live_site

from inorder import Client

ODD = "desk/1 %2F 🦊 <img src=x onerror=alert(1)>"
"""A client's id that is a path, an escape, an emoji and a script (B73)."""


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_site(tmp_path) as made:
        yield made


async def test_subscriptions_are_listed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async with live.events.client("desk-1") as one, live.events.client(ODD) as two:
        await one.subscribe("a", "b")
        await two.subscribe("#")
        monkeypatch.setattr("inorder_controlplane.paging.MAX_PARTS", 2)
        first = await live.get("/subscriptions")
        assert ([each["client"] for each in first["items"]], first["total"]) == (
            ["desk-1"],
            2,
        )  # its filters fill a page
        monkeypatch.undo()
        found = await live.get("/subscriptions")
        assert found["total"] == 2
        assert found["items"] == [
            {
                "client": "desk-1",
                "durable": False,
                "connected": True,
                "away_s": None,
                "filters": [{"space": "memory", "filter": "a"}, {"space": "memory", "filter": "b"}],
                "topics": 2,
                "token": None,
            },
            {
                "client": ODD,
                "durable": False,
                "connected": True,
                "away_s": None,
                "filters": [{"space": "memory", "filter": "#"}],
                "topics": 5,
                "token": None,
            },
        ]
        assert [each["client"] for each in (await live.get("/subscriptions", sort="-topics"))["items"]] == [
            ODD,
            "desk-1",
        ]
        assert [each["client"] for each in (await live.get("/subscriptions", q="memory:b"))["items"]] == ["desk-1"]
        await two.publish("a", b"x")


async def test_pages_of_subscriptions(live: Live) -> None:
    async with live.events.client("a") as one, live.events.client("b") as two:
        await one.subscribe("a")
        await two.subscribe("a")
        first = await live.get("/subscriptions", limit=1)
        second = await live.get("/subscriptions", limit=1, cursor=first["next"])
        assert [each["client"] for page in (first, second) for each in page["items"]] == ["a", "b"]
        assert second["next"] is None


async def test_the_overlap_of_clients_and_topics(live: Live) -> None:
    async with live.events.client("s1") as one, live.events.client("s2") as two, live.events.client("s3") as three:
        await one.subscribe("a", "d")
        await two.subscribe("+")
        await three.subscribe("c")
        found = await live.get("/subscriptions/overlap")
        a, d = {"id": "1", "space": "memory", "name": "a"}, {"id": "4", "space": "memory", "name": "d"}
        assert found["clients"] == ["s2", "s1", "s3"]
        assert found["matrix"] == [[5, 2, 1], [2, 2, 0], [1, 0, 1]]
        assert found["pairs"][0] == {"a": "s2", "b": "s1", "shared": 2, "topics": [a, d]}
        assert found["sequenced_pairs"] == [{"topics": [d, a], "subscribers": 2, "stages_apart": 2}]
        assert (found["clients_total"], found["sequenced_pairs_total"]) == (3, 1)
        assert (await live.get("/subscriptions/overlap", limit=1))["clients"] == ["s2"]


async def test_one_who_does_not_come_back_is_ended(live: Live) -> None:
    client, path = live.client("operator"), f"/api/v1/subscriptions/{quote(ODD, safe='')}"
    durable = Client(
        f"memory://{live.events.name}", workers=[live.events.address], client_id=ODD, durable=True, times=times()
    )
    async with durable:
        await durable.subscribe("a")
        assert_problem(await client.delete(path), "conflict")  # it is connected
    await live.found("/subscriptions", lambda page: not page["items"][0]["connected"])
    live.events.leap(100)
    ended = await live.found("/subscriptions", lambda page: page["items"][0]["away_s"] is None)
    (gone,) = ended["items"]
    assert (gone["client"], gone["connected"], gone["durable"]) == (ODD, False, True)
    assert (await client.delete(path)).status_code == 204
    assert (await live.get("/subscriptions"))["items"] == []
    assert_problem(await client.delete(path), "not-found")
    assert [(each["action"], each["target"], each["outcome"]) for each in await audit(live)] == [
        ("subscription.end", ODD, "done"),
        ("subscription.end", ODD, "refused"),
    ]


async def audit(live: Live) -> Any:
    return (await live.get("/audit", role="admin"))["items"]
