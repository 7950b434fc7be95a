"""A thread for blocking calls, one after the other, with results for the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Asked = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class StoreThread:
    """Runs functions in the order of the calls.

    Each commit goes over to it and back, and every event waits for that: a queue and a future take half of the time
    that an executor takes. It begins with the first call; calls that nobody waits for any more when their turn comes
    are left out.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._since = [0.0]  # when the call that runs began; the thread knows this, and not us, so that we may go

    @property
    def silence(self) -> float:
        """The seconds since the running call began; 0 without one. On any thread."""
        since = self._since[0]
        return time.monotonic() - since if since else 0.0

    def call(self, function: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Run a function on the thread, and return the future of its result. On the event loop's thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._asked, self._since), name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.put((future, function, args))
        return future

    def close(self) -> None:
        """End after all queued calls; further calls are not allowed. Does not wait."""
        self._asked.put(None)


def _work(queue: SimpleQueue[_Asked | None], since: list[float]) -> None:
    while (asked := queue.get()) is not None:
        since[0] = time.monotonic()
        _answer(*asked)
        since[0] = 0.0
        del asked  # while the next one is waited for nothing of it is kept


def _answer(future: asyncio.Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    result, error = None, None
    try:
        result = function(*args)
    except BaseException as raised:
        error = raised
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
        future.get_loop().call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
