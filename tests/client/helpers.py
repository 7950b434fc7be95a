"""A site for tests: an in-process broker with seeded faults, a real worker beside it, clients with short timers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from inorder import Client, ClientTimes, Event, Gap, Reconnected
from inorder.protocol.wire import NumberState
from inorder_adapters.memory import Hub, hub
from inorder_adapters.memory.options import MemoryOptions
from inorder_worker.service import Worker, WorkerSettings

Mode = Any  # "strict", "tag" or Bounded; a client checks it itself
Notification = Event | Gap | Reconnected

PATIENCE = 60.0
"""Seconds after which a test that waits for a condition fails."""

TIMES: dict[str, float] = {
    "connect_timeout": 5.0, "backoff_first": 0.01, "backoff_max": 0.1, "heartbeat": 0.3, "gap_timeout": 0.1,
    "loss_timeout": 0.4, "settle_delay": 0.005,
}  # fmt: skip


def times(**changes: float) -> ClientTimes:
    """Return short timers."""
    given: dict[str, Any] = {**TIMES, **changes}
    return ClientTimes(**given)


def worker_settings(store: Path, **changes: Any) -> WorkerSettings:
    """Return settings for an SQLite file and short timers."""
    defaults: dict[str, Any] = {
        "store": f"sqlite:///{store}", "port": 0, "heads_interval": 0.1, "beat_interval": 0.0, "stop_timeout": 1.0,
        "publisher_grace": 5.0,
    }  # fmt: skip
    given = {**defaults, **changes}
    return WorkerSettings(**{"lease": max(0.2, 10 * given["beat_interval"]), **given})


class Site:
    """A broker and a worker.

    Attributes:
        name: the broker's.
        worker: the worker.
    """

    def __init__(self, name: str, store: Path) -> None:
        self.name = name
        self.store = store
        self.worker: Worker
        self.address = ""

    @property
    def hub(self) -> Hub:
        return hub(self.name)

    def client(
        self, client_id: str, *, mode: Mode = "strict", clock: ClientTimes | None = None, **options: Any
    ) -> Client:
        """Return a client; ``options`` are the in-process broker's, for this client."""
        return Client(
            f"memory://{self.name}",
            workers=[self.address],
            client_id=client_id,
            mode=mode,
            options=options,
            times=clock or times(),
        )

    async def start(self, **changes: Any) -> None:
        """Start the worker, again on the port it had before."""
        port = int(self.address.rpartition(":")[2] or 0)
        self.worker = await Worker(worker_settings(self.store, port=port, **changes)).__aenter__()
        self.address = self.worker.address

    async def lose(self, client: Client, action: Awaitable[None]) -> None:
        """Let a client miss what is published meanwhile."""
        line = self.hub.members[client.client_id].line
        options, line._options = line._options, MemoryOptions(loss=1.0)
        await action
        line._options = options

    def leap(self, seconds: float) -> None:
        """Let so much time of the worker's stages pass at once; clients' clocks stay."""
        for hosted in self.worker._host.hosted.values():
            hosted._now += round(seconds * 1000)
        self.worker._host.alarm.set(0.0)

    async def stop(self) -> None:
        """Stop the worker."""
        await self.worker.__aexit__(None, None, None)


@asynccontextmanager
async def new_site(folder: Path, **changes: Any) -> AsyncIterator[Site]:
    """Make a site, with a broker that nobody else uses."""
    site = Site(f"site-{folder.name}-{id(folder)}", folder / "worker.db")
    await site.start(**changes)
    try:
        yield site
    finally:
        await site.stop()


def state_of(site: Site, number: int) -> NumberState | None:
    """Return what the worker knows of a number of the first topic."""
    manager = site.worker._host.stage(0)._state.topics.get(1)
    record = None if manager is None else manager.records.get(number)
    return None if record is None else record.state


async def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait for a condition that nothing announces."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 (what is waited for has no event)
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None


async def take(client: Client, count: int) -> list[Notification]:
    """Return the next notifications."""
    taken: list[Notification] = []
    await _take_until(client, lambda: len(taken) >= count, taken)
    return taken


async def take_events(client: Client, count: int) -> list[Notification]:
    """Return the next notifications, up to the one that makes it ``count`` events."""
    taken: list[Notification] = []
    await _take_until(client, lambda: len(events_of(taken)) >= count, taken)
    return taken


async def take_through(client: Client, payload: bytes) -> list[Notification]:
    """Return the next notifications, up to the event with this payload."""
    taken: list[Notification] = []
    await _take_until(
        client, lambda: bool(taken) and isinstance(taken[-1], Event) and taken[-1].payload == payload, taken
    )
    return taken


async def _take_until(client: Client, is_enough: Callable[[], bool], taken: list[Notification]) -> None:
    stream = client.events()
    try:
        async with asyncio.timeout(PATIENCE):
            while not is_enough():
                taken.append(await anext(stream))
    except TimeoutError:
        last = taken[-3:]
        raise AssertionError(f"the stream dried up after {len(taken)}: {last}; {client.stats()}") from None


def events_of(taken: Iterable[Notification]) -> list[Event]:
    return [each for each in taken if isinstance(each, Event)]


def gaps_of(taken: Iterable[Notification]) -> list[Gap]:
    return [each for each in taken if isinstance(each, Gap)]


def keys(taken: Iterable[Notification]) -> list[tuple[str, int | None]]:
    """Return what was notified, comparable between subscribers."""
    return [(each.topic, each.number) for each in events_of(taken)]


def payloads(taken: Iterable[Notification]) -> list[bytes]:
    return [each.payload for each in events_of(taken)]


async def published(client: Client, topic: str, count: int, *, prefix: str = "", first: int = 0, **how: Any) -> None:
    """Publish numbered events to one topic and wait until all are accepted."""
    futures = [client.publish(topic, f"{prefix}{number}".encode(), **how) for number in range(first, first + count)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*futures)
