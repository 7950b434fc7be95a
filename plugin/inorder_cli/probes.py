"""The probes of ``check``: of a broker, of a worker, of the store.

Each returns what it found, in words.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inorder.errors import (
    ProtocolError,
    StoreReadOnly,
    Unauthorized,
    VersionMismatch,
    WorkerUnreachable,
)
from inorder.protocol import wire
from inorder_cli.failures import needs

if TYPE_CHECKING:
    from inorder.ports import Arrival, Ens

SQLITE = "sqlite:///"
LEAVE_SECONDS = 1.0
"""For a worker to take leave."""


# -- broker ----------------------------------------------------------------------------------------------------------


class _IgnoringSink:
    """A sink that ignores everything."""

    def arrived(self, arrival: Arrival) -> None:
        """Ignore it, as nothing was subscribed to."""

    def malformed(self, reason: str) -> None:
        """Ignore it, as nothing was subscribed to."""

    def accepted(self, tokens: list[int]) -> None:
        """Ignore it, as nothing was published."""

    def refused(self, token: int, error: Exception) -> None:
        """Ignore it, as nothing was published."""

    def connection_lost(self, error: Exception) -> None:
        """Ignore it, as the connection is closed at once anyway."""


def open_broker(text: str) -> Ens:
    """Make the unconnected ENS of ``[space=]URL``. Raises InvalidOption and MissingExtra."""
    from inorder.client.adapters import open_ens
    from inorder.settings.texts import broker_parts

    _, url = broker_parts(text)
    return open_ens(url, client_id=f"inorder-check-{secrets.token_hex(4)}", options={})


async def probe_broker(ens: Ens) -> str:
    """Connect to a broker and disconnect. Raises BrokerUnreachable, Unauthorized."""
    try:
        await ens.connect(_IgnoringSink())
    finally:
        await ens.close()
    return f"connected to {ens.address}"


# -- worker ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Addresses:
    """The addresses that workers advertise (``asked``), and those of workers with stages (``named``)."""

    asked: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)


async def probe_worker(address: str, token: str, tls: ssl.SSLContext | None, known: Addresses) -> str:
    """Say hello to a worker and disconnect; add its knowledge of other workers to ``known``. Raises WorkerUnreachable,
    Unauthorized, VersionMismatch, ProtocolError."""
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
    except OSError as error:
        raise WorkerUnreachable.after(address, error) from None
    try:
        writer.write(wire.encode_frame(_hello(token)))
        frame = await _next_frame(reader)
        while isinstance(frame, wire.Opened):  # its stages speak ahead of the welcome (R12)
            frame = await _next_frame(reader)
        if isinstance(frame, wire.Welcome):
            known.asked |= {address, frame.address}
            known.named |= {each.address for each in frame.stages if each.address}
        return _answer(frame)
    except (OSError, EOFError) as error:
        raise WorkerUnreachable.after(address, error) from None
    finally:
        await _leave(writer)


async def _leave(writer: asyncio.StreamWriter) -> None:
    """Close the connection, in order if the worker lets us in time (TLS waits for its close), and in any case."""
    writer.close()
    try:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


def _hello(token: str) -> wire.Hello:
    lowest, highest = wire.PROTOCOL_VERSIONS
    name = f"inorder-check-{secrets.token_hex(4)}"
    return wire.Hello(lowest, highest, token, name, secrets.randbits(63), "inorder check")


async def _next_frame(reader: asyncio.StreamReader) -> wire.WorkerFrame:
    length = int.from_bytes(await reader.readexactly(wire.HEADER_BYTES), "big")
    if length > wire.MAX_FRAME_BYTES:
        raise ProtocolError("what listens there is not an inorder worker")
    return wire.decode_worker_frame(await reader.readexactly(length))


def _answer(frame: wire.WorkerFrame) -> str:
    match frame:
        case wire.Welcome():
            return f"{frame.worker}, protocol {frame.version}, {_stages(frame)}"
        case wire.Failure(code="unauthorized"):
            raise Unauthorized("the token is missing or wrong", peer="worker")
        case wire.Failure(code="version", facts=[lowest, highest]):
            raise VersionMismatch(wire.PROTOCOL_VERSIONS, (lowest, highest))
        case wire.Failure():
            raise ProtocolError(f"it refused: {frame.message}")
    raise ProtocolError("what listens there is not an inorder worker")


def _stages(welcome: wire.Welcome) -> str:
    """Describe which stages a worker has, and which nobody has had."""
    own = [str(each.stage) for each in welcome.stages if each.epoch and not each.address]
    text = f"{len(welcome.stages)} stage(s)"
    if len(own) < len(welcome.stages):
        text += f", it has {' and '.join(own) or 'none'}"
    nobody = [str(each.stage) for each in welcome.stages if not each.epoch]
    return text + (f", no worker has had {' or '.join(nobody)} yet" if nobody else "")


# -- store -----------------------------------------------------------------------------------------------------------


def is_there(url: str) -> bool:
    """Tell whether a store's SQLite file, or something else, exists in its place; always true for other stores."""
    return not url.startswith(SQLITE) or Path(url.removeprefix(SQLITE).partition("?")[0]).exists()


async def probe_store(url: str, timeout: float) -> str:
    """Open the store, if it exists, and read its facts. Raises StoreError, InvalidOption, MissingExtra."""
    if not is_there(url):
        return _new_file(url)
    return await asyncio.to_thread(_read_store, url, timeout)


def _new_file(url: str) -> str:
    folder = Path(url.removeprefix(SQLITE).partition("?")[0]).absolute().parent
    if not os.access(folder, os.W_OK):
        raise StoreReadOnly(url, f"it does not exist yet and {folder} cannot be written")
    return "does not exist yet; the worker will make it"


def _read_store(url: str, timeout: float) -> str:
    with needs("worker", "a look at the store"):
        from inorder_worker.store.store import Store
    store = Store(url, timeout=timeout)
    try:
        info = store.look()
    finally:
        store.close()
    return "empty; the worker will set it up" if info is None else f"{info.stages} stage(s), domain {info.domain}"
