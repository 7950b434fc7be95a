"""What the module of the drop-in client offers beside its own: all that :mod:`paho.mqtt.client` does."""

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
    """Return what paho's module has under a name. Raises AttributeError."""
    if not name.startswith("__") and hasattr(paho, name):
        return getattr(paho, name)
    raise AttributeError(f"module 'inorder.paho' has no attribute {name!r}")


def names() -> list[str]:
    """Return what ``from inorder.paho import *`` binds."""
    return sorted({*OURS, *(each for each in vars(paho) if not each.startswith("_"))})
