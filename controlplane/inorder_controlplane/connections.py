"""HTTP connections with bounds: how many there may be, how large a head, how long a request may take to arrive, and how
long its answer may be left unread.

Whoever is waited for makes room for the next one, the oldest first: nobody is kept out by others who send half a
request.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inorder.listening import places
from inorder.logs import logger

SHARE: Final = 0.25
"""Of what this process may have open, for these connections; a worker may have the rest."""
MOST: Final = 1_024
"""Connections, WebSockets among them, however much may be open."""
HEAD_SECONDS: Final = 10.0
"""For the head of a request, from its first byte (of the first one: from the connection) on."""
BODY_SECONDS: Final = 30.0
"""For its body."""
UNREAD_SECONDS: Final = 30.0
"""For which an answer may wait for a reader."""
MAX_HEAD_BYTES: Final = 64 * 1024
_TOO_LATE: Final = b"408 Request Timeout"
_TOO_LARGE: Final = b"431 Request Header Fields Too Large"

log = logger("inorder.controlplane")


class Waiting:
    """The connections of one server that a request is waited for on, the oldest first."""

    def __init__(self) -> None:
        self.room = min(MOST, places(SHARE))
        self._waiting: dict[BoundedProtocol, None] = {}

    def begin(self, connection: BoundedProtocol) -> None:
        """It is its turn to say something."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def end(self, connection: BoundedProtocol) -> None:
        """It has said all, or is gone."""
        self._waiting.pop(connection, None)

    def make_room(self, count: int) -> None:
        """Cut one where there are more connections than there may be."""
        if count > self.room:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, with bounds.

    Args:
        waiting: of the server.
    """

    def __init__(self, waiting: Waiting, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._all_waiting = waiting
        self._head_bytes = 0
        self._awaited: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        # whatever is left unread, however little, is for a time only (with 0 TLS would never write again)
        self.transport.set_write_buffer_limits(high=1, low=0)
        self._all_waiting.begin(self)
        self._all_waiting.make_room(len(self.connections))
        self._await("head", HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or some requests."""
        self._head_bytes += len(data)
        super().data_received(data)
        cycle = self.cycle
        if self.transport.is_closing() or self._is_upgraded:
            self._await(None)
        elif cycle is None or cycle.response_complete:
            self._await("head", HEAD_SECONDS)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(_TOO_LARGE)
        else:
            self._head_bytes = 0
            self._await(cycle if cycle.more_body else None, BODY_SECONDS)

    def on_response_complete(self) -> None:
        """Another request may come; how long that may take, without a byte of it, is uvicorn's."""
        super().on_response_complete()
        if not (self.transport.is_closing() or self.pipeline):
            self._all_waiting.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._await(None)
        self._take_unread_off()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The other side leaves its answer unread."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._take_unread_off()

    @property
    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _await(self, what: object, seconds: float = 0.0) -> None:
        """From now on something is waited for, not longer than that; ``None``: nothing. What was waited for before has
        no more time than it had."""
        if what is None:
            self._all_waiting.end(self)
        if what is self._awaited:
            return
        self._awaited = what
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if what is None else self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self._head_bytes or self._awaited != "head":
            self._refuse(_TOO_LATE)
        else:
            self.transport.abort()

    def _refuse(self, status: bytes) -> None:
        cycle = self.cycle
        log.info("event=request_refused peer=%s status=%s", self.client, status.decode())
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        self._await(None)
        self.transport.close()

    def _take_unread_off(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
