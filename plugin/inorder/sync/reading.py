"""Blocking iterators over items that arrive on the event loop's thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from inorder.errors import Closed, InorderError, StreamInUse, TimedOut
from inorder.sync._thread import LoopThread

ItemT = TypeVar("ItemT")

BATCH = 256
"""What is moved from the loop's thread at most before somebody asks for it; ``stats().undelivered`` is without it."""


class Inbox(Generic[ItemT]):
    """Items on the application's side, refilled from the loop's thread while somebody reads.

    Args:
        thread: the event loop's.
        take: returns some items, at least one and so many at most, on the loop. StopAsyncIteration ends it.
        asked: called by a reader who asks for an item after the first that it has not done with (R18).
    """

    def __init__(
        self,
        thread: LoopThread,
        take: Callable[[int], Awaitable[Iterable[ItemT]]],
        asked: Callable[[], None] | None = None,
    ) -> None:
        self._thread, self._take, self._asked = thread, take, asked
        self._items: deque[ItemT] = deque()
        self._changed = threading.Condition()
        self._reader = threading.Lock()
        self._has_taken = False
        self._is_moving = False
        self._task: asyncio.Task[None] | None = None
        self._end: BaseException | None = None

    @property
    def is_readable(self) -> bool:
        """Tell whether items, or an error, may still come."""
        return bool(self._items) or not isinstance(self._end, StopAsyncIteration)

    # -- the application's side --------------------------------------------------------------------------------

    def next(self, timeout: float | None, is_stopped: Callable[[], bool]) -> ItemT:
        """Return the next item. Raises StopIteration, TimedOut, StreamInUse, and what ended it."""
        if not self._reader.acquire(blocking=False):
            raise StreamInUse("another thread waits for the next one already; a client has one delivery stream")
        try:
            if is_stopped():
                raise StopIteration
            if self._has_taken and self._asked is not None:
                self._has_taken = False
                self._asked()
            if not self._items:
                self._wait(timeout, is_stopped)
            item = self._items.popleft()
            self._has_taken = True
        finally:
            self._reader.release()
        if 2 * len(self._items) < BATCH and not self._is_moving and self._end is None:
            self._move()
        return item

    def _wait(self, timeout: float | None, is_stopped: Callable[[], bool]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._end is None:
            self._move()
        with self._changed:
            while not self._items:
                if is_stopped() or isinstance(self._end, StopAsyncIteration):
                    raise StopIteration
                if self._end is not None:
                    raise self._end
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimedOut("the next one", timeout or 0.0)
                self._changed.wait(left)

    def _move(self) -> None:
        with self._changed:
            if self._is_moving:
                return
            self._is_moving = True
        try:
            self._thread.post(self._begin)
        except InorderError as error:
            self.end(error)

    def notify(self) -> None:
        """Make waiting readers look again."""
        with self._changed:
            self._changed.notify_all()

    # -- the loop's side ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="inorder: read")

    async def _run(self) -> None:
        try:
            while (room := BATCH - len(self._items)) > 0 and self._end is None:
                self.put(await self._take(room))
            with self._changed:
                self._is_moving = False
        except asyncio.CancelledError:
            self.end(Closed("the client was closed before that was done"))
        except BaseException as error:
            self.end(error)

    def put(self, items: Iterable[ItemT]) -> None:
        """Add items for the reader."""
        self._items.extend(items)
        self.notify()

    def end(self, error: BaseException) -> None:
        """End the inbox; the reader gets the error, or just the end for StopAsyncIteration."""
        with self._changed:
            self._end = self._end or error
            self._is_moving = False
            self._changed.notify_all()


class Notifications(Iterator[ItemT]):
    """An iterator over notifications that blocks until there is one.

    Any thread may read it, one at a time. It ends when the client is closed or :meth:`stop` is called, from any thread;
    a signal (Ctrl-C) ends the wait at once, and nothing is lost by that.
    """

    def __init__(self, inbox: Inbox[ItemT], owner: object, check: Callable[[], None]) -> None:
        self._inbox = inbox
        self._owner = owner  # is not collected while somebody reads
        self._check = check  # raises UsageError in a forked child, where nothing would ever come
        self._is_stopped = False

    def __iter__(self) -> Notifications[ItemT]:
        return self

    def __next__(self) -> ItemT:
        """Return the next notification; see :meth:`next`."""
        return self.next()

    def next(self, timeout: float | None = None) -> ItemT:
        """Return the next notification as soon as there is one.

        Raises:
            TimedOut: there was none within ``timeout`` seconds; the next call goes on.
            StopIteration: the client was closed and everything was read; or this was stopped.
            StreamInUse: another thread waits for it already.
            InorderError: the client failed for good, and everything was read.
            UsageError: in a forked child.
        """
        self._check()
        return self._inbox.next(timeout, self._stopped)

    def stop(self) -> None:
        """End this iterator, also for a thread that waits in it. What was not read is there for another one."""
        self._is_stopped = True
        self._inbox.notify()

    def _stopped(self) -> bool:
        return self._is_stopped


def taking(items: AsyncIterator[ItemT]) -> Callable[[int], Awaitable[list[Any]]]:
    """Return a function that takes the items of an asynchronous iterator one by one."""

    async def take(most: int) -> list[Any]:
        return [await anext(items)]

    return take
