"""A client of several workers: it is given the address of one, and follows the stages wherever they go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Site,
    gaps_of,
    keys,
    payloads,
    published,
    take_events,
    times,
    until,
    worker_settings,
)
from tests.worker.raw_client import RawClient

from inorder import Client, Receipt
from inorder.errors import Unauthorized, WorkerUnreachable
from inorder.protocol.wire import ChangeOrder, OrderChanged
from inorder.testing.services import free_port
from inorder_worker.service import Worker

ORDER = [["memory:top"], ["memory:low"]]


class TwoStages:
    """A broker, and workers of a store with two stages."""

    def __init__(self, folder: Path) -> None:
        self.broker = f"site-{folder.name}-{id(folder)}"
        self.store = folder / "worker.db"
        self.stack = AsyncExitStack()
        self._workers: dict[int, Worker] = {}

    async def worker(self, *hosted: int, **changes: Any) -> Worker:
        changes = {"stages": 2, "hosted": list(hosted), "topic_order": ORDER, "beat_interval": 0.05, **changes}
        made = await self.stack.enter_async_context(Worker(worker_settings(self.store, **changes)))
        self._workers |= dict.fromkeys(hosted, made)
        return made

    async def stop_worker(self, stage: int) -> None:
        """End the worker that was started last for a stage."""
        await self._workers[stage].__aexit__(None, None, None)

    def client(self, client_id: str, *workers: str, **how: Any) -> Client:
        return Client(f"memory://{self.broker}", workers=workers, client_id=client_id, times=times(), **how)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoStages]:
    made = TwoStages(tmp_path)
    async with made.stack:
        yield made


async def test_the_address_of_one_worker_is_enough(two: TwoStages) -> None:
    """Whichever; and of those that are given the first that answers."""
    top, low = await two.worker(0), await two.worker(1)
    nobody = f"127.0.0.1:{free_port()}"
    async with two.client("one", nobody, top.address) as one, two.client("two", low.address) as other:
        for each in (one, other):
            await each.subscribe("top", "low")
        for at in range(10):
            await one.publish(("top", "low")[at % 2], str(at).encode())
        seen = [await take_events(each, 10) for each in (one, other)]
        assert keys(seen[0]) == keys(seen[1])
        assert payloads(seen[0]) == [str(at).encode() for at in range(10)]
        assert one.stats().connected
        assert other.stats().worker_reconnects == 0


async def test_r12_a_worker_that_is_met_by_subscribing_does_not_let_the_lease_lapse(
    two: TwoStages, caplog: pytest.LogCaptureFixture
) -> None:
    """The subscription has passed its stage; until it has told its own timeout, that of the bottom stage counts."""
    await two.worker(0)
    low = await two.worker(1)
    async with two.client("one", low.address) as one:
        await one.subscribe("top", "low")
        await published(one, "top", 3)
        await take_events(one, 3)
    assert "event=lease_lapsed" not in caplog.text


async def test_a_worker_that_comes_later_is_found(two: TwoStages) -> None:
    """What needs its stage waits for it."""
    top = await two.worker(0)
    async with two.client("one", top.address) as one:
        receipt = one.publish("top", b"x")
        assert not one.stats().connected
        await asyncio.sleep(0.05)
        assert not receipt.done()  # the bottom stage names the topics
        await two.worker(1)
        assert (await receipt).number == 1
        assert one.stats().connected


async def test_a_stage_moves_to_another_worker(two: TwoStages) -> None:
    """Fenced in mid-stream: nothing is lost, nothing comes twice, the order is one."""
    first = await two.worker(0, 1)
    async with two.client("one", first.address) as one, two.client("two", first.address) as other:
        for each in (one, other):
            await each.subscribe("top", "low")
        await published(one, "low", 20)
        futures = [one.publish(("top", "low")[at % 2], str(at).encode()) for at in range(20, 60)]
        second = await two.worker(1, take_over=True)
        await asyncio.gather(*futures)
        await until(lambda: [each["stage"] for each in first.status()["stages"]] == [0], "the move")  # type: ignore[attr-defined]
        await published(other, "low", 10, first=60)
        third = await two.worker(0, take_over=True)
        await published(other, "top", 10, first=70)
        seen = [await take_events(each, 80) for each in (one, other)]
        assert keys(seen[0]) == keys(seen[1])
        assert payloads(seen[0]) == [str(at).encode() for at in range(80)]
        assert not gaps_of(seen[0] + seen[1])
        assert len(set(keys(seen[0]))) == 80
        await until(lambda: one.stats().connected, "both")
        reached = repr(list(one._worker._links))  # type: ignore[union-attr]
        assert third.address in reached
        assert second.address in reached


async def test_all_workers_move_at_once(two: TwoStages) -> None:
    """Nobody is left that could tell where they went: those that were named at the beginning are asked."""
    ports = [free_port() for _ in range(2)]
    first = await Worker(worker_settings(two.store, stages=2, topic_order=ORDER, port=ports[0])).__aenter__()
    async with two.client("one", *(f"127.0.0.1:{port}" for port in ports)) as one:
        await one.publish("low", b"x")
        await first.__aexit__(None, None, None)
        await two.worker(port=ports[1])
        assert (await one.publish("low", b"y")).number == 2


async def test_the_topic_order_changes_across_three_workers(two: TwoStages) -> None:
    """R14: its rides go between all stages, not only up and down the belt."""
    order = [["memory:a"], ["memory:b"], ["memory:c"]]
    workers = [await two.worker(stage, stages=3, topic_order=order) for stage in range(3)]
    operator = RawClient(workers[2].address, "operator")
    async with two.client("one", workers[0].address) as one, two.client("two", workers[1].address) as other, operator:
        for each in (one, other):
            await each.subscribe("a", "b", "c")
        ids = [topic.id for topic in await operator.resolve("a", "b", "c", space="memory")]
        futures: list[asyncio.Future[Receipt]] = []
        for change in range(1, 4):
            for at in range(30):
                futures.append((one, other)[at % 2].publish("abc"[at % 3], b"%d" % len(futures)))
                await asyncio.sleep(0)
            ids = ids[1:] + ids[:1]
            operator.send(ChangeOrder(change, change + 1, [[each] for each in ids]))
            async with asyncio.timeout(PATIENCE):
                assert (await operator.next(OrderChanged)).refusal == ""
        async with asyncio.timeout(PATIENCE):
            receipts = await asyncio.gather(*futures)
        seen = [await take_events(each, len(receipts)) for each in (one, other)]
        assert keys(seen[0]) == keys(seen[1])
        assert sorted(keys(seen[0])) == sorted((each.topic, each.number) for each in receipts)
        assert not gaps_of(seen[0] + seen[1])


async def test_heads_come_from_every_worker(two: TwoStages) -> None:
    """R17: the end of a burst that the broker lost is found, on the stage of another worker than the bottom."""
    top, low = await two.worker(0), await two.worker(1)
    site = Site(two.broker, two.store)
    async with two.client("one", low.address) as one, two.client("two", top.address) as other:
        await one.subscribe("top", "low")
        await published(other, "top", 1)
        await site.lose(one, published(other, "top", 2, first=1))
        seen = await take_events(one, 1)
        stream = one.events()
        async with asyncio.timeout(60):
            seen.append(await anext(stream))
        (gap,) = gaps_of(seen)
        assert (gap.topic, gap.first, gap.last) == ("top", 2, 3)


async def test_a_new_topic_that_left_the_bottom_stage_is_found_by_who_is_connected_to_no_other(two: TwoStages) -> None:
    """R13, R17: its events are lost on their way to a reader with a filter, and it moves before its head is told."""
    top, low = await two.worker(0), await two.worker(1, heads_interval=0.2)
    site = Site(two.broker, two.store)
    async with (
        two.client("one", low.address) as one,
        two.client("two", top.address) as other,
        RawClient(low.address, "op") as operator,
    ):
        await one.subscribe("new/#")
        assert list(one._worker._needed) == [1]  # type: ignore[union-attr]
        await site.lose(one, published(other, "new/a", 2))
        (topic,) = await operator.resolve("new/a", space="memory")
        operator.send(ChangeOrder(1, 2, [[topic.id], []]))
        async with asyncio.timeout(PATIENCE):
            assert (await operator.next(OrderChanged)).refusal == ""
            gap = await anext(one.events())
        assert (gap.topic, gap.first, gap.last) == ("new/a", 1, 2)  # type: ignore[union-attr]


async def test_refusals_are_told(two: TwoStages) -> None:
    worker = await two.worker(0, 1, token="secret")
    with pytest.raises(Unauthorized):
        async with two.client("one", worker.address, token="wrong"):
            pass
    nobody = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(WorkerUnreachable) as caught:
        async with two.client("one", *nobody):
            pass
    assert all(each in str(caught.value) for each in nobody)
