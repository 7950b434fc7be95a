"""``inorder.paho.install()``."""

from __future__ import annotations

from inorder.client import installing
from inorder.paho.client import Client
from inorder_adapters.mqtt import paho_client as _of_our_own  # noqa: F401 (it has paho's own class, and keeps it)


def install(*, force: bool = False) -> None:
    """Replace the client class in ``paho.mqtt.client`` by :class:`inorder.paho.Client`, for libraries that import
    paho's own (aiomqtt). Once, before they are imported; once more does nothing. ``paho.mqtt.publish`` and
    ``paho.mqtt.subscribe`` use it, too.

    Args:
        force: also where modules have taken paho's class before; they go on with it.

    Raises:
        UsageError: without ``force``, modules have; the message names them, and nothing was changed.
    """
    installing.install({"paho.mqtt.client": {"Client": Client}}, force=force)
