"""A limit to waiting that an event loop which stood still does not use up."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

PARTS: Final = 10
"""Turns of the event loop that a wait lasts at least; each may bring what is waited for."""


class Patience:
    """Limits what is awaited inside to so many seconds, counted in parts; raises TimeoutError.

    A process that stood still, or shares its processor with a thousand others, finds the time over and the answer
    unread in its socket. Whoever gives up then asks once more, as late as all others, and the other side has the work
    again. So a part that took longer counts as one part.
    """

    def __init__(self, seconds: float) -> None:
        self._part, self._limit = seconds / PARTS, asyncio.timeout(None)
        self._timer: asyncio.TimerHandle

    async def __aenter__(self) -> None:
        """Begin to count."""
        await self._limit.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._wait(PARTS)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Count no more. Raises TimeoutError where the time was over."""
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _wait(self, parts: int) -> None:
        if parts:
            self._timer = self._loop.call_later(self._part, self._wait, parts - 1)
        else:
            self._limit.reschedule(self._loop.time())
