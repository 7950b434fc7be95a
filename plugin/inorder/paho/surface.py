"""The names of the drop-in module: its own and those of :mod:`paho.mqtt.client`."""

from __future__ import annotations

from typing import Any

from paho.mqtt import client as paho

OURS = (
    "ClientConfiguration",
    "Gap",
    "GapReason",
    "InOrder",
    "NotConnected",
    "Verdict",
    "WorkersUnreachable",
    "configured",
    "install",
)


def lookup(name: str) -> Any:
    """Return the object of a name in paho's module. Raises AttributeError."""
    if not name.startswith("__") and hasattr(paho, name):
        return getattr(paho, name)
    raise AttributeError(f"module 'inorder.paho' has no attribute {name!r}")


def names() -> list[str]:
    """Return the names that ``from inorder.paho import *`` binds."""
    return sorted({*OURS, *(each for each in vars(paho) if not each.startswith("_"))})
