"""The event loop's thread: who keeps it, what runs on it, and how waits for it end."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from inorder.errors import Closed, UsageError
from inorder.sync._thread import LoopThread
from inorder.sync.mailbox import Mailbox


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    thread.acquire()
    yield thread
    thread.release()


def test_it_runs_while_somebody_holds_it() -> None:
    thread = LoopThread("test")
    thread.acquire()
    first = thread.call(threading.current_thread)
    thread.acquire()
    thread.release()
    assert thread.call(threading.current_thread) is first
    thread.release()
    assert not first.is_alive()
    with pytest.raises(Closed, match="closed, or not open yet"):
        thread.run(asyncio.sleep(0))


def test_half_a_patch_of_gevent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would wait for ever; all of it, or nothing, is fine."""
    monkey: Any = ModuleType("gevent.monkey")
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    thread = LoopThread("test")
    monkey.is_module_patched = {"socket", "select"}.__contains__
    with pytest.raises(UsageError, match="gevent has patched socket and select, but not threads"):
        thread.acquire()
    for fine in ({"socket", "select", "threading"}, set[str]()):
        monkey.is_module_patched = fine.__contains__
        thread.acquire()
        thread.release()


def test_it_begins_again_after_its_end() -> None:
    thread = LoopThread("test")
    for _ in range(2):
        thread.acquire()
        assert thread.run(asyncio.sleep(0, "done")) == "done"
        thread.release()


def test_what_still_runs_at_the_end_is_cancelled_there() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(threading.current_thread().name)

    thread = LoopThread("test")
    thread.acquire()
    started = threading.Event()
    future = thread.submit(work())
    thread.post(started.set)
    assert started.wait(60)
    thread.release()
    assert ended == ["test-loop"]
    assert future.cancelled()


def test_a_wait_that_is_too_long_cancels_what_it_waited_for(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError):
        loop.run(work(), timeout=0.01)
    assert cancelled.wait(60)


def test_waiting_for_the_loop_on_its_own_thread_is_refused_and_calling_is_not(loop: LoopThread) -> None:
    async def work() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(UsageError, match="wait for itself"):
        loop.run(work())
    assert loop.call(lambda: loop.call(lambda: loop.is_here)) is True


def test_calls_raise_what_the_function_raises(loop: LoopThread) -> None:
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0)


def test_calls_of_one_thread_keep_their_order(loop: LoopThread) -> None:
    seen: list[int] = []
    for number in range(1_000):
        loop.post(seen.append, number)
    loop.call(lambda: None)
    assert seen == list(range(1_000))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_call_that_fails_keeps_no_other_back(loop: LoopThread, caplog: pytest.LogCaptureFixture) -> None:
    done = list[int]()
    mailbox = Mailbox(loop)

    def both() -> None:
        mailbox.call(int, "no number")
        mailbox.call(done.append, 1)

    loop.call(both)
    loop.call(int)
    assert done == [1]
    assert "event=call_failed" in caplog.text


def test_a_forked_child_is_told_and_may_begin_anew(loop: LoopThread) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loop.run(asyncio.sleep(0))
            os.write(write, b"ran")
        except UsageError as error:
            os.write(write, str(error).encode())
        loop.acquire()
        os.write(write, b" | " + loop.run(asyncio.sleep(0, b"new")))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert told == b"opened before fork(): a child process needs clients of its own | new"
    assert loop.run(asyncio.sleep(0, "here")) == "here"


def test_who_waits_at_the_end_is_told_that_it_is_closed() -> None:
    thread = LoopThread("test")
    thread.acquire()
    outcome = list[type[BaseException]]()
    started = threading.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            thread.run(work())
        except BaseException as error:
            outcome.append(type(error))

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert started.wait(60)
    thread.release()
    waiter.join(60)
    assert outcome == [Closed]


def test_what_was_posted_before_the_end_is_done() -> None:
    """Whoever posts, from any thread, gets it done or is told: nobody waits for a call that is never made."""
    for _ in range(20):
        thread = LoopThread("test")
        thread.acquire()
        done, told = list[int](), list[int]()

        def post(thread: LoopThread = thread, done: list[int] = done, told: list[int] = told) -> None:
            for at in range(2_000):
                try:
                    thread.post(done.append, at)
                except Closed:
                    told.append(at)

        poster = threading.Thread(target=post)
        poster.start()
        thread.release()
        poster.join(60)
        assert sorted(done + told) == list(range(2_000))
