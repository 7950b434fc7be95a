"""Clients of workers that take over from one another: they go on by themselves, wherever the stages are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import gaps_of, keys, payloads, published, take_events, times, until, worker_settings

from inorder import Client, Receipt
from inorder_worker.service import Worker

ORDER = [["memory:top"], ["memory:low"]]
QUICK: dict[str, Any] = {"beat_interval": 0.05, "lease": 1.0}


class Place:
    """A broker, and workers of one store."""

    def __init__(self, folder: Path) -> None:
        self.broker = f"site-{folder.name}-{id(folder)}"
        self.store = folder / "worker.db"
        self.stack = AsyncExitStack()

    async def worker(self, **changes: Any) -> Worker:
        return await self.stack.enter_async_context(Worker(worker_settings(self.store, **{**QUICK, **changes})))

    async def client(self, client_id: str, *workers: Worker) -> Client:
        made = Client(
            f"memory://{self.broker}",
            workers=[each.address for each in workers],
            client_id=client_id,
            times=times(),
        )
        return await self.stack.enter_async_context(made)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    async with made.stack:
        yield made


def stages(worker: Worker) -> list[int]:
    return sorted(worker._host.epochs)


async def test_a_client_that_was_told_of_one_worker_finds_the_standby(place: Place) -> None:
    """Any worker tells of all others, those without stages too."""
    first = await Worker(worker_settings(place.store, **QUICK)).__aenter__()
    second = await place.worker()
    one, other = await place.client("one", first), await place.client("other", first)
    for each in (one, other):
        await each.subscribe("top", "low")
    await published(one, "top", 10)
    await until(lambda: second.address in one._worker._map._workers, "the map")  # type: ignore[union-attr]
    futures = [other.publish(("top", "low")[at % 2], str(at).encode()) for at in range(10, 40)]
    await first.__aexit__(None, None, None)
    receipts = await asyncio.gather(*futures)
    assert (second.state, second._host.epochs) == ("active", {0: 2})
    seen = [await take_events(each, 40) for each in (one, other)]
    assert keys(seen[0]) == keys(seen[1])
    assert len(set(keys(seen[0]))) == 40
    assert {(each.topic, each.number) for each in receipts} <= set(keys(seen[0]))
    assert not gaps_of(seen[0] + seen[1])


async def test_a_client_that_begins_at_a_standby_is_led_to_the_owner(place: Place) -> None:
    first = await place.worker()
    second = await place.worker()
    one = await place.client("one", second)
    await one.subscribe("top")
    await published(one, "top", 3)
    assert (first.state, second.state) == ("active", "standby")
    assert payloads(await take_events(one, 3)) == [b"0", b"1", b"2"]
    await until(lambda: second.status()["sessions"] == 0, "its leave")  # nobody needs it there


async def test_a_stage_comes_to_a_worker_that_the_client_is_connected_to(place: Place) -> None:
    """It is introduced to the stage: else that would take it for gone, and end its session and its subscription."""
    short = {"stages": 2, "topic_order": ORDER, "session_timeout": 0.6, "publisher_grace": 0.3}
    first = await Worker(worker_settings(place.store, **{**QUICK, **short}, hosted=[0])).__aenter__()
    second = await place.worker(**short, hosted=[0, 1])
    await until(lambda: (stages(first), stages(second)) == ([0], [1]), "a stage each")
    one, other = await place.client("one", first), await place.client("other", second)
    for each in (one, other):
        await each.subscribe("top", "low")
    await published(one, "top", 5)
    await first.__aexit__(None, None, None)
    await until(lambda: stages(second) == [0, 1], "the take-over")
    await published(other, "top", 5, first=5)
    known = second._host.stage(0)._state
    await until(lambda: not known.gone and len(known.sessions) == 2, "the introduction to the stage that came")
    await asyncio.sleep(2 * 0.6)  # what would be ended is ended by now
    await asyncio.gather(published(one, "top", 5, first=10), published(other, "low", 5, first=15))
    seen = [await take_events(each, 20) for each in (one, other)]
    assert keys(seen[0]) == keys(seen[1])
    assert not gaps_of(seen[0] + seen[1])


async def test_stages_are_handed_over_under_load(place: Place) -> None:
    """A worker joins: nobody is disconnected, nothing is lost or comes twice, the order stays one."""
    first = await place.worker(stages=2, topic_order=ORDER)
    one, other = await place.client("one", first), await place.client("other", first)
    for each in (one, other):
        await each.subscribe("top", "low")
    second = await place.worker(stages=2, topic_order=ORDER)
    futures: list[asyncio.Future[Receipt]] = []
    async with asyncio.timeout(30):
        while stages(second) != [1]:
            futures.append((one, other)[len(futures) % 2].publish(("top", "low")[len(futures) // 2 % 2], b"x"))
            await asyncio.sleep(0.005)
        futures += [(one, other)[at % 2].publish(("top", "low")[at // 2 % 2], b"y") for at in range(20)]
        receipts = await asyncio.gather(*futures)
    assert first.status()["takeovers"] == second.status()["takeovers"] == 0
    numbers = [(each.topic, each.number) for each in receipts]
    assert len(set(numbers)) == len(numbers)
    seen = [await take_events(each, len(numbers)) for each in (one, other)]
    assert keys(seen[0]) == keys(seen[1])
    assert sorted(keys(seen[0])) == sorted(numbers)
    assert not gaps_of(seen[0] + seen[1])
