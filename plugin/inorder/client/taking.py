"""Who gets notifications instead of the delivery stream: the library around a client that is embedded in it."""

from __future__ import annotations

from typing import Literal, Protocol

from inorder.core.notifications import Event, Gap
from inorder.core.ordering import Watcher
from inorder.core.waiting import Sequenced
from inorder.errors import InorderError
from inorder.ports import Arrival


class Taker(Protocol):
    """Told of everything that arrived, once, on the event loop's thread. Calls are short and never raise."""

    def event(self, event: Event, arrival: Arrival) -> None:
        """Its turn: the application is to be notified. What came from an event log has no ``arrival.source``."""

    def gap(self, gap: Gap) -> None:
        """Numbers will not come."""

    def passed_over(self, arrival: Arrival, topic: int, number: int, why: Literal["before", "duplicate"]) -> None:
        """The total order has no place for it: ``before`` the subscription began, or a ``duplicate`` of what arrived
        before."""

    def unrouted(self, arrival: Arrival) -> None:
        """No subscription of this client covers it."""

    def failed(self, error: InorderError) -> None:
        """The client has failed for good."""


class TakerWatcher:
    """Tells a taker what the ordering module drops, and another watcher everything.

    Args:
        taker: who is told.
        next: the recorder of traces, if there is one.
    """

    def __init__(self, taker: Taker, next: Watcher | None = None) -> None:
        self._taker, self._next = taker, next

    def began(self, topic: int, number: int) -> None:
        """See :class:`~inorder.core.ordering.Watcher`."""
        if self._next is not None:
            self._next.began(topic, number)

    def ended(self, topic: int, number: int) -> None:
        """See :class:`~inorder.core.ordering.Watcher`."""
        if self._next is not None:
            self._next.ended(topic, number)

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """See :class:`~inorder.core.ordering.Watcher`."""
        if self._next is not None:
            self._next.dropped(entry, why)
        _, arrival, _ = entry.content
        self._taker.passed_over(arrival, entry.topic, entry.number, why)
