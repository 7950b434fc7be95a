"""Requests that ask the workers: some of one token at a time."""

from __future__ import annotations

import asyncio

import pytest
from tests.controlplane.conftest import Serve, assert_problem

from inorder_controlplane import turns


class Busy:
    """Workers that answer when they are let."""

    def __init__(self) -> None:
        self.asked, self.may = 0, asyncio.Event()

    async def subscriptions(self) -> list[object]:
        self.asked += 1
        await self.may.wait()
        return []


async def test_requests_of_one_token_wait_for_each_other(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST", 3 * turns.AT_ONCE)
    workers = Busy()
    site = serve(workers)
    viewer, admin = site.client("viewer"), site.client("admin")
    waiting = [asyncio.create_task(viewer.get("/api/v1/subscriptions")) for _ in range(turns.MOST + 1)]
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert_problem(done.pop().result(), "too-many-requests")
    others = asyncio.create_task(admin.get("/api/v1/subscriptions"))
    while workers.asked <= turns.AT_ONCE:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert workers.asked == turns.AT_ONCE + 1, "one of these is the other token's"
    workers.may.set()
    assert {each.result().status_code for each in (await asyncio.wait([*rest, others]))[0]} == {200}
    assert not site.app.state.context.turns._turns
