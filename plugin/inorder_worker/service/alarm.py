"""One timer of the event loop, which may be set again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_INTERVAL: Final = 0.01
"""Seconds to the next ring, at least."""


class Alarm:
    """Calls a function once at the moment that was set last.

    Args:
        on_ring: is called; nothing is set then.
    """

    def __init__(self, on_ring: Callable[[], None]) -> None:
        self._on_ring = on_ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        """Ring at this moment (s, of the event loop), and not at the one that was set before."""
        self.cancel()
        loop = asyncio.get_running_loop()
        # not at once: what uvloop returns for a moment that is (nearly) here has no ``when``
        self._timer = loop.call_at(max(when, loop.time() + LOOK_INTERVAL), self._ring)

    def set_soon(self) -> None:
        """Ring within ``LOOK_INTERVAL``."""
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() > loop.time() + LOOK_INTERVAL:
            self.set(loop.time() + LOOK_INTERVAL)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._on_ring()
