"""The way from the in-process broker to one client: delay, reordering, duplicates and loss, from a seed."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count

from inorder.errors import InorderError
from inorder_adapters.memory.hub import WireMessage
from inorder_adapters.memory.options import MemoryOptions

Notify = Callable[[WireMessage, tuple[str, ...], int, bool], None]

_LEAST_REORDER_SECONDS = 0.005


class Line:
    """One client's side of the broker. Everything happens in the order of its due times, ties in that of calls."""

    def __init__(
        self,
        options: MemoryOptions,
        client_id: str,
        counters: Counter[str],
        notify: Notify,
        broken: Callable[[InorderError], None],
    ) -> None:
        self._options = options
        self._low, self._high = options.delay
        self._random = random.Random(f"{options.seed}/{client_id}")
        self._counters = counters
        self._notify = notify
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._last_due: dict[str, float] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_due = 0.0
        self._is_stalled = False
        self._is_closed = False

    def deliver(self, publisher: str, message: WireMessage, via: tuple[str, ...], qos: int, *, retained: bool) -> None:
        """Send one copy on its way to the client, by this line's options."""
        options = self._options
        if options.loss and self._random.random() < options.loss:
            self._counters["lost"] += 1
            return
        self._send_copy(publisher, message, via, qos, retained)
        if options.duplicate and self._random.random() < options.duplicate:
            self._counters["duplicated"] += 1
            self._send_copy(publisher, message, via, qos, retained)

    def acknowledge(self, action: Callable[[], None]) -> None:
        """Run an action of the client in a later turn of the loop, never while the line is stalled."""
        self._enter(0.0, action)

    def barrier(self, action: Callable[[], None]) -> None:
        """Run an action of the client behind all messages that are on their way to the client now."""
        self._enter(max((due for due, _, _ in self._waiting), default=0.0), action)

    def stall(self) -> None:
        """Hold everything back until :meth:`resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        """Go on where :meth:`stall` stopped."""
        self._is_stalled = False
        self._arm()

    def broken(self, error: InorderError) -> None:
        """End the line with an error."""
        if not self._is_closed:
            self.close()
            self._broken(error)

    def close(self) -> None:
        """End the line; the client is notified of nothing more."""
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_copy(self, publisher: str, message: WireMessage, via: tuple[str, ...], qos: int, retained: bool) -> None:
        self._enter(self._due(publisher), lambda: self._arrive(message, via, qos, retained))

    def _arrive(self, message: WireMessage, via: tuple[str, ...], qos: int, retained: bool) -> None:
        self._counters["delivered"] += 1
        self._notify(message, via, qos, retained)

    def _due(self, publisher: str) -> float:
        """Return when a copy is due (0.0: in the next turn), in the order of its publisher unless reordered."""
        if not self._high and not self._options.reorder:
            return 0.0
        due = self._loop.time() + self._random.uniform(self._low, self._high)
        if self._options.reorder and self._random.random() < self._options.reorder:
            return due + self._random.uniform(0, max(self._high, _LEAST_REORDER_SECONDS))
        due = max(due, self._last_due.get(publisher, 0.0))
        self._last_due[publisher] = due
        return due

    def _enter(self, due: float, action: Callable[[], None]) -> None:
        if self._is_closed:
            return
        heapq.heappush(self._waiting, (due, next(self._numbers), action))
        self._arm()

    def _arm(self) -> None:
        """Set the timer of the event loop for the first waiting action."""
        if not self._waiting or self._is_stalled:
            return
        due = self._waiting[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_at(due, self._run) if due else self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._timer = None
        now = self._loop.time()
        batch = len(self._waiting)
        while self._waiting and self._waiting[0][0] <= now and batch and not self._is_stalled:
            batch -= 1
            heapq.heappop(self._waiting)[2]()
        if not self._is_closed:
            self._arm()
