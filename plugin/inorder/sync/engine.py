"""The asyncio client behind a blocking one, on the event loop's thread, and how both begin and end."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

import inorder
from inorder.client.client import Order
from inorder.client.delivery import Notification
from inorder.client.ens_link import EnsLink, refusal_of
from inorder.endpoint.notifications import Receipt
from inorder.errors import Closed, TimedOut, UsageError
from inorder.ports import Outgoing
from inorder.sync._thread import THREAD
from inorder.sync.mailbox import Mailbox
from inorder.sync.pending import PendingPublish
from inorder.sync.reading import Inbox

ResultT = TypeVar("ResultT")


class Engine(inorder.Client):
    """A client with batches of publishes, checked on the calling thread, and of arrivals from the loop's thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._mailbox = Mailbox(THREAD)
        asked = None if self._endpoint.durable is None else self._asked
        self.inbox = Inbox[Notification](THREAD, self._stream.take, asked)

    def events(self) -> AsyncIterator[Notification]:
        """See :meth:`inorder.Client.events`; the iterator ends after everything was moved to the inbox."""
        return self._stream if self._state == "closed" and self.inbox.is_readable else super().events()

    def is_stream(self, items: object) -> bool:
        """Tell whether an iterator is the delivery stream, which is read from the inbox."""
        return items is self._stream

    async def shut(self) -> None:
        """Close, and move the remaining notifications to the reader."""
        try:
            await self.close()
        finally:
            self.inbox.put(self._stream.take_rest())
            self.inbox.end(self._error or StopAsyncIteration())

    def _asked(self) -> None:
        with contextlib.suppress(Closed):  # then it is too late to say so; what is left comes again
            self._mailbox.call(self._stream.done)

    def _check_room(self) -> None:
        self._publishing.check_room(len(self._mailbox))

    def _begin(self, link: EnsLink, message: Outgoing, order: Order) -> PendingPublish:
        pending = PendingPublish(self._cancel)
        self._mailbox.call(self._enter, pending, link, message, order)
        return pending

    def _enter(self, pending: PendingPublish, link: EnsLink, message: Outgoing, order: Order) -> None:
        if pending.cancelled():
            return
        try:
            self._check_open()
            publish: asyncio.Future[Receipt] = super()._begin(link, message, order)
        except Exception as error:
            pending.end(None, refusal_of(error))
            return
        pending.publish = publish
        publish.add_done_callback(partial(_ended, pending))

    def _cancel(self, pending: PendingPublish) -> None:
        with contextlib.suppress(Closed):  # then nothing is handed over any more
            self._mailbox.call(_take_back, pending)


def _ended(pending: PendingPublish, publish: asyncio.Future[Receipt]) -> None:
    if not publish.cancelled():
        error = publish.exception()
        pending.end(None if error is not None else publish.result(), error)


def _take_back(pending: PendingPublish) -> None:
    if pending.publish is not None:
        pending.publish.cancel()


class Session:
    """The life of a blocking client from its opening to its end; it holds no reference to the application's object, and
    can outlive the object until all is closed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._process: int | None = None
        self._closing: concurrent.futures.Future[None] | None = None
        self._is_released = False

    @property
    def is_open(self) -> bool:
        """Tell whether the session was opened in this process and not closed."""
        return self._process == os.getpid() and self._closing is None

    def check(self) -> None:
        """Raise UsageError in a forked child."""
        if self._process not in (None, os.getpid()):
            raise UsageError("opened before fork(): a child process needs clients of its own")

    def open(self) -> None:
        """Acquire the loop's thread and open the engine on it. Raises what that does."""
        with self._lock:
            if self._process is not None:
                raise UsageError("a client is opened once; make a new one")
            self._process = os.getpid()
        THREAD.acquire()
        try:
            THREAD.run(self.engine.__aenter__())
        except BaseException:
            self.close()
            raise
        _OPEN.add(self)

    def wait(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None) -> Any:
        """Run a coroutine function of the engine. Raises what it does, TimedOut, Closed."""
        self.check()
        try:
            return THREAD.run(getattr(self.engine, name)(*args, **kwargs), timeout)
        except TimedOut:
            raise
        except TimeoutError:
            raise TimedOut(f"{name}()", timeout or 0.0) from None

    def call(self, function: Callable[..., ResultT], *args: Any, **kwargs: Any) -> ResultT:
        """Call a function on the loop's thread, or on this one if the loop's thread has ended. Raises what it does."""
        self.check()
        if self.is_open:
            with contextlib.suppress(Closed):
                return THREAD.call(function, *args, **kwargs)
        return function(*args, **kwargs)

    def close(self, timeout: float | None = None) -> None:
        """Close the engine and release the loop's thread. Raises TimedOut; it then goes on by itself."""
        if (closing := self._close_soon()) is None:
            return
        try:
            closing.result(timeout)
        except TimeoutError:
            raise TimedOut("close()", timeout or 0.0) from None
        finally:
            if closing.done():
                self._release()
            else:
                closing.add_done_callback(lambda _: self._release())

    def abandon(self) -> None:
        """Close without waiting, as nobody holds the client any more."""
        if (closing := self._close_soon()) is not None:
            closing.add_done_callback(lambda _: self._release())

    def _close_soon(self) -> concurrent.futures.Future[None] | None:
        if self._process not in (
            None,
            os.getpid(),
        ):  # the parent's, and the lock may be held by a thread that is not here
            return None
        with self._lock:
            if self._process is None:  # it was never open, and will not be: there is nothing to wait for
                self._process = os.getpid()
                self._is_released = True
                self._closing = concurrent.futures.Future()
                with contextlib.suppress(StopIteration):
                    self.engine.shut().send(None)
                self._closing.set_result(None)
            elif self._closing is None:
                self._closing = THREAD.submit(self.engine.shut())
        return self._closing

    def _release(self) -> None:
        with self._lock:
            is_released, self._is_released = self._is_released, True
        if not is_released:
            _OPEN.discard(self)
            THREAD.release()


_OPEN = set[Session]()


def _close_all() -> None:
    """Close all clients at the interpreter's end; publishes finish as in :meth:`inorder.Client.close`."""
    for session in list(_OPEN):
        with contextlib.suppress(Exception):
            session.close()


atexit.register(_close_all)
