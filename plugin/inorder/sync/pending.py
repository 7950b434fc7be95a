"""A publish of a blocking client, from the call to the broker's acceptance."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from inorder.endpoint.notifications import Receipt
from inorder.errors import Closed
from inorder.logs import logger

_log = logger("inorder.sync")


class PendingPublish(concurrent.futures.Future[Receipt]):
    """One publish. ``result(timeout)`` waits until the broker has accepted the event, and returns its receipt.

    ``cancel()`` takes the event back if it was not handed over yet. Callbacks (``add_done_callback``) run one after the
    other on a thread of their own, where they may block.
    """

    def __init__(self, cancelled: Callable[[PendingPublish], None]) -> None:
        super().__init__()
        self._on_cancel = cancelled
        self._is_looked_at = False
        self.publish: asyncio.Future[Receipt] | None = None  # touched on the loop's thread only

    def cancel(self) -> bool:
        """Cancel the publish; return False if it had ended before."""
        was_cancelled = self.cancelled()
        if not super().cancel():
            return False
        if not was_cancelled:
            self._on_cancel(self)
        return True

    def result(self, timeout: float | None = None) -> Receipt:
        """Return the receipt. Raises what became of it instead, CancelledError, TimeoutError."""
        self._is_looked_at = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the publish's error, or ``None`` if it succeeded. Raises CancelledError, TimeoutError."""
        self._is_looked_at = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Receipt]], object]) -> None:
        """Call a function with this object when the publish ends; at once, on this thread, if it has ended."""
        self._is_looked_at = True
        super().add_done_callback(fn if self.done() else lambda _: CALLBACKS.call(fn, self))

    def end(self, receipt: Receipt | None, error: BaseException | None) -> None:
        """Set the outcome of the publish, unless it was cancelled meanwhile."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            if error is not None:
                self.set_exception(error)
            else:
                assert receipt is not None
                self.set_result(receipt)

    def __del__(self) -> None:
        if not self._is_looked_at and self.done() and not self.cancelled():
            error = super().exception()
            if error is not None and not isinstance(error, Closed):  # that is said once, for all
                _log.warning("event=publish_failed error=%s hint=%s", error, "nobody asked for its result")


class Callbacks:
    """A thread that calls the application's callbacks in the order of their becoming due. It begins when there is one
    and ends when there was none for a while, so nothing has to be closed."""

    IDLE = 1.0

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[tuple[Callable[..., object], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[..., object], argument: object) -> None:
        """Call a function soon on this thread."""
        with self._lock:
            self._due.put((function, argument))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="inorder-callbacks", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                function, argument = self._due.get(timeout=self.IDLE)
            except queue.Empty:
                with self._lock:
                    if self._due.empty():
                        self._thread = None
                        return
                continue
            try:
                function(argument)
            except Exception:
                _log.exception("event=callback_failed callback=%r", function)
            del function, argument


CALLBACKS = Callbacks()
"""Of all blocking clients of this process."""
