"""A durable subscriber's saved clock: what the application is done with, told to the bottom stage (R18).

It is kept by the workers and not in a file of the client's, so that a client may come back on another machine. A number
counts as done with when the application asks for what follows it. What was taken and not done with when the process
ended comes again: every event is worked on at least once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inorder.endpoint.notifications import Event, Gap, Reconnected, Verdict
from inorder.errors import InorderError
from inorder.protocol.pairs import flat
from inorder.protocol.wire import AskDurable, Done, Durable, Frame, SaveClock, SpaceFilter

ASK_AGAIN = 1.0
"""Seconds after which an answer counts as lost."""


class DurableClock:
    """What is done with, and how far that is saved.

    Args:
        send: sends a frame to the workers, or drops it while there is no connection.
        next_request: returns an id for a question.
        topic_id: returns the id of a topic by space and name, where a worker has told it.
        delay: s; how long saving may wait for company.
    """

    def __init__(
        self,
        send: Callable[[Frame], None],
        next_request: Callable[[], int],
        topic_id: Callable[[str, str], int | None],
        delay: float,
    ) -> None:
        self._send, self._next_request, self._topic_id, self._delay = send, next_request, topic_id, delay
        self._unsaved: dict[int, int] = {}
        self._saving: tuple[int, dict[int, int]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asked: asyncio.Future[Durable] | None = None
        self._is_stopped = False
        self._foreign = 0

    @property
    def is_saved(self) -> bool:
        """Nothing is left to save."""
        return not self._unsaved and self._saving is None

    def done_with(self, item: Event | Gap | Reconnected) -> None:
        """The application asks for what follows this notification."""
        number = _number_of(item)
        if self._foreign:
            self._foreign -= 1
            return
        if number is None or isinstance(item, Reconnected):
            return
        topic = self._topic_id(item.space, item.topic)
        if topic is not None and number > self._unsaved.get(topic, 0):
            self._unsaved[topic] = number
            if self._timer is None and self._saving is None and not self._is_stopped:
                self._timer = asyncio.get_running_loop().call_later(self._delay, self.save)

    def save(self) -> None:
        """Save what is not saved yet; the next time when this is answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unsaved and self._saving is None:
            self._saving, self._unsaved = (self._next_request(), self._unsaved), {}
            self._send_clock()

    def _send_clock(self) -> None:
        if self._saving is not None:
            request, numbers = self._saving
            self._send(SaveClock(request, flat(numbers)))

    def told(self, frame: Done | Durable) -> None:
        """An answer of the bottom stage."""
        if isinstance(frame, Durable):
            if self._asked is not None and not self._asked.done():
                self._asked.set_result(frame)
        else:
            self._saved(frame)

    def _saved(self, frame: Done) -> None:
        if self._saving is not None and frame.request == self._saving[0]:
            self._saving = None
            if self._unsaved and not self._is_stopped:
                self._timer = self._timer or asyncio.get_running_loop().call_later(self._delay, self.save)

    def reached(self) -> None:
        """The bottom stage is reached (again)."""
        self._send_clock()

    def forget(self, foreign: int) -> None:
        """Topics of another domain have other numbers: those of the next ``foreign`` notifications are of no use."""
        self._unsaved.clear()
        self._saving = None
        self._foreign = foreign

    async def ask(self) -> list[SpaceFilter]:
        """Return the filters of the durable subscription that waits for this client. Raises the error of ``stop``."""
        while True:
            self._asked = asyncio.get_running_loop().create_future()
            self._send(AskDurable(self._next_request()))
            try:
                async with asyncio.timeout(ASK_AGAIN):
                    return (await self._asked).filters
            except TimeoutError:
                continue

    def stop(self, error: InorderError) -> None:
        """Nothing more is saved but by :meth:`save`."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(error)


def _number_of(item: Event | Gap | Reconnected) -> int | None:
    """Return up to where a topic is done with after a notification; ``None``: it says nothing of that."""
    if isinstance(item, Gap):
        return item.last
    return item.number if isinstance(item, Event) and item.verdict is Verdict.IN_ORDER else None
