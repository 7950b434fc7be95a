"""Drop-in for :mod:`paho.mqtt.subscribe`: messages come in the total order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paho.mqtt import subscribe as paho

from inorder.paho.helpers import rebound

_all = rebound(paho)
if TYPE_CHECKING:
    from paho.mqtt.subscribe import *  # noqa: F403
else:
    simple = _all["simple"]
    callback = _all["callback"]

    def __getattr__(name: str) -> Any:
        if name in _all:
            return _all[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
