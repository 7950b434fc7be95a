"""Worker processes, and clients that connect as soon as one is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from tests.worker.helpers import PATIENCE
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import Opened, Welcome
from inorder.testing.services import free_port
from inorder_worker.store.failpoints import VARIABLE

MAIN = """
import json, sys
from inorder_worker.service import WorkerSettings, run
sys.exit(run(WorkerSettings(**json.loads(sys.argv[1]))))
"""


class WorkerProcess:
    """``inorder_worker.service.run`` in a process of its own; ``failpoints`` are for its first start only."""

    def __init__(self, store: str, failpoints: str = "", **settings: Any) -> None:
        self.store = store
        self._failpoints = failpoints
        self._settings = {"store": store, "port": free_port(), "name": "process", **settings}
        self.address = f"127.0.0.1:{self._settings['port']}"
        self._process: subprocess.Popen[str] | None = None
        self.log = ""

    def start(self) -> None:
        failpoints, self._failpoints = self._failpoints, ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", MAIN, json.dumps(self._settings)],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, VARIABLE: failpoints},
        )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def end(self, number: signal.Signals | None) -> int:
        """Send a signal, if one is given, and wait for the end; return the exit code."""
        if number is not None:
            self.process.send_signal(number)
        _, log = self.process.communicate(timeout=PATIENCE)
        self.log += log
        return self.process.returncode

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


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
            assert worker.process.poll() is None, worker.end(None)
            await asyncio.sleep(0.01)
    try:
        yield client
    finally:
        await client.close()
