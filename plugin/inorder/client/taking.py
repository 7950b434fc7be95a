"""Who gets notifications instead of the delivery stream: the library around a client that is embedded in it."""

from __future__ import annotations

from typing import Literal, Protocol

from inorder.endpoint.notifications import Event, Gap
from inorder.endpoint.ordering import OrderingModule, Watcher
from inorder.endpoint.waiting import Sequenced
from inorder.errors import InorderError
from inorder.ports import Arrival

PassedOver = Literal["before", "duplicate", "twin_waits"]
"""Why an arrival has no place of its own in the order: it is from ``before`` the subscription began; it is a
``duplicate`` of what was given, skipped or lost; or of what waits for its turn (``twin_waits``)."""


class Taker(Protocol):
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


class TakerWatcher:
    """Tells a taker what the ordering module drops, and another watcher everything.

    Args:
        taker: who is told.
        ordering: what it watches.
        next: the recorder of traces, if there is one.
    """

    def __init__(self, taker: Taker, ordering: OrderingModule, next: Watcher | None = None) -> None:
        self._taker, self._ordering, self._next = taker, ordering, next

    def began(self, topic: int, number: int) -> None:
        """See :class:`~inorder.endpoint.ordering.Watcher`."""
        if self._next is not None:
            self._next.began(topic, number)

    def ended(self, topic: int, number: int) -> None:
        """See :class:`~inorder.endpoint.ordering.Watcher`."""
        if self._next is not None:
            self._next.ended(topic, number)

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """See :class:`~inorder.endpoint.ordering.Watcher`."""
        if self._next is not None:
            self._next.dropped(entry, why)
        _, arrival, _ = entry.content
        waits = why == "duplicate" and self._ordering.waits_for_turn(entry.topic, entry.number)
        self._taker.passed_over(arrival, entry.topic, entry.number, "twin_waits" if waits else why)
