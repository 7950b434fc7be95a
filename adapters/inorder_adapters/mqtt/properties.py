"""Our user property, packed and unpacked at the least cost.

``paho.mqtt.properties.Properties`` builds its tables anew for every object and searches them for every property,
about 30 us for one user property. What we send is always the same shape, so it is packed here; paho only asks
for the bytes.
"""

from __future__ import annotations

import struct

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inorder_adapters.stamp_property import STAMP_PROPERTY

_USER_PROPERTY = 0x26
_pack_length = struct.Struct("!H").pack
STAMP_KEY = STAMP_PROPERTY.encode()
_STAMP_HEAD = bytes([_USER_PROPERTY]) + _pack_length(len(STAMP_KEY)) + STAMP_KEY
NO_PROPERTIES = b"\0"


class PublishProperties(Properties):
    """The properties of one PUBLISH, already packed."""

    _packed: bytes

    def __init__(self, packed: bytes) -> None:
        # Not super().__init__: building paho's tables is the cost that this class avoids.
        object.__setattr__(self, "packetType", PacketTypes.PUBLISH)
        object.__setattr__(self, "_packed", packed)

    def pack(self) -> bytes:
        """Return the bytes, length first."""
        return self._packed

    def __str__(self) -> str:
        return f"[{len(self._packed)} bytes]"


def make_properties(packet_type: int, **values: int | None) -> Properties | None:
    """Make paho's properties of another packet; ``None`` where all values are."""
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        return None
    properties = Properties(packet_type)  # type: ignore[no-untyped-call]
    for name, value in given.items():
        setattr(properties, name, value)
    return properties


def pack_properties(stamp: bytes | None, own: tuple[tuple[str, str], ...]) -> PublishProperties | None:
    """Pack a stamp and the user's own properties; ``None`` where there are none."""
    if stamp is None and not own:
        return None
    parts: list[bytes] = []
    if stamp is not None:
        parts += (_STAMP_HEAD, _pack_length(len(stamp)), stamp)
    for key, value in own:
        parts.append(b"\x26" + _packed_text(key) + _packed_text(value))
    body = b"".join(parts)
    return PublishProperties(variable_length(len(body)) + body)


def stamped_properties(stamp: bytes, own: bytes | None) -> PublishProperties:
    """Put a stamp in front of properties that are packed already, length first."""
    head = _STAMP_HEAD + _pack_length(len(stamp)) + stamp
    at = 0
    while own is not None and own[at] > 127:
        at += 1
    body = head if own is None else head + own[at + 1 :]
    return PublishProperties(variable_length(len(body)) + body)


def variable_length(value: int) -> bytes:
    """Encode an MQTT variable byte integer."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _packed_text(text: str) -> bytes:
    encoded = text.encode()
    return _pack_length(len(encoded)) + encoded
