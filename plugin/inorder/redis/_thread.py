"""The inner side of the blocking classes: subscribers and publishers on the loop's thread, called from any other."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from inorder.client.clock import ReadingTime
from inorder.client.configured import ClientConfiguration
from inorder.errors import InorderError
from inorder.logs import logger
from inorder.redis._errors import translated, unanswered
from inorder.redis._message import Item, Via
from inorder.redis._publisher import Publisher, Ticket
from inorder.redis._subscriber import Subscriber
from inorder.redis._waker import Waker
from inorder.sync._thread import THREAD

_log = logger("inorder.redis")

NUDGE = ReadingTime.PATIENCE / 2
"""How often who waits for a connection's socket is woken to read while messages wait for their turn, s."""


class _Inner:
    """An object that lives on the loop's thread from :meth:`_open` to :meth:`end`."""

    def __init__(self, inner: Publisher | Subscriber) -> None:
        self._inner = inner
        self._process = os.getpid()
        self._has_ended = False
        try:
            THREAD.acquire()
        except InorderError as error:
            raise translated(error) from None
        try:
            THREAD.run(inner.open())
        except BaseException as error:
            THREAD.release()
            if isinstance(error, InorderError):
                raise translated(error) from None
            raise
        _LIVING.add(self)

    @property
    def is_alive(self) -> bool:
        """Tell whether the object has not ended and belongs to this process."""
        return not self._has_ended and self._process == os.getpid()

    def end(self) -> None:
        """Start the end without waiting; take no lock, as finalizers call this."""
        if not self._has_ended and self._process == os.getpid():
            self._has_ended = True
            with contextlib.suppress(InorderError):
                THREAD.post(_start_closing, self._inner)
            _LIVING.discard(self)


def _start_closing(inner: Publisher | Subscriber) -> None:
    task = THREAD.submit(inner.close())
    _CLOSING.add(task)

    def closed(_: object) -> None:
        _CLOSING.discard(task)
        THREAD.release()

    task.add_done_callback(closed)


_LIVING: weakref.WeakSet[_Inner] = weakref.WeakSet()
_CLOSING: set[Any] = set()


def _at_exit() -> None:
    """Let publishes be confirmed and subscribers leave, as programs often close nothing."""
    for each in list(_LIVING):
        each.end()
    deadline = time.monotonic() + 2.0
    try:
        THREAD.call(int)  # what was posted before has begun by now
    except InorderError:
        return
    while _CLOSING and time.monotonic() < deadline:
        time.sleep(0.005)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CLOSING.clear)


class ThreadPublisher(_Inner):
    """A publisher for threads that block."""

    def __init__(self, configuration: ClientConfiguration, address: str) -> None:
        self.publisher = Publisher(configuration, address)
        super().__init__(self.publisher)

    @property
    def is_alive(self) -> bool:
        """Tell whether the publisher has not ended, belongs to this process and is not refused for good."""
        return super().is_alive and not self.publisher.is_closed

    def stamp(self, tickets: Sequence[Ticket], timeout: float) -> None:
        """Wait until all tickets have a timestamp.

        Raises:
            InorderError: what the first one without a timestamp failed with, or that the workers have not answered
                within ``timeout`` seconds; then none is to be published.
        """
        done = threading.Lock()  # the quickest thing that a thread can wait for
        done.acquire()
        publisher = self.publisher
        is_whole = False
        THREAD.post(publisher.stamp, tickets, done.release)
        try:
            if not done.acquire(timeout=timeout):
                raise unanswered(timeout)
            error = next((each.error for each in tickets if each.error is not None), None)
            if error is not None:
                raise translated(error) if isinstance(error, InorderError) else error
            is_whole = True
        finally:
            if not is_whole:
                for each in tickets:
                    THREAD.post(publisher.give_up, each)


class ThreadSubscriber(_Inner):
    """A subscriber for threads that block.

    Args:
        waker: is called when there is something to take.
    """

    def __init__(self, configuration: ClientConfiguration, address: str, waker: Waker) -> None:
        self._waker = waker
        self._is_exchanging = False
        self._nudge: asyncio.TimerHandle | None = None
        self.subscriber = Subscriber(configuration, address, self._wake)
        super().__init__(self.subscriber)

    def _wake(self) -> None:
        if not self._is_exchanging:  # else who is to be woken takes it right now
            self._waker.wake()

    def exchange(self, responses: list[Any]) -> list[Item]:
        """Feed responses and return the items to deliver."""
        subscriber = self.subscriber

        def exchanged() -> list[Item]:
            self._is_exchanging = True
            try:
                subscriber.feed(responses)
            finally:
                self._is_exchanging = False
            items = list(subscriber.items)
            subscriber.items.clear()
            if self._nudge is None:
                self._nudge = asyncio.get_running_loop().call_later(NUDGE, self._nudged)
            return items

        return THREAD.call(exchanged)

    def _nudged(self) -> None:
        """Wake a program that waits for the socket itself: without reads, missing messages do not age."""
        self._nudge = None
        if self.subscriber.is_waiting:
            self._wake()

    @property
    def has_items(self) -> bool:
        """Tell whether there are items to deliver."""
        return bool(self.subscriber.items)

    def is_settled(self, vias: set[Via]) -> bool:
        """Tell whether all of these subscriptions were answered."""
        return vias <= self.subscriber.settled
