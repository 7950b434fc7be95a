"""Publishes, and writes down what becomes of each event."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from tests.chaos.records import Acknowledged, AnyRecord, Called, Failed

from inorder import Client, Receipt

Write = Callable[[AnyRecord], None]
FRESH = 0.02
"""The share of publishes for which there is a new topic."""
OPEN_AT_MOST = 200
"""Publishes without an end, before the next one waits."""


class Writer:
    """Publishes one event after the other to some topics.

    Args:
        name: of this process start; payloads begin with it.
        topics: each event goes to one of them.
        pause: seconds between two events.
        fresh: how many topics it may make; it makes one now and then, below the first part of the others' names.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        topics: Sequence[str],
        pause: float,
        seed: int,
        write: Write,
        *,
        fresh: int = 0,
    ) -> None:
        self._client, self._name, self._topics, self._pause, self._write = client, name, list(topics), pause, write
        self._most = len(topics) + fresh
        self._rng = random.Random(seed)
        self._counter = 0
        self._open: set[asyncio.Future[Receipt]] = set()
        self._is_stopping = asyncio.Event()

    def publish(self, topic: str) -> asyncio.Future[Receipt]:
        """Publish the next event to a topic."""
        self._counter += 1
        counter, payload = self._counter, f"{self._name}/{self._counter}"
        self._write(Called(counter=counter, topic=topic, payload=payload))
        future = self._client.publish(topic, payload.encode(), qos=self._rng.randrange(2))
        self._open.add(future)
        future.add_done_callback(lambda done: self._ended(counter, topic, done))
        return future

    def _ended(self, counter: int, topic: str, done: asyncio.Future[Receipt]) -> None:
        self._open.discard(done)
        if done.cancelled() or (error := done.exception()) is not None:
            self._write(Failed(counter=counter, error="cancelled" if done.cancelled() else repr(error)))
            return
        receipt = done.result()
        assert receipt.number is not None
        self._write(Acknowledged(counter=counter, topic=topic, number=receipt.number, deps=receipt.deps))

    async def run(self) -> None:
        """Publish until told to stop, then until all publishes have ended."""
        while not self._is_stopping.is_set():
            if len(self._open) < OPEN_AT_MOST:
                if len(self._topics) < self._most and self._rng.random() < FRESH:
                    root = self._topics[0].partition("/")[0]
                    self._topics.append(f"{root}/{self._name}/{self._counter}")
                self.publish(self._rng.choice(self._topics))
            try:
                async with asyncio.timeout(self._pause * self._rng.uniform(0.2, 1.8)):
                    await self._is_stopping.wait()
            except TimeoutError:
                pass
        while self._open:
            await asyncio.wait(self._open)

    def stop(self) -> None:
        """Let ``run`` come to its end."""
        self._is_stopping.set()
