"""inorder: one total order for applications on MQTT and Redis pub/sub."""

from inorder.client import Client, ClientStats, ClientTimes
from inorder.endpoint.notifications import Bounded, Event, Gap, GapReason, Receipt, Reconnected, Verdict
from inorder.errors import InorderError
from inorder.traces import Traces

__all__ = [
    "Bounded",
    "Client",
    "ClientStats",
    "ClientTimes",
    "Event",
    "Gap",
    "GapReason",
    "InorderError",
    "Receipt",
    "Reconnected",
    "Traces",
    "Verdict",
]
