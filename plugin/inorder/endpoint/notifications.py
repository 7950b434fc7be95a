"""The application's notifications: events, gaps, reconnections (DESIGN, "Vocabulary")."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite

import msgspec

from inorder.errors import InvalidOption


class Verdict(StrEnum):
    """The place of an event in the total order, or why it has none."""

    IN_ORDER = "in_order"
    """In the one order: TNO holds among these."""
    LATE = "late"
    """Its turn was passed over, by bounded or tag mode or with a gap; the papers' out-of-order tag."""
    FIFO = "fifo"
    """In its publisher's order only."""
    UNSEQUENCED = "unsequenced"
    """Without a timestamp of this domain: a publisher without inorder, a bridge that strips stamps."""
    REPLAYED = "replayed"
    """From the event log of its topic, for ``Client.replay``; beside the order of subscriptions."""
    RETAINED = "retained"
    """A copy the broker kept, from before the subscription's position."""


class GapReason(StrEnum):
    """Why numbers were skipped."""

    LOST = "lost"
    """The broker accepted them, they cannot be repaired, and all that it had for this client was read without them."""
    ABANDONED = "abandoned"
    """Their publisher is gone; they may or may not have been delivered to others."""
    EXPIRED = "expired"
    """Not part of the subscription: this client was away from the workers for longer than ``session_timeout``, so its
    subscription ended and began anew behind them; or numbers that are missing here are older than what the topic
    manager remembers (``number_retention``), and the topic began anew. Some of them may have arrived; they are
    dropped."""
    SKIPPED = "skipped"
    """Passed over by bounded waiting, and not arrived within ``loss_timeout``."""
    OVERFLOW = "overflow"
    """They arrived, but a limit of this client was reached."""
    UNSTAMPED = "unstamped"
    """Messages without stamps arrived instead: a bridge or protocol version strips them."""
    RESTORED = "restored"
    """The workers' store was put back from a backup (or is another one), and the topic's numbers begin anew: nothing
    from ``first`` on, of the former ones, is in order any more. ``last`` is the highest that was known to exist, or
    ``first``. What arrives of them is ``unsequenced``."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event, as the application gets it.

    Attributes:
        space, topic: where it was published.
        payload: the publisher's bytes, untouched.
        verdict: how it stands to the total order.
        number: its own number in its topic, ``None`` where it has none.
        deps: its dependencies as ``(topic, number)`` by topic name, for those this client knows.
        retained: the broker sent it from its store.
        redelivered: it may have been delivered to this application before.
        qos: as the broker delivered it.
        properties: the publisher's own MQTT 5 properties, in order.
        repaired: the broker did not deliver it; it came from the event log of its topic (R18).
    """

    space: str
    topic: str
    payload: bytes
    verdict: Verdict
    number: int | None = None
    deps: tuple[tuple[str, int], ...] = ()
    retained: bool = False
    redelivered: bool = False
    qos: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    repaired: bool = False


class Gap(msgspec.Struct, frozen=True):
    """Numbers ``first`` to ``last`` of a topic will not come (in order); reported once, as a range (R17)."""

    space: str
    topic: str
    first: int
    last: int
    reason: GapReason


class Reconnected(msgspec.Struct, frozen=True):
    """The connection to a broker was lost and is back; what was missed meanwhile follows as gaps."""

    space: str


class Receipt(msgspec.Struct, frozen=True):
    """A publish that the broker accepted. ``number`` is ``None`` unless the order is total."""

    space: str
    topic: str
    number: int | None
    deps: tuple[tuple[str, int], ...] = ()


class Bounded(msgspec.Struct, frozen=True):
    """The limits of waiting in total order (R6): the first limit reached lets the event that waits longest go.

    Attributes:
        buffer: waiting events, ``None`` for no limit.
        max_wait: seconds, ``None`` for no limit.
        buffer_bytes: bytes of waiting payloads, and of what is unusually long beside them, ``None`` for no limit.

    Raises:
        InvalidOption: a limit is not allowed, or there is none.
    """

    buffer: int | None = 1000
    max_wait: float | None = None
    buffer_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check the limits. Raises InvalidOption."""
        for name, value in (("buffer", self.buffer), ("buffer_bytes", self.buffer_bytes)):
            if value is not None and (not _is_number(value, int) or value < 0):
                raise InvalidOption(name, value, "a whole number from 0, or None")
        if self.max_wait is not None and not (
            _is_number(self.max_wait, int, float) and isfinite(self.max_wait) and self.max_wait >= 0
        ):
            raise InvalidOption("max_wait", self.max_wait, "a number of seconds from 0, or None")
        if self.buffer is None and self.max_wait is None and self.buffer_bytes is None:
            raise InvalidOption("mode", self, "Bounded with at least one of buffer, max_wait and buffer_bytes")


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
