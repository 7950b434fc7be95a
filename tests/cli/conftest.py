"""Running command lines inside the test process, away from the user's own settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inorder.testing.services import WorkerServer
from inorder_cli.app import run


@dataclass(frozen=True)
class Run:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def assert_refused(self, code: int, *parts: str) -> None:
        """One line on stderr that names what is wrong, nothing on stdout, no traceback."""
        assert self.code == code, self
        assert self.out == ""
        assert self.err.startswith("error: "), self
        assert self.err.count("\n") == 1, self
        for part in parts:
            assert part in self.err, self


class Child:
    """An ``inorder`` command in a process of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "inorder", *map(str, arguments)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def line(self) -> str:
        """The next line of its stdout."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def said(self) -> str:
        """The next line of its stderr."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def interrupt(self, number: int = signal.SIGINT, *, close_stdin: bool = True) -> Run:
        """Send a signal and wait for the end."""
        self._process.send_signal(number)
        if not close_stdin:
            self._process.wait(timeout=90)
        return self.wait()

    def write(self, text: str) -> None:
        """Give it something on stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def close_stdout(self) -> None:
        """Stop reading, as ``head`` does."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self, timeout: float = 90.0) -> Run:
        out, err = self._process.communicate(timeout=timeout)
        return Run(self._process.returncode, out, err)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


Start = Callable[..., Child]
Cli = Callable[..., Run]


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INORDER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run one command line and return how it ended."""

    def run_cli(*arguments: object) -> Run:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Run(code, out, err)

    return run_cli


@pytest.fixture
def start() -> Iterator[Start]:
    """Start commands in processes of their own; those that still run at the end are killed."""
    children: list[Child] = []

    def start_child(*arguments: object) -> Child:
        children.append(Child(*arguments))
        return children[-1]

    yield start_child
    for child in children:
        child.close()


@pytest.fixture(scope="session")
def shared_worker() -> Iterator[str]:
    """Where a worker listens that tests leave alone, without a token; topics are each test's own."""
    with WorkerServer() as server:
        yield server.url


@pytest.fixture
def worker_address(start: Start, tmp_path: Path) -> str:
    """Where a fresh worker listens, without a token."""
    child = start("worker", "--port", 0, "--store", f"sqlite:///{tmp_path / 'numbers.db'}", "--json")
    return str(json.loads(child.line())["address"])
