"""Calls on their way to the event loop's thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from inorder.logs import logger
from inorder.sync._thread import LoopThread

_log = logger("inorder.sync")


class Mailbox:
    """Passes calls from any thread to the loop's thread, and wakes the loop once for all waiting calls."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._calls)

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop's thread; the calls of one thread keep their order. Raises Closed."""
        self._calls.append((function, args))
        if not self._is_due:  # racing threads wake the loop once too often, never too seldom
            self._is_due = True
            self._thread.post(self._cross)

    def _cross(self) -> None:
        self._is_due = False
        for _ in range(len(self._calls)):  # no more: who calls without end must not keep the loop from all else
            function, args = self._calls.popleft()
            try:
                function(*args)
            except Exception:  # of one call, and the others are not to suffer
                _log.exception("event=call_failed function=%r", function)
        if self._calls and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._cross)
