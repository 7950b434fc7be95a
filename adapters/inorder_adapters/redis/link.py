"""One connection to a Redis server: it sends commands in batches, reads replies and notices silence.

It is built on redis-py's ``Connection``, below its ``Redis`` and ``PubSub`` classes: those send a command and wait
for its reply, and try again when the reply is lost, so one call could be executed twice. Here many commands are
on their way at once, a lost reply is a lost connection, and nothing is ever repeated.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from redis._parsers import _AsyncRESP2Parser
from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from inorder.errors import LinkError
from inorder_adapters.redis.options import Target
from inorder_adapters.redis.replies import read_replies

_READ_BATCH = 128

logger = logging.getLogger(__name__)

PING = b"*1\r\n$4\r\nPING\r\n"


def pack(*arguments: bytes) -> bytes:
    """Pack a command as RESP 2 and 3 require."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


def make_connection(target: Target) -> Connection:
    """Make an unconnected connection that never retries, reads without a time limit and returns bytes."""
    options = target.options
    common: dict[str, Any] = {
        "host": target.address.host,
        "port": target.address.port,
        "username": options.username or None,
        "password": options.password or None,
        "protocol": options.protocol,
        "socket_timeout": None,
        "socket_connect_timeout": options.connect_timeout,
        "retry": None,
        "retry_on_timeout": False,
        "health_check_interval": 0,
        "decode_responses": False,
        # It takes from the stream no more than a reply, as hiredis does not. redis-py changes it to RESP 3's by itself.
        "parser_class": _AsyncRESP2Parser,
    }
    if not options.tls:
        return Connection(**common)
    return SSLConnection(
        ssl_ca_certs=options.tls_ca,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        ssl_cert_reqs="none" if options.tls_insecure else "required",
        ssl_check_hostname=not options.tls_insecure,
        **common,
    )


async def log_in(connection: Connection, client_name: str) -> None:
    """Connect, check that commands are allowed, and name the connection. Raises RedisError, OSError."""
    await connection.connect()  # type: ignore[no-untyped-call]
    try:
        # Without a password nothing was asked yet: a server that wants one says so only now.
        await _call(connection, b"PING")
        if client_name.isascii() and client_name.isprintable() and " " not in client_name:
            await _call(connection, b"CLIENT", b"SETNAME", client_name.encode())
    except BaseException:
        await connection.disconnect(nowait=True)
        raise


async def _call(connection: Connection, *arguments: bytes) -> None:
    await connection.send_packed_command(pack(*arguments), check_health=False)
    with suppress(NoPermissionError):
        await connection.read_response()


class Link:
    """A logged-in connection with a task for reading and a task for writing.

    Args:
        connection: logged in.
        interval: of the health check, in seconds.
        on_reply: called with each reply, or with the ``ResponseError`` that stands for it.
        on_ping: called when a PING was put among the commands, as it will have a reply.
        on_broken: called once when the connection breaks.
    """

    def __init__(
        self,
        connection: Connection,
        interval: float,
        *,
        on_reply: Callable[[Any], None],
        on_ping: Callable[[], None],
        on_broken: Callable[[Exception], None],
    ) -> None:
        self._connection = connection
        self._interval = interval
        self._on_reply = on_reply
        self._on_ping = on_ping
        self._on_broken = on_broken
        self._commands: list[bytes] = []
        self._wake = asyncio.Event()
        self._has_heard = True
        self._is_pinged = False
        self._is_stopped = False
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + interval
        self._timer = self._loop.call_at(self._due, self._check)
        self._tasks = (
            asyncio.create_task(self._guarded(self._read), name="inorder-redis-read"),
            asyncio.create_task(self._guarded(self._write), name="inorder-redis-write"),
        )

    def send(self, command: bytes) -> None:
        """Send a packed command together with the others of this turn of the loop."""
        self._commands.append(command)
        self._wake.set()

    def stop(self) -> None:
        """Stop at once and call nothing any more. The reading task closes the connection."""
        self._is_stopped = True
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def stopped(self) -> None:
        """Wait until the connection is closed, after :meth:`stop`."""
        await asyncio.wait(self._tasks)
        with suppress(RedisError, OSError):
            await self._connection.disconnect(nowait=True)
        await asyncio.sleep(0)  # the transport closes its socket in the next turn

    async def _read(self) -> None:
        """Read plain replies from the stream, a batch in each turn of the loop, and others through redis-py."""
        reader = self._connection._reader
        assert reader is not None  # it is logged in
        while True:
            data = await reader.read(sys.maxsize)  # all that is there
            self._has_heard = True
            replies, at = read_replies(data, _READ_BATCH)
            self._give(replies)
            if reader.at_eof():
                await self._read_to_the_end(data[at:])
            if at == len(data):
                continue
            reader.feed_data(data[at:])  # in front of what comes next: nothing was awaited in between
            if not replies:
                self._give([await self._read_one()])
            await asyncio.sleep(0)  # what is buffered already is read without a pause: let others have a turn

    async def _read_to_the_end(self, rest: bytes) -> None:
        """Read the remaining bytes of an ended stream, which takes none back. Raises RedisError at the end."""
        self._connection._reader = asyncio.StreamReader()
        self._connection._reader.feed_data(rest)
        self._connection._reader.feed_eof()
        self._connection._parser.on_connect(self._connection)  # type: ignore[no-untyped-call]
        while True:
            self._give([await self._read_one()])

    async def _read_one(self) -> Any:
        try:
            reply = await self._connection.read_response(disable_decoding=True, push_request=True)
        except ResponseError as error:
            reply = error
        self._has_heard = True
        return reply

    def _give(self, replies: list[Any]) -> None:
        for reply in replies:
            if self._is_stopped:
                return
            self._on_reply(reply)

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            commands, self._commands = self._commands, []
            await self._connection.send_packed_command(b"".join(commands), check_health=False)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except (RedisError, OSError) as error:
            self._break(error)
        except Exception as error:
            logger.exception("a Redis connection failed in an unexpected way")
            self._break(error)

    def _check(self) -> None:
        """Ping a silent server, or give up a server that has been silent since the last ping, unless this process stood
        still and has not read yet."""
        now = self._loop.time()
        has_stood = now > self._due + self._interval / 2
        self._due = now + self._interval
        if self._is_pinged and not self._has_heard and not has_stood:
            self._break(LinkError(f"the server was silent for {2 * self._interval:g} s"))
            return
        if not self._has_heard:
            self._on_ping()
            self.send(PING)
        self._is_pinged = not self._has_heard
        self._has_heard = False
        self._timer = self._loop.call_at(self._due, self._check)

    def _break(self, error: Exception) -> None:
        self._timer.cancel()
        self._on_broken(error)
