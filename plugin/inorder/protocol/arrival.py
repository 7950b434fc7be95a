"""A broker's delivery in the terms of the ports; :mod:`inorder.ports` exports it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

USUAL_EXTRAS: Final = 1024
"""Bytes beside its payload that an event counts nothing for."""
STAMP_WEIGHT: Final = 9
"""Bytes of memory that a byte of a stamp may take up once it is read."""


@dataclass(slots=True)
class Arrival:
    """One message of which the broker notified.

    Attributes:
        topic: the exact topic it was published to.
        payload: the bytes after the envelope, or all of them where there was none.
        stamp: the envelope's text (property value, or the one stripped from the payload), or ``None``.
        retained: the broker's retain flag: sent because it was kept, or (MQTT 5, *Retain As Published*) published so.
        redelivered: the broker says it may have sent it before (MQTT's DUP).
        via: the filters (as given to :meth:`Ens.subscribe`) that the broker says it was sent for; empty where
            the broker does not say. A client that gets one message once for each of its overlapping filters
            tells the copies apart by it.
        qos: as delivered.
        properties: the user's own properties, without ours, in order.
        source: whatever the adapter's owner wants back with it.
    """

    topic: str
    payload: bytes
    stamp: bytes | None = None
    retained: bool = False
    redelivered: bool = False
    via: tuple[str, ...] = ()
    qos: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    source: object = None


def bytes_of(payload: bytes, topic: str, properties: Sequence[tuple[str, str]], stamp: bytes | None = None) -> int:
    """Return the size of an event under the limits of bytes: the payload, and all other parts beyond the usual 1 KiB.
    Whoever may publish on a broker may have 64 KB of topic or stamp, and more of properties, beside no payload."""
    extras = len(topic)
    if stamp is not None:
        extras += STAMP_WEIGHT * len(stamp)
    for name, value in properties:  # a generator costs more than most events have
        extras += len(name) + len(value)
    return len(payload) + extras - USUAL_EXTRAS if extras > USUAL_EXTRAS else len(payload)
