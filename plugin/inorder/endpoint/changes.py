"""One change of the subscription that the application asked for."""

from __future__ import annotations

from typing import Any

from inorder.endpoint.routing import Subscription
from inorder.protocol.names import Filter


class Change:
    """A change of the subscription: additions and removals, at the brokers first, then at the topic managers (R7, R11).

    Attributes:
        adds: what is subscribed to, or subscribed to in another way.
        removes: (space, filter) of what is not subscribed to any more.
        content: the client's own; opaque here.
        subscribes: what the brokers are to be asked to subscribe to.
        unsubscribes: what they are to be asked to unsubscribe from after that.
        before: of what is added, how it was subscribed to before.
        is_total: the topic managers are told of it.
        is_at_brokers: the brokers deliver nothing more of what is removed, as it is unsubscribed there already.
        is_rest: it only unsubscribes, from what earlier changes have left (R22); nobody waits for it.
        error: a broker has refused it, and all of it is taken back.
    """

    __slots__ = (
        "adds",
        "before",
        "content",
        "error",
        "is_at_brokers",
        "is_rest",
        "is_total",
        "removes",
        "subscribes",
        "unsubscribes",
    )

    def __init__(
        self,
        adds: list[Subscription],
        removes: list[tuple[str, Filter]],
        content: Any,
        *,
        is_at_brokers: bool = False,
        is_rest: bool = False,
    ) -> None:
        self.adds, self.removes, self.content = adds, removes, content
        self.subscribes, self.unsubscribes = adds, removes
        self.before: list[Subscription | None] = []
        self.is_total, self.is_at_brokers, self.is_rest = False, is_at_brokers, is_rest
        self.error: Exception | None = None

    def __repr__(self) -> str:
        return f"<Change +{[each.filter.text for each in self.adds]} -{[each.text for _, each in self.removes]}>"
