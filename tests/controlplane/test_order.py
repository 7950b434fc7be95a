"""``/order``: read, previewed, changed; and what is answered where that cannot be (R14, R15)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.conftest import assert_problem
from tests.controlplane.live import Live, live_site

from inorder.protocol.wire import Frame, OrderChanged
from inorder_controlplane.planning import Plan, PresentOrder
from inorder_worker.admin import Cluster
from inorder_worker.sequencer.state import Switch


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_site(tmp_path) as made:
        yield made


def ids(order: Any) -> list[list[str]]:
    return [[topic["id"] for topic in stage["topics"]] for stage in order["stages"]]


async def test_the_order_is_shown_with_its_version(live: Live) -> None:
    answer = await live.client("viewer").get("/api/v1/order")
    assert answer.headers["etag"].startswith('"')
    order = answer.json()
    assert order["order_epoch"] == "1"
    assert [stage["stage"] for stage in order["stages"]] == [0, 1, 2]
    assert ids(order) == [["1"], ["2", "3"], ["4", "5"]]
    assert order["stages"][0]["topics"] == [{"id": "1", "space": "memory", "name": "a", "pinned": False, "rate": 0.0}]


async def test_a_whole_order_a_swap_and_a_move(live: Live) -> None:
    answer = await live.edit("PUT", "/order", {"stages": [["5"], ["1", "3"], ["4", "2"]]})
    assert (answer.status_code, answer.json()) == (200, {"order_epoch": "2"})
    assert ids(await live.get("/order")) == [["5"], ["1", "3"], ["4", "2"]]
    assert (await live.edit("PUT", "/order", {"swap": ["5", "2"]})).json() == {"order_epoch": "3"}
    assert ids(await live.get("/order")) == [["2"], ["1", "3"], ["4", "5"]]
    assert (await live.edit("PUT", "/order", {"move": {"topic": "3", "stage": 2, "rank": 4}})).status_code == 200
    assert ids(await live.get("/order")) == [["2"], ["1"], ["4", "3", "5"]]


async def test_the_present_order_is_no_change(live: Live) -> None:
    answer = await live.edit("PUT", "/order", {"stages": [["1"], ["2", "3"], ["4", "5"]]})
    assert (answer.status_code, answer.json()) == (200, {"order_epoch": "1"})


async def test_a_lost_update_is_refused(live: Live) -> None:
    client = live.client("operator")
    old = (await client.get("/api/v1/order")).headers["etag"]
    assert (await live.edit("PUT", "/order", {"swap": ["1", "2"]})).status_code == 200
    answer = await client.put("/api/v1/order", json={"swap": ["4", "5"]}, headers={"If-Match": old})
    assert_problem(answer, "stale")
    assert answer.headers["etag"] == (await client.get("/api/v1/order")).headers["etag"]
    assert_problem(await client.put("/api/v1/order", json={"swap": ["4", "5"]}), "precondition-required")


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"stages": [["1"], ["2"], ["4", "5"]]}, {"stages": "topic 3 (memory:c) is missing"}),
        (
            {"stages": [["1", "2"], ["2", "9"], ["3", "4", "5"]]},
            {"stages.1.0": "topic 2 (memory:b) is named twice", "stages.1.1": "there is no topic 9"},
        ),
        ({"stages": [["1", "2", "3", "4", "5"]]}, {"stages": "there are 3 stages, not 1"}),
        ({"swap": ["1", "9007199254740993"]}, {"swap.1": "there is no topic 9007199254740993"}),
        ({"move": {"topic": "1", "stage": 3}}, {"move.stage": "stage 3 is not allowed; there are the stages 0 to 2"}),
    ],
)
async def test_what_is_no_order_is_named(live: Live, body: Any, errors: dict[str, str]) -> None:
    preview = await live.client("viewer").post("/api/v1/order/preview", json=body)
    for answer in (await live.edit("PUT", "/order", body), preview):
        problem = assert_problem(answer, "invalid")
        assert {each["where"]: each["message"] for each in problem["errors"]} == errors


@pytest.mark.parametrize(
    "body",
    [{}, [], {"swap": ["1"]}, {"swap": ["1", "2"], "x": 1}, {"swap": [1, 2]}, {"swap": ["1", "9223372036854775808"]},
     {"stages": "1"}, {"move": {"topic": "1"}}, {"move": {"topic": "-1", "stage": 0}}, {"stages": [["1"]] * 65}],
)  # fmt: skip
async def test_what_is_no_change_at_all(live: Live, body: Any) -> None:
    answer = await live.client("viewer").post("/api/v1/order/preview", json=body)
    assert_problem(answer, "invalid")


async def test_a_preview_knows_groups_and_asks_for_none(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ten thousand topics with two readers are a hundred million ids: gigabytes, in a worker's process."""
    asked = list[bool]()
    topics = Cluster.topics

    async def noted(cluster: Cluster, ids: Any = None, *, groups: bool = True) -> Any:
        asked.append(groups)
        return await topics(cluster, ids, groups=groups)

    monkeypatch.setattr(Cluster, "topics", noted)
    async with live.events.client("s1") as one, live.events.client("s2") as two:
        await one.subscribe("a", "d", "e")
        await two.subscribe("a", "d")
        body = {"move": {"topic": "4", "stage": 0}}
        preview = (await live.client("viewer").post("/api/v1/order/preview", json=body)).json()
    assert preview["expected_stages_per_event"] == {"now": (1 + 1 + 1 + 3 + 1) / 5, "then": 1.0}
    assert asked
    assert not any(asked)


