"""The worker is killed in mid-stream and started again, on the same store."""

from __future__ import annotations

import asyncio

from tests.client.helpers import PATIENCE, payloads, take_events, until
from tests.client.recorder import Recorder
from tests.e2e.helpers import assert_one_order, client

from inorder import Client, Receipt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto, WorkerServer

EVENTS = 400
KILLS = 3


async def test_no_number_twice_no_event_lost_one_order(bridged: tuple[Mosquitto, Mosquitto]) -> None:
    """kill -9 between two bridged brokers, three times: every publish gets its receipt, every event arrives once at
    both subscribers, in one order, and nothing is reported missing."""
    one, two = (each.url for each in bridged)
    topics = [unique("a"), unique("b")]
    recorder = Recorder()
    with WorkerServer() as worker:
        async with (
            client(one, worker) as left,
            client(two, worker) as right,
            client(one, worker) as here,
            client(two, worker) as there,
        ):
            for each in (left, right):
                await recorder.subscribe(each, *topics)
            killing = asyncio.create_task(kill_and_start(worker, left, right, here, there))
            sent = [
                asyncio.create_task(publish(recorder, each, topics, name)) for name, each in (("l", here), ("r", there))
            ]
            async with asyncio.timeout(3 * PATIENCE):
                await killing
                receipts = [receipt for each in await asyncio.gather(*sent) for receipt in each]
            numbers = [(each.topic, each.number) for each in receipts]
            assert len(numbers) == len(set(numbers)) >= 2 * EVENTS
            seen = [await take_events(each, len(numbers)) for each in (left, right)]
            for each, taken in zip((left, right), seen, strict=True):
                recorder.took(each, taken)
            assert recorder.violations() == []
            events = assert_one_order(*seen)
            assert sorted((each.topic, each.number) for each in events) == sorted(numbers)
            for side, receipt_count in (("l", len(await sent[0])), ("r", len(await sent[1]))):
                own = [each for each in payloads(events) if each.startswith(side.encode())]
                assert own == [f"{side}{at}".encode() for at in range(receipt_count)]
            assert left.stats().worker_reconnects == KILLS


async def kill_and_start(worker: WorkerServer, *clients: Client) -> None:
    """Kill the worker while publishes are open; again only when every client has found the new one."""
    for kills in range(1, KILLS + 1):
        await until(lambda: any(each.stats().pending for each in clients), "open publishes")
        await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(worker.start)
        for each in clients:
            await until(lambda each=each, kills=kills: each.stats().worker_reconnects == kills, "reconnection")  # type: ignore[misc]


async def publish(recorder: Recorder, publisher: Client, topics: list[str], name: str) -> list[Receipt]:
    """Publish alternately, until after the last kill."""
    futures = []
    at = 0
    while at < EVENTS or publisher.stats().worker_reconnects < KILLS:
        futures.append(recorder.publish(publisher, topics[at % 2], f"{name}{at}".encode()))
        at += 1
        await asyncio.sleep(0.002)
    return await asyncio.gather(*futures)
