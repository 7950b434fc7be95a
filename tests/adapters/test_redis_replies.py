"""Plain replies without redis-py's parser: read as it reads them, and left to it where they are others."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis._parsers import _AsyncRESP2Parser
from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from inorder_adapters.redis import link as link_module
from inorder_adapters.redis.link import Link
from inorder_adapters.redis.options import parse
from inorder_adapters.redis.replies import Reply, read_replies


def bulk(*values: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(value), value) for value in values)


def message(kind: bytes, *values: bytes) -> bytes:
    return b"%b%d\r\n%b" % (kind, 1 + len(values), bulk(b"message" if len(values) == 2 else b"pmessage", *values))


VALUE = st.binary(max_size=300) | st.sampled_from([b"", b"\r\n", b"$3\r\nabc\r\n", b"*3\r\n$7\r\nmessage\r\n"])
MESSAGE = st.builds(
    lambda kind, values: (message(kind, *values), [b"message" if len(values) == 2 else b"pmessage", *values]),
    st.sampled_from([b"*", b">"]),
    st.lists(VALUE, min_size=2, max_size=3),
)
COUNT = st.integers(0, 2**31).map(lambda number: (b":%d\r\n" % number, number))
GOOD: tuple[bytes, Reply] = (message(b"*", b"c", b"x"), [b"message", b"c", b"x"])


@given(st.lists(MESSAGE | COUNT, max_size=8), st.integers(0, 9))
def test_what_is_written_is_read(script: list[tuple[bytes, Reply]], most: int) -> None:
    data = b"".join(raw for raw, _ in script)
    assert read_replies(data, most) == (
        [reply for _, reply in script[:most]],
        sum(len(raw) for raw, _ in script[:most]),
    )


@given(MESSAGE | COUNT)
def test_every_cut_is_left_for_later(one: tuple[bytes, Reply]) -> None:
    for cut in range(len(one[0])):
        assert read_replies(one[0][:cut], 9) == ([], 0)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"+PONG\r\n", id="simple string"),
        pytest.param(b"-NOPERM no\r\n", id="error"),
        pytest.param(b":-1\r\n", id="negative"),
        pytest.param(b"*3\r\n" + bulk(b"subscribe", b"c") + b":1\r\n", id="confirmation"),
        pytest.param(b">2\r\n" + bulk(b"invalidate", b"c"), id="other push"),
        pytest.param(b"*2\r\n" + bulk(b"pong", b""), id="pong of RESP 2"),
        pytest.param(b"*3\r\n" + bulk(b"message", b"c") + b"*1\r\n" + bulk(b"c"), id="array as the payload"),
        pytest.param(b"*3\r\n" + bulk(b"message", b"c") + b"$-1\r\n", id="no payload"),
        pytest.param(b"*3\r\n" + bulk(b"message", b"c") + b"$1\r\nxyz", id="payload too long"),
    ],
)
def test_what_is_left_to_redis_py(raw: bytes) -> None:
    assert read_replies(raw, 9) == ([], 0)
    assert read_replies(GOOD[0] + raw + GOOD[0], 9) == ([GOOD[1]], len(GOOD[0]))


SCRIPT: list[tuple[bytes, Any]] = [
    GOOD,
    (b"*3\r\n" + bulk(b"subscribe", b"c") + b":1\r\n", [b"subscribe", b"c", 1]),
    (message(b"*", b"c*", b"c", b"\r\n" * 50), [b"pmessage", b"c*", b"c", b"\r\n" * 50]),
    (b":7\r\n", 7),
    (b"+PONG\r\n", b"PONG"),
    (message(b"*", b"big", b"y" * 300_000), [b"message", b"big", b"y" * 300_000]),
    (b":8\r\n", 8),
    (b"-NOPERM no\r\n", "ResponseError"),
]


async def connect(port: int) -> Connection:
    connection = Connection(port=port, protocol=2, driver_info=None, parser_class=_AsyncRESP2Parser)
    await connection.connect()  # type: ignore[no-untyped-call]
    return connection


@pytest.mark.parametrize("seed", range(4))
async def test_all_replies_come_in_their_order_however_they_are_cut(seed: int) -> None:
    """Plain ones and others in one stream; those in front of its end are read, too."""
    chance, served = random.Random(seed), asyncio.Event()
    script = [each for _ in range(20) for each in chance.sample(SCRIPT, 5)] + [GOOD] * 300
    data = b"".join(raw for raw, _ in script)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await served.wait()
        at = 0
        while at < len(data):
            size = chance.choice([1, 7, 100, 10_000, 200_000])
            writer.write(data[at : at + size])
            at += size
            await writer.drain()
        writer.close()

    replies: list[Any] = []
    broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await connect(port)
        served.set()
        link = Link(connection, 60.0, on_reply=replies.append, on_ping=lambda: None, on_broken=broken.set_result)
        error = await asyncio.wait_for(broken, 60)
        link.stop()
        await link.stopped()
    assert "closed" in str(error)
    seen = ["ResponseError" if isinstance(reply, ResponseError) else reply for reply in replies]
    assert seen == [reply for _, reply in script]


async def test_nothing_is_given_after_the_stop() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GOOD[0] * 10)
        await reader.read()
        writer.close()

    replies: list[Any] = []

    def stop_at_the_third(reply: Any) -> None:
        replies.append(reply)
        if len(replies) == 3:
            link.stop()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await connect(port)
        link = Link(connection, 60.0, on_reply=stop_at_the_third, on_ping=lambda: None, on_broken=lambda _: None)
        await link.stopped()
    assert replies == [GOOD[1]] * 3


async def test_a_process_that_stood_still_does_not_take_the_server_for_silent() -> None:
    """What came meanwhile is read after the timers; a server that is silent afterwards, too, is given up."""
    broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        connection = await connect(server.sockets[0].getsockname()[1])
        link = Link(connection, 60.0, on_reply=lambda _: None, on_ping=lambda: None, on_broken=broken.set_result)
        for _ in (1, 2):
            link._check()  # pings at the second time: at the first it had just connected
        link._due -= 31.0 + link._interval  # now is that much later
        link._check()
        assert not broken.done()
        link._check()
        assert "silent" in str(broken.result())
        link.stop()
        await link.stopped()


def test_hiredis_does_not_read_in_front_of_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes all there is into a buffer of its own, and its pushes are no lists; redis-py prefers it where it is."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(link_module, "Connection", lambda **options: made.append(options))
    link_module.make_connection(parse("redis://127.0.0.1", {"protocol": 3}))
    assert made[0]["parser_class"] is _AsyncRESP2Parser
