"""The internals of paho-mqtt that the drop-in client depends on, in one place.

paho-mqtt has no public hooks where an order could be put between the socket and the callbacks. What is overridden is
called by paho alone, and each override calls paho's own; what is read is read only. A version of paho-mqtt without
one of these names is refused at import, before it could break the order silently.
"""

from __future__ import annotations

from typing import Final

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

OVERRIDDEN: Final = (
    "_do_on_disconnect",
    "_do_on_publish",
    "_handle_connack",
    "_handle_on_message",
    "_handle_pingresp",
    "_handle_pubackcomp",
    "_handle_publish",
    "_handle_pubrec",
    "_handle_suback",
    "_handle_unsuback",
    "_loop",
    "_send_pingreq",
    "_send_puback",
    "_send_publish",
    "_send_subscribe",
    "_send_unsubscribe",
)
READ: Final = (
    "_call_socket_register_write",
    "_client_id",
    "_client_mode",
    "_connect_properties",
    "_host",
    "_in_callback_mutex",
    "_in_messages",
    "_in_packet",
    "_inflight_messages",
    "_manual_ack",
    "_on_message",
    "_on_message_filtered",
    "_mid_generate",
    "_on_socket_register_write",
    "_out_messages",
    "_out_packet",
    "_port",
    "_protocol",
    "_send_simple_command",
    "_sock",
    "_sock_close",
    "_sockpairR",
    "_sockpairW",
    "_state",
    "_thread",
    "_userdata",
)


def missing(client: paho.Client) -> list[str]:
    """Return the required names that the installed library's client lacks."""
    return [name for name in (*OVERRIDDEN, *READ) if not hasattr(client, name)]


def check() -> None:
    """Raise ImportError with the missing names."""
    lacking = missing(paho.Client(CallbackAPIVersion.VERSION2))
    if lacking:
        raise ImportError(
            f"inorder.paho does not know this version of paho-mqtt: it has no {', '.join(lacking)}; allowed are the"
            " versions that 'inorder[mqtt]' installs"
        )
