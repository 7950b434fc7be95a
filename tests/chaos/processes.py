"""The processes of a run: workers in their seats, and clients, which are killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from tests.chaos.client import Command, Role
from tests.chaos.records import AnyRecord, Broken, Tail
from tests.chaos.worker import VARIABLE

from inorder.testing.services import FaultProxy, ServerFailed, WorkerServer, free_port

LOOK_SECONDS = 0.02
ROOTS = [each for each in sys.path if each]
"""Where this process finds its modules; others find them there, too."""


def environment() -> dict[str, str]:
    """Return ours, with the way to our modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}


class ChaosWorker(WorkerServer):
    """A worker that may have a bug, with settings of its own.

    Args:
        settings: ``INORDER_WORKER__...`` variables.
        planted: see ``planted``.

    Attributes:
        takes_over: it is told to take its stages at its next start, whoever has them.
    """

    def __init__(
        self, *, store: str, port: int, args: Sequence[str], settings: dict[str, str], planted: str = ""
    ) -> None:
        super().__init__(store=store, port=port, args=args)
        self._settings, self._planted = settings, planted
        self.takes_over = False

    def _environment(self) -> dict[str, str]:
        return {**environment(), **self._settings, VARIABLE: self._planted}

    def _command(self) -> list[str]:
        binary, _, _, *rest = super()._command()
        return [binary, "-m", "tests.chaos.worker", *rest, *(["--take-over"] if self.takes_over else [])]


class Seat:
    """A place where a worker process runs, reached by all others through a proxy, and kept running as a supervisor
    would, as long as somebody wants it.

    Attributes:
        way: the proxy before it.
        store_way: the proxy between it and its store, if there is one.
        stages: that its worker may have.
        is_wanted: start it whenever it does not run.
        is_up: it has been started once.
        died: the exit codes it ended with by itself.
        lock: held by whoever starts, stops or breaks it.
    """

    def __init__(
        self, name: str, stages: Sequence[int], way: FaultProxy, server: ChaosWorker, store_way: FaultProxy | None
    ) -> None:
        self.stages = tuple(stages)
        self.name, self.way, self.server, self.store_way = name, way, server, store_way
        self.is_wanted = False
        self.is_up = False
        self.died: list[int] = []
        self.failed_starts = 0
        self.lock = asyncio.Lock()

    @classmethod
    async def make(
        cls,
        name: str,
        stages: Sequence[int],
        store: str,
        settings: dict[str, str],
        planted: str,
        store_port: int | None,
    ) -> Seat:
        """Return a seat with open proxies."""
        way = FaultProxy(free_port(), port=free_port())
        await way.start()
        store_way = None if store_port is None else await FaultProxy(store_port).start()
        if store_way is not None:
            store = store.replace(f":{store_port}/", f":{store_way.port}/")
        args = ["--name", name, "--advertise", f"127.0.0.1:{way.port}"]
        args += [part for stage in stages for part in ("--stage", str(stage))]
        server = ChaosWorker(store=store, port=way.target_port, args=args, settings=settings, planted=planted)
        return cls(name, stages, way, server, store_way)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.way.port}"

    async def supervise(self) -> None:
        """Until cancelled: start the worker when it is wanted and does not run."""
        while True:
            async with self.lock:
                if self.is_wanted and not self.server.is_running:
                    await self._start()
            await asyncio.sleep(LOOK_SECONDS)

    async def _start(self) -> None:
        if (code := self.server.exit_code) is not None:
            self.died.append(code)
        try:
            await asyncio.to_thread(self.server.start)
            self.is_up = True
        except ServerFailed:
            self.failed_starts += 1

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)

    def signal(self, number: signal.Signals) -> None:
        if self.server.is_running:
            os.kill(self.server.pid, number)

    async def close(self) -> None:
        self.is_wanted = False
        async with self.lock:
            self.signal(signal.SIGCONT)
            await asyncio.to_thread(self.server.stop)

    async def leave(self) -> None:
        """Close, and remove its files."""
        await self.close()
        await asyncio.to_thread(self.server.close)
        for way in (self.way, self.store_way):
            if way is not None:
                await way.close()


class ClientSeat:
    """A place where client processes of one client id run, one after the other.

    Attributes:
        way: the proxy between it and its broker.
        lives: of each process start, what it wrote down.
        killed: when each start but the last was killed, s.

    """

    def __init__(self, role: Callable[[int, Path], Role], folder: Path, way: FaultProxy) -> None:
        self._role, self._folder, self.way = role, folder, way
        self.roles: list[Role] = []
        self.lives: list[Tail] = []
        self.killed: list[float] = []
        self.lock = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.roles[-1].client_id

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the next process."""
        at = len(self.lives) + 1
        role = self._role(at, self._folder)
        self.roles.append(role)
        self.lives.append(Tail(Path(role.records)))
        with (self._folder / f"{role.client_id}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.client", msgspec.json.encode(role).decode()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(),
                process_group=0,  # an orphan that is stopped gets a hang-up, and ends
            )

    def tell(self, command: Command) -> None:
        """Send a command; a process that is gone misses it."""
        if self._process is not None and self._process.stdin is not None and self.is_running:
            with contextlib.suppress(OSError):
                self._process.stdin.write(msgspec.json.encode(command) + b"\n")
                self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        self._reap()

    async def close(self, patience: float) -> None:
        """Let it close; kill it if it does not."""
        self.signal(signal.SIGCONT)
        self.tell(Command("close"))
        try:
            async with asyncio.timeout(patience):
                while self.is_running:  # noqa: ASYNC110 (nothing announces its end)
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            self.signal(signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def read(self) -> list[AnyRecord]:
        """Read on what the present process writes."""
        return self.lives[-1].read()

    @property
    def has_failed(self) -> str:
        """What it ended with by itself, empty while it did not."""
        broken = [each for life in self.lives for each in life.records if isinstance(each, Broken)]
        if broken:
            return broken[-1].error
        if self._process is not None and self._process.poll() not in (None, 0, -signal.SIGKILL):
            return f"exit code {self._process.returncode}"
        return ""
