"""The retained copies of a broker that a subscription has asked for (R5).

The retain flag alone does not tell a copy from the broker's store: with MQTT 5's *Retain As Published* a live message
has it too, and so have its repetitions. But the broker looks into its store only when it gets a subscription, and then
sends one copy for each topic, which is not marked as a repetition.
"""

from __future__ import annotations

from inorder.protocol.names import Filter, FilterKind, key_of

MAX_TOPICS = 10_000
"""Topics of one filter with wildcards whose copies are told apart; of more the flag is believed."""


class KeptCopies:
    """The copies that are still to come. It costs nothing for messages without the flag."""

    def __init__(self) -> None:
        self._exact: set[tuple[str, str]] = set()
        self._wild: dict[tuple[str, Filter], set[str | bytes]] = {}

    def wanted(self, space: str, filter: Filter) -> None:
        """A broker is asked to subscribe to a filter, perhaps again."""
        if filter.kind is FilterKind.EXACT:
            self._exact.add((space, filter.name))
        else:
            self._wild[space, filter] = set()

    def dropped(self, space: str, filter: Filter) -> None:
        """A filter is no longer subscribed to."""
        if filter.kind is FilterKind.EXACT:
            self._exact.discard((space, filter.name))
        else:
            self._wild.pop((space, filter), None)

    def have_come(self, space: str, topic: str) -> None:
        """A new event of a topic has come: the copies are ahead of it, so there are none left."""
        self._exact.discard((space, topic))
        for (its_space, filter), taken in self._wild.items():
            if its_space == space and len(taken) < MAX_TOPICS and filter.covers(topic):
                taken.add(key_of(topic))

    def take(self, space: str, topic: str) -> bool:
        """Tell whether a flagged message may be a copy that was asked for; the next one of the topic is then none."""
        if (space, topic) in self._exact:
            self._exact.discard((space, topic))
            return True
        for (its_space, filter), taken in self._wild.items():
            if its_space == space and key_of(topic) not in taken and filter.covers(topic):
                if len(taken) < MAX_TOPICS:
                    taken.add(key_of(topic))
                return True
        return False
