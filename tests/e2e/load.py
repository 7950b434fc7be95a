"""Writers and readers that go on while somebody makes trouble, and what must be true of what they saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Protocol

from tests.client.helpers import PATIENCE, payloads, take_events, until
from tests.client.recorder import Recorder
from tests.e2e.helpers import STAGES, assert_one_order

from inorder import Client, Receipt
from inorder.testing.ens_recorder import unique


class Site(Protocol):
    """Workers that clients can be opened for."""

    async def client(self, stack: AsyncExitStack, broker: str, name: str, at: int) -> Client:
        """Return an open client; ``at`` says which workers it is told of."""


class Writer:
    """Publishes to all topics in runs of three, until told to stop.

    Args:
        pause: seconds between two events.

    Attributes:
        futures: of all publishes.
    """

    def __init__(
        self, recorder: Recorder, client: Client, name: str, topics: Sequence[str], pause: float = 0.01
    ) -> None:
        self.pause = pause
        self.recorder, self.client, self.name, self.topics = recorder, client, name, topics
        self.futures: list[asyncio.Future[Receipt]] = []
        self.is_stopping = False

    async def run(self) -> list[Receipt]:
        while not self.is_stopping:
            at = len(self.futures)
            topic = self.topics[at // 3 * 5 % len(self.topics)]
            self.futures.append(self.recorder.publish(self.client, topic, f"{self.name}-{at}".encode()))
            await asyncio.sleep(self.pause)
            await until(lambda: self.client.stats().pending < 100, f"room of {self.name}")
        return await asyncio.gather(*self.futures)

    async def progress(self) -> None:
        """Wait until a round over all stages are done, from now on."""
        wanted = len(self.futures) + 3 * len(self.topics)
        await until(
            lambda: len(self.futures) > wanted and self.futures[wanted].done(),
            f"progress of {self.name}: {self.client.stats()}",
        )


Trouble = Callable[[int], Awaitable[None]]


async def run(
    workers: Site,
    broker: str,
    topics: Sequence[str],
    stages: Iterable[int],
    make: Trouble,
    *,
    pause: float = 0.01,
) -> None:
    """Two subscribers of everything and four publishers, each given the address of another worker; ``make`` makes
    trouble at these stages. Same order, nothing twice, nothing lost, nothing reported missing, and whatever else the
    protocol promises. ``pause``: see Writer."""
    recorder = Recorder()
    async with asyncio.timeout(4 * PATIENCE), AsyncExitStack() as stack:
        readers = [await workers.client(stack, broker, unique("reader"), at) for at in range(2)]
        for each in readers:
            await recorder.subscribe(each, *topics)
        writers = [await workers.client(stack, broker, unique("writer"), at % STAGES) for at in range(4)]
        writing = [Writer(recorder, each, str(at), topics, pause) for at, each in enumerate(writers)]
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(each.run()) for each in writing]
            for writer in writing:
                await writer.progress()
            for stage in stages:
                await make(stage)
                for writer in writing:
                    await writer.progress()
            for writer in writing:
                writer.is_stopping = True
        receipts = [each for task in sent for each in task.result()]
        numbers = [(each.topic, each.number) for each in receipts]
        assert len(numbers) == len(set(numbers))
        seen = [await take_events(each, len(numbers)) for each in readers]
        for reader, taken in zip(readers, seen, strict=True):
            recorder.took(reader, taken)
        assert recorder.violations() == []
        events = assert_one_order(*seen)
        assert sorted((each.topic, each.number) for each in events) == sorted(numbers)
        for writer in writing:
            own = [each for each in payloads(events) if each.startswith(f"{writer.name}-".encode())]
            assert own == [f"{writer.name}-{number}".encode() for number in range(len(writer.futures))]
