"""MQTT's rules for publishing, which the in-process broker shares (filters: ``inorder.protocol.filters``).

They accept and refuse what paho-mqtt does, and refuse the levels that mosquitto refuses, but before anything leaves and
with one kind of error each.
"""

from __future__ import annotations

from inorder.errors import InvalidPayload, InvalidTopic
from inorder.protocol.filters import slashes_problem, text_problem


def check_topic(topic: object) -> str:
    """Check a topic to publish to, by MQTT's rules. Raises InvalidTopic."""
    problem = text_problem(topic, nul_allowed=False)
    if problem is not None or not isinstance(topic, str):
        raise InvalidTopic(topic, problem or "it is not text")
    if "+" in topic or "#" in topic:
        raise InvalidTopic(topic, "it contains a wildcard (+ or #)")
    if (problem := slashes_problem(topic)) is not None:
        raise InvalidTopic(topic, problem)
    return topic


def encode_payload(payload: object) -> bytes:
    """Return a payload as the bytes that paho-mqtt would send. Raises InvalidPayload."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray):
        return bytes(payload)
    if isinstance(payload, str):
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise InvalidPayload(payload, "str without lone surrogates") from None
    if isinstance(payload, int | float):
        return str(payload).encode("ascii")
    if payload is None:
        return b""
    raise InvalidPayload(payload, "bytes, bytearray, str, int, float, bool and None")
