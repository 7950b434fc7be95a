"""MQTT's rules for topics, filters and payloads, which the in-process broker shares.

They accept and refuse what paho-mqtt does, but before anything leaves and with one kind of error each.
"""

from __future__ import annotations

from inorder.core.names import Filter, FilterKind
from inorder.errors import InvalidFilter, InvalidPayload, InvalidTopic
from inorder_adapters.text import text_problem


def check_topic(topic: object) -> str:
    """Check a topic to publish to, by MQTT's rules. Raises InvalidTopic."""
    problem = text_problem(topic, nul_allowed=False)
    if problem is not None or not isinstance(topic, str):
        raise InvalidTopic(topic, problem or "it is not text")
    if "+" in topic or "#" in topic:
        raise InvalidTopic(topic, "it contains a wildcard (+ or #)")
    return topic


def parse_filter(text: object) -> Filter:
    """Check a subscription filter, by MQTT's rules. Raises InvalidFilter.

    Shared subscriptions are refused: the broker deals their events out among the members, so no member has a
    stream whose order could be checked.
    """
    problem = text_problem(text, nul_allowed=False)
    if problem is not None or not isinstance(text, str):
        raise InvalidFilter(text, problem or "it is not text")
    if text == "$share" or text.startswith("$share/"):
        raise InvalidFilter(text, "shared subscriptions cannot be ordered for each member; subscribe without $share")
    if "+" not in text and "#" not in text:
        return Filter(text, FilterKind.EXACT, text)
    levels = text.split("/")
    if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels):
        raise InvalidFilter(text, "a wildcard must stand alone in its level")
    if "#" in levels[:-1]:
        raise InvalidFilter(text, "# must be the last level")
    return Filter(text, FilterKind.MQTT, text)


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
