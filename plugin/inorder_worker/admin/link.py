"""An operator's connection to one worker: many questions at once, each with its answer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, cast

from msgspec.structs import replace

from inorder.errors import (
    ENDED,
    Forbidden,
    InorderError,
    InvalidOption,
    LinkError,
    ProtocolError,
    Refused,
    TimedOut,
    Unauthorized,
    VersionMismatch,
    WorkerUnreachable,
)
from inorder.protocol.access import Permissions
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    ClusterMap,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    Moved,
    Opened,
    Ping,
    Pong,
    StageInfo,
    Welcome,
    WorkerFrame,
    decode_worker_frame,
    encode_frame,
)

READ_BYTES: Final = 2**16
PINGS_PER_TIMEOUT: Final = 3
"""A worker cuts who says nothing for its ``session_timeout`` (R12)."""
FIRST_PING: Final = 5.0
"""Seconds between two pings before that time is known, and at most."""


NO_STAGE: Final = -1
"""The stage of what is asked of a worker whatever it has."""


class NotDone(Exception):
    """The request was not carried out: its stage is at another place, or the connection had ended before."""


class LinkLost(Exception):
    """The connection ended before the answer. Whether the worker did what it was asked is not known."""


class Question(Protocol):
    """A frame with a request number."""

    request: int


FrameT = TypeVar("FrameT", bound=Frame)


@dataclass(slots=True)
class _Asked:
    """A question that waits for its answer. ``stage`` and ``topic``: which it is for, 0 where it is for no topic;
    ``is_taken``: it was stepped."""

    kind: type[Frame]
    stage: int
    topic: int
    answer: asyncio.Future[list[Frame]]
    is_taken: bool = False
    parts: list[Frame] = field(default_factory=list)


class Link:
    """A connection for questions, made by :meth:`open`. It ends for good; another one must be opened then.

    Args:
        address: ``host:port`` of the worker.
        told: called with each map that the worker shows: all stages (with the address of its own; epoch 0 where nobody
            is known to have it), and where all workers are that live.

    Attributes:
        address: as given.
        welcome: what the worker said first.
        ended: why there is no connection any more.
    """

    def __init__(self, address: str, told: Callable[[Link, list[StageInfo], list[str]], None]) -> None:
        self.address, self._told = address, told
        self.welcome: Welcome = Welcome(0, 0, "", 0, [], 0)
        self.ended: InorderError | None = None
        self._asked: dict[int, _Asked] = {}
        self._last_request = 0
        self._ping_interval = FIRST_PING
        self._reading: asyncio.Task[None] | None = None
        self._staying: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Tell whether questions can be asked."""
        return self.ended is None

    async def open(self, token: str, tls: ssl.SSLContext | None, agent: str) -> None:
        """Connect and say hello. Raises WorkerUnreachable, Unauthorized, VersionMismatch, Refused, ProtocolError and
        InvalidOption."""
        host, _, port = self.address.rpartition(":")
        if not (host and port.isascii() and port.isdigit()):
            raise InvalidOption("worker address", self.address, "host:port, for example localhost:7401")
        try:
            self._reader, self._writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
        except OSError as error:
            raise WorkerUnreachable.after(self.address, error) from None
        self._splitter = FrameSplitter()
        # a name of its own for each connection: a worker has one connection for each client id
        name = f"{agent.replace(' ', '-')}-{secrets.token_hex(4)}"
        try:
            self._write(Hello(*PROTOCOL_VERSIONS, token, name, secrets.randbits(63), agent))
            await self._be_welcomed()
        except BaseException:
            self._writer.close()
            raise
        self._reading = asyncio.create_task(self._read_all(), name=f"inorder-admin-link-{self.address}")
        self._staying = asyncio.create_task(self._stay(), name=f"inorder-admin-pings-{self.address}")

    async def close(self) -> None:
        """Close the connection; open questions fail. No error."""
        self._end(WorkerUnreachable([self.address], "the connection was closed here"))
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def ask(self, frame: Frame, kind: type[FrameT], *, stage: int, topic: int, seconds: float) -> list[FrameT]:
        """Ask a question and return all parts of the answer.

        Args:
            frame: the question; its request number is set here.
            kind: of the answer.
            stage, topic: which it is for; 0 where it is for no topic.
            seconds: how long the answer may take. Where the question was not even stepped by then, a stopped process
                or a dead network is behind it, and the connection is given up too.

        Raises NotDone, LinkLost, Forbidden, and Refused for a worker of an older release.
        """
        if self._writer.is_closing():  # whoever reads hears of it next
            self._end(self._lost("the connection has ended"))
        if self.ended is not None:
            raise NotDone(str(self.ended))
        Permissions(self.welcome.access).check_frame(type(frame))
        if frame.from_version > self.welcome.version:
            raise Refused(f"worker {self.address} is of an older release and does not know this; upgrade it first")
        self._last_request += 1
        request = cast(Question, frame).request = self._last_request
        answer: asyncio.Future[list[Frame]] = asyncio.get_running_loop().create_future()
        self._asked[request] = _Asked(kind, stage, topic, answer)
        try:
            self._write(frame)
            self._write(Ping(request))  # its Pong tells that the question was stepped
            async with asyncio.timeout(seconds):
                return cast(list[FrameT], await answer)
        except TimeoutError:
            if not self._asked[request].is_taken:
                self._end(TimedOut(f"worker {self.address}", seconds))
            raise LinkLost(f"worker {self.address} did not answer within {seconds:g} s") from None
        finally:
            del self._asked[request]

    # -- inside ------------------------------------------------------------------------------------------------

    def _write(self, frame: Frame) -> None:
        if not self._writer.is_closing():  # uvloop raises, asyncio is silent
            self._writer.write(encode_frame(frame))

    async def _be_welcomed(self) -> None:
        found: Welcome | None = None
        while found is None:
            for frame in await self._read():
                if isinstance(frame, Welcome):
                    found = self.welcome = frame
                    self._show(frame)
                else:
                    self._take(frame)

    async def _read(self) -> list[WorkerFrame]:
        """Return the next frames. Raises WorkerUnreachable, ProtocolError, and what a Failure says."""
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError as error:
            raise self._lost(str(error)) from None
        if not data:
            raise self._lost("it closed the connection")
        frames = [decode_worker_frame(body) for body in self._splitter.feed(data)]
        for at, frame in enumerate(frames):
            if isinstance(frame, Failure):
                for before in frames[:at]:
                    self._take(before)
                raise _error_of(frame, self.address)
        return frames

    def _lost(self, reason: str) -> WorkerUnreachable:
        return WorkerUnreachable([self.address], reason if self.welcome.version else ENDED, is_there=True)

    async def _read_all(self) -> None:
        try:
            while True:
                for frame in await self._read():
                    self._take(frame)
        except (InorderError, asyncio.CancelledError) as error:
            self._end(error if isinstance(error, InorderError) else LinkError("closed"))

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(self._ping_interval)
            self._write(Ping())

    def _end(self, error: InorderError) -> None:
        if self.ended is not None:
            return
        self.ended = error
        self._writer.close()
        if self._staying is not None:
            self._staying.cancel()
        for asked in self._asked.values():
            if not asked.answer.done():
                # what a worker forbids, it has not done
                asked.answer.set_exception(error if isinstance(error, Forbidden) else LinkLost(str(error)))

    def _take(self, frame: WorkerFrame) -> None:
        match frame:
            case ClusterMap() | Welcome():
                self._show(frame)
            case Moved():
                self._moved(dict(pairs(frame.homes)))
            case Opened():
                self._ping_interval = min(FIRST_PING, frame.session_timeout_ms / 1000 / PINGS_PER_TIMEOUT)
            case Ping():
                self._write(Pong(frame.nonce))
            case Pong():
                if frame.nonce in self._asked:
                    self._asked[frame.nonce].is_taken = True
            case _:
                self._answered(frame)

    def _answered(self, frame: WorkerFrame) -> None:
        asked = self._asked.get(getattr(frame, "request", 0))
        if asked is None or type(frame) is not asked.kind or asked.answer.done():
            return  # news for clients, or nobody waits for it any more
        asked.parts.append(frame)
        if not getattr(frame, "more", False):
            asked.answer.set_result(asked.parts)

    def _show(self, frame: ClusterMap | Welcome) -> None:
        """Take a new map of the stages. What is for a stage elsewhere has not been done here, or it would be answered
        by now; only what was stepped and had to wait (R14) has left with its stage."""
        own = {each.stage for each in frame.stages if each.epoch and not each.address}
        for asked in self._asked.values():
            if asked.stage not in (NO_STAGE, *own) and not asked.answer.done():
                text = f"stage {asked.stage} went to another worker"
                asked.answer.set_exception(LinkLost(text) if asked.is_taken else NotDone(text))
        places = [replace(each, address=self.address) if each.stage in own else each for each in frame.stages]
        self._told(self, places, frame.workers)

    def _moved(self, homes: dict[int, int]) -> None:
        for asked in self._asked.values():
            if homes.get(asked.topic, asked.stage) != asked.stage and not asked.answer.done():
                asked.answer.set_exception(NotDone(f"topic {asked.topic} is at stage {homes[asked.topic]}"))


def _error_of(failure: Failure, address: str) -> InorderError:
    match failure:
        case Failure(code="unauthorized"):
            return Unauthorized(f"the worker refused the connection: {failure.message}", peer="worker")
        case Failure(code="forbidden"):
            return Forbidden(f"the worker refused: {failure.message}")
        case Failure(code="version", facts=[lowest, highest]):
            return VersionMismatch(PROTOCOL_VERSIONS, (lowest, highest))
        case Failure(code="protocol" | "too_large"):
            return ProtocolError(failure.message)
        case Failure(code="stopping" | "store" | "fenced" | "moved"):
            return WorkerUnreachable([address], failure.message, is_there=True)
    return Refused(failure.message)
