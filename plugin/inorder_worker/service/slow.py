"""Bounds of clients' unread answers and unfinished frames, and the names of slow clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

REMEMBERED: Final = 16
NAMED: Final = 20
"""Slow clients that are named one by one, the worst first; the others are counted."""
ALL_CLIENTS = 8.0
"""Times what one client may leave unread, or unfinished, that all may together."""


class Owned(Hashable, Protocol):
    """A connection of somebody."""

    @property
    def name(self) -> str:
        """The client's id."""

    @property
    def owner(self) -> str:
        """The owner of the client, empty for a client without one."""


class Unread(Owned, Protocol):
    """A connection that may be slow."""

    peer: str
    is_link: bool

    @property
    def is_writable(self) -> bool:
        """False while the client leaves too much unread."""

    @property
    def unread_bytes(self) -> int:
        """The sent bytes that have not left."""

    def cut_unread(self) -> None:
        """Cut a client that leaves too much unread."""


class Unfinished(Owned, Protocol):
    """A connection that may have sent a part of a frame."""

    def fail(self, code: str, message: str) -> None:
        """Say why, then close."""


Each = TypeVar("Each", bound=Owned)


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

    @staticmethod
    def bound(connections: Iterable[Unread], of_one: int) -> None:
        """Cut clients that together leave more than ``ALL_CLIENTS`` times as many bytes unread as one may."""
        unread = {each: size for each in connections if not each.is_link and (size := each.unread_bytes)}
        for each in beyond(unread, int(ALL_CLIENTS * of_one)):
            each.cut_unread()

    @staticmethod
    def present(connections: Iterable[Unread], now: float) -> list[SlowClient]:
        """Return the connections that are slow now, the worst first."""
        slow = [each for each in connections if not each.is_writable]
        found = [SlowClient(each.name, each.peer, each.unread_bytes, now) for each in slow]
        return sorted(found, key=lambda each: -each.unread_bytes)


class UnfinishedFrames:
    """The frames of all clients that have come in part, before the hello and after it.

    Args:
        most: bytes that all may be together.
    """

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._sizes: dict[Unfinished, int] = {}

    def note(self, connection: Unfinished, size: int) -> None:
        """Note how many bytes of an unfinished frame a connection has sent. Where all together are too many, those of
        whom most is kept are cut."""
        self._total += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        if self._total > self._most:
            for each in beyond(self._sizes, self._most):
                self.note(each, 0)
                each.fail("too_large", f"unfinished frames of all clients are over the limit of {self._most} bytes")


def beyond(sizes: Mapping[Each, int], most: int) -> list[Each]:
    """Return the connections to cut: again and again the owner of most bytes loses its worst connection, until all
    together have ``most`` bytes."""
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
