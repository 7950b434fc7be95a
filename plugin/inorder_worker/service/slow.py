"""Clients that do not read: they are named while this lasts, and for a while after the end of their connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

REMEMBERED: Final = 16
NAMED: Final = 20
"""Slow clients that are named one by one, the worst first; the others are counted."""
UNREAD_CLIENTS = 8.0
"""Times ``max_write_bytes`` that all clients together may leave unread."""


class Unread(Protocol):
    """A connection that may be slow."""

    peer: str
    is_link: bool

    @property
    def name(self) -> str:
        """The client's id."""

    @property
    def owner(self) -> str:
        """The owner of the client, empty for a client without one."""

    @property
    def is_writable(self) -> bool:
        """False while the client leaves too much unread."""

    @property
    def unread_bytes(self) -> int:
        """The sent bytes that have not left."""

    def cut_unread(self) -> None:
        """Cut a client that leaves too much unread."""


Each = TypeVar("Each", bound=Unread)


@dataclass(frozen=True, slots=True)
class SlowClient:
    """One that is slow now, or was thrown out for it (``at``: s, of the event loop)."""

    client: str
    peer: str
    unread_bytes: int
    at: float


class SlowClients:
    """Attribute ``thrown_out``: how many were disconnected because they left too much unread, or for too long."""

    def __init__(self) -> None:
        self.thrown_out = 0
        self._last: deque[SlowClient] = deque(maxlen=REMEMBERED)

    def disconnected(self, connection: Unread, now: float) -> None:
        """A connection was cut because it was slow."""
        self.thrown_out += 1
        self._last.append(SlowClient(connection.name, connection.peer, connection.unread_bytes, now))

    def last(self, since: float) -> list[SlowClient]:
        """Return clients that were disconnected after ``since`` (s), the newest first, and not all of many."""
        return [each for each in reversed(self._last) if each.at >= since]

    @classmethod
    def bound(cls, connections: Iterable[Unread], of_one: int) -> None:
        """Cut clients that together leave more than ``UNREAD_CLIENTS`` times as many bytes unread as one may."""
        for each in cls.beyond((each for each in connections if not each.is_link), int(UNREAD_CLIENTS * of_one)):
            each.cut_unread()

    @staticmethod
    def beyond(connections: Iterable[Each], most: int) -> list[Each]:
        """Return the connections to cut, so that the others together leave ``most`` bytes unread at most.

        Again and again the owner that leaves most loses its worst connection.
        """
        sizes = {each: size for each in connections if (size := each.unread_bytes)}
        total = sum(sizes.values())
        if total <= most:
            return []
        owned: dict[tuple[str, str], list[Each]] = {}
        for each in sorted(sizes, key=lambda each: sizes[each]):
            owned.setdefault((each.owner, "" if each.owner else each.name), []).append(each)
        left = {whose: sum(sizes[each] for each in its) for whose, its in owned.items()}
        cut: list[Each] = []
        while total > most:
            worst = max(left, key=lambda whose: left[whose])
            cut.append(owned[worst].pop())
            left[worst] -= sizes[cut[-1]]
            total -= sizes[cut[-1]]
        return cut

    @staticmethod
    def present(connections: Iterable[Unread], now: float) -> list[SlowClient]:
        """Return the connections that are slow now, the worst first."""
        slow = [each for each in connections if not each.is_writable]
        found = [SlowClient(each.name, each.peer, each.unread_bytes, now) for each in slow]
        return sorted(found, key=lambda each: -each.unread_bytes)
