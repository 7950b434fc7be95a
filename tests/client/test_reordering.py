"""The topic order changes under clients that publish and subscribe (R14, R15): they see no error and one order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.helpers import Site, events_of, gaps_of, keys, new_site, payloads, take_events, until
from tests.worker.raw_client import RawClient

from inorder import Client, Receipt, Verdict
from inorder.protocol.wire import ChangeOrder, OrderChanged, ShowOrder, TopicOrder

TOPICS = "abcdef"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Three stages, with a, b on the top one."""
    order = [["memory:a", "memory:b"], ["memory:c", "memory:d"], ["memory:e", "memory:f"]]
    async with new_site(tmp_path, stages=3, topic_order=order) as made:
        yield made


async def _order(operator: RawClient) -> TopicOrder:
    operator.send(ShowOrder(1))
    return await operator.next(TopicOrder)


async def _shuffle(operator: RawClient, rng: random.Random) -> OrderChanged:
    """Put every topic on some stage."""
    now = await _order(operator)
    stages: list[list[int]] = [[], [], []]
    for info in now.topics:
        rng.choice(stages).append(info.id)
    operator.send(ChangeOrder(2, now.order_epoch + 1, stages))
    return await operator.next(OrderChanged)


async def _publish(client: Client, rng: random.Random, count: int) -> list[Receipt]:
    """Publish to topics at random, some at once and some one after the other."""
    futures = []
    for number in range(count):
        futures.append(client.publish(rng.choice(TOPICS), f"{client.client_id}{number}".encode()))
        if rng.random() < 0.1:
            await futures[-1]
        elif rng.random() < 0.3:
            await asyncio.sleep(0)
    return [await each for each in futures]


@pytest.mark.parametrize("seed", range(3))
async def test_clients_go_on_in_one_order_while_topics_change_places(site: Site, seed: int) -> None:
    rng = random.Random(seed)
    publishers = [site.client("x"), site.client("y")]
    subscribers = [site.client("one", delay_ms="0..5", reorder=0.3, seed=seed), site.client("two")]
    async with publishers[0], publishers[1], subscribers[0], subscribers[1], RawClient(site.address, "op") as op:
        for each in subscribers:
            await each.subscribe(*TOPICS)
        work = [asyncio.create_task(_publish(each, random.Random(seed + 7), 200)) for each in publishers]
        changes = 0
        while not all(task.done() for task in work):
            changes += (await _shuffle(op, rng)).refusal == ""
            await asyncio.sleep(0.01)
        receipts = [receipt for task in work for receipt in await task]
        assert changes > 2
        seen = [await take_events(each, 400) for each in subscribers]
        assert keys(seen[0]) == keys(seen[1])
        assert sorted(keys(seen[0])) == sorted((each.topic, each.number) for each in receipts)
        assert not gaps_of(seen[0] + seen[1])
        assert {each.verdict for each in events_of(seen[0])} == {Verdict.IN_ORDER}
        for name in ("x", "y"):
            own = [each for each in payloads(seen[0]) if each.startswith(name.encode())]
            assert own == [f"{name}{number}".encode() for number in range(200)]  # R19
        await until(lambda: not any(each.stats().pending for each in publishers))


async def test_a_worker_that_stops_in_the_middle_of_a_change_goes_on_with_it(site: Site) -> None:
    publisher, subscriber = site.client("x"), site.client("one")
    async with publisher, subscriber:
        await subscriber.subscribe(*TOPICS)
        work = asyncio.create_task(_publish(publisher, random.Random(3), 300))
        async with RawClient(site.address, "op") as op:
            now = await _order(op)
            op.send(ChangeOrder(2, now.order_epoch + 1, [[5, 6], [1], [2, 3, 4]]))
            await op.writer.drain()
        await site.stop()
        await site.start(stages=3)
        await work
        async with RawClient(site.address, "op") as op:
            assert (await _order(op)).order_epoch in (1, 2)  # as far as it was taken
        seen = await take_events(subscriber, 300)
        assert payloads(seen) == [f"x{number}".encode() for number in range(300)]
        assert not gaps_of(seen)


async def test_a_client_that_was_away_learns_of_all_changes_since(site: Site) -> None:
    publisher, subscriber = site.client("x"), site.client("one")
    async with publisher, subscriber:
        await subscriber.subscribe(*TOPICS)
        await publisher.publish("a", b"first")
        await site.stop()
        await site.start(stages=3)
        async with RawClient(site.address, "op") as op:
            for stages in ([[2], [], [1]], [[2, 3], [1], []]):
                now = await _order(op)
                op.send(ChangeOrder(2, now.order_epoch + 1, stages))
                assert (await op.next(OrderChanged)).refusal == ""
        assert [(await publisher.publish(topic, b"next")).number for topic in "abc"] == [2, 1, 1]
        assert keys(await take_events(subscriber, 4)) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


async def test_what_was_lost_before_a_change_is_asked_of_the_new_stage(site: Site) -> None:
    """R17: a gap in a topic that moved is settled at its new home."""
    publisher, subscriber = site.client("x"), site.client("one")
    async with publisher, subscriber:
        await subscriber.subscribe("a", "e")

        async def miss() -> None:
            await publisher.publish("e", b"lost")

        await site.lose(subscriber, miss())
        async with RawClient(site.address, "op") as op:
            now = await _order(op)
            op.send(ChangeOrder(2, now.order_epoch + 1, [[5], [], [1]]))
            assert (await op.next(OrderChanged)).refusal == ""
        await publisher.publish("e", b"seen")
        seen = await take_events(subscriber, 1)
        assert [(each.topic, each.first, each.last) for each in gaps_of(seen)] == [("e", 1, 1)]
        assert payloads(seen) == [b"seen"]
