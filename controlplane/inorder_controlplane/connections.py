"""HTTP connections with limits: their number, the size of a head, the time for a request to arrive, the time for its
answer to be read.

Whoever is waited for makes room for the next one, the oldest first: nobody is kept out by others who send half a
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from inorder.listening import Abortable, places
from inorder.logs import SELDOM, bound, logger

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
MAX_SENT_BYTES: Final = 2 * 1024 * 1024
"""Of a body, with all that is sent about it: the sizes of its parts, and headers behind it."""
MAX_PIPELINED: Final = 8
"""Requests that wait for the answer to the one before; browsers and proxies send none ahead of it."""
MAX_SAID_BYTES: Final = 64 * 1024
"""Of what may come over a WebSocket in ``SAID_SECONDS``: a browser sends a pong now and then."""
SAID_SECONDS: Final = 10.0
MAX_PARTS: Final = 100
"""Of a message that comes over one."""
AHEAD: Final = "it sends requests ahead of answers"
_TOO_LATE: Final = b"408 Request Timeout"
_TOO_LARGE: Final = b"431 Request Header Fields Too Large"

log = logger("inorder.controlplane")
bound("uvicorn.error")  # which has a line for each request that is none of HTTP


class WaitingConnections:
    """The connections of one server that owe a request or the end of a TLS handshake, the oldest first.

    Args:
        connections: all of them whose handshake is done.
    """

    def __init__(self, connections: Sized) -> None:
        self.room = min(MOST, places(SHARE))
        self._connections = connections
        self._handshakes: set[Abortable] = set()
        self._waiting: dict[Abortable, None] = {}

    def begin(self, guest: Abortable) -> None:
        """Note that a connection owes something from now on."""
        self._waiting.pop(guest, None)
        self._waiting[guest] = None

    def end(self, guest: Abortable) -> None:
        """Note that a connection owes nothing, or is gone."""
        self._waiting.pop(guest, None)

    def came(self, guest: Abortable) -> None:
        """Add a connection. Cut one where there are more than there may be."""
        self.begin(guest)
        if len(self._connections) + len(self._handshakes) > self.room:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def handshake_came(self, guest: Abortable) -> None:
        """Add a connection that begins its TLS handshake."""
        self._handshakes.add(guest)
        self.came(guest)

    def handshake_left(self, guest: Abortable) -> None:
        """Remove a connection whose TLS handshake has ended."""
        self._handshakes.discard(guest)
        self.end(guest)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits.

    Args:
        waiting: of the server.
    """

    def __init__(self, waiting: WaitingConnections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._all_waiting = waiting
        self._head_bytes = self._body_bytes = 0
        self._answered: RequestResponseCycle | None = None
        self._awaited: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        # whatever is left unread, however little, is for a time only (with 0 TLS would never write again)
        self.transport.set_write_buffer_limits(high=1, low=0)
        self._all_waiting.came(self)
        self._await("head", HEAD_SECONDS)

    def abort(self) -> None:
        """See Abortable."""
        self._stop_answering()
        self.transport.abort()

    def _stop_answering(self) -> None:
        """Disconnect the answered request, as uvicorn does only to the last that came."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

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
            self._body_bytes = self._body_bytes + len(data) if cycle.more_body else 0
            if self._body_bytes > MAX_SENT_BYTES:  # what is no body is kept as well, or takes time
                self.abort()
            self._await(cycle if cycle.more_body else None, BODY_SECONDS)

    def on_headers_complete(self) -> None:
        """Take a request. uvicorn reads on while others wait, and keeps all of them."""
        if len(self.pipeline) >= MAX_PIPELINED:
            log.warning("event=connection_cut peer=%s reason=%s", self.client, AHEAD, extra=SELDOM)
            self.abort()
            raise ValueError("too many requests")  # ends the parsing of what was read
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        """Allow another request; uvicorn limits the time until its first byte."""
        if self.pipeline:
            self._answered, _ = self.pipeline[-1]
        super().on_response_complete()
        if not (self.transport.is_closing() or self.pipeline):
            self._all_waiting.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._await(None)
        self._take_unread_off()
        self._stop_answering()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit, as the other side leaves its answer unread."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit, as the other side reads again."""
        super().resume_writing()
        self._take_unread_off()

    @property
    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _await(self, what: object, seconds: float = 0.0) -> None:
        """Set the awaited thing (``None``: nothing) and its time limit, instead of the former one."""
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
        status_text = status.decode()
        log.info("event=request_refused peer=%s status=%s", self.client, status_text, extra={"seldom": status_text})
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        self._await(None)
        self.transport.close()

    def _take_unread_off(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class BoundedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket for sockets that only send: a client that says much, or does not read, is cut."""

    _said_bytes = 0
    _said_since = float("-inf")
    _unread: asyncio.TimerHandle | None = None

    async def send(self, message: Any) -> None:
        """Send what the app says. A refusal completes the handshake, too: else uvicorn logs an error for each, and so
        would anybody who comes without a token. Behind our close, which answers a frame that is none, the other side
        is gone, and that is no mistake of the app's."""
        if message["type"] == "websocket.send" and self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def data_received(self, data: bytes) -> None:
        """Take the other side's pongs and its close."""
        if (now := self.loop.time()) >= self._said_since + SAID_SECONDS:
            self._said_since, self._said_bytes = now, 0
        self._said_bytes += len(data)
        if self._said_bytes > MAX_SAID_BYTES:
            self._cut("it says too much")
        else:
            super().data_received(data)

    def handle_cont(self, event: Any) -> None:
        """Take a part of a message; empty parts have no size, but are kept."""
        if len(self.frames) >= MAX_PARTS:
            self._cut("its message has too many parts")
        else:
            super().handle_cont(event)

    def pause_writing(self) -> None:
        """Start the time limit, as the other side does not read."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_SECONDS, self._cut, "it does not read")

    def resume_writing(self) -> None:
        """Stop the time limit, as the other side reads again."""
        super().resume_writing()
        self._take_unread_off()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._take_unread_off()
        super().connection_lost(exc)

    def _cut(self, reason: str) -> None:
        if not self.transport.is_closing():
            log.warning("event=socket_cut peer=%s reason=%s", self.client, reason, extra={"seldom": reason})
        self.transport.abort()

    def _take_unread_off(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
