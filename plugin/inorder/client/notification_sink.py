"""Who gets notifications instead of the delivery stream: the library around a client that is embedded in it."""

from __future__ import annotations

from typing import Literal, Protocol

from inorder.endpoint.notifications import Event, Gap
from inorder.errors import InorderError
from inorder.ports import Arrival

PassedOver = Literal["before", "duplicate", "twin_waits"]
"""Why an arrival has no place of its own in the order: it is from ``before`` the subscription began; it is a
``duplicate`` of what was given, skipped or lost; or of what waits for its turn (``twin_waits``)."""


class NotificationSink(Protocol):
    """Told of everything that arrived, once, on the event loop's thread. Calls are short and never raise."""

    def event(self, event: Event, arrival: Arrival) -> None:
        """Its turn: the application is to be notified. What came from an event log has no ``arrival.source``."""

    def gap(self, gap: Gap) -> None:
        """Numbers will not come."""

    def passed_over(self, arrival: Arrival, topic: int, number: int, why: PassedOver) -> None:
        """The total order has no place for it."""

    def unrouted(self, arrival: Arrival) -> None:
        """No subscription of this client covers it."""

    def failed(self, error: InorderError) -> None:
        """The client has failed for good."""
