"""Encoding and decoding of frames."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final

import msgspec

from inorder.errors import ProtocolError
from inorder.protocol.wire.answers import (
    AutomaticShown,
    ClusterMap,
    Done,
    Durable,
    EventFound,
    Heads,
    LoggedEvents,
    Logs,
    Moved,
    NumberFound,
    Numbers,
    Opened,
    OpenNumbersFound,
    OrderChanged,
    Positions,
    Released,
    Renewed,
    Reported,
    Reports,
    Settled,
    Subscribed,
    Subscriptions,
    Timestamps,
    TopicOrder,
    Topics,
    TopicsShown,
    Welcome,
    WorkerShown,
)
from inorder.protocol.wire.frame import Failure, Frame, Ping, Pong
from inorder.protocol.wire.parts import HEADER_BYTES, MAX_FRAME_BYTES, MAX_NUMBER, Logged
from inorder.protocol.wire.requests import (
    AskDurable,
    AskHeads,
    AskNumbers,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    CreateTimestamps,
    DrainWorker,
    EndSubscription,
    FindEvent,
    FindNumber,
    Hello,
    MoveStage,
    NameTopics,
    PinTopics,
    ReadLog,
    ReleaseNumbers,
    Renew,
    Report,
    Resolve,
    SaveClock,
    Settle,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    ShowTopics,
    ShowWorker,
    Subscribe,
)

ClientFrame = (
    Ping
    | Pong
    | Failure
    | Hello
    | Resolve
    | NameTopics
    | CreateTimestamps
    | Settle
    | Subscribe
    | AskNumbers
    | AskHeads
    | Renew
    | ChangeOrder
    | ShowOrder
    | PinTopics
    | ReadLog
    | ChangeLog
    | ShowLogs
    | SaveClock
    | AskDurable
    | ShowSubscriptions
    | EndSubscription
    | ReleaseNumbers
    | ShowTopics
    | ShowOpenNumbers
    | FindNumber
    | FindEvent
    | Report
    | ShowReports
    | ShowAutomatic
    | ChangeAutomatic
    | ShowWorker
    | DrainWorker
    | MoveStage
)
WorkerFrame = (
    Ping
    | Pong
    | Failure
    | Welcome
    | Topics
    | Timestamps
    | Settled
    | Subscribed
    | Numbers
    | Heads
    | ClusterMap
    | Renewed
    | Opened
    | Moved
    | TopicOrder
    | OrderChanged
    | Positions
    | LoggedEvents
    | Done
    | Logs
    | Durable
    | Subscriptions
    | Released
    | TopicsShown
    | OpenNumbersFound
    | NumberFound
    | EventFound
    | Reported
    | Reports
    | AutomaticShown
    | WorkerShown
)


def _plain(value: object) -> bytes | str | int:
    """Return an instance of a subclass of bytes, str or int, which an application may use, as the plain type."""
    if isinstance(value, bytes):
        return bytes(memoryview(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    raise TypeError(f"{type(value).__name__} cannot be in a frame")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_client_decoder: msgspec.msgpack.Decoder[ClientFrame] = msgspec.msgpack.Decoder(ClientFrame)
_logged_decoder: msgspec.msgpack.Decoder[Logged] = msgspec.msgpack.Decoder(Logged)
_worker_decoder: msgspec.msgpack.Decoder[WorkerFrame] = msgspec.msgpack.Decoder(WorkerFrame)


UNREADABLE: Final = (msgspec.DecodeError, RecursionError)
"""What decoding raises for bytes that are none of ours; the second where they are nested without an end."""


def known_to(version: int, frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames of this protocol version."""
    return [each for each in frames if each.from_version <= version]


def encode_frame(frame: Frame) -> bytes:
    """Return the frame with its length in front."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def decode_client_frame(body: bytes | bytearray | memoryview) -> ClientFrame:
    """Decode a client's frame (without the length). Raises ProtocolError, also for a number of more than 64 bits with
    the sign: whatever sums, stores or sends it on has room for those only. (Of structures inside of frames the worker
    looks at each.)"""
    try:
        frame = _client_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a frame of a client: {error}") from None
    check_numbers(frame)
    return frame


def check_numbers(frame: Frame) -> None:
    """Raise ProtocolError if a number of a frame, or in a list of the frame, has more than 64 bits with the sign."""
    for name, value in zip(frame.__struct_fields__, msgspec.structs.astuple(frame), strict=True):
        is_list = type(value) is list and value and type(value[0]) is int
        if (is_list and max(value) > MAX_NUMBER) or (type(value) is int and value > MAX_NUMBER):
            raise ProtocolError(f"{name} of {type(frame).__name__} has a number over {MAX_NUMBER}")


def decode_worker_frame(body: bytes | bytearray | memoryview) -> WorkerFrame:
    """Decode a worker's frame (without the length). Raises ProtocolError."""
    try:
        return _worker_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a frame of a worker: {error}") from None


def encode_logged(content: Logged) -> bytes:
    """Return a published event as bytes for the event log."""
    return _encoder.encode(content)


def decode_logged(content: bytes) -> Logged | None:
    """Decode an event of the event log; return ``None`` for content that no client of ours has sent."""
    try:
        logged = _logged_decoder.decode(content)
    except UNREADABLE:
        return None
    return logged if 0 <= logged.qos <= 2 else None


class FrameSplitter:
    """Cuts a stream of bytes into frame bodies, and keeps an incomplete rest.

    Args:
        max_bytes: a longer frame raises ProtocolError as soon as its length is read, so nobody can make the
            receiver buffer more.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Yield the bodies that are complete now. Raises ProtocolError, for the frame that is too long: what is made of
        those before it may change ``max_bytes``."""
        self.add(data)
        yield from self.bodies()

    def __len__(self) -> int:
        """Return the bytes that are kept."""
        return len(self._pending)

    def clear(self) -> None:
        """Forget what is kept."""
        self._pending.clear()

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Keep received bytes; ``bodies`` yields their frames."""
        self._pending += data

    @property
    def announced(self) -> int:
        """The length of the body that comes next, in bytes, 0 as long as it is not known. Not while ``bodies`` runs."""
        pending = self._pending
        return int.from_bytes(pending[:HEADER_BYTES], "big") if len(pending) >= HEADER_BYTES else 0

    def bodies(self) -> Generator[bytes, None, None]:
        """Yield the complete bodies; a caller who stops early gets the rest the next time. Raises as ``feed`` does."""
        pending = self._pending
        start, end = 0, len(pending)
        try:
            while end - start >= HEADER_BYTES:
                length = int.from_bytes(pending[start : start + HEADER_BYTES], "big")
                if length > self.max_bytes:
                    raise ProtocolError(f"a frame of {length} bytes is over the limit of {self.max_bytes}")
                if end - start - HEADER_BYTES < length:
                    break
                start += HEADER_BYTES + length
                yield bytes(pending[start - length : start])
        finally:
            del pending[:start]
