"""The entry point of the ``mqtt`` and ``mqtts`` schemes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inorder.errors import MissingExtra
from inorder.ports import Ens
from inorder_adapters.mqtt.options import parse
from inorder_adapters.url_options import check_client_id


def open_ens(url: str, *, client_id: str, options: Mapping[str, Any]) -> Ens:
    """Make an unconnected ENS on an MQTT broker. Raises InvalidOption, MissingExtra."""
    try:
        import paho.mqtt.client  # noqa: F401
    except ImportError:
        raise MissingExtra("MQTT", "mqtt") from None
    from inorder_adapters.mqtt.ens import MqttEns

    return MqttEns(parse(url, options), check_client_id(client_id))
