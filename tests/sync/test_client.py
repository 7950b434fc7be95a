"""The blocking client, with a real broker and worker: what it is derived from is tested for asyncio."""

from __future__ import annotations

import concurrent.futures
import gc
import inspect
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sync import stub
from tests.sync.conftest import Make

import inorder
from inorder import Event, Gap, Verdict
from inorder.errors import (
    Closed,
    InvalidOption,
    InvalidTopic,
    QueueFull,
    Refused,
    Replaced,
    StreamInUse,
    TimedOut,
    UsageError,
    WorkerUnreachable,
)
from inorder.sync import Client, Notifications, twin
from inorder.sync._thread import THREAD
from inorder.testing.services import Mosquitto, WorkerServer, wait_until

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _no_loop_left_running() -> Iterator[None]:
    held = THREAD._users  # by clients of other tests that the garbage collector has not come to
    yield
    wait_until(lambda: THREAD._users <= held, what="the end of this test's use of the event loop's thread")


def take(events: Notifications[Any], count: int) -> list[Event]:
    taken = [events.next(PATIENCE) for _ in range(count)]
    assert all(isinstance(each, Event) for each in taken), taken
    return taken


def in_thread(function: Any, *args: Any) -> concurrent.futures.Future[Any]:
    """Run a function in a thread of its own; its outcome is the future's."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def is_waited_for(client: Client) -> bool:
    return client._session.engine._stream._waiter is not None  # type: ignore[attr-defined]


# -- what it does ------------------------------------------------------------------------------------------------


def test_threads_publish_and_all_see_one_order(make: Make) -> None:
    """Each thread's events keep its order, and no two subscribers differ (R19, R20)."""
    with make() as one, make() as two, make() as source:
        one.subscribe("order/#")
        two.subscribe("order/+")

        def publish(thread: int) -> list[inorder.Receipt]:
            pending = [source.publish(f"order/{at % 3}", b"%d %d" % (thread, at)) for at in range(250)]
            return [each.result(PATIENCE) for each in pending]

        receipts = [each.result(PATIENCE) for each in [in_thread(publish, thread) for thread in range(4)]]
        seen = take(one.events(), 1000)
        assert [each.payload for each in take(two.events(), 1000)] == [each.payload for each in seen]
        assert {each.verdict for each in seen} == {Verdict.IN_ORDER}
        for thread in range(4):
            mine = [each.payload for each in seen if each.payload.startswith(b"%d " % thread)]
            assert mine == [b"%d %d" % (thread, at) for at in range(250)]
        numbers = {(each.topic, each.number) for receipt in receipts for each in receipt}
        assert numbers == {(each.topic, each.number) for each in seen}
        wait_until(lambda: source.stats().pending == 0, what="the worker's answers to all confirmations")
        assert one.stats().delivered["in_order"] == 1000


def test_one_is_not_notified_of_what_it_left(make: Make) -> None:
    with make() as client:
        client.subscribe("left", "kept")
        client.unsubscribe("left")
        client.publish("left", b"1")
        client.publish("kept", b"2").result(PATIENCE)
        assert [each.payload for each in take(client.events(), 1)] == [b"2"]


def test_bad_publishes_are_refused_at_the_call(make: Make) -> None:
    with make() as client:
        with pytest.raises(InvalidTopic):
            client.publish("not/+/a/topic", b"")
        with pytest.raises(InvalidOption):
            client.publish("topic", b"", qos=3)
        with pytest.raises(TypeError):
            client.publish("topic", b"", colour="red")  # type: ignore[call-arg]
        with pytest.raises(InvalidOption):
            client.subscribe(ordering="total")
    with pytest.raises(Closed):
        client.publish("topic", b"")


def test_what_fails_on_the_loops_thread_fails_that_publish_alone(make: Make) -> None:
    with make() as client:
        publishing: Any = client._session.engine._publishing  # type: ignore[attr-defined]  # the stub has none
        total = publishing.total

        def once(publish: Any) -> None:
            publishing.total = total
            raise KeyError("broken")

        publishing.total = once
        failed, fine = client.publish("alone", "x"), client.publish("alone", "y")
        with pytest.raises(Refused, match="broken"):
            failed.result(PATIENCE)
        assert fine.result(PATIENCE).number == 1


