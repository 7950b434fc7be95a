"""Listeners with a bounded number of connections: which connections go when there are too many."""

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
AT_ONCE: Final = 32
"""Connections accepted in one turn of the event loop at most; there is room for so many in any case."""
LONGEST_QUEUE: Final = 4_096
"""Connections that wait to be accepted, however many files may be open. Whom the system has no place for in the queue
waits for seconds, and is cut off after some."""


def stop_listening(listener: asyncio.Server | Listener) -> None:
    """Stop accepting connections. What was accepted in this turn of the loop comes up before the listener is closed:
    Python 3.11 would lose such a connection, and never close it."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock)
    loop.call_soon(listener.close)


class RenewableTls:
    """A listener's TLS context that can be exchanged; open connections keep theirs.

    Attributes:
        context: for the listener, which keeps it.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = self._newest = context
        context.sni_callback = self._choose

    def renew(self, context: ssl.SSLContext) -> None:
        """Use this context for all later handshakes: its certificate, key and trusted authorities."""
        self._newest = context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Give a new handshake the present context; called for every client's hello, also without a server name."""
        connection.context = self._newest


_NO_ROOM: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Abortable(Hashable, Protocol):
    """A connection that can be cut to make room."""

    def abort(self) -> None:
        """Cut the connection."""


class Listener:
    """Accepts connections, and counts them from the accept on. With TLS those that an event loop accepts by itself are
    unknown to us until their handshake is done, and hold their files meanwhile; and uvloop accepts one in a turn, so
    that thousands who come back together wait for as many turns.

    Args:
        context: of TLS; ``None``: without.
        seconds: that a handshake may take.
        made: makes the protocol of a connection, which hears of it once its handshake is done.
        came: told of each handshake that begins, and
        left: of its end, before the protocol hears of the connection.

    Attributes:
        sockets: that are listened on.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        seconds: float,
        made: Callable[[], asyncio.Protocol],
        came: Callable[[Abortable], None],
        left: Callable[[Abortable], None],
    ) -> None:
        self.context, self.seconds, self.made = context, seconds, made
        self.came, self.left = came, left
        self.sockets: list[socket.socket] = []
        self._handshakes: set[_Handshake] = set()

    def __len__(self) -> int:
        """Return the number of open handshakes."""
        return len(self._handshakes)

    def accept_on(self, sock: socket.socket) -> None:
        """Listen on a bound socket, and close it at the end."""
        sock.setblocking(False)
        sock.listen(queue_length())
        self.sockets.append(sock)
        self._watch(sock)

    def close(self) -> None:
        """Stop accepting; open handshakes go on."""
        for sock in self.sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self.sockets.clear()

    async def cut(self) -> None:
        """Stop accepting, and cut all open handshakes."""
        self.close()
        for each in self._handshakes:
            each.abort()
        await asyncio.gather(*(each.task for each in self._handshakes), return_exceptions=True)

    def _watch(self, sock: socket.socket) -> None:
        if sock in self.sockets:
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        """Accept waiting connections, a bounded number in one turn of the loop: others must be cut for them."""
        for _ in range(AT_ONCE):
            try:
                accepted, _ = sock.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    loop = asyncio.get_running_loop()
                    loop.call_exception_handler({"message": "no connection can be accepted", "exception": error})
                    loop.remove_reader(sock)
                    loop.call_later(ACCEPT_AGAIN, self._watch, sock)
                return  # else none is left
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        handshake = _Handshake(self, accepted)
        self._handshakes.add(handshake)
        handshake.task.add_done_callback(lambda _: self._handshakes.discard(handshake))
        self.came(handshake)


class _Handshake(asyncio.Protocol):
    """A connection during its handshake; without TLS that is one turn of the loop."""

    def __init__(self, owner: Listener, sock: socket.socket) -> None:
        self._owner, self._is_over = owner, False
        self._sock: socket.socket | None = sock
        self.task = asyncio.create_task(self._run(sock), name="inorder-handshake")
        self.task.add_done_callback(lambda _: self._end())

    def abort(self) -> None:
        """See Abortable."""
        if not self._is_over:
            self.task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand a connection over to its own protocol after the handshake."""
        self._end()
        protocol = self._owner.made()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    async def _run(self, sock: socket.socket) -> None:
        self._sock = None
        with contextlib.suppress(OSError):  # TLS' own are such errors, too
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                sock,
                ssl=self._owner.context,
                ssl_handshake_timeout=None if self._owner.context is None else self._owner.seconds,
            )

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._owner.left(self)
        if self._sock is not None:  # it was cut before it began
            self._sock.close()


def raise_open_files() -> None:
    """Raise this process's limit of open files to the useful maximum."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * MOST if hard < 0 else min(hard, 2 * MOST)
        if 0 <= soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_files() -> float:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else -1
    return inf if limit < 0 else limit  # RLIM_INFINITY


def queue_length() -> int:
    """Return how many connections may wait to be accepted at each of two listeners."""
    return int(min(LONGEST_QUEUE, max(8, _most_files() // 32)))


def places(share: float) -> int:
    """Return how many connections a share (0 to 1) of this process's open files allows. Beside them there is room for
    what was accepted, in two queues, while others that were cut for it are still being closed."""
    return int(min(MOST, max(2, (_most_files() - RESERVED - 4 * queue_length()) * share)))


class BoundedConnections(Generic[C]):
    """A bounded set of connections: unknown ones make room for newer ones, the oldest first, so that silent connections
    keep nobody out.

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

    def add(self, who: C) -> C | None:
        """Add an unknown connection, or make a known one unknown again. Return the connection to cut for it."""
        self._known.discard(who)
        self._strangers.pop(who, None)
        self._strangers[who] = None
        if len(self) <= self.room:
            return None
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        return oldest

    def mark_known(self, who: C, *, is_needed: bool = False) -> bool:
        """Mark a connection as known. Return whether there is a place."""
        if who not in self._known:
            if not is_needed and len(self._known) >= self.room - self._spare:
                return False
            self._strangers.pop(who, None)
            self._known.add(who)
        return True

    def remove(self, who: C) -> None:
        """Remove a connection."""
        self._strangers.pop(who, None)
        self._known.discard(who)
