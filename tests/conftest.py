"""Fixtures for all tests: real servers, started once for the whole run, and a check that nothing is left running.

The servers are shared: a test uses topics, channels and databases (``postgres.database()``) of its own. A test that
stops or configures a server starts its own one from ``inorder.testing.services``.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from inorder import logs
from inorder.testing.services import (
    Mosquitto,
    PostgresServer,
    RedisServer,
    bridged_mosquittos,
    free_port,
)

LEFT_RUNNING_SECONDS = 60.0
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""Where files are in memory, and the bytes that must be free there."""


def pytest_configure() -> None:
    """Keep files in memory, unless ``TMPDIR`` says where: no test is about the disk, and all would wait for it.

    In the background of a shell interrupts are ignored, by the programs started here too; tests interrupt them.

    What is made by chance may take as long as it takes: the machine may be busy.
    """
    settings.register_profile("busy", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    """A mosquitto without a limit to its queues."""
    with Mosquitto(max_queued=0) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def bridged() -> Iterator[tuple[Mosquitto, Mosquitto]]:
    """Two mosquittos that forward everything to each other, user properties included."""
    with bridged_mosquittos(max_queued=0) as pair:
        yield pair


@pytest.fixture
def unused_port() -> int:
    """A loopback port that nothing listens on."""
    return free_port()


@pytest.fixture(autouse=True)
def _lines_of_others_count_for_nothing() -> None:
    """What another test has logged keeps no line of this one out of the log."""
    logs.seldom.clear()
    logs._always_seldom.clear()


@pytest.fixture(autouse=True)
def _clean_event_loop(request: pytest.FixtureRequest) -> None:
    """Check each coroutine test for tasks that outlive it; plain tests get no event loop."""
    if inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        request.getfixturevalue("_no_task_left_running")


@pytest.fixture
async def _no_task_left_running() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        # Tasks that were cancelled or told to end may need a few turns of the loop; those that run on are leaks.
        _, left = await asyncio.wait(left, timeout=LEFT_RUNNING_SECONDS)
    assert not left, f"the test ended, but these tasks still run: {sorted(task.get_name() for task in left)}"
