"""Requests that wait for room in the commit that collects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from inorder_worker.service.turns import Turns
from inorder_worker.service.work import HostSink, Work

BYTE_COST: Final = 1e-7
"""Seconds that a byte of a request counts for in turns, beside the time that it was measured to run: for what reading
and checking it before, and writing it and what answers it afterwards, take."""


class Backlog:
    """The backlog keeps requests until the commit loop runs them, in turns of owners and clients, and says when there
    are too many. The requests of one client stay in their order.

    Who puts several in or takes several out calls ``check_pressure`` when that is done.

    Args:
        sink: told when no more is to be read from those in it, and when it is again.
        max_bytes: above that it is too much; until half of it is left.
    """

    def __init__(self, sink: HostSink, max_bytes: int) -> None:
        self._works = Turns[Work]()
        self._sink, self._max_bytes = sink, max_bytes
        self._is_pressed = False
        self.bytes = 0
        """The cost of all that is in it: the sum of their sizes."""

    def __len__(self) -> int:
        return len(self._works)

    def put(self, work: Work) -> None:
        """Add a request behind all others of its client."""
        self._works.put(work.name, work, work.owner)
        self.bytes += work.size
        self.check_pressure()

    def put_back(self, works: Sequence[Work]) -> None:
        """Put requests back in front of all others, in their order."""
        for work in reversed(works):
            self._works.put_first(work.name, work, work.owner)
            self.bytes += work.size

    def take(self) -> Work:
        """Take out the request whose turn it is. There must be one."""
        work = self._works.take()
        self.bytes -= work.size
        return work

    def charge(self, work: Work, seconds: float) -> None:
        """Add the cost of a request that has been run for so long to its client and owner."""
        self._works.charge(work.name, seconds + work.size * BYTE_COST, work.owner)

    def take_all(self) -> list[Work]:
        """Take out all requests."""
        return [self.take() for _ in range(len(self))]

    def check_pressure(self) -> None:
        """Tell the sink if it is too much now, or is not any more."""
        is_pressed = self.bytes > (self._max_bytes // 2 if self._is_pressed else self._max_bytes)
        if is_pressed != self._is_pressed:
            self._is_pressed = is_pressed
            self._sink.pressed(is_pressed)
