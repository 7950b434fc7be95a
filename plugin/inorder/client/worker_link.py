"""The connection to one worker: hello, frames both ways, heartbeats, reconnection with back-off."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from inorder.backoff import pause
from inorder.client import clock
from inorder.client.options import ClientTimes
from inorder.errors import (
    Forbidden,
    InorderError,
    LinkError,
    PeerError,
    ProtocolError,
    Refused,
    Replaced,
    TimedOut,
    Unauthorized,
    VersionMismatch,
    WorkerUnreachable,
)
from inorder.logs import logger
from inorder.patience import Patience
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    Opened,
    Ping,
    Pong,
    Welcome,
    WorkerFrame,
    decode_worker_frame,
    encode_frame,
    known_to,
)
from inorder.settings.texts import address_of

_log = logger("inorder.client")

FATAL = (Unauthorized, Forbidden, VersionMismatch, Replaced)
"""Failures that connecting again does not mend."""
HALVES = 6
"""Half heartbeats for which a worker that was asked to answer may be silent before it is given up."""


class LinkEvents(Protocol):
    """The reports of a worker link, on the event loop's thread."""

    def on_link_connected(self, link: WorkerLink, welcome: Welcome) -> None:
        """Note that a connection is up (again)."""

    def on_link_frame(self, link: WorkerLink, frame: WorkerFrame) -> None:
        """Take a frame that arrived."""

    def on_link_silent(self, link: WorkerLink) -> None:
        """Note that the connected worker has stopped answering, or answers again, as ``is_silent`` says."""

    def on_link_lost(self, link: WorkerLink, error: Exception) -> None:
        """Note that the connection broke; the link is connecting again."""

    def on_link_failed(self, link: WorkerLink, error: InorderError) -> None:
        """Note that the link has given up for good (``FATAL``)."""


class _Connection(asyncio.Protocol):
    """One TCP connection. Frames before the welcome resolve ``welcomed``; later ones go to ``on_frame``, those that
    come together with the welcome only after :meth:`begin`."""

    def __init__(self, on_frame: Callable[[WorkerFrame], None], on_lost: Callable[[Exception], None]) -> None:
        loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter()
        self._on_frame, self._on_lost = on_frame, on_lost
        self.welcomed: asyncio.Future[Welcome] = loop.create_future()
        self.transport: asyncio.Transport | None = None
        self.last_reception = loop.time()
        self._loop = loop
        self._failure: Exception | None = None
        self._is_reported = False
        self._early: list[WorkerFrame] | None = []
        self._version = PROTOCOL_VERSIONS[1]
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but name
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.last_reception = self._loop.time()
        try:
            for body in self._splitter.feed(data):
                self._take(decode_worker_frame(body))
        except ProtocolError as error:
            self.fail(error)

    def _take(self, frame: WorkerFrame) -> None:
        if isinstance(frame, Failure):
            self.fail(error_of(frame))
        elif isinstance(frame, Welcome) and not self.welcomed.done():
            self._welcome(frame)
        elif isinstance(frame, Ping):
            self.send(Pong(frame.nonce))
        elif self._early is not None:
            self._early.append(frame)
        else:
            self._on_frame(frame)

    def _welcome(self, frame: Welcome) -> None:
        lowest, highest = PROTOCOL_VERSIONS
        if lowest <= frame.version <= highest:
            self._version = frame.version
            self.welcomed.set_result(frame)
        else:
            self.fail(VersionMismatch(PROTOCOL_VERSIONS, (frame.version, frame.version)))

    def begin(self) -> None:
        """Hand over the frames since the welcome, and all that follow."""
        early, self._early = self._early or [], None
        for frame in early if self._failure is None else ():
            self._on_frame(frame)

    def send(self, *frames: Frame) -> None:
        if self._version < PROTOCOL_VERSIONS[1]:
            frames = tuple(known_to(self._version, frames))
        if self.transport is not None and frames and not self.transport.is_closing():
            self.transport.write(b"".join(map(encode_frame, frames)))

    def fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        is_welcome = self.welcomed.done()
        ended = LinkError(f"the connection ended: {exc or 'closed by the worker'}") if is_welcome else EOFError()
        reason = self._failure = self._failure or ended
        self.ended.set()
        if not is_welcome:
            self.welcomed.set_exception(reason)
        elif not self._is_reported:
            self._is_reported = True
            self._on_lost(reason)

    def check_alive(self) -> None:
        """Raise the error of a connection that has ended."""
        if self.ended.is_set() and self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close without a report."""
        self._is_reported = True
        self.welcomed.cancel()
        if self.transport is not None:
            self.transport.close()

    async def wait_closed(self, timeout: float) -> None:
        """Wait until everything written has left, at most ``timeout`` seconds; then cut the connection."""
        try:
            async with asyncio.timeout(timeout):
                await self.ended.wait()
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()


def error_of(failure: Failure) -> PeerError:
    """Return the error that a worker's Failure frame stands for."""
    if failure.code == "unauthorized":
        return Unauthorized(f"the worker refused the connection: {failure.message}", peer="worker")
    if failure.code == "forbidden":
        return Forbidden(f"the worker refused: {failure.message}")
    if failure.code == "replaced":
        return Replaced(failure.message)
    if failure.code == "version" and len(failure.facts) == 2:
        return VersionMismatch(PROTOCOL_VERSIONS, (failure.facts[0], failure.facts[1]))
    return ProtocolError(failure.message) if failure.code == "protocol" else Refused(failure.message)