async def test_what_a_change_does_is_found_out_beside_the_event_loop(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ten thousand topics it takes a tenth of a second, in which the worker beside would answer nobody."""
    threads = set[int]()
    plan = PresentOrder.plan

    def noted(*arguments: Any) -> Plan:
        threads.add(threading.get_ident())
        return plan(*arguments)

    monkeypatch.setattr(PresentOrder, "plan", noted)
    body = {"stages": [["2"], ["1"], ["3", "4", "5"]]}
    preview = await live.client("viewer").post("/api/v1/order/preview", json=body)
    assert (await live.edit("PUT", "/order", body)).status_code == preview.status_code == 200
    assert threads
    assert threading.get_ident() not in threads


async def test_a_preview_tells_and_changes_nothing(live: Live) -> None:
    async with live.events.client("s1") as one, live.events.client("s2") as two:
        await one.subscribe("a", "d")
        await two.subscribe("a", "d")
        await one.publish("d", b"x")
        await live.found("/topics/4", lambda topic: topic["rate"])
        client = live.client("viewer")
        preview = (await client.post("/api/v1/order/preview", json={"swap": ["1", "4"]})).json()
    assert [(each["topic"]["name"], each["from_stage"], each["to_stage"]) for each in preview["moves"]] == [
        ("d", 2, 0),
        ("a", 0, 2),
    ]
    assert preview["moves_total"] == 2
    assert preview["rates_known"]
    # all that is published is on d: now it rides from stage 2 to a's, then it is there already
    assert preview["expected_stages_per_event"] == {"now": 3.0, "then": 1.0}
    assert preview["order_epoch"] == (await live.get("/order"))["order_epoch"] == "1"


async def test_a_pinned_topic_stays(live: Live) -> None:
    assert (await live.edit("PATCH", "/topics/1", {"pinned": True})).status_code == 200
    answer = await live.edit("PUT", "/order", {"swap": ["1", "2"]})
    assert "memory:a" in assert_problem(answer, "conflict")["detail"]
    preview = (await live.client("viewer").post("/api/v1/order/preview", json={"swap": ["1", "2"]})).json()
    assert any("pinned" in each for each in preview["warnings"])


async def test_one_of_two_changes_at_a_time_is_refused(live: Live) -> None:
    client = live.client("operator")
    headers = {"If-Match": (await client.get("/api/v1/order")).headers["etag"]}
    answers = await asyncio.gather(
        *(client.put("/api/v1/order", json={"swap": ["1", each]}, headers=headers) for each in ("2", "4"))
    )
    assert sorted(answer.status_code for answer in answers) in ([200, 409], [200, 412])
    refused = next(answer for answer in answers if answer.status_code != 200)
    assert_problem(refused, "conflict" if refused.status_code == 409 else "stale")


async def test_a_worker_that_is_lost_during_a_change(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer never comes: what can be seen of the change is told, and the audit log says that it is not known."""
    sessions = live.events.worker._server.sessions
    answer = sessions.answer

    def lose(session: Any, frames: list[Frame]) -> None:
        if any(isinstance(each, OrderChanged) for each in frames):
            sessions._connections[session[0]].abort()
        else:
            answer(session, frames)

    monkeypatch.setattr(sessions, "answer", lose)
    problem = assert_problem(await live.edit("PUT", "/order", {"swap": ["1", "2"]}), "unknown-outcome")
    assert "the order is as asked for, with epoch 2" in problem["detail"]
    monkeypatch.undo()
    assert ids(await live.get("/order")) == [["2"], ["1", "3"], ["4", "5"]]
    assert (await live.get("/audit", role="admin"))["items"][0]["outcome"] == "unknown"


async def test_the_orders_that_there_were(live: Live) -> None:
    await live.edit("PUT", "/order", {"swap": ["1", "2"]})
    body = {"space": "memory", "name": "new"}
    assert (await live.client("operator").post("/api/v1/topics", json=body)).status_code == 201
    await live.edit("PUT", "/order", {"move": {"topic": "5", "stage": 0}})
    found = await live.get("/order/history")
    assert [(each["order_epoch"], each["kind"], each["who"]) for each in found["items"]] == [
        ("3", "manual", "the operator"),
        ("2", "manual", "the operator"),
        ("1", "start", ""),
    ]
    assert [[move["topic"]["name"] for move in each["moves"] or ()] for each in found["items"]] == [
        ["e"],
        ["b", "a"],
        [],
    ]
    assert found["items"][2]["moves"] is None
    assert found["items"][0]["moves"][0]["to_rank"] == 1
    first = await live.get("/order/history", limit=2)
    second = await live.get("/order/history", limit=2, cursor=first["next"])
    assert (first["total"], second["next"]) == (3, None)
    assert first["items"] + second["items"] == found["items"]
    for cursor in ("x", "MA", "LTE"):
        assert_problem(await live.client("viewer").get("/api/v1/order/history", params={"cursor": cursor}), "invalid")


async def test_the_automatic_mode_is_turned_on_and_off(live: Live) -> None:
    before = await live.client("operator").get("/api/v1/order")
    assert before.json()["automatic"] == {"on": False, "window_s": 0.0, "alpha": 0.1, "beta": 0.2}
    client, old = live.client("operator"), {"If-Match": before.headers["etag"]}
    wanted = {"on": True, "window_s": 90.5, "alpha": 0.2, "beta": 0.3}
    answer = await client.put("/api/v1/order/automatic", json=wanted, headers=old)
    assert (answer.status_code, answer.json()) == (200, wanted)
    now = await client.get("/api/v1/order")
    assert (now.json()["automatic"], now.headers["etag"]) == (wanted, answer.headers["etag"])
    assert now.json()["order_epoch"] == "1"
    assert_problem(await client.put("/api/v1/order/automatic", json=wanted, headers=old), "stale")
    assert_problem(await client.put("/api/v1/order", json={"swap": ["1", "2"]}, headers=old), "stale")
    assert_problem(await client.put("/api/v1/order/automatic", json=wanted), "precondition-required")
    off = {"If-Match": now.headers["etag"]}
    answer = await client.put("/api/v1/order/automatic", json={"on": False, "window_s": 0}, headers=off)
    assert answer.json()["on"] is False
    assert (await live.get("/audit", role="admin"))["items"][0]["action"] == "order.automatic"


@pytest.mark.parametrize(
    "body",
    [{}, {"on": True, "window_s": 0}, {"on": True, "window_s": -1}, {"on": True, "alpha": 0}, {"on": True, "beta": 1},
     {"on": 1}, {"on": True, "window_s": "9"}, {"on": True, "window_s": 1e300}],
)  # fmt: skip
async def test_what_no_automatic_mode_goes_by(live: Live, body: Any) -> None:
    client = live.client("operator")
    headers = {"If-Match": (await client.get("/api/v1/order")).headers["etag"]}
    assert_problem(await client.put("/api/v1/order/automatic", json=body, headers=headers), "invalid")


async def test_no_change_while_another_one_runs(live: Live) -> None:
    bottom = live.events.worker._host.stage(2)._state
    bottom.switch = Switch(2)  # as it is while other stages are not there yet
    answer = await live.edit("PUT", "/order", {"swap": ["1", "2"]})
    assert "under way" in assert_problem(answer, "conflict")["detail"]
    bottom.switch = None


async def test_changes_stand_in_the_audit_log(live: Live) -> None:
    await live.edit("PUT", "/order", {"swap": ["1", "2"]})
    newest = (await live.get("/audit", role="admin"))["items"][0]
    assert (newest["action"], newest["who"], newest["outcome"]) == ("order.change", "the operator", "done")
    assert newest["detail"]["swap"] == ["1", "2"]
    assert newest["detail"]["order_epoch"] == "2"
