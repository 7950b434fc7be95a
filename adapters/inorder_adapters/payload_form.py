"""The payload form of the envelope: the stamp stands in front of the payload if no property can carry it.

The frame is one line of printable ASCII, so that what was text stays text for readers that decode everything::

    inorder/1 <stamp> <crc>\\n<payload>

``crc`` is eight lowercase hex digits of CRC-32 over the stamp, then the payload. A payload that merely looks like
a frame does not have the right digits and is left alone. A payload that *is* a frame (a recording that is played
back, a message forwarded as it was) is protected by a frame around it with the reserved stamp ``none``, which
readers remove.
"""

from __future__ import annotations

import re
from zlib import crc32

PREFIX = b"inorder/1 "
NO_STAMP = b"none"
MAX_STAMP_BYTES = 2**20

_STAMP = rb"[A-Za-z0-9_-]{1,%d}" % MAX_STAMP_BYTES
_match_frame = re.compile(rb"%b(%b) ([0-9a-f]{8})\n" % (PREFIX, _STAMP)).match


def join(stamp: bytes, payload: bytes) -> bytes:
    """Put a stamp in front of a payload."""
    return b"%b%b %08x\n%b" % (PREFIX, stamp, crc32(payload, crc32(stamp)), payload)


def split(raw: bytes) -> tuple[bytes | None, bytes]:
    """Return the stamp and the payload behind it, or ``None`` and the whole payload without a valid frame."""
    if not raw.startswith(PREFIX):
        return None, raw
    frame = _match_frame(raw)
    if frame is None:
        return None, raw
    stamp, digits = frame.groups()
    payload = raw[frame.end() :]
    if digits != b"%08x" % crc32(payload, crc32(stamp)):
        return None, raw
    return (None if stamp == NO_STAMP else stamp), payload


def protect(payload: bytes) -> bytes:
    """Return the bytes that readers take for just this payload, published without a stamp."""
    if payload.startswith(PREFIX) and split(payload)[1] is not payload:
        return join(NO_STAMP, payload)
    return payload


def wire_payload(stamp: bytes | None, payload: bytes, *, retain: bool) -> bytes:
    """Return the bytes to publish if the stamp goes into the payload.

    An empty retained publish clears the topic, so it stays empty and goes without a stamp.
    """
    if stamp is None:
        return protect(payload)
    if retain and not payload:
        return payload
    return join(stamp, payload)
