"""Responses read ahead stay visible to programs that look at the connection first, as celery and kombu do with
``connection.can_read()`` and ``connection._sock``."""

from __future__ import annotations

import select
import socket
import weakref
from collections.abc import Callable
from typing import Any

from inorder.redis import _library
from inorder.redis._waker import Waker

CAN_COMBINE = hasattr(select, "epoll")
"""The system has a descriptor that stands for several. Where it has none, who waits for the socket itself sees only
what comes on it; ``can_read()`` is right everywhere."""


class ReadableSocket:
    """A connection's socket that can also be read after a wake-up.

    Args:
        sock: the connection's.
        waker: wakes when there is something that is not in the socket.
    """

    def __init__(self, sock: Any, waker: Waker) -> None:
        self.sock = sock
        self._both = select.epoll()
        for each in (sock, waker):
            self._both.register(each.fileno(), select.EPOLLIN)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def fileno(self) -> int:
        """Return the descriptor to wait for, or -1 after the close."""
        return -1 if self._both.closed else self._both.fileno()

    def end(self) -> Any:
        """Stop and return the socket itself."""
        self._both.close()
        return self.sock

    def close(self) -> None:
        """Close this descriptor and the socket."""
        self.end().close()


class ReadableConnection:
    """A connection whose socket also shows responses read ahead, while a ``PubSub`` uses it.

    Args:
        connection: the library's.
        waker: the ``PubSub``'s.
        can_read: tells whether there is something for the application; takes the seconds to wait at most.
    """

    def __init__(self, connection: Any, waker: Waker, can_read: Callable[..., bool]) -> None:
        self.connection, self._waker = connection, waker
        self._is_over = False
        self.can_read: Callable[..., bool] = connection.can_read
        """Tells whether the connection itself can be read."""
        look = weakref.WeakMethod(can_read)  # a PubSub that nobody holds is to end

        def can_read_for_others(timeout: float | None = 0) -> bool:
            method = look()
            return method is not None and method(timeout)

        connection.can_read = can_read_for_others
        _library.call_when_connected(connection, self._connected)
        self._connected(connection)

    def _connected(self, connection: Any) -> None:
        sock = _library.socket_of(connection)
        if CAN_COMBINE and not self._is_over and isinstance(sock, socket.socket):
            _library.replace_socket(connection, ReadableSocket(sock, self._waker))

    def end(self) -> None:
        """Restore the connection for its pool."""
        self._is_over = True
        self.connection.__dict__.pop("can_read", None)
        sock = _library.socket_of(self.connection)
        if isinstance(sock, ReadableSocket):
            _library.replace_socket(self.connection, sock.end())