def tell_unreachable(address: str, error: LinkError, told: str) -> str:
    """Log and return the reason why a worker is not reached. One that is there and does not take us in has something to
    say, once; ``told``: what it was the last time."""
    is_news = isinstance(error.__cause__, PeerError) and str(error) != told
    level = logging.WARNING if is_news else logging.INFO
    _log.log(level, "event=worker_unreachable address=%s error=%s", address, error)
    return str(error)


class WorkerLink:
    """Keeps one connection to one worker.

    Args:
        address: ``host:port`` where it is reached. Raises InvalidOption.
        hello: returns what to introduce ourselves with.
        events: who is told.
        tls: ``None`` for plain TCP.

    Attributes:
        address: as given.
        advertised: where other clients reach the same worker, as it said in its last welcome; empty before.
        own: the epochs of the stages that it has, as it said last, if we have introduced ourselves to them.
        opened: what its stages said of our session on this connection, until somebody has taken it, and when the
            hello left that they answered (s, see ``clock``).
        is_silent: there is a connection, and nothing has come over it for one to one and a half heartbeats, though the
            worker was asked to answer.
    """

    def __init__(
        self,
        address: str,
        hello: Callable[[], Hello],
        events: LinkEvents,
        times: ClientTimes,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self._place = address_of(address)
        self._hello, self._events, self._times, self._tls = hello, events, times, tls
        self._connection: _Connection | None = None
        self._lost = asyncio.Event()
        self._closed = False
        self._connected_at = 0.0
        self.advertised = ""
        self.own: dict[int, int] = {}
        self.opened: dict[int, tuple[Opened, float]] = {}
        self.is_silent = False
        self._greeted: deque[float] = deque()  # of the hello that was welcomed last, and of those that were not yet

    def __repr__(self) -> str:
        return f"<WorkerLink {self.address}: {'connected' if self.is_connected else 'not connected'}>"

    @property
    def is_connected(self) -> bool:
        """Tell whether frames sent now may reach the worker."""
        return self._connection is not None

    def send(self, *frames: Frame) -> None:
        """Send frames in one write, or drop them without a connection: requests are repeated after the next connect."""
        if self._connection is not None:
            self._connection.send(*frames)

    def greet_again(self) -> None:
        """Introduce the client to stages that came to the worker since the last hello; a Welcome answers."""
        if self._connection is not None:
            self._greeted.append(clock.waking_or_sleeping())
            self._connection.send(self._hello())

    def take_opened(self, frame: Opened) -> None:
        """Take a stage's word on our session, ahead of the Welcome that answers the same hello."""
        self.opened[frame.stage] = frame, self._greeted[min(1, len(self._greeted) - 1)]

    def welcomed_again(self) -> None:
        """Take the Welcome that answers ``greet_again``."""
        if len(self._greeted) > 1:
            self._greeted.popleft()

    async def connect(self) -> None:
        """Connect to the worker, once.

        Raises:
            WorkerUnreachable: it did not answer; Unauthorized, VersionMismatch, Replaced: it refused.
        """
        try:
            await self._connect_once()
        except FATAL:
            raise
        except (OSError, EOFError, InorderError) as error:
            raise WorkerUnreachable.after(self.address, error) from error

    async def _connect_once(self) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._place
        connection = _Connection(lambda frame: self._events.on_link_frame(self, frame), self._was_lost)
        try:
            async with Patience(self._times.connect_timeout):
                await loop.create_connection(lambda: connection, host, port, ssl=self._tls)
                greeted = clock.waking_or_sleeping()
                connection.send(self._hello())
                welcome = await connection.welcomed
                connection.check_alive()
                if self._closed:
                    raise LinkError("the client was closed meanwhile")
        except TimeoutError:
            connection.close()
            raise TimedOut(f"the hello to {self.address}", self._times.connect_timeout) from None
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._connected_at = loop.time()
        self._lost.clear()
        self.opened.clear()
        self._greeted = deque([greeted])
        self._events.on_link_connected(self, welcome)
        if not self._closed:  # else the worker was not wanted, nor is what it said with the welcome
            connection.begin()

    def _was_lost(self, error: Exception) -> None:
        self._connection = None
        self.is_silent = False
        if not self._closed:
            self._events.on_link_lost(self, error)
            self._lost_error = error
            self._lost.set()

    async def run(self) -> None:
        """Connect, watch the connection, and connect again whenever it is lost, until cancelled or refused for good."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            await self._watch()
            # a worker that takes us in and throws us out again must not be asked without a rest
            if loop.time() - self._connected_at >= self._times.heartbeat:
                failures = 0
            error = self._lost_error
            if isinstance(error, FATAL):
                self._events.on_link_failed(self, error)
                return
            try:
                failures = await self._reconnect(failures)
            except FATAL as refusal:
                self._events.on_link_failed(self, refusal)
                return

    async def _watch(self) -> None:
        """Return when the connection is lost. A worker of which nothing came for half a heartbeat is asked to answer;
        if it has not after another half it is silent, after three heartbeats it is given up. Halves are counted and no
        time is measured: an event loop that stood still must not blame the worker."""
        beat, heard, unheard = self._times.heartbeat, 0.0, 0
        while (connection := self._connection) is not None and not self._lost.is_set():
            unheard = unheard + 1 if connection.last_reception == heard else 0
            heard = connection.last_reception
            if unheard > HALVES:
                connection.fail(TimedOut("a heartbeat", 3 * beat))
            elif unheard:
                connection.send(Ping())
            if self.is_silent != (unheard > 1):
                self.is_silent = unheard > 1
                self._events.on_link_silent(self)
            try:
                async with asyncio.timeout(beat / 2):
                    await self._lost.wait()
            except TimeoutError:
                continue

    async def _reconnect(self, failures: int) -> int:
        """Connect, however often it takes; return how many attempts that makes with the ``failures`` before."""
        told = ""
        while True:
            await asyncio.sleep(pause(self._times.backoff_first, self._times.backoff_max, failures))
            failures += 1
            try:
                await self.connect()
                return failures
            except LinkError as error:
                told = tell_unreachable(self.address, error, told)

    def say_hello_again(self) -> None:
        """Replace the connection by a new one, as the facts of the hello have changed."""
        if self._connection is not None:
            self._connection.fail(LinkError("connecting again with another hello"))

    def drop(self) -> None:
        """Close the connection now, and report nothing afterwards."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def close(self, timeout: float) -> None:
        """Close the connection within ``timeout`` seconds, and report nothing afterwards."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed(timeout)

    _lost_error: Exception = LinkError("not connected")
