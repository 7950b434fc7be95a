"""User properties of what the broker publishes, read without paho-mqtt.

paho copies the rest of the packet, three times, for each property: 200 KB of them, in one message of anybody, held a
reader up for six seconds. And it closes the connection over U+FEFF, which MQTT allows: one retained message with that
kept every reader of its topic away for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paho.mqtt.client import MQTTv5
from paho.mqtt.enums import MQTTErrorCode

from inorder_adapters.mqtt.packets import long_number
from inorder_adapters.mqtt.properties import variable_length

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage
else:
    Client = object

_USER_PROPERTY = 0x26
_TEXTS = (0x03, 0x08)
_ALIAS = 0x23
_SIZES = {0x01: 1, 0x02: 4, _ALIAS: 2}
_HAS_LENGTH = (*_TEXTS, 0x09)
_NUMBER = 0x0B
_QOS, _QOS_2 = 0x06, 0x04

Pairs = list[tuple[str, str]]


class UserProperties(Client):
    """A paho client whose messages get their user properties from us."""

    _taken: Pairs | None = None

    def _handle_publish(self) -> MQTTErrorCode:
        read = self._in_packet
        if self._protocol != MQTTv5:
            return super()._handle_publish()
        command, packet = read["command"], bytes(read["packet"])
        left, self._taken, _ = take_out(command, packet)
        read["packet"] = bytearray(left)
        try:
            code = super()._handle_publish()
            if self._taken and command & _QOS == _QOS_2:  # paho keeps it until the broker's PUBREL
                self._give(self._in_messages[int.from_bytes(packet[(at := _topic_end(packet)) : at + 2], "big")])
            return code
        finally:
            self._taken = None

    def _handle_on_message(self, message: MQTTMessage) -> None:
        self._give(message)
        super()._handle_on_message(message)

    def _give(self, message: MQTTMessage) -> None:
        taken, self._taken = self._taken, None
        if taken and message.properties is not None:
            held: dict[str, Any] = message.properties.__dict__  # paho's own way is the square of their number
            held["UserProperty"] = taken


def take_out(command: int, packet: bytes) -> tuple[bytes, Pairs, int]:
    """Return a PUBLISH of MQTT 5 without user properties, these, and its topic alias, 0 where it has none. Other texts
    that paho cannot read are left out. A malformed packet stays as it is, for paho to say so.

    Args:
        command: its first byte.
        packet: all behind the fixed header.
    """
    pairs, alias = Pairs(), 0
    try:
        begin = _topic_end(packet) + (2 if command & _QOS else 0)
        size, at = long_number(packet, begin)
        end, kept, from_ = at + size, list[bytes](), at
        while at < end:
            start, kind = at, packet[at]
            if kind == _USER_PROPERTY:
                name, at = _text(packet, at + 1)
                value, at = _text(packet, at)
                pairs.append((name, value))
            elif kind in _HAS_LENGTH:
                at += 3 + int.from_bytes(packet[at + 1 : at + 3], "big")
                if kind not in _TEXTS or "\ufeff" not in packet[start + 3 : at].decode():
                    continue
            else:
                at = long_number(packet, at + 1)[1] if kind == _NUMBER else at + 1 + _SIZES[kind]
                if kind == _ALIAS:
                    alias = int.from_bytes(packet[start + 1 : at], "big")
                continue
            kept.append(packet[from_:start])
            from_ = at
        if at != end or end > len(packet):
            return packet, [], 0
    except (IndexError, KeyError, ValueError):
        return packet, [], 0
    if not kept:
        return packet, pairs, alias
    left = b"".join((*kept, packet[from_:end]))
    return b"".join((packet[:begin], variable_length(len(left)), left, packet[end:])), pairs, alias


def _topic_end(packet: bytes) -> int:
    return 2 + int.from_bytes(packet[:2], "big")


def _text(packet: bytes, at: int) -> tuple[str, int]:
    """Read a text; return it and its end. Raises IndexError, ValueError."""
    end = at + 2 + (packet[at] << 8 | packet[at + 1])
    text = packet[at + 2 : end].decode()
    if end > len(packet) or "\0" in text:
        raise ValueError
    return text, end
