"""Listening for connections: how many there may be, who goes when there are too many, and the end of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

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


def stop_listening(listener: asyncio.Server) -> None:
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


def raise_open_files() -> None:
    """Let this process have as many files open as it may allow itself, and has a use for."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * MOST if hard < 0 else min(hard, 2 * MOST)
        if 0 <= soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def places(share: float) -> int:
    """Return how many connections there may be, of a share (0 to 1) of what this process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else MOST
    if limit < 0:  # RLIM_INFINITY
        return MOST
    return min(MOST, max(2, int((limit - RESERVED) * share)))


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
