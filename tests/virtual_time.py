"""An event loop whose time leaps to the next timer: hours of waiting pass at once, the same way every time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Leap(selectors.SelectSelector):
    """A selector that lets time pass instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing would ever happen again"
        self.now += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.leap = _Leap()
        super().__init__(self.leap)

    def time(self) -> float:
        return self.leap.now


def stand_still(seconds: float) -> None:
    """Let time pass in which the event loop does nothing, as in a process that was stopped."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.leap.now += seconds


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for time alone, from second 0 on."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(coroutine)
