"""A broker's limits, as its CONNACK states them (MQTT 5). Over a limit it would close the connection, each time that
the publish is sent again."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inorder.client.checking import STAMP_ALLOWANCE
from inorder.errors import InvalidOption, PayloadTooLarge
from inorder.paho.aliases import alias_of

_HEADER_BYTES: Final = 1 + 4 + 2 + 2
"""Of a PUBLISH without topic, properties and payload, at most."""


class Limits(msgspec.Struct, frozen=True):
    """Limits of a broker: bytes of a packet (0: none), the highest QoS, whether it keeps messages, the highest topic
    alias, publishes of QoS 1 and 2 in flight."""

    packet_bytes: int = 0
    qos: int = 2
    retain: bool = True
    alias: int = 65_535
    in_flight: int = 65_535

    def check(self, size: int, payload: int, qos: int, retain: bool, alias: int) -> None:
        """Raise PayloadTooLarge or InvalidOption for a publish beyond the broker's limits.

        Args:
            size: bytes of topic, properties and payload; ``payload``: bytes of the payload alone.
        """
        if self.qos < qos <= 2:  # any other is paho's to refuse
            raise InvalidOption("qos", qos, f"at most {self.qos} at this broker")
        if retain and not self.retain:
            raise InvalidOption("retain", retain, "False: this broker keeps no messages")
        if alias > self.alias:
            raise InvalidOption("TopicAlias", alias, f"at most {self.alias} at this broker")
        if self.packet_bytes and size + _HEADER_BYTES > self.packet_bytes:
            raise PayloadTooLarge(payload, max(0, self.packet_bytes - _HEADER_BYTES - (size - payload)))

    def check_call(self, topic: str, payload: Any, qos: int, retain: bool, properties: Properties | None) -> None:
        """Check an application's publish, with room for a stamp, as :meth:`check` does."""
        size = stamp = 0
        if self.packet_bytes:
            own = 0 if properties is None else len(properties.pack())  # type: ignore[no-untyped-call]
            text = payload if isinstance(payload, str | bytes | bytearray) else str(payload or "")
            size = len(text.encode() if isinstance(text, str) else text)
            stamp = len(topic.encode()) + own + STAMP_ALLOWANCE
        self.check(size + stamp, size, qos, retain, alias_of(properties))


def limits_of(connack: bytes) -> Limits:
    """Return the limits that a CONNACK of MQTT 5 states."""
    properties = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call]
    try:
        properties.unpack(connack[2:])  # type: ignore[no-untyped-call]
    except Exception:  # not well formed: paho, which reads it next, says so
        return Limits()
    said = vars(properties)
    return Limits(
        said.get("MaximumPacketSize", 0),
        said.get("MaximumQoS", 2),
        bool(said.get("RetainAvailable", 1)),
        said.get("TopicAliasMaximum", 0),
        said.get("ReceiveMaximum", 65_535),
    )
