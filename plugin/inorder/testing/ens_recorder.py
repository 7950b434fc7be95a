"""Helpers for tests of adapters: a maker of clients, and a sink that records everything and can be waited for."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

from inorder.errors import BrokerUnreachable
from inorder.ports import Arrival, Ens, EnsFactory

TIMEOUT_SECONDS = 30.0


class EnsMaker(Protocol):
    """Makes unconnected clients of the broker under test."""

    def __call__(self, client_id: str = "", **options: Any) -> Ens:
        """Return a client; without a given id it gets a new one."""


def ens_maker(factory: EnsFactory, url: str, **preset: Any) -> EnsMaker:
    """Return the usual maker from a factory, a URL and options."""

    def make(client_id: str = "", **options: Any) -> Ens:
        return factory(url, client_id=client_id or unique("client"), options={**preset, **options})

    return make


@dataclass
class StoppableBroker:
    """A broker of one test, which may stop and restart the broker at the same address."""

    make_ens: EnsMaker
    stop: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]


@dataclass
class Recorder:
    """A sink that records everything and lets tests wait for it."""

    arrivals: list[Arrival] = field(default_factory=list)
    malformed_reasons: list[str] = field(default_factory=list)
    accepted_tokens: list[int] = field(default_factory=list)
    refusals: list[tuple[int, Exception]] = field(default_factory=list)
    losses: list[Exception] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)

    def arrived(self, arrival: Arrival) -> None:
        """Record an arrival."""
        self.arrivals.append(arrival)
        self._changed.set()

    def malformed(self, reason: str) -> None:
        """Record a malformed message."""
        self.malformed_reasons.append(reason)
        self._changed.set()

    def accepted(self, tokens: list[int]) -> None:
        """Record accepted tokens."""
        self.accepted_tokens.extend(tokens)
        self._changed.set()

    def refused(self, token: int, error: Exception) -> None:
        """Record a refused token."""
        self.refusals.append((token, error))
        self._changed.set()

    def connection_lost(self, error: Exception) -> None:
        """Record a lost connection."""
        self.losses.append(error)
        self._changed.set()

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of all arrivals."""
        return [arrival.payload for arrival in self.arrivals]

    async def until(self, condition: Callable[[], bool], timeout: float = TIMEOUT_SECONDS) -> None:
        """Wait until a condition holds. Raises TimeoutError, with what was recorded."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"not within {timeout:g} s: {self.summary()}") from None

    async def until_arrived(self, count: int) -> list[Arrival]:
        """Wait for this many arrivals and return them all."""
        await self.until(lambda: len(self.arrivals) >= count)
        return self.arrivals

    async def until_accepted(self, count: int) -> None:
        """Wait until this many publishes were accepted."""
        await self.until(lambda: len(self.accepted_tokens) >= count)

    async def until_topic(self, topic: str) -> None:
        """Wait for an arrival on a topic."""
        await self.until(lambda: any(arrival.topic == topic for arrival in self.arrivals))

    def summary(self) -> str:
        """Describe in one line what was recorded."""
        return (
            f"{len(self.arrivals)} arrivals, {len(self.accepted_tokens)} accepted, refused {self.refusals[:3]}, "
            f"lost {self.losses}, malformed {self.malformed_reasons[:3]}"
        )


def unique(word: str = "t") -> str:
    """Return a name that no other test uses."""
    return f"{word}-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def connected(ens: Ens) -> AsyncIterator[Recorder]:
    """Connect a client, yield its recorder, close it."""
    recorder = Recorder()
    try:
        await ens.connect(recorder)
        yield recorder
    finally:
        await ens.close()


async def until_connected(ens: Ens, recorder: Recorder) -> None:
    """Connect to a broker that is just starting again. Raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            try:
                await ens.connect(recorder)
            except BrokerUnreachable:
                await asyncio.sleep(0.05)
            else:
                return


def look_alikes() -> list[bytes]:
    """Return payloads that look stamped; the first two of them look exactly so."""
    frame = b"inorder/1 AbC-_9 %08x\n"
    valid = frame % crc32(b"hello", crc32(b"AbC-_9")) + b"hello"
    reserved = b"inorder/1 none %08x\nhello" % crc32(b"hello", crc32(b"none"))
    return [
        valid,
        reserved,
        valid[:-1] + b"O",
        valid.replace(b"inorder/1", b"inorder/2"),
        frame % 0 + b"hello",
        b"inorder/1 ",
        b"inorder/1 x",
        b"inorder/1 x 00000000",
        b"inorder/1 caf\xc3\xa9 00000000\n",
    ]
