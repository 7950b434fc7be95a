"""Drop-in for :mod:`paho.mqtt.publish`: published messages get their place in the total order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paho.mqtt import publish as paho

from inorder.paho.helpers import rebound

_all = rebound(paho)
if TYPE_CHECKING:
    from paho.mqtt.publish import *  # noqa: F403
else:
    single = _all["single"]
    multiple = _all["multiple"]

    def __getattr__(name: str) -> Any:
        if name in _all:
            return _all[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
