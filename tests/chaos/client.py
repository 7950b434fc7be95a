"""The client process: ``python -m tests.chaos.client ROLE`` publishes, or subscribes and reads, as its role says.

It obeys commands from its standard input, one line of JSON each, and ends with that: also when its parent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.chaos.records import (
    Began,
    Broken,
    Finished,
    Missing,
    Notified,
    Reconnected,
    RecordFile,
    Saved,
    Stats,
    Subscribed,
    Subscribing,
    Unsubscribed,
)
from tests.chaos.writing import Write, Writer

import inorder
from inorder import Bounded, Client, ClientTimes, Event, Gap
from inorder.errors import InorderError
from inorder.protocol.wire import Done

_log = logging.getLogger("chaos")

FRESH_TOPICS = 6
STATS_SECONDS = 1.0
TIMES = ClientTimes(
    connect_timeout=1.0, backoff_first=0.02, backoff_max=0.3, heartbeat=0.3, gap_timeout=0.2, loss_timeout=1.5,
    close_timeout=2.0,
)  # fmt: skip
OPTIONS = {"keepalive": 2, "connect_timeout": 2.0, "ack_timeout": 2.0}
"""Of the MQTT connection."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a client process is.

    Attributes:
        client_id: of all its starts; ``name``: of this one.
        broker: URL.
        workers: addresses.
        records: the file to write to.
        topics: what it publishes to, or the filters that it subscribes to at first.
        pause: seconds between two publishes; 0 for one that reads.
        mode: ``strict``, ``tag`` or ``bounded``.
        durable: it keeps its subscription while it is away.
        planted: a bug to run with, see ``planted``.
    """

    client_id: str
    name: str
    broker: str
    workers: list[str]
    records: str
    topics: list[str]
    seed: int
    pause: float = 0.0
    mode: str = "strict"
    durable: bool = False
    planted: str = ""


class Command(msgspec.Struct, frozen=True):
    """``subscribe`` or ``unsubscribe`` (topics), ``finish`` (publishing), ``close``."""

    do: str
    topics: tuple[str, ...] = ()


def new_client(
    client_id: str, broker: str, workers: list[str], mode: str = "strict", *, durable: bool = False
) -> Client:
    """Return a client with short timers, not open yet."""
    how: Any = Bounded(buffer=100, max_wait=0.5) if mode == "bounded" else mode
    return Client(broker, workers=workers, client_id=client_id, durable=durable, mode=how, times=TIMES, options=OPTIONS)


async def opened(make: Callable[[], Client]) -> Client:
    """Return a client that is open, however long it takes."""
    while True:
        try:
            return await make().__aenter__()
        except InorderError as error:
            _log.info("not open yet: %s", error)
            await asyncio.sleep(0.1)


async def read(client: Client, write: Write) -> None:
    """Take whatever the client is notified of."""
    async for each in client.events():
        match each:
            case Event():
                payload, verdict = each.payload.decode(), str(each.verdict)
                notified = Notified(
                    topic=each.topic, number=each.number, payload=payload, verdict=verdict, repaired=each.repaired,
                    redelivered=each.redelivered,
                )  # fmt: skip
                write(notified)
            case Gap():
                write(Missing(topic=each.topic, first=each.first, last=each.last, reason=str(each.reason)))
            case inorder.Reconnected():
                write(Reconnected())


def note_saves(client: Client, write: Write) -> None:
    """Write down each clock of a durable subscriber that the workers say they have."""
    clock = client._endpoint.durable
    assert clock is not None
    saved = clock._saved

    def note(frame: Done) -> None:
        saving = clock._saving
        if saving is not None and saving.request == frame.request:
            names = client._endpoint.arrivals._names
            write(Saved(numbers={names[topic].name: number for topic, number in clock.saving.items()}))
        saved(frame)

    clock._saved = note  # type: ignore[method-assign]


class Subscriptions:
    """Carries out subscription changes, one after the other."""

    def __init__(self, client: Client, write: Write) -> None:
        self._client, self._write = client, write

    async def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe, again after each refusal."""
        self._write(Subscribing(topics=topics))
        while True:
            try:
                await self._client.subscribe(*topics, qos=1)
                break
            except inorder.errors.LinkError as error:
                _log.info("not subscribed yet: %s", error)
                await asyncio.sleep(0.05)
        self._write(Subscribed(topics=topics))

    async def unsubscribe(self, topics: tuple[str, ...]) -> None:
        """Unsubscribe, and wait until the application has seen everything that came before."""
        called = time.monotonic()
        await self._client.unsubscribe(*topics)
        while self._client.stats().undelivered:  # noqa: ASYNC110 (nothing announces that)
            await asyncio.sleep(0.001)
        self._write(Unsubscribed(topics=topics, called=called))


async def listen(commands: asyncio.Queue[Command]) -> None:
    """Take commands from standard input, while others are carried out; leave at once when it ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        commands.put_nowait(msgspec.json.decode(line, type=Command))
    os._exit(1)  # the parent is gone, and nobody is left to wait for


async def obey(
    role: Role, client: Client, write: Write, writer: Writer | None, commands: asyncio.Queue[Command]
) -> None:
    """Subscribe as the role says, then carry out commands, until told to close."""
    subscriptions = Subscriptions(client, write)
    if writer is None:
        await subscriptions.subscribe(tuple(role.topics))
    while True:
        command = await commands.get()
        match command.do:
            case "subscribe":
                await subscriptions.subscribe(command.topics)
            case "unsubscribe":
                await subscriptions.unsubscribe(command.topics)
            case "finish" if writer is not None:
                writer.stop()
            case "close":
                return


async def tell_stats(client: Client, write: Write) -> None:
    """Write down how the client is, from time to time."""
    while True:
        await asyncio.sleep(STATS_SECONDS)
        write(Stats(text=f"{client!r} {client.stats()}"))


async def serve(role: Role, write: Write) -> None:
    """Be a client until told to close. Raises what the client failed with."""
    commands: asyncio.Queue[Command] = asyncio.Queue()
    listening = asyncio.create_task(listen(commands), name="commands")
    client = await opened(
        lambda: new_client(role.client_id, role.broker, role.workers, role.mode, durable=role.durable)
    )
    try:
        write(Began(incarnation=client.incarnation, mode=role.mode))
        if role.durable:
            note_saves(client, write)
        writer = (
            Writer(client, role.name, role.topics, role.pause, role.seed, write, fresh=FRESH_TOPICS)
            if role.pause
            else None
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(tell_stats(client, write))]
            if writer is None:
                tasks.append(group.create_task(read(client, write)))
            else:
                tasks.append(group.create_task(publish(writer, write)))
            await obey(role, client, write, writer, commands)
            for task in tasks:
                task.cancel()
    finally:
        listening.cancel()
        await client.close()


async def publish(writer: Writer, write: Write) -> None:
    """Publish to the end."""
    await writer.run()
    write(Finished())


def main() -> int:
    """Run; 1 if the client failed."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    role = msgspec.json.decode(sys.argv[1], type=Role)
    if role.planted:
        from tests.chaos.planted import plant_in_client

        plant_in_client(role.planted)
    file = RecordFile(Path(role.records))
    try:
        asyncio.run(serve(role, file.write))
    except BaseExceptionGroup as group:
        with contextlib.suppress(OSError):
            file.write(Broken(error=repr(group.exceptions[0])))
        _log.exception("failed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
