"""Live traffic for the browser to look at: writers and readers on an event loop in a thread of its own, recorded, so
that the run can be judged by the protocol's checks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.client.helpers import PATIENCE, times, until
from tests.client.recorder import Recorder

from inorder import Client, Event, Receipt
from inorder.testing.services import FaultProxy
from inorder_analytics.checks import Violation

Result = TypeVar("Result")


class Traffic:
    """Two readers of all topics, a third one of some, and writers that publish to all topics until the context ends.

    Args:
        broker: the broker's URL.
        worker: its ``host:port``.
        topics: see there.
        pause: s between two events of a writer.

    Attributes:
        topics: what is written and read.
        recorder: of everything.
        receipts: of what was published, in the order in which it was acknowledged.
    """

    def __init__(
        self, broker: str, worker: str, topics: Sequence[str], *, pause: float = 0.02, token: str = ""
    ) -> None:
        self.recorder = Recorder()
        self.receipts: list[Receipt] = []
        self._broker, self._worker, self._token = broker, worker, token
        self.topics, self._pause = tuple(topics), pause
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic", daemon=True)
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self._stop(is_judged=kind is None))
        finally:
            self._end_loop()

    def run(self, work: Coroutine[Any, Any, Result], timeout: float = PATIENCE) -> Result:
        """Run a coroutine on the traffic's loop, from another thread; return what it returns."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise

    async def client(self, client_id: str, *, broker: str | None = None) -> Client:
        """Return one more open client, which lives as long as the traffic."""
        clock = times(gap_timeout=0.3, loss_timeout=5.0, heartbeat=1.0)
        given = Client(broker or self._broker, workers=[self._worker], client_id=client_id, times=clock,
                       token=self._token or None)  # fmt: skip
        return await self._stack.enter_async_context(given)

    def progress(self, count: int = 20) -> None:
        """Wait until so many more events have been acknowledged."""
        wanted = len(self.receipts) + count
        self.run(until(lambda: len(self.receipts) >= wanted, f"{count} more events"))

    def violations(self) -> list[Violation]:
        """Judge the run so far. Nothing is said about what has not been read, or has not come to its end."""

        async def judge() -> list[Violation]:
            return [each for each in self.recorder.violations(everything=False) if each.rule != "convergence"]

        return self.run(judge())

    def stuck(self, topic: str) -> StuckNumber:
        """Take a number of a topic and never hand its event to the broker, while the publisher stays connected."""
        return self.run(self._stuck(topic))

    # -- on the loop -------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        readers = [await self.client(f"reader-{at}") for at in range(3)]
        for at, each in enumerate(readers):
            await self.recorder.subscribe(each, *(self.topics if at < 2 else self.topics[:2]))
        self._tasks += [asyncio.create_task(self._read(each)) for each in readers]
        writers = [await self.client(f"writer-{at}") for at in range(2)]
        self._writing = [asyncio.create_task(self._write(each, at)) for at, each in enumerate(writers)]
        self._readers = readers

    async def _read(self, client: Client) -> None:
        async for _ in self.recorder.events(client):
            pass

    async def _write(self, client: Client, at: int) -> None:
        count = 0
        while not self._is_stopping:
            topic = self.topics[count // 2 * 3 % len(self.topics)]
            future = self.recorder.publish(client, topic, b'{"desk": %d, "count": %d}' % (at, count))
            count += 1
            self.receipts.append(await future)
            await asyncio.sleep(self._pause)

    async def _stuck(self, topic: str) -> StuckNumber:
        host, _, port = self._broker.rpartition(":")
        proxy = await self._stack.enter_async_context(FaultProxy(int(port)))
        forklift = await self.client("forklift-4", broker=f"{host}:{proxy.port}")
        behind, reader = await self.client("forklift-5"), await self.client("depot-screen")
        await reader.subscribe(topic)
        await forklift.publish(topic, b"moves", qos=1)
        proxy.stall("up")
        forklift.publish(topic, b"hangs", qos=1)
        stuck = StuckNumber(self)
        self._tasks.append(asyncio.create_task(stuck.read(reader)))
        own = 0
        while stuck.number is None:
            own += 1
            stuck.last = b"behind-%d" % own
            receipt = await behind.publish(topic, stuck.last, qos=1)
            # Number 1 moved, and each other one but the hanging one is our own.
            if receipt.number == own + 2:
                stuck.number = own + 1
        return stuck

    async def lurk(self, client_id: str, topic: str) -> None:
        """Subscribe one more client, which is not recorded."""
        client = await self.client(client_id)
        await client.subscribe(topic)
        self._tasks.append(asyncio.create_task(StuckNumber(self).read(client)))

    async def _stop(self, *, is_judged: bool) -> None:
        self._is_stopping = True
        try:
            if is_judged:
                await asyncio.gather(*self._writing)
                await until(self._is_all_read, "all events to be read")
        finally:
            for each in (*self._writing, *self._tasks):
                each.cancel()
            await asyncio.gather(*self._writing, *self._tasks, return_exceptions=True)
            await self._stack.aclose()

    def _is_all_read(self) -> bool:
        """Whether both readers of everything were notified of every event that was acknowledged."""
        for each in self._readers[:2]:
            notified = self.recorder.history.subscribers[each.client_id].notified
            if len(notified) < len(self.receipts):
                return False
        return True

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class StuckNumber:
    """A number whose publisher hangs on the way to the broker, and what comes behind it.

    Attributes:
        number: the stuck one.
        last: the payload behind it.
        delivered: payloads that a subscriber of the topic was notified of.
    """

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.number: int | None = None
        self.last = b""
        self.delivered: list[bytes] = []

    def is_passed(self) -> bool:
        """Whether the subscriber has what is behind it."""
        return self.last in self.delivered

    def wait_passed(self) -> None:
        """Wait until the subscriber has what is behind it."""
        self._traffic.run(until(self.is_passed, f"what is behind the stuck number: {self.delivered}"))

    async def read(self, client: Client) -> None:
        """Take what a client is notified of."""
        async for each in client.events():
            if isinstance(each, Event):
                self.delivered.append(each.payload)
