"""PUBLISH packets of QoS 0, which are most of the traffic, read and written without paho-mqtt's objects.

For each message paho makes a property table, a lock and several copies, many times the work of the packet itself.
QoS 0 needs none of it: no answer, no state. Whatever is not plain and well formed is left to paho.
"""

from __future__ import annotations

from collections.abc import Callable

from inorder.ports import Arrival
from inorder_adapters.mqtt.properties import STAMP_KEY, variable_length
from inorder_adapters.payload_form import split

_PUBLISH = 0x30
_RETAIN = 0x01
_USER_PROPERTY = 0x26
_SUBSCRIPTION_IDENTIFIER = 0x0B
_FORBIDDEN = ("\0", "\ufeff")
"""Texts with these are malformed to paho, which closes the connection."""

ViaOf = Callable[[tuple[int, ...]], tuple[str, ...]]


class _NotPlain(ValueError):
    """The packet has a form that only paho can read."""


def publish_packet(topic: bytes, payload: bytes, retain: bool, properties: bytes) -> bytes:
    """Return a PUBLISH of QoS 0. ``properties``: packed, length first; nothing at all for MQTT 3.1.1."""
    size = 2 + len(topic) + len(properties) + len(payload)
    head = bytes([_PUBLISH | retain]) + variable_length(size) + len(topic).to_bytes(2, "big")
    return b"".join((head, topic, properties, payload))


def read_publishes(data: bytes, has_properties: bool, via_of: ViaOf) -> tuple[list[Arrival], int]:
    """Read the complete QoS 0 publishes at the front of ``data``; return them and how many bytes they are.

    It stops at the first packet that is another one, incomplete, or not well formed.
    """
    arrivals: list[Arrival] = []
    at, size = 0, len(data)
    try:
        while at < size and data[at] | _RETAIN == _PUBLISH | _RETAIN:
            length, body = data[at + 1], at + 2
            if length > 127:
                length, body = long_number(data, at + 1)
            end = body + length
            if end > size:
                break
            retained = bool(data[at] & _RETAIN)
            arrivals.append(_read_publish(data[body:end], retained, has_properties, via_of))
            at = end
    except (IndexError, ValueError):
        pass  # cut off, or not plain
    return arrivals, at


def _read_publish(body: bytes, retained: bool, has_properties: bool, via_of: ViaOf) -> Arrival:
    """Read what follows the fixed header. Raises IndexError, ValueError."""
    topic_end = 2 + (body[0] << 8 | body[1])
    if topic_end == 2 or topic_end > len(body):
        raise _NotPlain
    topic = body[2:topic_end].decode()
    if not has_properties:
        stamp, payload = split(body[topic_end:])
        return Arrival(topic, payload, stamp, retained)
    length, at = body[topic_end], topic_end + 1
    if length > 127:
        length, at = long_number(body, topic_end)
    end = at + length
    if end > len(body):
        raise _NotPlain
    stamp, own, ids = _read_properties(body, at, end)
    payload = body[end:]
    if stamp is None:
        stamp, payload = split(payload)
    return Arrival(topic, payload, stamp, retained, False, via_of(tuple(ids)) if ids else (), 0, tuple(own))


def _read_properties(body: bytes, at: int, end: int) -> tuple[bytes | None, list[tuple[str, str]], list[int]]:
    """Return the stamp, the user's own properties and the subscription identifiers. Raises IndexError, ValueError."""
    stamp: bytes | None = None
    own: list[tuple[str, str]] = []
    ids: list[int] = []
    while at < end:
        kind = body[at]
        if kind == _USER_PROPERTY:
            key_end = at + 3 + (body[at + 1] << 8 | body[at + 2])
            value_end = key_end + 2 + (body[key_end] << 8 | body[key_end + 1])
            if value_end > end:
                raise _NotPlain
            key, value = body[at + 3 : key_end], body[key_end + 2 : value_end]
            if key == STAMP_KEY and stamp is None:
                _text(value)
                stamp = value
            else:
                own.append((_text(key), _text(value)))
            at = value_end
        elif kind == _SUBSCRIPTION_IDENTIFIER:
            number, at = long_number(body, at + 1)
            ids.append(number)
        else:
            raise _NotPlain
    if at != end:
        raise _NotPlain
    return stamp, own, ids


def _text(raw: bytes) -> str:
    text = raw.decode()
    if any(each in text for each in _FORBIDDEN):
        raise _NotPlain
    return text


def long_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable byte integer; return its value and its end. Raises IndexError, ValueError."""
    value = shift = 0
    while shift <= 21:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _NotPlain
