"""The envelope that travels with an event through the ENS (docs/PROTOCOL.md, "The stamp").

A MessagePack array in URL-safe base64 without padding: printable ASCII, so that it fits an MQTT 5 user property
and a text payload alike. It carries no publisher identity except, for ``fifo``, random bits that are not its session's.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Final

import msgspec

from inorder.protocol.pairs import flat, pairs, raise_to


class TotalStamp(msgspec.Struct, array_like=True, tag=0, gc=False):
    """A timestamp: own number ``number`` in ``topic`` plus dependencies (flat). ``domain``: whose numbers;
    ``ticks``: for readers that take events out of turn (R23)."""

    domain: int
    topic: int
    number: int
    deps: list[int]
    ticks: tuple[int, ...] = ()


class PlainStamp(msgspec.Struct, array_like=True, tag=0, gc=False):
    """A timestamp without ticks, to be encoded: it has no byte for them. It is decoded as a :class:`TotalStamp`."""

    domain: int
    topic: int
    number: int
    deps: list[int]


class FifoStamp(msgspec.Struct, array_like=True, tag=1, gc=False):
    """A counter per (publisher, topic), for ``order="fifo"``. ``incarnation``: 64 random bits of the publisher, but not
    those of its session: all readers see them."""

    incarnation: int
    counter: int


Stamp = TotalStamp | FifoStamp

MAX_NUMBER = 2**63 - 1
"""Everything that counts is a signed 64-bit integer; MessagePack has room for more."""

MAX_STAGES: Final = 64
"""A store has no more, so that a timestamp has no more ticks."""

MANY: Final = 128
"""Integers of dependencies from which on a topic that occurs again is left out: an event is looked at once for each of
them, and a forged stamp may name one topic ten thousand times."""

_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Stamp] = msgspec.msgpack.Decoder(Stamp)


def encode_stamp(stamp: Stamp | PlainStamp) -> bytes:
    """Return the stamp's text."""
    return b2a_base64(_encoder.encode(stamp), newline=False).translate(_TO_URL, b"=")


def decode_stamp(text: bytes) -> Stamp | None:
    """Return the stamp, or ``None`` for a text that is no known stamp (damaged, or of another form)."""
    try:
        # padding beyond what is needed is ignored
        stamp = _decoder.decode(a2b_base64(text.translate(_FROM_URL) + b"=="))
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
    if isinstance(stamp, TotalStamp):
        counting = (stamp.topic, stamp.number, *stamp.deps)
        if min(counting) < 1 or max(counting) > MAX_NUMBER or stamp.domain > MAX_NUMBER or len(stamp.deps) % 2:
            return None
        if stamp.topic in stamp.deps and _follows_itself(stamp):
            return None
        if stamp.ticks and not _are_ticks(stamp.ticks):
            return None
        if len(stamp.deps) > MANY:
            numbers: dict[int, int] = {}
            raise_to(numbers, stamp.deps)
            stamp.deps = flat(numbers)
    elif not 1 <= stamp.counter <= MAX_NUMBER or stamp.incarnation > MAX_NUMBER:
        return None
    return stamp


def _are_ticks(ticks: tuple[int, ...]) -> bool:
    """Tell whether a stage may give these: order epoch, home, and one tick for each stage up to that or higher."""
    return 2 + (ticks[1] >> 1 if len(ticks) > 1 else 0) < len(ticks) <= 2 + MAX_STAGES and (
        ticks[0] > 0 and min(ticks) >= 0 and max(ticks) <= MAX_NUMBER
    )


def _follows_itself(stamp: TotalStamp) -> bool:
    """Tell whether a timestamp waits for its own number, or a later one of its topic. Stages make none of
    these: a strict reader would never go on behind it."""
    return any(topic == stamp.topic and number >= stamp.number for topic, number in pairs(stamp.deps))
