"""Bounds of HTTP connections: half requests, answers that nobody reads, and too many of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import uvicorn
from tests.worker.helpers import PATIENCE, until
from uvicorn.server import ServerState

from inorder_controlplane import connections
from inorder_controlplane.connections import (
    MAX_HEAD_BYTES,
    MAX_PARTS,
    MAX_PIPELINED,
    MAX_SAID_BYTES,
    MAX_SENT_BYTES,
    BoundedProtocol,
    BoundedSocket,
    WaitingConnections,
)

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
UPGRADE = GET[:-2] + (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PING = b"\x89\x80\0\0\0\0"
BEGIN, PART = b"\x01\x80\0\0\0\0", b"\x00\x80\0\0\0\0"


@dataclass
class Served:
    """A server on loopback. ``may_answer``: nothing is answered before; ``size``: of answers; ``refusals``: what became
    of a message behind the end of a socket."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 2
    state: ServerState = field(default_factory=ServerState)
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = WaitingConnections(self.state.connections)

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[..., Any]) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            if self.size > 2:
                await send({"type": "websocket.send", "bytes": b"x" * self.size})
            while (await receive())["type"] != "websocket.disconnect":
                pass
            try:
                await send({"type": "websocket.send", "bytes": b"behind the end"})
            except Exception as error:
                self.refusals.append(error)
            return
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % self.size)]})
        await send({"type": "http.response.body", "body": b"x" * self.size})

    async def opened(self, said: bytes = b"") -> asyncio.StreamReader:
        before = len(self.state.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(said)
        if before < self.waiting.room:
            await until(lambda: len(self.state.connections) > before)
        return reader


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return what is said until the end of the connection."""
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionError):
            return await reader.read()
    return b""


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    found = Served()
    found.may_answer.set()
    config = uvicorn.Config(found, ws=BoundedSocket, lifespan="off", log_config=None, access_log=False)
    config.load()
    protocol = partial(BoundedProtocol, found.waiting, config=config, server_state=found.state, app_state={})
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    found.may_answer.set()
    server.close()
    for writer in found.writers:
        writer.transport.abort()
    await until(lambda: not (found.state.connections or found.state.tasks))


@pytest.mark.parametrize("said", [b"G", GET[:-2], GET[:-4]], ids=["a byte", "all lines", "a line"])
async def test_half_a_head_is_not_waited_for_long(served: Served, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    assert (await rest(await served.opened(said))).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_who_says_nothing_is_told_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    assert await rest(await served.opened()) == b""


@pytest.mark.parametrize("begin", [GET[:-2], POST.replace(b"10", b"1000000")], ids=["head", "body"])
async def test_who_says_a_little_now_and_then_gains_no_time(served: Served, begin: bytes) -> None:
    await served.opened(begin)
    (connection,) = served.state.connections
    assert isinstance(connection, BoundedProtocol)
    await until(lambda: connection._awaited is not None and connection.parser is not None)
    await until(lambda: begin.startswith(b"GET") or connection.cycle is not None)
    before, seen = connection._deadline, list[bytes]()
    taken = connection.data_received

    def noted(data: bytes) -> None:
        taken(data)
        seen.append(data)

    connection.data_received = noted  # type: ignore[method-assign]
    assert before is not None
    for _ in range(3):
        count = len(seen)
        served.writers[0].write(b"a")
        await until(lambda count=count: len(seen) > count)  # type: ignore[misc]
    assert (connection._deadline, before.cancelled()) == (before, False)


async def test_a_head_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 2 * PATIENCE)
    reader = await served.opened(GET[:-2] + b"X: ")
    served.writers[0].write(b"y" * (MAX_HEAD_BYTES + 1))
    assert OK not in await rest(reader)
    await until(lambda: not served.state.connections)


async def test_an_answer_that_nobody_takes_ends_its_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.05)
    served.size = 64 * 1024 * 1024
    reader = await served.opened(GET)
    await until(lambda: not served.state.connections)
    reader._transport.abort()  # type: ignore[attr-defined]


async def test_an_answer_may_take_its_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another connection has come to its end meanwhile."""
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "UNREAD_SECONDS"):
        monkeypatch.setattr(connections, name, 0.05)
    served.may_answer.clear()
    reader = await served.opened(GET)
    await until(lambda: len(served.state.tasks) == 1)
    await rest(await served.opened(b"G"))
    served.may_answer.set()
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()) == OK


