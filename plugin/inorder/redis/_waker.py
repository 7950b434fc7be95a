"""A wakeup, from any thread, for a thread that waits for a socket."""

from __future__ import annotations

import select
import socket
import threading
from typing import Any


class Waker:
    """A wakeup for a thread that waits for a socket."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        self._lock = threading.Lock()
        self._is_set = False
        self._is_closed = False

    def wake(self) -> None:
        """Wake the waiting thread, or the next one that waits; from any thread."""
        with self._lock:
            if not self._is_set and not self._is_closed:
                self._is_set = True
                self._there.send(b"\0")

    def fileno(self) -> int:
        """Return a descriptor that can be read while the waker is set."""
        return self._here.fileno()

    @property
    def is_set(self) -> bool:
        """Tell whether a wake-up has not been cleared yet."""
        return self._is_set

    def clear(self) -> bool:
        """Clear the wake-up; tell whether there was one since the last time."""
        with self._lock:
            was_set, self._is_set = self._is_set, False
            if was_set and not self._is_closed:
                self._here.recv(16)
            return was_set

    def wait(self, sock: Any, timeout: float | None) -> None:
        """Wait until the waker is set, the socket can be read, or ``timeout`` seconds have passed."""
        files = [self.fileno()]
        if sock is not None:
            files.append(sock.fileno())
        if min(files) < 0:
            return  # closed meanwhile: the caller finds out
        if hasattr(select, "poll"):
            poll = select.poll()
            for each in files:
                poll.register(each, select.POLLIN)
            poll.poll(None if timeout is None else max(0, timeout) * 1000)
        else:
            select.select(files, [], [], timeout)

    def close(self) -> None:
        """Close the own sockets."""
        with self._lock:
            self._is_closed = True
        self._here.close()
        self._there.close()
