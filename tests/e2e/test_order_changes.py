"""The topic order changes under load: three workers with one stage each, subscriptions that come and go."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from tests.client.helpers import PATIENCE, take_events
from tests.client.recorder import Recorder
from tests.e2e.helpers import SHORT_ON_POSTGRESQL, STAGES
from tests.e2e.load import Writer
from tests.e2e.test_several_workers import Workers, three_workers

from inorder import Client
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto
from inorder_worker.admin import Cluster

CHANGES = 5


async def _wander(client: Client, names: list[str], rng: random.Random, enough: asyncio.Event) -> int:
    """Subscribe and unsubscribe until told to stop; return how many changes that were. They are not recorded: where
    each subscription began is not told, so of these clients the order is judged and not what is missing."""
    changes, present = 0, set(names)
    while not enough.is_set():
        chosen = rng.choice(names)
        if chosen in present:
            present.remove(chosen)
            await client.unsubscribe(chosen)
        else:
            present.add(chosen)
            await client.subscribe(chosen)
        changes += 1
        await asyncio.sleep(0.02)
    return changes


async def _read(recorder: Recorder, client: Client) -> None:
    async for _ in recorder.events(client):
        pass


async def _change_order(workers: Workers, rng: random.Random) -> int:
    """Move topics to stages drawn anew; return the order epoch, once the bottom stage is in it."""
    address = f"127.0.0.1:{workers.proxies[rng.randrange(STAGES)].port}"
    async with Cluster([address]) as cluster:
        now = await cluster.order()
        home = {each.id: each.stage for each in now.topics}
        stages: list[list[int]] = [[] for _ in range(STAGES)]
        while all(home[topic] == stage for stage, each in enumerate(stages) for topic in each):
            stages = [[] for _ in range(STAGES)]
            for topic in home:
                rng.choice(stages).append(topic)
        return await cluster.change(now.order_epoch + 1, stages)


@SHORT_ON_POSTGRESQL
async def test_the_order_changes_five_times_under_load(mosquitto: Mosquitto, store: str, topics: list[str]) -> None:
    """Topics move to other workers five times, while subscriptions come and go: every promise is kept."""
    rng, recorder = random.Random(7), Recorder()
    async with three_workers(store) as workers, asyncio.timeout(4 * PATIENCE), AsyncExitStack() as stack:
        readers = [await workers.client(stack, mosquitto.url, unique("reader"), at) for at in range(2)]
        wanderers = [await workers.client(stack, mosquitto.url, unique("wanderer"), at) for at in range(2)]
        for each in readers:
            await recorder.subscribe(each, *topics)
        for each in wanderers:
            await each.subscribe(*topics)
        clients = [await workers.client(stack, mosquitto.url, unique("writer"), at) for at in range(STAGES)]
        writers = [Writer(recorder, each, str(at), topics) for at, each in enumerate(clients)]
        enough, epochs = asyncio.Event(), []
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(_read(recorder, each)) for each in wanderers]
            wandering = [group.create_task(_wander(each, topics, rng, enough)) for each in wanderers]
            sending = [group.create_task(each.run()) for each in writers]
            for _ in range(CHANGES):
                for writer in writers:
                    await writer.progress()
                epochs.append(await _change_order(workers, rng))
            for writer in writers:
                await writer.progress()
                writer.is_stopping = True
            receipts = [each for task in sending for each in await task]
            enough.set()
            for reader in readers:
                recorder.took(reader, await take_events(reader, len(receipts)))
            changes = [await each for each in wandering]
            for task in reading:
                task.cancel()
    assert epochs == list(range(2, 2 + CHANGES))
    assert min(changes) >= CHANGES
    assert min(len(recorder.history.subscribers[each.client_id].notified) for each in wanderers) > CHANGES
    assert recorder.violations() == []