async def test_half_requests_keep_nobody_out(served: Served) -> None:
    served.waiting.room = 3
    halves = [await served.opened(said) for said in (b"G", POST, b"", b"G", POST)]
    for each in halves[:2]:
        assert await rest(each) == b""
    answered = await served.opened(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert (await rest(answered)).startswith(OK)
    assert len(served.state.connections) <= 3


async def test_a_connection_serves_one_request_after_another(served: Served) -> None:
    reader = await served.opened()
    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            served.writers[0].write(GET)
            assert (await reader.readuntil(b"\r\n\r\nxx")).startswith(OK)


async def test_what_is_sent_about_a_body_is_bounded(served: Served) -> None:
    reader = await served.opened(POST.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked") + b"0\r\n")
    (connection,) = served.state.connections
    assert isinstance(connection, BoundedProtocol)
    served.writers[0].write(b"X: y\r\n" * (MAX_SENT_BYTES // 3))
    await until(lambda: not served.state.connections)
    assert OK not in await rest(reader)
    assert len(connection.headers) < MAX_SENT_BYTES // 4


async def test_requests_ahead_of_answers_are_bounded(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """They may be thousands in what is read at once, and none of them may be kept for later then."""
    reader = await served.opened()
    served.writers[0].write(GET * (1 + MAX_PIPELINED))
    async with asyncio.timeout(PATIENCE):
        for _ in range(1 + MAX_PIPELINED):
            assert (await reader.readuntil(b"\r\n\r\nxx")).startswith(OK)
    served.may_answer.clear()
    (connection,) = served.state.connections
    assert isinstance(connection, BoundedProtocol)
    served.writers[0].write(GET * 2000)
    await until(lambda: not served.state.connections)
    assert len(connection.pipeline) <= MAX_PIPELINED
    assert caplog.text.count("event=connection_cut") == 1


async def test_what_is_no_http_is_told_once_in_a_while(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        reader = await served.opened(b"\x16\x03\x01\r\n\r\n")
        await rest(reader)
    assert caplog.text.count("Invalid HTTP request received") == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (PING * (MAX_SAID_BYTES // len(PING) + 1), "it says too much"),
        (BEGIN + PART * MAX_PARTS, "its message has too many parts"),
    ],
    ids=["pings", "parts"],
)
async def test_who_says_much_on_a_socket_is_cut(
    served: Served, caplog: pytest.LogCaptureFixture, said: bytes, reason: str
) -> None:
    """Nobody has to say anything there; each ping is answered, and empty parts of a message are of no size."""
    reader = await served.opened(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    served.writers[0].write(said)
    await until(lambda: not served.state.connections)
    assert reason in caplog.text


@pytest.mark.parametrize("said", [PART, b"\x83\x80\0\0\0\0", b"\x81\x81\0\0\0\0\xff"], ids=["part", "kind", "utf-8"])
async def test_who_says_no_frames_on_a_socket_has_left(served: Served, said: bytes) -> None:
    """What is told behind that is no mistake of the app's, with a traceback in the log for each."""
    reader = await served.opened(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    served.writers[0].write(said)
    await until(lambda: bool(served.refusals))
    assert [type(each).__mro__[1] for each in served.refusals] == [OSError]


async def test_a_socket_that_is_not_read_is_cut(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.05)
    served.size = 64 * 1024 * 1024
    reader = await served.opened(UPGRADE)
    await until(lambda: not served.state.connections)
    reader._transport.abort()  # type: ignore[attr-defined]
