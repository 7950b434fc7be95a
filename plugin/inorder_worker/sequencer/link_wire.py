"""The frames between two workers (docs/PROTOCOL.md, "Workers among themselves").

One connection carries the rides of all stages of one worker to one stage of another. Whoever has rides to send
connects; the other end answers what it has, and then what it has made durable.
"""

from __future__ import annotations

from typing import Final

import msgspec

from inorder.errors import ProtocolError
from inorder.protocol.wire import UNREADABLE, Failure, Frame, Hello, Ping, Pong, StageInfo, check_numbers
from inorder.protocol.wire.parts import Listed
from inorder_worker.sequencer.rides import AnyRide

LINK_VERSIONS: Final = (1, 1)
MAX_HELLO_BYTES: Final = 64 * 1024
"""Of the first frame of a connection: whoever sends it is not known yet."""
MAX_LINK_FRAME_BYTES: Final = 64 * 1024 * 1024
"""A ride of a very large subscription is one frame."""


class LinkHello(Frame, tag=48):
    """First frame of a worker that has rides for ``stage``.

    Attributes:
        domain: of its store; only workers of one domain talk to each other.
        stage: the stage that the rides are for.
        origins: the sender's own stages, with its epochs and its address.
    """

    lowest_version: int
    highest_version: int
    token: str
    domain: int
    worker: str
    stage: int
    origins: Listed[StageInfo]


class LinkWelcome(Frame, tag=49):
    """Answers LinkHello. ``received``: flat pairs ``origin, number``, the last durable ride of each origin."""

    version: int
    worker: str
    stage: int
    epoch: int
    received: list[int]


class Rides(Frame, tag=50):
    """Rides of stage ``origin`` under the numbers ``first``, ``first + 1``, ...; each one encoded."""

    origin: int
    first: int
    rides: list[msgspec.Raw]


class Durable(Frame, tag=51):
    """Rides up to these numbers are durable and need not be sent again: flat pairs ``origin, number``."""

    received: list[int]


AnyHello = Hello | LinkHello | Failure
SenderFrame = Ping | Failure | Rides
ReceiverFrame = Pong | Failure | LinkWelcome | Durable

_hello_decoder: msgspec.msgpack.Decoder[AnyHello] = msgspec.msgpack.Decoder(AnyHello)
_sender_decoder: msgspec.msgpack.Decoder[SenderFrame] = msgspec.msgpack.Decoder(SenderFrame)
_receiver_decoder: msgspec.msgpack.Decoder[ReceiverFrame] = msgspec.msgpack.Decoder(ReceiverFrame)
_ride_encoder = msgspec.msgpack.Encoder()
_ride_decoder: msgspec.msgpack.Decoder[AnyRide] = msgspec.msgpack.Decoder(AnyRide)


def decode_hello(body: bytes) -> AnyHello:
    """Decode the first frame of a connection to a worker. Raises ProtocolError."""
    try:
        hello = _hello_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"the first frame must be a hello ({error})") from None
    check_numbers(hello)
    return hello


def decode_sender_frame(body: bytes) -> SenderFrame:
    """Decode what came from the end that has rides to send. Raises ProtocolError."""
    try:
        return _sender_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a frame of a worker with rides: {error}") from None


def decode_receiver_frame(body: bytes) -> ReceiverFrame:
    """Decode what the end that takes rides answered. Raises ProtocolError."""
    try:
        return _receiver_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not an answer of a worker that takes rides: {error}") from None


def encode_ride(ride: AnyRide) -> msgspec.Raw:
    """Return a ride for Rides."""
    return msgspec.Raw(_ride_encoder.encode(ride))


def decode_ride(raw: msgspec.Raw) -> AnyRide:
    """Return a ride of a frame. Raises ProtocolError."""
    try:
        return _ride_decoder.decode(raw)
    except UNREADABLE as error:
        raise ProtocolError(f"not a ride: {error}") from None
