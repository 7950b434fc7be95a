"""The ports: inorder's requests to an event notification service (ENS), and the adapter's reports to its owner.

An adapter turns one broker's client library into an :class:`Ens`. It knows nothing of order: stamps are opaque
bytes that travel beside the payload. It keeps no retry loop of its own: when the connection breaks it says so
once (:meth:`EnsSink.connection_lost`), and its owner connects again, subscribes again and hands unaccepted
messages over again. That keeps reconnection in one place for all brokers.

All methods are called, and all sink methods must be called, on the thread of the running event loop.

There are two versions. In version 1 there was no :class:`BarrierEns`; adapters of it go on working. What a client
cannot know of them it does not assume: an event counts as lost only after stretches in which nothing arrived and the
event loop turned in time (see :mod:`inorder.client.barriers`), which takes longer where there is always something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from inorder.protocol.arrival import Arrival as Arrival
from inorder.protocol.names import Filter

PORT_VERSION: Final = 2
"""Of these protocols."""


@dataclass(frozen=True, slots=True)
class EnsCapabilities:
    """The capabilities of a broker connection.

    Attributes:
        properties: stamps travel beside the payload (MQTT 5 user property); else in front of it.
        retain: the broker keeps a last message per topic.
        qos: the delivery qualities that :meth:`Ens.publish` accepts.
        max_topic_bytes: the longest topic, in bytes of UTF-8.
        max_payload_bytes: the broker's limit for what is handed to :meth:`Ens.publish`, stamp included;
            ``None`` where unknown.
    """

    properties: bool
    retain: bool
    qos: tuple[int, ...]
    max_topic_bytes: int
    max_payload_bytes: int | None = None


@dataclass(slots=True)
class Outgoing:
    """One message to hand to the broker.

    Attributes:
        topic: checked with :meth:`Ens.check_topic`.
        payload: encoded with :meth:`Ens.encode_payload`.
        stamp: the encoded envelope (printable ASCII), or ``None`` for a message without one.
        in_payload: the stamp goes in front of the payload even where properties could carry it (R17 of the
            envelope: some subscriber of the topic cannot read properties).
        qos, retain: as the broker means them; ignored where ``capabilities`` say it has none.
        properties: the user's own properties, in order, repeated keys kept (MQTT 5 only).
    """

    topic: str
    payload: bytes
    stamp: bytes | None = None
    in_payload: bool = False
    qos: int = 0
    retain: bool = False
    properties: tuple[tuple[str, str], ...] = ()


class EnsSink(Protocol):
    """The receiver of an adapter's reports. Calls are synchronous, short and never raise."""

    def arrived(self, arrival: Arrival) -> None:
        """Take a message that arrived. Messages of one connection are reported in the order the broker sent them."""

    def malformed(self, reason: str) -> None:
        """Note a dropped arrival that cannot be a message (a topic that is not UTF-8, ...)."""

    def accepted(self, tokens: list[int]) -> None:
        """Note that the broker accepted these messages (R16): QoS 0 written to the socket, QoS 1 PUBACK, QoS 2 PUBCOMP,
        Redis the reply."""

    def refused(self, token: int, error: Exception) -> None:
        """Note that a message was certainly not handed over (the error is of :mod:`inorder.errors`)."""

    def connection_lost(self, error: Exception) -> None:
        """Note that the connection broke, once for each successful connect. Messages neither accepted nor refused have
        an unknown fate; the adapter has forgotten them."""


@runtime_checkable
class Ens(Protocol):
    """An event notification service: the four operations of the paper (publish, subscribe, unsubscribe, notify)."""

    address: str
    """Host and port for messages and logs; never credentials."""

    space: str
    """The default space of its topics (DESIGN, "Vocabulary": brokers that are bridged or clustered share a space)."""

    capabilities: EnsCapabilities
    """Known after construction; ``max_payload_bytes`` may become known by :meth:`connect`."""

    def parse_filter(self, text: object) -> Filter:
        """Check a subscription filter. Raises InvalidFilter."""

    def check_topic(self, topic: object) -> str:
        """Check a topic to publish to. Raises InvalidTopic."""

    def encode_payload(self, payload: object) -> bytes:
        """Encode a payload as the broker's own client library would. Raises InvalidPayload (a TypeError)."""

    def check_properties(self, properties: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Check a user's own properties, pairs of text, and return them. Raises InvalidOption: for a name or value
        that cannot be sent, and for any at all where the protocol carries none (they would be lost silently)."""

    async def connect(self, sink: EnsSink) -> None:
        """Connect once, without a retry. Raises BrokerUnreachable, Unauthorized or InvalidOption. May be called again
        after ``connection_lost``."""

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """Subscribe and return after the broker's acknowledgement (R7). Raises Refused, LinkError."""

    async def unsubscribe(self, filter: Filter) -> None:
        """Unsubscribe and return after the broker's acknowledgement. Raises LinkError."""

    def publish(self, message: Outgoing, token: int) -> None:
        """Hand a message over; the outcome is reported under ``token``, exactly once, unless the connection is
        lost first. Never blocks. Messages leave in the order of the calls."""

    async def close(self) -> None:
        """Disconnect; safe in every state and more than once. Accepted work is flushed, nothing is reported
        afterwards, not even ``connection_lost``."""


@runtime_checkable
class BarrierEns(Ens, Protocol):
    """An ENS that can tell when everything has been read (version 2)."""

    async def barrier(self) -> None:
        """Return when the sink has got every message that the broker had for this client at the time of the call (R24),
        however long this takes. The adapter asks a question on the connection for subscriptions, whose answer comes
        behind those messages. Where the broker answers ahead of what it still queues, ask again until nothing came
        meanwhile.

        Raises:
            LinkError: the connection broke, or there is none.
        """


class EnsFactory(Protocol):
    """The type of an adapter's entry point (group ``inorder.adapters``, named by URL scheme).

    Entry-point names are URL schemes: ``mqtt``, ``mqtts``, ``redis``, ``rediss``, ``memory``.
    """

    def __call__(self, url: str, *, client_id: str, options: Mapping[str, Any]) -> Ens:
        """Make an unconnected ENS. ``client_id`` is the broker-side id. ``options`` override the URL's query.
        Raises InvalidOption (unknown option names are listed with the known ones) and MissingExtra."""
