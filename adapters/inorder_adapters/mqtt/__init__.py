"""MQTT 5 and 3.1.1 over paho-mqtt (``mqtt://``, ``mqtts://``)."""

from inorder_adapters.mqtt.factory import open_ens

__all__ = ["open_ens"]
