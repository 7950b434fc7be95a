"""Wakes whoever waits for a socket, from any thread."""

from __future__ import annotations

import select
import socket
import threading
from typing import Any


class Doorbell:
    """Wakes a thread that waits for a socket, too."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        self._lock = threading.Lock()
        self._is_rung = False
        self._is_closed = False

    def ring(self) -> None:
        """Wake whoever waits, or the next one who will; from any thread."""
        with self._lock:
            if not self._is_rung and not self._is_closed:
                self._is_rung = True
                self._there.send(b"\0")

    def fileno(self) -> int:
        """Return the descriptor that can be read while it is rung."""
        return self._here.fileno()

    @property
    def is_rung(self) -> bool:
        """It was rung, and nobody has answered yet."""
        return self._is_rung

    def answer(self) -> bool:
        """Tell whether it was rung since the last time."""
        with self._lock:
            was_rung, self._is_rung = self._is_rung, False
            if was_rung and not self._is_closed:
                self._here.recv(16)
            return was_rung

    def wait(self, sock: Any, timeout: float | None) -> None:
        """Wait until it is rung, the socket can be read, or ``timeout`` seconds have passed."""
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
        """Let go of the sockets."""
        with self._lock:
            self._is_closed = True
        self._here.close()
        self._there.close()
