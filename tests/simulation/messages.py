"""What the broker of a run carries."""

from __future__ import annotations

from inorder.protocol.names import Filter, FilterKind
from inorder_analytics.checks import EventId


def wild(text: str) -> Filter:
    """Return an MQTT filter."""
    return Filter(text, FilterKind.MQTT, text)


class Message:
    """An event on the broker."""

    __slots__ = ("event", "name", "stamp", "topic")

    def __init__(self, event: EventId, name: str, topic: int, stamp: bytes) -> None:
        self.event, self.name, self.topic, self.stamp = event, name, topic, stamp