def test_a_full_queue_is_refused_at_the_call_though_nothing_has_crossed(make: Make) -> None:
    with make(times=inorder.ClientTimes(max_pending=5)) as client:
        release = threading.Event()
        THREAD.post(release.wait, PATIENCE)  # the loop's thread is busy
        pending = [client.publish("full", b"%d" % at) for at in range(5)]
        with pytest.raises(QueueFull):
            client.publish("full", b"5")
        release.set()
        assert [each.result(PATIENCE).number for each in pending] == [1, 2, 3, 4, 5]


def test_many_publishes_wake_the_loop_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with make() as client:
        posts = []
        post, release, busy = THREAD.post, threading.Event(), threading.Event()

        def counted(*args: Any) -> None:
            posts.append(args)
            post(*args)

        THREAD.post(busy.set)
        THREAD.post(release.wait, PATIENCE)
        assert busy.wait(PATIENCE)
        monkeypatch.setattr(THREAD, "post", counted)
        pending = [client.publish("batch", b"") for _ in range(100)]
        release.set()
        assert pending[-1].result(PATIENCE).number == 100
        assert len(posts) == 1


def test_a_publish_that_is_cancelled_before_it_leaves_is_not_delivered(make: Make) -> None:
    with make() as client:
        client.subscribe("cancelled")
        release = threading.Event()
        THREAD.post(release.wait, PATIENCE)
        first, second = client.publish("cancelled", b"1"), client.publish("cancelled", b"2")
        assert first.cancel()
        assert first.cancelled()
        release.set()
        second.result(PATIENCE)
        assert [each.payload for each in take(client.events(), 1)] == [b"2"]
        assert not second.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            first.result()


def test_callbacks_may_block_and_come_in_order(make: Make) -> None:
    """They do not run on the event loop's thread: there the second publish could never end."""
    with make() as client:
        called = []
        both = threading.Event()

        def again(pending: Any) -> None:
            called.append((pending.result().number, client.publish("callback", b"2").result(PATIENCE).number))

        release = threading.Event()
        THREAD.post(release.wait, PATIENCE)  # it cannot end before the callbacks are there
        first = client.publish("callback", b"1")
        first.add_done_callback(again)
        first.add_done_callback(lambda _: both.set())
        release.set()
        assert both.wait(PATIENCE)
        assert called == [(1, 2)]


def test_a_callback_that_fails_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with make() as client:
        done, release = threading.Event(), threading.Event()
        THREAD.post(release.wait, PATIENCE)  # it cannot end before the callbacks are there
        pending = client.publish("callback/fails", b"1")
        pending.add_done_callback(lambda _: 1 / 0)
        pending.add_done_callback(lambda _: done.set())
        release.set()
        assert done.wait(PATIENCE)
    assert "event=callback_failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_failure_that_nobody_asked_for_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with make() as client:
        pending = client.publish("unseen", b"1")
        wait_until(pending.done, what="the publish")
        release = threading.Event()
        THREAD.post(release.wait, PATIENCE)  # the broker's answer cannot come before the failure
        failed = client.publish("unseen", b"2")
        failed.end(None, TimedOut("it", 1.0))
        release.set()
        with caplog.at_level(logging.WARNING, "inorder.sync"):
            del pending, failed
            gc.collect()
            wait_until(lambda: "event=publish_failed" in caplog.text, what="the line")
    assert caplog.text.count("event=publish_failed") == 1


# -- iterators ---------------------------------------------------------------------------------------------------


def test_waiting_with_a_timeout_loses_nothing(make: Make) -> None:
    with make() as client:
        client.subscribe("late")
        events = client.events()
        with pytest.raises(TimedOut):
            events.next(0.01)
        with pytest.raises(TimeoutError):
            events.next(0)
        client.publish("late", b"1").result(PATIENCE)
        assert [each.payload for each in take(events, 1)] == [b"1"]


def test_an_iterator_can_be_stopped_and_the_next_goes_on(make: Make) -> None:
    with make() as client:
        client.subscribe("stop")
        events = client.events()
        reader = in_thread(list, events)
        wait_until(lambda: is_waited_for(client), what="the reader")
        with pytest.raises(StreamInUse):
            client.events().next(0)
        events.stop()
        assert reader.result(PATIENCE) == []
        client.publish("stop", b"1").result(PATIENCE)
        assert list(events) == []
        assert [each.payload for each in take(client.events(), 1)] == [b"1"]


