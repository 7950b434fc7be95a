"""When has a connection read all that the broker had for it? (R24)

MQTT answers a PINGREQ in its turn, so a PINGRESP comes behind all publishes that were sent before. Of QoS 1 and 2 the
broker sends no more than a window without acknowledgements; what it queues beyond comes later. So where such filters
are subscribed to, the barrier is a ping during which none of these came, and before which all of them were
acknowledged: then the broker had none left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

PAUSE = 0.02
"""Seconds before the next ping where something came during one; doubled each time, up to ``MAX_PAUSE``."""
MAX_PAUSE = 0.32


class Pinging(Protocol):
    """What pings.

    Attributes:
        pings: how many PINGREQ it has sent, its own keepalive's included.
        is_half_way: a message of QoS 1 or 2 has come that is not acknowledged.
    """

    pings: int

    @property
    def is_half_way(self) -> bool:
        """See above."""

    def ping(self) -> None:
        """Send a PINGREQ."""


class Barriers:
    """The barriers on one connection, on its event loop.

    Attributes:
        qos: the highest quality that is subscribed to.
        queued: how many messages of QoS 1 and 2 have come.
    """

    def __init__(self, client: Pinging) -> None:
        self.qos = self.queued = 0
        self._client = client
        self._answered = 0
        self._waiting = deque[tuple[int, asyncio.Future[None]]]()

    async def passed(self) -> None:
        """Wait until all has come that the broker has now. Raises the error of :meth:`end`."""
        pause = PAUSE
        while not await self._is_passed():
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    async def _is_passed(self) -> bool:
        before, was_half_way = self.queued, self._client.is_half_way
        await self._pong()
        is_queue_empty = self.queued == before and not (was_half_way or self._client.is_half_way)
        return not self.qos or is_queue_empty

    async def _pong(self) -> None:
        answer = asyncio.get_running_loop().create_future()
        self._client.ping()
        self._waiting.append((self._client.pings, answer))
        await answer

    def ponged(self) -> None:
        """A PINGREQ was answered."""
        self._answered += 1
        while self._waiting and self._waiting[0][0] <= self._answered:
            answer = self._waiting.popleft()[1]
            if not answer.done():
                answer.set_result(None)

    def end(self, error: Exception) -> None:
        """The connection is gone."""
        while self._waiting:
            answer = self._waiting.popleft()[1]
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # marks it as seen: its waiter may be gone
