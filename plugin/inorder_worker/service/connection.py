"""One connection of a client, or of another worker: frames in, answers out, and limits both ways."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from inorder.errors import ProtocolError
from inorder.logs import SELDOM, logger
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    ClientFrame,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    Ping,
    Pong,
    Positions,
    Welcome,
    decode_client_frame,
    encode_frame,
    known_to,
)
from inorder_worker.sequencer.link_wire import (
    MAX_HELLO_BYTES,
    MAX_LINK_FRAME_BYTES,
    LinkHello,
    SenderFrame,
    decode_hello,
    decode_sender_frame,
)
from inorder_worker.service.gate import NOBODY
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.slow import UnfinishedFrames
from inorder_worker.service.work import Session

FRAME_COST: Final = 256
"""Bytes that a frame counts for, beside its own, where memory is bounded."""

SMALL_FRAME: Final = 16 * 1024
"""Bytes of a frame that is read of somebody of whom nothing waits, while too much waits of others: larger ones come
when that is over, so that so many connections do not bring so many of ``max_frame_bytes``."""

FEW_BYTES: Final = 64
"""Of a read whose first pings are answered at once: who is not answered asks about six times before it goes."""

log = logger("inorder.worker")

_LEVELS: Final = {
    "stopping": logging.DEBUG,  # these two hit everybody at once
    "store": logging.DEBUG,
    "moved": logging.INFO,  # a stage has another owner now; who asked goes there
    "fenced": logging.INFO,
}
"""By code, how the end of a connection is logged; any other is a warning."""


class ConnectionOwner(Protocol):
    """The server's side of a connection. Synchronous."""

    settings: WorkerSettings
    is_pressed: bool
    unfinished: UnfinishedFrames

    def opened(self, connection: Connection) -> None:
        """The transport is there."""

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """A client's hello arrived. Answers it, or fails the connection."""

    def link_greeted(self, connection: Connection, hello: LinkHello) -> None:
        """Another worker's hello arrived. Answers it, or fails the connection."""

    def asked(self, connection: Connection, frame: ClientFrame | SenderFrame, size: int) -> None:
        """A frame after the hello arrived. Raises ProtocolError."""

    def left_unread(self, connection: Connection) -> None:
        """The client does not take what it is sent, and is cut."""

    def closed(self, connection: Connection) -> None:
        """The transport is gone."""


