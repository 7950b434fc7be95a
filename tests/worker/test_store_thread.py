"""The thread that calls the store's driver."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from inorder.testing.services import wait_until
from inorder_worker.store.store_thread import StoreThread

NAME = "inorder-test-store"


def living() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == NAME]


async def test_calls_are_made_one_after_the_other_on_one_thread() -> None:
    thread, seen = StoreThread(NAME), list[tuple[int, str]]()
    assert living() == [], "it begins with the first call"

    def note(number: int) -> None:
        seen.append((number, threading.current_thread().name))

    await asyncio.gather(*(thread.call(note, each) for each in (1, 2)))
    assert seen == [(1, NAME), (2, NAME)]
    thread.close()
    await asyncio.to_thread(wait_until, lambda: not living(), what="the end of the thread")


async def test_results_and_errors_come_back() -> None:
    thread = StoreThread(NAME)
    assert await thread.call(int, "7") == 7
    with pytest.raises(ZeroDivisionError):
        await thread.call(divmod, 1, 0)
    assert await thread.call(int, "8") == 8
    thread.close()


async def test_a_call_that_nobody_waits_for_any_more_is_left_out() -> None:
    thread, gate, made = StoreThread(NAME), threading.Event(), list[int]()
    running, waiting = thread.call(gate.wait), thread.call(made.append, 1)
    waiting.cancel()
    last = thread.call(made.append, 2)
    gate.set()
    await last
    assert (await running, made) == (True, [2])
    thread.close()


async def test_one_that_runs_goes_on_where_its_wait_is_cancelled() -> None:
    thread, begun, gate, made = StoreThread(NAME), threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        begun.set()
        gate.wait()
        made.append(1)

    running = thread.call(work)
    await asyncio.to_thread(begun.wait)
    running.cancel()
    behind = thread.call(made.copy)
    gate.set()
    assert await behind == [1]
    thread.close()


def test_an_answer_to_a_loop_that_is_closed_is_dropped() -> None:
    thread, gate = StoreThread(NAME), threading.Event()
    loop = asyncio.new_event_loop()

    async def ask() -> None:
        thread.call(gate.wait)

    loop.run_until_complete(ask())
    loop.close()
    gate.set()
    thread.close()
    wait_until(lambda: not living(), what="the end of the thread")


async def test_nothing_of_a_call_is_kept_while_the_next_one_is_waited_for() -> None:
    class Big:
        pass

    thread, gone = StoreThread(NAME), threading.Event()
    big = Big()
    weakref.finalize(big, gone.set)
    await thread.call(id, big)
    del big
    assert await asyncio.to_thread(gone.wait, 60)
    thread.close()


async def test_how_long_a_call_has_not_come_back_is_told() -> None:
    thread, gate = StoreThread(NAME), threading.Event()
    assert thread.silence == 0
    running = thread.call(gate.wait)
    await asyncio.to_thread(wait_until, lambda: thread.silence > 0.01, what="the call")
    gate.set()
    await running
    await asyncio.to_thread(wait_until, lambda: thread.silence == 0, what="its end")
    thread.close()
