"""Drop-in for :mod:`paho.mqtt.subscribe`: messages come in the one order."""

from __future__ import annotations

from typing import Any

from paho.mqtt import subscribe as paho

from inorder.paho.helpers import rebound

_all = rebound(paho)
simple = _all["simple"]
callback = _all["callback"]


def __getattr__(name: str) -> Any:
    if name in _all:
        return _all[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
