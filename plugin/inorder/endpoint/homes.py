"""A client keeps the homes of topics, as workers named them (R13), and the order epoch of these homes (R14). No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from inorder.protocol.wire import TopicInfo


class Homes:
    """The table holds the id, the home and the log of each topic that a worker named.

    Attributes:
        order_epoch: which topic order the homes are of.
        topics: what is known, by (space, name).
        lowest: the lowest stage that was ever named as a home.
        refusals: the highest count of refusals that a stage has told (see the frame Moved).
    """

    def __init__(self) -> None:
        self.order_epoch = 1
        # Each home is that of the topic order `order_epoch`, or of a newer one that is not known as a whole yet.
        self.topics: dict[tuple[str, str], TopicInfo] = {}
        # No home in `topics` is below this stage.
        self.lowest = 0
        # Topics that were asked for over the connection that there is, and not named since.
        self._asked: set[tuple[str, str]] = set()
        # How often requests were refused, for their topics have ended, as far as a stage has told.
        self.refusals = 0

    def describe(self) -> dict[str, Any]:
        """Return all that is known, for tests and messages about failures."""
        return {
            "order_epoch": self.order_epoch,
            "topics": dict(self.topics),
            "lowest_home": self.lowest,
            "asked_names": set(self._asked),
            "refusals": self.refusals,
        }

    def is_logged(self, topic: tuple[str, str]) -> bool:
        """Tell whether a topic is known to have an event log (R18)."""
        info = self.topics.get(topic)
        return info is not None and info.logged

    def welcomed(self, order_epoch: int) -> None:
        """Take the order epoch of a worker's hello, as long as no topic's home is known (0: the worker has no stage,
        and does not know)."""
        if order_epoch and not self.topics:
            self.order_epoch = order_epoch

    def unnamed(self, wanted: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those topics whose ids must be asked for; each once, until :meth:`ask_again`."""
        asked = [each for each in dict.fromkeys(wanted) if each not in self.topics and each not in self._asked]
        self._asked.update(asked)
        return asked

    def ask_again(self) -> None:
        """Forget which topics were asked for: the answers may be lost with a connection."""
        self._asked.clear()

    def named(self, topics: Iterable[TopicInfo], order_epoch: int | None = None) -> None:
        """Take a worker's word on topics. A home of an older topic order does not count: its topic is asked for once
        more."""
        is_old = order_epoch is not None and order_epoch < self.order_epoch
        for info in topics:
            self._asked.discard((info.space, info.name))
            self.lowest = max(info.stage, self.lowest)
            known = self.topics.get((info.space, info.name))
            if not is_old:
                self.topics[info.space, info.name] = info
            elif known is not None:  # whether it is logged does not depend on the order
                self.topics[info.space, info.name] = replace(known, logged=info.logged)

    def forget(self, topics: Collection[int]) -> None:
        """Forget topics that have ended, by their ids: what is published under their names is of other ones."""
        for name in [name for name, info in self.topics.items() if info.id in topics]:
            del self.topics[name]

    def move(self, homes: Mapping[int, int]) -> None:
        """Take the new homes of topics, by their ids."""
        self.lowest = max(self.lowest, *homes.values(), 0)
        for name, info in self.topics.items():
            if info.id in homes:
                self.topics[name] = replace(info, stage=homes[info.id])