def test_closing_ends_iteration_after_what_was_left(make: Make) -> None:
    with make() as client:
        client.subscribe("rest")
        reader = in_thread(list, client.events())
        wait_until(lambda: is_waited_for(client), what="the reader")
        client.close()
        assert reader.result(PATIENCE) == []
        client.close()
    with pytest.raises(Closed):
        client.events()
    with make() as client:
        client.subscribe("rest")
        for at in range(400):  # more than is moved ahead
            client.publish("rest", b"%d" % at)
        wait_until(lambda: client.stats().delivered.get("in_order") == 400, what="the events")
        next(client.events())
    assert [each.payload for each in client.events() if isinstance(each, Event)] == [b"%d" % at for at in range(1, 400)]
    assert client.stats().delivered["in_order"] == 400  # as for asyncio, they can be read after the end


def test_an_interrupt_ends_a_wait_at_once(make: Make) -> None:
    with make() as client:
        client.subscribe("interrupt")
        events = client.events()

        def interrupt() -> None:
            wait_until(lambda: is_waited_for(client), what="the reader")
            os.kill(os.getpid(), signal.SIGINT)

        interrupter = in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(events)
        interrupter.result(PATIENCE)
        client.publish("interrupt", b"1").result(PATIENCE)
        assert [each.payload for each in take(events, 1)] == [b"1"]


def test_who_is_replaced_is_told_by_the_iterator(make: Make) -> None:
    with make(client_id="twice") as first:
        reader = in_thread(list, first.events())
        wait_until(lambda: is_waited_for(first), what="the reader")
        with make(client_id="twice"), pytest.raises(Replaced):
            reader.result(PATIENCE)
        with pytest.raises(Replaced):
            first.publish("twice", b"")


def test_a_log_is_replayed(make: Make) -> None:
    with make() as client:
        client.publish("logged/a", b"0").result(PATIENCE)
        for at in range(1, 300):
            client.publish("logged/a", b"%d" % at)
        client.publish("logged/a", b"300").result(PATIENCE)
        replayed = list(client.replay("logged/a", from_=2))
        assert [each.payload for each in replayed if isinstance(each, Event)] == [b"%d" % at for at in range(1, 301)]
        assert not [each for each in replayed if isinstance(each, Gap)]
        with pytest.raises(InvalidOption):
            next(client.replay("logged/a", from_=0))


def test_a_durable_reader_resumes_after_what_it_has_done_with(make: Make) -> None:
    """Done with is what was followed by a question for more, however much had been moved ahead (R18)."""
    with make() as source:
        with make(client_id="durable", durable=True) as client:
            client.subscribe("logged/durable")
            for at in range(20):
                source.publish("logged/durable", b"%d" % at)
            take(client.events(), 8)
        source.publish("logged/durable", b"20").result(PATIENCE)
        with make(client_id="durable", durable=True) as client:
            taken = take(client.events(), 14)
            assert [each.payload for each in taken] == [b"%d" % at for at in range(7, 21)]
            for at in range(21, 25):
                source.publish("logged/durable", b"%d" % at).result(PATIENCE)
            wait_until(lambda: client.stats().delivered["in_order"] == 18, what="four more")
    left = [each.payload for each in client.events() if isinstance(each, Event)]  # the loop's thread has ended
    assert left == [b"%d" % at for at in range(21, 25)]
    with make(client_id="durable", durable=True) as client:
        assert [each.payload for each in take(client.events(), 5)] == [b"%d" % at for at in range(20, 25)]


# -- life --------------------------------------------------------------------------------------------------------


def test_what_takes_too_long_is_given_up(make: Make, worker: WorkerServer) -> None:
    with make() as client:
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimedOut, match=r"subscribe\(\) was not answered within 0\.2 s"):
                client.subscribe("slow", timeout=0.2)
            with pytest.raises(TimeoutError):
                client.publish("slow", b"").result(0.01)
        finally:
            os.kill(worker.pid, signal.SIGCONT)


def test_it_is_opened_once_and_closing_before_is_the_end(make: Make, unused_port: int) -> None:
    client = make()
    with pytest.raises(Closed):
        client.subscribe("early")
    with pytest.raises(Closed):
        client.events()
    client.close()
    with pytest.raises(UsageError, match="opened once"), client:
        pass
    with pytest.raises(WorkerUnreachable), make(workers=f"127.0.0.1:{unused_port}"):
        pass
    with pytest.raises(InvalidOption):
        make(mode="lax")


def test_closing_from_many_threads_at_once(make: Make) -> None:
    with make() as client, make() as other:
        for each in [in_thread(client.close) for _ in range(8)]:
            each.result(PATIENCE)
        other.publish("still/there", b"").result(PATIENCE)


