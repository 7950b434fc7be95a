"""paho's messages with their place in the total order."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inorder.endpoint.notifications import Event, Verdict
from inorder_adapters.stamp_property import take_stamp

_FIELDS: Final = tuple(paho.MQTTMessage.__slots__)


class InOrder(msgspec.Struct, frozen=True):
    """A message's place in the total order.

    Attributes:
        verdict: ``None`` where there is no order: the subscription is one that cannot be ordered, or there are no
            workers.
        sequence: its number in its topic, ``None`` where it has none.
        dependencies: what comes before it, as ``(topic, number)``, for the topics that this client knows.
    """

    verdict: Verdict | None = None
    sequence: int | None = None
    dependencies: tuple[tuple[str, int], ...] = ()


NO_ORDER: Final = InOrder()


class MQTTMessage(paho.MQTTMessage):
    """paho's message with one more attribute.

    Attributes:
        inorder: how it stands to the total order.
    """

    __slots__ = ("inorder",)

    def __init__(self, mid: int = 0, topic: bytes = b"") -> None:
        super().__init__(mid, topic)
        self.inorder = NO_ORDER


def ours(message: paho.MQTTMessage) -> MQTTMessage:
    """Return a message of paho's as a message of ours."""
    made = MQTTMessage.__new__(MQTTMessage)
    for name in _FIELDS:
        setattr(made, name, getattr(message, name))
    made.inorder = NO_ORDER
    return made


def without_stamp(properties: Properties) -> None:
    """Remove our user property, so that the application sees the publisher's properties only."""
    held: dict[str, Any] = properties.__dict__
    if "UserProperty" in held:
        stamp, own = take_stamp(held["UserProperty"])
        if stamp is not None:
            if own:
                held["UserProperty"] = list(own)
            else:
                del held["UserProperty"]


def repaired(event: Event, protocol: int) -> MQTTMessage:
    """Return a message for an event that came from its topic's event log and not from the broker (R18)."""
    message = MQTTMessage(0, event.topic.encode())
    message.payload, message.qos = event.payload, event.qos
    if protocol == paho.MQTTv5:
        message.properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        for pair in event.properties:
            message.properties.UserProperty = pair
    return message
