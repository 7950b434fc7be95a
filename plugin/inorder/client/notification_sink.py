"""The port for notifications to a library that embeds a client, instead of the delivery stream."""

from __future__ import annotations

from typing import Literal, Protocol

from inorder.endpoint.notifications import Event, Gap
from inorder.errors import InorderError
from inorder.ports import Arrival

PassedOver = Literal["before", "duplicate", "twin_waits"]
"""Why an arrival has no place of its own in the order: it is from ``before`` the subscription began; it is a
``duplicate`` of what was given, skipped or lost; or of what waits for its turn (``twin_waits``)."""


class NotificationSink(Protocol):
    """Gets every arrival once, on the event loop's thread. Calls are short and never raise."""

    def on_event(self, event: Event, arrival: Arrival) -> None:
        """Notify the application of an event in its turn. What came from an event log has no ``arrival.source``."""

    def on_gap(self, gap: Gap) -> None:
        """Report numbers that will not come."""

    def on_passed_over(self, arrival: Arrival, topic: int, number: int, why: PassedOver) -> None:
        """Take an arrival for which the total order has no place."""

    def on_unrouted(self, arrival: Arrival) -> None:
        """Take an arrival that no subscription of this client covers."""

    def on_failed(self, error: InorderError) -> None:
        """Note that the client has failed for good."""
