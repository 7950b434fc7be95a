"""Requests that wait for room in the commit that collects."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from inorder_worker.service.work import HostSink, Work


class Backlog(deque[Work]):
    """Keeps requests in the order in which they are to be run, and says when they are too much.

    Who puts several in or takes several out calls ``check_pressure`` when that is done.

    Args:
        sink: told when no more is to be read from anybody, and when it is again.
        max_bytes: above that it is too much; until half of it is left.
    """

    def __init__(self, sink: HostSink, max_bytes: int) -> None:
        super().__init__()
        self._sink, self._max_bytes = sink, max_bytes
        self._is_pressed = False
        self.bytes = 0
        """The cost of all that is in it: the sum of their sizes."""

    def put(self, work: Work) -> None:
        """Add a request behind all others."""
        self.append(work)
        self.bytes += work.size
        self.check_pressure()

    def put_back(self, works: Sequence[Work]) -> None:
        """Add requests that came before all that are in it, in their order."""
        self.extendleft(reversed(works))
        self.bytes += sum(work.size for work in works)

    def take(self) -> Work:
        """Take out the first request. There must be one."""
        work = self.popleft()
        self.bytes -= work.size
        return work

    def take_all(self) -> list[Work]:
        """Take out all requests."""
        works = list(self)
        self.clear()
        self.bytes = 0
        return works

    def check_pressure(self) -> None:
        """Tell the sink if it is too much now, or is not any more."""
        is_pressed = self.bytes > (self._max_bytes // 2 if self._is_pressed else self._max_bytes)
        if is_pressed != self._is_pressed:
            self._is_pressed = is_pressed
            self._sink.pressed(is_pressed)
