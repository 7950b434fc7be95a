"""The programs of ``examples/``, before and after: how tests start them, talk to them and read what they print.

@pytest.mark.parametrize("program", versions("paho_chat"))
def test_all_read_the_same(program: Path, mosquitto: Mosquitto, worker: WorkerServer) -> None:
    with Program(program, str(mosquitto.port), workers=worker.url) as ann:
        ann.say("hello")
        ann.until(lambda lines: "ann: hello" in lines, what="her own line")
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from inorder.testing.services import wait_until

PROJECT = Path(__file__).parents[1]
EXAMPLES = PROJECT / "examples"
AFTER = "_inorder"
PATIENCE = 60.0


def names(folder: Path = EXAMPLES) -> list[str]:
    """Return the names of all examples."""
    return sorted({each.stem.removesuffix(AFTER) for each in folder.glob("*.py")})


def versions(name: str) -> list[Path]:
    """Return a program as it was and as it is with inorder."""
    return [EXAMPLES / f"{name}.py", EXAMPLES / f"{name}{AFTER}.py"]


def difference(name: str, folder: Path = EXAMPLES) -> list[str]:
    """Return the lines that differ, as in a diff: ``-import a``, ``+import b``."""
    before, after = ((folder / each).read_text().splitlines() for each in (f"{name}.py", f"{name}{AFTER}.py"))
    return [line for line in difflib.ndiff(before, after) if line[0] in "+-"]


class Program:
    """One running program.

    Args:
        path: its file.
        args: its arguments.
        workers: the addresses it finds in its environment; ``None``: it finds none there.
        python: of another environment.

    Attributes:
        lines: what it has printed so far.
    """

    def __init__(self, path: Path, *args: str, workers: str | None = None, python: Path = Path(sys.executable)) -> None:
        self.lines: list[str] = []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INORDER_")}
        if workers is not None:
            environment["INORDER_CLIENT__WORKERS"] = workers
        self._process = subprocess.Popen(
            [str(python), "-u", "-W", "error", str(path), *args], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name=f"output of {path.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def say(self, line: str) -> None:
        """Type a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def until(self, condition: Callable[[list[str]], bool], *, what: str) -> None:
        """Wait until what it has printed fulfils a condition."""
        try:
            wait_until(lambda: condition(self.lines) or self._has_ended(), what=what, timeout=PATIENCE)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}; it has printed {self.lines}") from None
        assert condition(self.lines), f"it ended without {what}; it has printed {self.lines}"

    def _has_ended(self) -> bool:
        return self._process.poll() is not None and not self._reader.is_alive()

    def end(self) -> int:
        """Close its input, and return its exit code when it has ended by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
