"""What the broker of a run carries."""

from __future__ import annotations

from inorder.protocol.names import Filter, FilterKind
from inorder_analytics.checks import EventId


def wild(text: str) -> Filter:
    """Return an MQTT filter."""
    return Filter(text, FilterKind.MQTT, text)


def text_of(filter: Filter) -> str:
    """Return what filters are sorted by; sets of them have another order in each process."""
    return filter.text


def payload_of(event: EventId) -> bytes:
    """Return what an event carries: who it is."""
    name, incarnation, counter = event
    return f"{name} {incarnation} {counter}".encode()


def event_of(payload: bytes) -> EventId:
    """Return who an event is."""
    name, incarnation, counter = payload.decode().split()
    return name, int(incarnation), int(counter)


class Message:
    """An event on the broker."""

    __slots__ = ("event", "name", "stamp", "topic")

    def __init__(self, event: EventId, name: str, topic: int, stamp: bytes) -> None:
        self.event, self.name, self.topic, self.stamp = event, name, topic, stamp
