"""Topic aliases of MQTT 5 in the broker's publishes, for applications that allow them. paho leaves the topic empty; a
message without a topic has no place in the order."""

from __future__ import annotations

from paho.mqtt.properties import Properties

from inorder_adapters.mqtt.user_properties import take_out


def alias_of(properties: Properties | None) -> int:
    """Return the topic alias of a publish, 0 where it has none."""
    return 0 if properties is None else int(vars(properties).get("TopicAlias", 0))


def aliases_allowed(connect: Properties | None) -> bool:
    """Tell whether the properties of a CONNECT allow the broker to use aliases."""
    return connect is not None and bool(vars(connect).get("TopicAliasMaximum", 0))


def named(command: int, packet: bytes, known: dict[int, bytes]) -> bytes:
    """Return a PUBLISH with its topic in place of a topic alias; other packets stay as they are.

    Args:
        command: its first byte.
        packet: all behind the fixed header.
        known: topics by alias of this connection, to which it may add one.
    """
    topic = packet[2 : 2 + int.from_bytes(packet[:2], "big")]
    *_, alias = take_out(command, packet)
    if topic and alias:
        known[alias] = topic
    elif not topic and alias in known:
        return len(known[alias]).to_bytes(2, "big") + known[alias] + packet[2:]
    return packet
