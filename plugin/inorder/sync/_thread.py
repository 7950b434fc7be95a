"""An event loop in its own thread, for callers that block."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from inorder.errors import Closed, UsageError

ResultT = TypeVar("ResultT")
ParamsP = ParamSpec("ParamsP")


class LoopThread:
    """An event loop in a daemon thread, which all its users share.

    The thread begins with the first :meth:`acquire` and ends with the last :meth:`release`. Nothing of the
    application runs on it, so nothing of the application can hold up acknowledgements or leases there.

    A thread does not survive ``fork()``: what was opened before is of no use to the child, which is told so; what the
    child acquires anew gets a thread of its own.
    """

    def __init__(self, name: str = "inorder") -> None:
        self._name = name
        self._lock = threading.RLock()  # a finalizer may post from within
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def acquire(self) -> None:
        """Keep the thread running until a :meth:`release` of this call. Raises UsageError where it could not."""
        _check_patches()
        if self._process != os.getpid():  # in a forked child the lock may be held by a thread that is not there
            self._lock = threading.RLock()
            self._users, self._loop, self._thread, self._process = 0, None, None, os.getpid()
        with self._lock:
            self._users += 1
            if self._loop is None:
                self._start()

    def _start(self) -> None:
        started = threading.Event()
        loop = self._loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(started.set)
            try:
                loop.run_forever()
            finally:
                _finish(loop)

        self._thread = threading.Thread(target=run, name=f"{self._name}-loop", daemon=True)
        self._thread.start()
        started.wait()

    def release(self) -> None:
        """End one use; the last one also ends the thread and waits for it (not on the thread itself)."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        loop.call_soon_threadsafe(loop.stop)
        if threading.current_thread() is not thread:
            thread.join()

    @property
    def is_here(self) -> bool:
        """Tell whether the caller runs on the loop's thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> concurrent.futures.Future[ResultT]:
        """Start a coroutine on the loop. Cancelling the future cancels it. Raises Closed, UsageError."""
        try:
            with self._lock:  # before the end of the loop, or not at all
                return asyncio.run_coroutine_threadsafe(coroutine, self._running())
        except BaseException:
            coroutine.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, ResultT], timeout: float | None = None) -> ResultT:
        """Run a coroutine on the loop and return its result.

        When the wait ends early (after ``timeout`` seconds, or by a signal's exception, KeyboardInterrupt say) the
        coroutine is cancelled, and ends before this returns only where nothing in it shields itself.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
            Closed: the loop does not run.
            UsageError: called on the loop's thread, or in a forked child.
        """
        if self.is_here:
            coroutine.close()
            raise UsageError("called on the thread of inorder's event loop: it would wait for itself")
        future = self.submit(coroutine)
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise Closed("the client was closed before that was done") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[ParamsP, ResultT], *args: ParamsP.args, **kwargs: ParamsP.kwargs) -> ResultT:
        """Call a function on the loop's thread and return its result. Raises what it raises, Closed, UsageError."""
        if self.is_here:
            return function(*args, **kwargs)
        results, errors = list[ResultT](), list[BaseException]()
        done = threading.Lock()  # a quarter of what a future costs, and readers cross over for each batch
        done.acquire()

        def run() -> None:
            try:
                results.append(function(*args, **kwargs))
            except BaseException as error:
                errors.append(error)
            finally:
                done.release()

        self.post(run)
        done.acquire()
        if errors:
            try:
                raise errors[0]
            finally:
                errors.clear()  # its traceback holds this frame
        return results[0]

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop's thread soon, in the order of the calling thread's posts. Raises Closed."""
        with self._lock:  # before the end of the loop, or not at all
            self._running().call_soon_threadsafe(function, *args)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._process not in (0, os.getpid()):
            raise UsageError("opened before fork(): a child process needs clients of its own")
        if self._loop is None:
            raise Closed("the client is closed, or not open yet")
        return self._loop


def _check_patches() -> None:
    """Raise UsageError if gevent has patched only half of what the thread waits by: it would wait for ever."""
    gevent: Any = sys.modules.get("gevent.monkey")
    if gevent is None or gevent.is_module_patched("threading"):
        return
    taken = [each for each in ("socket", "select") if gevent.is_module_patched(each)]
    if taken:
        raise UsageError(
            f"gevent has patched {' and '.join(taken)}, but not threads, by which blocking clients wait, too:"
            " call gevent.monkey.patch_all() without thread=False, before anything else is imported"
        )


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel and await the remaining tasks, as ``asyncio.run`` does."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


THREAD = LoopThread()
"""The one that all blocking clients of this process share."""