class Connection(asyncio.Protocol):
    """A connection, from accept to close.

    Attributes:
        session: (client id, incarnation) after a client's hello.
        link: another worker's hello, after it; ``is_link``: there was one.
        is_current: frames of this connection are taken; false once it is failing, closed or superseded.
        welcome: the answer to the hello, once it is on its way; ``is_welcome``: it has left, others may follow.
        opened: (stage, epoch) of the stages here that were told of the session.
        version: of the protocol, that both sides speak.
        last_reception: when something arrived last (s, of the event loop).
        is_told: the session has been sent all of its heads on this connection (R17).
        passed: what it came in with, after the hello.
        permitted: topics, by id, that were found to be ones that it may publish to.
        audits: question -> entry of the audit log that waits for its answer.
        positions: what it was told last of how far the journals are.
    """

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._settings = owner.settings
        self._splitter = FrameSplitter(min(MAX_HELLO_BYTES, owner.settings.max_frame_bytes))
        self._transport: Any = None  # asyncio.Transport, or uvloop's that looks like it
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._request_bytes = 0
        self._is_reading = True
        self._is_writable = True
        self._is_stopped = False
        self._is_unfinished = False
        self._decode: Callable[[bytes], ClientFrame | SenderFrame] = decode_client_frame
        self.session: Session | None = None
        self.link: LinkHello | None = None
        self.is_link = False
        self.is_current = True
        self.welcome: Welcome | None = None
        self.is_welcome = False
        self.is_told = False
        self.opened: set[tuple[int, int]] = set()
        self.last_reception = 0.0
        self.peer = "?"
        self.passed = NOBODY
        self.permitted: set[int] = set()
        self.audits: dict[int, int] = {}
        self.positions = Positions([])
        self._is_waiting = False  # a frame is looked at
        self._last_read = 0  # bytes
        self.version = PROTOCOL_VERSIONS[1]

    # -- asyncio.Protocol --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the hello."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        _watch(transport.get_extra_info("socket"))
        limit = self._settings.max_write_bytes
        self._transport.set_write_buffer_limits(high=max(1, limit // 4), low=max(0, limit // 16))
        self._start_timer(self._settings.hello_timeout, self._no_hello)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take the whole frames of one read, as many as there is room for."""
        self.last_reception = asyncio.get_running_loop().time()
        if self.is_current:
            self._last_read = len(data)
            self._splitter.add(data)
            self._take_all()

    def connection_lost(self, error: Exception | None) -> None:
        """The transport is closed, by either side."""
        self._stop_timer()
        self._owner.unfinished.note(self, 0)
        self._owner.closed(self)
        self.is_current = False

    def pause_writing(self) -> None:
        """The client does not read: take no more from it, and give it some time."""
        self._is_writable = False
        self._adjust_reading()
        if self.is_current:
            self._start_timer(self._settings.write_timeout, self.cut_unread)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_writable = True
        if self.is_current:
            self._stop_timer()
            self._adjust_reading()

    # -- for the server ----------------------------------------------------------------------------------------

    @property
    def is_greeted(self) -> bool:
        """The hello was accepted."""
        return self.session is not None or self.link is not None

    def is_silent(self, seconds: float) -> bool:
        """Tell whether nothing arrived for so long, although it was read."""
        return self._is_reading and asyncio.get_running_loop().time() >= self.last_reception + seconds

    @property
    def is_writable(self) -> bool:
        """False while the client leaves too much unread."""
        return self._is_writable

    @property
    def unread_bytes(self) -> int:
        """The sent bytes that have not left."""
        return int(self._transport.get_write_buffer_size())

    def send(self, frames: list[Frame]) -> None:
        """Write frames at once. A client that leaves too much unread is disconnected."""
        if self._transport.is_closing():  # uvloop raises, asyncio is silent
            return
        if self.version < PROTOCOL_VERSIONS[1]:
            frames = known_to(self.version, frames)
        parts, size, most = list[bytes](), 0, self._settings.max_write_bytes
        for frame in frames:
            parts.append(encode_frame(frame))
            size += len(parts[-1])
            if size > most:  # of what is not taken no more is made than that
                if not self._write(parts):
                    return
                parts, size = [], 0
        self._write(parts)

    def _write(self, parts: list[bytes]) -> bool:
        """Write them; tell whether the client may be sent more."""
        self._transport.write(b"".join(parts))
        if self.unread_bytes > self._settings.max_write_bytes:
            self.cut_unread()
            return False
        return True

    def fail(self, code: str, message: str, facts: list[int] | None = None) -> None:
        """Say why, then close; the transport is cut if the client does not take it in time."""
        if not self.is_current:
            return
        self.is_current = False
        self._splitter.clear()
        level = _LEVELS.get(code, logging.WARNING)
        log.log(
            level, "event=connection_ended peer=%s client=%s code=%s reason=%s", self.peer, self.name, code, message,
            extra={"seldom": code},
        )  # fmt: skip
        if not self._transport.is_closing():
            self._transport.write(encode_frame(Failure(code, message, facts or [])))
        self.close()

    def wait(self) -> None:
        """A frame is looked at: what comes behind it waits, until ``go_on``."""
        self._is_waiting = True
        self._adjust_reading()

    def go_on(self) -> None:
        """The frame was taken, unless this connection is failing."""
        self._is_waiting = False
        self._take_all()

    def close(self) -> None:
        """Close after what was written has left, within ``write_timeout``."""
        self.is_current = False
        self._transport.close()
        self._start_timer(self._settings.write_timeout, self._transport.abort)

    def abort(self) -> None:
        """Cut the transport."""
        self.is_current = False
        self._transport.abort()

    def welcomed(self, session: Session, version: int) -> None:
        """A client's hello was accepted."""
        self.session, self.version = session, version
        self._splitter.max_bytes = self._settings.max_frame_bytes
        self._stop_timer()

    def linked(self, hello: LinkHello) -> None:
        """Another worker's hello was accepted."""
        self.link = hello
        self._decode = decode_sender_frame
        self._splitter.max_bytes = MAX_LINK_FRAME_BYTES
        self._stop_timer()

    def settled(self, count: int, size: int) -> None:
        """See host.Source."""
        self._requests -= count
        self._request_bytes -= size
        self._adjust_reading()

    def pressure_changed(self) -> None:
        """The server's ``is_pressed`` changed."""
        self._adjust_reading()

    def stop_reading(self) -> None:
        """Take nothing more; what was taken is still answered."""
        self._is_stopped = True
        self._adjust_reading()

    @property
    def name(self) -> str:
        """The client's id, empty before its hello."""
        return self.session[0] if self.session else f"worker {self.link.worker}" if self.link else ""

    @property
    def owner(self) -> str:
        """The name of the token that opened the connection, empty without a token of the store."""
        return self.passed.owner

    # -- inside ------------------------------------------------------------------------------------------------

    def _take_all(self) -> None:
        """Take what has come, up to where there is no room for more answers. A read of a few KB may hold thousands of
        questions, each of which costs as much as its answer."""
        try:
            bodies = self._splitter.bodies()
            while self.is_current and self._may_take(1) and (body := next(bodies, None)) is not None:
                self._take(body)
            bodies.close()
        except ProtocolError as error:
            code = "too_large" if "over the limit" in str(error) else "protocol"
            self.fail(code, str(error))
            return
        self._adjust_reading()
        rest = len(self._splitter) if self.link is None else 0
        if (rest or self._is_unfinished) and self._is_reading:  # else it is we who let whole frames wait
            self._is_unfinished = rest > 0
            self._owner.unfinished.note(self, rest)

    def _take(self, body: bytes) -> None:
        if not self.is_greeted:
            self._greet(body)
            return
        frame = self._decode(body)
        if isinstance(frame, Failure):
            self.close()
            return
        if type(frame) is Ping and self._pong(frame):
            return
        size = len(body) + FRAME_COST
        self._owner.asked(self, frame, size)
        self._requests += 1
        self._request_bytes += size

    def _pong(self, ping: Ping) -> bool:
        """Answer a client at once that has all its answers; tell whether that was done. Thousands of idle clients ask
        once a second; and a store that stands still makes none of them give the worker up. Where it is the worker that
        stood still, several questions of each have come: it would never catch up if these cost more than one."""
        if self._requests or not self.is_welcome or self._last_read > FEW_BYTES:
            return False
        self.send([Pong(ping.nonce)])
        return True

    def _greet(self, body: bytes) -> None:
        hello = decode_hello(body)
        if isinstance(hello, Hello):
            self._owner.greeted(self, hello)
        elif isinstance(hello, LinkHello):
            self.is_link = True
            self._owner.link_greeted(self, hello)
        else:
            self.close()

    def _may_take(self, share: int) -> bool:
        """Tell whether there is room for answers, in this part of all of it."""
        has_room = (
            self._requests <= self._settings.max_requests // share
            and self._request_bytes <= 2 * self._settings.max_frame_bytes // share
        )
        # by others alone nobody is kept from a turn for a frame that is not large, and no worker for any
        is_pressed = self._owner.is_pressed and (
            self._requests > 0 or (not self.is_link and self._splitter.announced > SMALL_FRAME)
        )
        return has_room and self._is_writable and not (self._is_stopped or is_pressed or self._is_waiting)

    def _adjust_reading(self) -> None:
        """Read while there is room for answers: halved limits to go on, so that it does not flutter."""
        wanted = self._may_take(1 if self._is_reading else 2)
        if wanted == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._take_again)
        else:
            self._transport.pause_reading()

    def _take_again(self) -> None:
        """Put the rest of the last read in front of the next one."""
        if self.is_current and self._is_reading:
            self._take_all()

    def _no_hello(self) -> None:
        self.fail("protocol", f"no hello within {self._settings.hello_timeout:g} s")

    def cut_unread(self) -> None:
        """Cut a client that leaves too much unread."""
        if self._transport.is_closing():
            return
        log.warning(
            "event=slow_client peer=%s client=%s unread_bytes=%d action=disconnected",
            self.peer, self.name, self.unread_bytes, extra=SELDOM,
        )  # fmt: skip
        self._owner.left_unread(self)
        self._transport.abort()

    def _start_timer(self, seconds: float, action: Any) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def common_version(hello: Hello | LinkHello, versions: tuple[int, int]) -> int | None:
    """Return the highest protocol version that both sides speak."""
    version = min(hello.highest_version, versions[1])
    return version if version >= max(hello.lowest_version, versions[0]) else None


def _watch(sock: Any) -> None:
    """Let the system notice a peer that is gone without a word: about 11 s."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
