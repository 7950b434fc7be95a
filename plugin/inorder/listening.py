"""Listening for connections: how many there may be, who goes when there are too many, and the end of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Hashable
from math import inf
from typing import Final, Generic, Protocol, TypeVar

try:
    import resource
except ImportError:  # not on Windows, where nothing but memory bounds open sockets
    resource = None  # type: ignore[assignment]

C = TypeVar("C", bound=Hashable)

NO_PASS_PHRASE: Final = ""
"""For private keys: else OpenSSL asks for one on the terminal, and the event loop waits for that."""
RESERVED: Final = 64
"""Open files that no connection from outside takes: for the store, brokers, other workers and what is loaded late."""
MOST: Final = 65_536
"""Connections, however many files may be open."""
ACCEPT_AGAIN: Final = 1.0
"""Seconds for which nothing is accepted where no more files can be open."""
LONGEST_QUEUE: Final = 1_024
"""Connections that wait to be accepted, however many files may be open."""


def stop_listening(listener: asyncio.Server | TlsListener) -> None:
    """Accept nothing more. What was accepted in this turn of the loop comes up before the listener is closed: Python
    3.11 would lose such a connection, and never close it."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock)
    loop.call_soon(listener.close)


class RenewableTls:
    """A listener's TLS context that can be exchanged; connections that are open keep what they have.

    Attributes:
        context: for the listener, which keeps it.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = self._newest = context
        context.sni_callback = self._choose

    def renew(self, context: ssl.SSLContext) -> None:
        """Take this one for all handshakes from now on: its certificate, its key, and whom it trusts."""
        self._newest = context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called when a client has said hello, also where it names no server."""
        connection.context = self._newest


_NO_ROOM: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Guest(Hashable, Protocol):
    """Somebody who is in, and can be thrown out."""

    def abort(self) -> None:
        """Cut the connection."""


class TlsListener:
    """Accepts connections with TLS, and counts them from accept on. Those that asyncio accepts are unknown to us until
    their handshake is done, and hold their files meanwhile.

    Args:
        context: of TLS.
        seconds: that a handshake may take.
        made: makes the protocol of a connection, which hears of it once its handshake is done.
        came: told of each handshake that begins, and
        left: of its end, before the protocol hears of the connection.

    Attributes:
        sockets: that are listened on.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        seconds: float,
        made: Callable[[], asyncio.Protocol],
        came: Callable[[Guest], None],
        left: Callable[[Guest], None],
    ) -> None:
        self.context, self.seconds, self.made = context, seconds, made
        self.came, self.left = came, left
        self.sockets: list[socket.socket] = []
        self._handshakes: set[_Handshake] = set()

    def __len__(self) -> int:
        """Return how many handshakes are under way."""
        return len(self._handshakes)

    def accept_on(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound, and close it in the end."""
        sock.setblocking(False)
        sock.listen(queue_length())
        self.sockets.append(sock)
        self._watch(sock)

    def close(self) -> None:
        """Accept nothing more; handshakes go on."""
        for sock in self.sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self.sockets.clear()

    async def cut(self) -> None:
        """Accept nothing more, and cut all handshakes."""
        self.close()
        for each in self._handshakes:
            each.abort()
        await asyncio.gather(*(each.task for each in self._handshakes), return_exceptions=True)

    def _watch(self, sock: socket.socket) -> None:
        if sock in self.sockets:
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        """Accept one: others wait for the next turn of the loop, by which one may have been cut for this."""
        try:
            accepted, _ = sock.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "no connection can be accepted", "exception": error})
                loop.remove_reader(sock)
                loop.call_later(ACCEPT_AGAIN, self._watch, sock)
            return  # else it is gone already
        accepted.setblocking(False)
        handshake = _Handshake(self, accepted)
        self._handshakes.add(handshake)
        handshake.task.add_done_callback(lambda _: self._handshakes.discard(handshake))
        self.came(handshake)


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is done."""

    def __init__(self, owner: TlsListener, sock: socket.socket) -> None:
        self._owner, self._is_over = owner, False
        self._sock: socket.socket | None = sock
        self.task = asyncio.create_task(self._run(sock), name="inorder-handshake")
        self.task.add_done_callback(lambda _: self._end())

    def abort(self) -> None:
        """See Guest."""
        if not self._is_over:
            self.task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is done: from here on the connection is another protocol's."""
        self._end()
        protocol = self._owner.made()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    async def _run(self, sock: socket.socket) -> None:
        self._sock = None
        with contextlib.suppress(OSError):  # TLS' own are such errors, too
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, sock, ssl=self._owner.context, ssl_handshake_timeout=self._owner.seconds
            )

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._owner.left(self)
        if self._sock is not None:  # it was cut before it began
            self._sock.close()


def raise_open_files() -> None:
    """Let this process have as many files open as it may allow itself, and has a use for."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * MOST if hard < 0 else min(hard, 2 * MOST)
        if 0 <= soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_files() -> float:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else -1
    return inf if limit < 0 else limit  # RLIM_INFINITY


def queue_length() -> int:
    """Return how many connections may wait to be accepted at each of two listeners: an event loop accepts all of them
    at once, before one can be cut for another."""
    return int(min(LONGEST_QUEUE, max(8, _most_files() // 64)))


def places(share: float) -> int:
    """Return how many connections there may be, of a share (0 to 1) of what this process may have open. Beside them
    there is room for what was accepted, in two queues, while others that were cut for it are still being closed."""
    return int(min(MOST, max(2, (_most_files() - RESERVED - 4 * queue_length()) * share)))


class Doors(Generic[C]):
    """Who is in, where there is a bound. Whoever is not known yet makes room for the next one, the oldest first: so
    nobody is kept out by others who say nothing.

    Args:
        room: how many may be in.
        spare: as many of these places are for those who are needed, and for those who are not known yet.
    """

    def __init__(self, room: int, spare: int = 0) -> None:
        self.room, self._spare = room, min(spare, room // 2)
        self._strangers: dict[C, None] = {}
        self._known: set[C] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def came(self, who: C) -> C | None:
        """Somebody comes in, or is a stranger again. Return who has to go for that, if anybody has."""
        self._known.discard(who)
        self._strangers.pop(who, None)
        self._strangers[who] = None
        if len(self) <= self.room:
            return None
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        return oldest

    def knows(self, who: C, *, is_needed: bool = False) -> bool:
        """Somebody is known now. Return whether there is a place."""
        if who not in self._known:
            if not is_needed and len(self._known) >= self.room - self._spare:
                return False
            self._strangers.pop(who, None)
            self._known.add(who)
        return True

    def left(self, who: C) -> None:
        """Somebody is gone."""
        self._strangers.pop(who, None)
        self._known.discard(who)
