"""Worker processes, and clients that connect as soon as one is there.

They are forks of a process that has imported the worker: to import it anew takes longer than most of what tests do.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.worker.helpers import PATIENCE
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import Opened, Welcome
from inorder.testing.services import free_port
from inorder_worker.service import WorkerSettings, run
from inorder_worker.store import failpoints

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


def _serve(settings: dict[str, Any], armed: str, log: Path) -> None:
    """Run a worker in a fork, whose stderr goes to the end of a file."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    failpoints.arm(armed)
    sys.exit(run(WorkerSettings(**settings)))


class WorkerProcess:
    """``inorder_worker.service.run`` in a process of its own; ``armed`` are failpoints, for its first start only."""

    def __init__(self, store: str, armed: str = "", **settings: Any) -> None:
        self.store = store
        self._armed = armed
        self._settings = {"store": store, "port": free_port(), "name": "process", **settings}
        self.address = f"127.0.0.1:{self._settings['port']}"
        self._process: ForkServerProcess | None = None
        self._folder = tempfile.TemporaryDirectory()
        self.log = ""

    def start(self) -> None:
        armed, self._armed = self._armed, ""
        self._process = _FORKS.Process(target=_serve, args=(self._settings, armed, self._log_file))
        self._process.start()

    @property
    def _log_file(self) -> Path:
        return Path(self._folder.name) / "log"

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """It has not ended."""
        assert self._process is not None
        return self._process.exitcode is None

    def end(self, number: signal.Signals | None) -> int:
        """Send a signal, if one is given, and wait for the end; return the exit code."""
        assert self._process is not None
        if number is not None:
            os.kill(self.pid, number)
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, "it does not end"
        self.log = self._log_file.read_text()
        return self._process.exitcode

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.end(signal.SIGKILL)
        self._folder.cleanup()


async def says_hello(client: RawClient) -> bool:
    """Tell whether the worker is there and welcomes the client."""
    try:
        await client.connect()
    except OSError:
        return False
    client.send(client.hello)
    try:
        frame = await client.read()
        while isinstance(frame, Opened):  # stages speak ahead of the welcome
            client.skipped.append(frame)
            frame = await client.read()
    except (EOFError, ConnectionError):
        frame = None
    if isinstance(frame, Welcome):
        return True
    await client.close()
    return False


@contextlib.asynccontextmanager
async def connected(worker: WorkerProcess, token: str = "") -> AsyncIterator[RawClient]:
    """Connect as soon as the worker listens and has its store."""
    async with asyncio.timeout(PATIENCE):
        while True:
            client = RawClient(worker.address, token=token)
            if await says_hello(client):
                break
            assert worker.is_running, worker.end(None)
            await asyncio.sleep(0.01)
    try:
        yield client
    finally:
        await client.close()
