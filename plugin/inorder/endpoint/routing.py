"""The subscription of an arriving topic: the strongest ordering wins, and overlapping copies are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inorder.protocol.names import Filter, key_of

Ordering = Literal["total", "fifo", "none"]
ORDERINGS: tuple[Ordering, ...] = ("total", "fifo", "none")


@dataclass(frozen=True, slots=True)
class Subscription:
    """One filter that the application subscribed to. ``properties``: stamps of its topics may come beside the payload,
    as this client's connection to their broker can read them there."""

    space: str
    filter: Filter
    ordering: Ordering
    qos: int
    properties: bool


@dataclass(frozen=True, slots=True)
class Route:
    """The treatment of one topic's arrivals.

    Attributes:
        ordering: the strongest among the filters that cover the topic.
        canonical: the filter whose copy counts when the broker sends one copy per filter.
        overlaps: how many filters cover it.
    """

    ordering: Ordering
    canonical: str
    overlaps: int


class Routes:
    """The application's subscriptions, and the route of each topic seen."""

    def __init__(self) -> None:
        self._subscribed: dict[tuple[str, Filter], Subscription] = {}
        self._routes: dict[tuple[str, str | bytes], Route | None] = {}

    def all(self) -> list[Subscription]:
        """Return all subscriptions, oldest first."""
        return list(self._subscribed.values())

    def get(self, space: str, filter: Filter) -> Subscription | None:
        """Return a subscription."""
        return self._subscribed.get((space, filter))

    def add(self, subscribed: Subscription) -> None:
        """Add or replace a subscription."""
        self._subscribed[subscribed.space, subscribed.filter] = subscribed
        self._routes.clear()

    def remove(self, space: str, filter: Filter) -> None:
        """Remove a subscription."""
        self._subscribed.pop((space, filter), None)
        self._routes.clear()

    def forget(self, space: str, topic: str) -> None:
        """Keep nothing for a topic of which nothing more comes."""
        self._routes.pop((space, key_of(topic)), None)

    def of(self, space: str, topic: str) -> Route | None:
        """Return the route of a topic, ``None`` where no subscription covers it (any more)."""
        key = space, key_of(topic)
        try:
            return self._routes[key]
        except KeyError:
            if len(self._routes) > 100_000:
                self._routes.clear()
            route = self._routes[key] = self._find(space, topic)
            return route

    def _find(self, space: str, topic: str) -> Route | None:
        covering = [each for each in self._subscribed.values() if each.space == space and each.filter.covers(topic)]
        if not covering:
            return None
        best = min(covering, key=lambda each: ORDERINGS.index(each.ordering))
        return Route(best.ordering, best.filter.text, len(covering))
