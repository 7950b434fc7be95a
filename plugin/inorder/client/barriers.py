"""Barriers at one broker, which tell when everything is read that the broker had for this client. (R24)"""

from __future__ import annotations

import asyncio
from typing import Final

from inorder.errors import LinkError
from inorder.ports import BarrierEns, Ens

QUIET: Final = 0.25
"""Seconds without an arrival, in a loop that turns in time, after which an adapter without barriers counts as read."""
MAX_BUSY: Final = 240
"""Such stretches, with arrivals in them, after which it counts as read all the same: a minute, where none is quiet."""


class Barriers:
    """Runs the barriers of one broker, one after the other.

    Attributes:
        arrived: messages that have arrived on the connection.
    """

    def __init__(self, ens: Ens) -> None:
        self._ens = ens
        self.arrived = 0

    async def passed(self) -> bool:
        """Wait for a barrier that begins now; return whether it has come back."""
        try:
            if isinstance(self._ens, BarrierEns):
                await self._ens.barrier()
            else:
                await self._quiet()
        except LinkError:
            return False
        return True

    async def _quiet(self) -> None:
        loop = asyncio.get_running_loop()
        in_time = 0
        while in_time < MAX_BUSY:
            before, began = self.arrived, loop.time()
            await asyncio.sleep(QUIET)
            if loop.time() - began < 2 * QUIET:
                if self.arrived == before:
                    return
                in_time += 1
