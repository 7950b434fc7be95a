"""Draining workers and moving stages, as operators do it, between real workers over one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.admin.helpers import cluster_at
from tests.client.helpers import PATIENCE, until, worker_settings

from inorder.errors import InvalidOption, Refused, TimedOut
from inorder_worker.admin import Automatic, Cluster
from inorder_worker.service import Worker
from inorder_worker.store.history import History
from inorder_worker.store.overview import overview
from inorder_worker.store.store import Store

WAIT = PATIENCE / 2


class Workers:
    """Workers over one store with two stages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stack = folder, AsyncExitStack()
        self.url = f"sqlite:///{folder}/inorder.db"

    async def start(self, name: str, **changes: Any) -> Worker:
        given = {"stages": 2, "name": name, "beat_interval": 0.05, "lease": 1.0, **changes}
        return await self.stack.enter_async_context(Worker(worker_settings(self.folder / "inorder.db", **given)))


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    made = Workers(tmp_path)
    async with made.stack:
        yield made


def owner(worker: Worker) -> str:
    return worker._host.owner


def stages(worker: Worker) -> list[int]:
    return sorted(worker._host.epochs)


async def all_known(cluster: Cluster, count: int) -> None:
    """Wait until the workers have told of each other."""
    async with asyncio.timeout(PATIENCE):
        while len(await cluster.workers()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_drained_worker_hands_over_all_it_has_and_takes_nothing(workers: Workers) -> None:
    one = await workers.start("one")
    two = await workers.start("two")
    await until(lambda: len(stages(one)) == len(stages(two)) == 1, "an even share")
    async with cluster_at(one.address) as cluster:
        await all_known(cluster, 2)
        topic = await cluster.create("s", "a")
        before = (await cluster.order()).topics
        await cluster.drain(owner(one), wait_s=WAIT)
        assert stages(one) == []
        await until(lambda: stages(two) == [0, 1], "what was handed over")
        drained, other = sorted(await cluster.workers(), key=lambda each: each.name)
        assert (drained.is_drained, drained.stages, other.is_drained, other.stages) == (True, (), False, (0, 1))
        assert (await cluster.order()).topics == before  # everything goes on, over there
        assert [info.id for info in before] == [topic.id]
        shown = {each.owner: each.is_drained for each in overview(workers.url, 1.0).workers}
        assert shown == {owner(one): True, owner(two): False}
        with pytest.raises(Refused, match="no other worker that lives may have stage 0 and 1"):
            await cluster.drain(owner(two))
        await cluster.drain(owner(one), is_on=False)
        await until(lambda: len(stages(one)) == 1, "its share of the stages")
    store = Store(workers.url)
    kinds = [each.kind for each in History(store).take_overs() if each.owner == owner(two)]
    store.close()
    assert set(kinds) == {"handover"}


async def test_the_only_worker_cannot_be_drained(workers: Workers) -> None:
    one = await workers.start("one")
    pinned = await workers.start("pinned", hosted=[1])
    await until(lambda: stages(pinned) == [1], "its stage")
    async with cluster_at(one.address) as cluster:
        await all_known(cluster, 2)
        with pytest.raises(Refused, match=r"no other worker that lives may have stage 0$"):
            await cluster.drain(owner(one))
        with pytest.raises(Refused, match="there is no worker 'nobody' that answers; there are "):
            await cluster.drain("nobody")
        assert stages(one) == [0]
        assert not any(each.is_drained for each in await cluster.workers())


async def test_a_stage_moves_to_the_worker_that_is_named_and_stays_there(workers: Workers) -> None:
    """Although the stages are not shared evenly then."""
    one = await workers.start("one")
    two = await workers.start("two")
    await until(lambda: len(stages(one)) == len(stages(two)) == 1, "an even share")
    stage = stages(one)[0]
    async with cluster_at(two.address) as cluster:
        await all_known(cluster, 2)
        await cluster.move_stage(stage, owner(two), wait_s=WAIT)
        assert (stages(one), stages(two)) == ([], [0, 1])
        states = {each.name: each for each in await cluster.workers()}
        assert (states["two"].pins, states["one"].pins) == ((0, 1), ())
        await cluster.move_stage(stage, owner(one), wait_s=WAIT)
        assert (stages(one), stages(two)) == ([stage], [1 - stage])
        states = {each.name: each for each in await cluster.workers()}
        assert (states["two"].pins, states["one"].pins) == ((1 - stage,), (stage,))


async def test_where_a_stage_cannot_move(workers: Workers) -> None:
    one = await workers.start("one", hosted=[0])
    two = await workers.start("two", hosted=[1])
    three = await workers.start("three")
    await until(lambda: stages(one) == [0] and stages(two) == [1], "their stages")
    async with cluster_at(one.address) as cluster:
        await all_known(cluster, 3)
        for stage, to, reason in (
            (7, one, "there is no stage 7"),
            (1, one, "pinned to stage 1 by its settings"),
            (0, three, "pinned to stage 0 by its settings"),
        ):
            with pytest.raises(Refused, match=reason):
                await cluster.move_stage(stage, owner(to))
    async with cluster_at(three.address) as cluster:
        await all_known(cluster, 3)
        await cluster.drain(owner(three))
        assert "is drained; let it take stages again first" in three._standby.move(1, owner(three))
        with pytest.raises(TimedOut, match="draining x was not answered within"):
            await cluster._until("draining x", owner(one), lambda state: not state.stages, 0.2)


async def test_automatic_order_is_turned_on_and_off_at_run_time(workers: Workers) -> None:
    one = await workers.start("one")
    async with cluster_at(one.address) as cluster:
        assert await cluster.automatic() == Automatic(0.0, 0.1, 0.2)
        wanted = Automatic(2.5, 0.5, 0.25)
        await cluster.set_automatic(wanted)
        assert (await cluster.automatic(), wanted.is_on) == (wanted, True)
        for wrong in (Automatic(-1.0), Automatic(float("nan")), Automatic(1.0, 0.0), Automatic(1.0, 0.1, 1.0)):
            with pytest.raises(InvalidOption):
                await cluster.set_automatic(wrong)
    await workers.stack.aclose()
    again = await workers.start("again", popularity_window=9.0)
    async with cluster_at(again.address) as cluster:
        assert await cluster.automatic() == wanted  # whatever the settings of its worker say