def test_a_client_that_is_dropped_warns_and_closes(make: Make) -> None:
    client = make().__enter__()
    life = client._session  # type: ignore[attr-defined]
    with pytest.warns(ResourceWarning, match="unclosed <Client"):
        del client  # no other reference is left
    wait_until(lambda: life._is_released, what="its end")


def test_one_that_is_iterated_is_not_dropped(make: Make) -> None:
    with make() as source:
        events = (client := make().__enter__()).events()
        client.subscribe("held")
        ours = client
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del client
            gc.collect()
            source.publish("held", b"1").result(PATIENCE)
            assert [each.payload for each in take(events, 1)] == [b"1"]
        ours.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_and_may_have_its_own(make: Make) -> None:
    with make() as client:
        events = client.events()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                client.publish("fork", b"")
            except UsageError as error:
                os.write(write, str(error).encode())
            try:
                events.next(0)
            except UsageError:
                os.write(write, b" | nothing to read")
            client.close()  # the parent's is not touched
            with make() as own:
                os.write(write, b" | %d" % (own.publish("fork", b"child").result(PATIENCE).number or 0))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        assert told == b"opened before fork(): a child process needs clients of its own | nothing to read | 1"
        assert client.publish("fork", b"parent").result(PATIENCE).number == 2


def test_a_program_that_ends_without_closing_publishes_what_it_was_asked_to(
    make: Make, mosquitto: Mosquitto, worker: WorkerServer
) -> None:
    program = f"""
        from inorder.sync import Client
        client = Client({mosquitto.url!r}, workers={worker.url!r}).__enter__()
        for at in range(50):
            client.publish("exit", b"%d" % at)
    """
    with make() as client:
        client.subscribe("exit")
        command = [sys.executable, "-c", textwrap.dedent(program)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (run.returncode, run.stderr) == (0, "")
        assert [each.payload for each in take(client.events(), 50)] == [b"%d" % at for at in range(50)]


# -- derived -----------------------------------------------------------------------------------------------------


def test_it_has_the_methods_of_the_other() -> None:
    """Which of them are there is decided by leaving out, so a new public method is here at once."""
    kinds = {name: twin.kind_of(function) for name, function in twin.public_methods(inorder.Client).items()}
    assert kinds == {
        "close": "waits", "publish": "publishes", "subscribe": "waits", "unsubscribe": "waits", "events": "iterates",
        "replay": "iterates", "stats": "calls",
    }  # fmt: skip
    for name, kind in kinds.items():
        ours, theirs = getattr(Client, name), getattr(inorder.Client, name)
        expected = [each.name for each in inspect.signature(theirs).parameters.values()]
        assert list(inspect.signature(ours).parameters) == expected + ["timeout"] * (kind == "waits"), name
        if name != "close":
            assert str(inspect.getdoc(ours)).startswith(str(inspect.getdoc(theirs))), name
    assert inspect.signature(Client) == inspect.signature(inorder.Client)


def test_the_stub_is_up_to_date() -> None:
    assert stub.TARGET.read_text() == stub.stub(), "run: python -m tests.sync.stub"


PROGRAM = """
from inorder import Event, Receipt
from inorder.sync import Client

with Client("mqtt://localhost", workers=["localhost:7401"], mode="tag") as client:
    client.subscribe("a", "b/#", timeout=1.5)
    number: int | None = client.publish("a", b"1", qos=1).result(2.0).number
    for event in client.events():
        if isinstance(event, Event):
            name: str = event.topic
    for old in client.replay("a", from_=1):
        old.topic
    pending: int = client.stats().pending
"""
WRONG = {
    'client.subscribe("a", "b/#", timeout=1.5)': 'client.subscribe("a", timeout="soon")',
    "number: int | None =": "number: str =",
    'mode="tag"': "modus=1",
}


def test_a_type_checker_accepts_programs_and_finds_mistakes(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(PROGRAM)
    for at, (right, wrong) in enumerate(WRONG.items()):
        assert right in PROGRAM
        (tmp_path / f"wrong{at}.py").write_text(PROGRAM.replace(right, wrong))
    options = ["--strict", "--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *options, str(tmp_path)]
    env = {**os.environ, "MYPYPATH": str(Path(inorder.__file__).parents[1])}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
    found = [line for line in run.stdout.splitlines() if "error:" in line]
    assert sorted({line.partition(":")[0] for line in found}) == ["wrong0.py", "wrong1.py", "wrong2.py"], run.stdout
