"""What signals do to what serves; with a terminal, which is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from tests.worker.helpers import PATIENCE

SERVING = """
import asyncio, os, signal, sys
from inorder.signals import on_signals
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
said = open(int(sys.argv[1]), "w", buffering=1)
os.close(os.open(os.ttyname(0), os.O_RDWR))  # our controlling terminal from now on
async def serve():
    stop = asyncio.Event()
    on_signals(stop.set, lambda: (said.write("renewed\\n"), sys.argv[2] != "plain")[1])
    said.write("ready\\n")
    await stop.wait()
    said.write("stopped\\n")
asyncio.run(serve())
"""


@pytest.mark.parametrize(
    ("how", "told"),
    [("tls", ["renewed\n"]), ("plain", ["renewed\n", "stopped\n", ""]), ("ignored", ["renewed\n"])],
)
def test_a_hang_up_renews_and_the_end_of_the_terminal_stops(how: str, told: list[str]) -> None:
    """SIGHUP of an operator has certificates read again, and stops where there are none; a terminal that is closed
    stops whatever there is, unless it was to be survived."""
    terminal, child_side = os.openpty()
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", SERVING, str(writing), how], stdin=child_side, pass_fds=[writing], start_new_session=True
    )
    patience = threading.Timer(PATIENCE, child.kill)
    patience.start()
    try:
        os.close(child_side)
        os.close(writing)
        with os.fdopen(reading) as said:
            assert said.readline() == "ready\n"
            child.send_signal(signal.SIGHUP)
            assert [said.readline() for _ in told] == told
            if how == "plain":
                assert child.wait() == 0
                os.close(terminal)
                return
            os.close(terminal)
            if how == "ignored":
                child.send_signal(signal.SIGHUP)
                child.send_signal(signal.SIGTERM)
            assert said.readline() == "stopped\n"
            assert child.wait() == 0
    finally:
        patience.cancel()
        child.kill()
        child.wait()


def test_a_process_that_the_system_ends_says_so() -> None:
    """SIGBUS: an SQLite store's index, which all processes have in their memory, was cut off under it."""
    serving = "import asyncio, os, signal; from inorder.signals import stop_event\n"
    serving += "async def serve(): stop_event(); os.kill(os.getpid(), signal.SIGBUS)\nasyncio.run(serve())"
    ended = subprocess.run([sys.executable, "-c", serving], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == -signal.SIGBUS
    assert "Bus error" in ended.stderr
