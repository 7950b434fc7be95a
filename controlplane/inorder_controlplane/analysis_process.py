"""One analysis in its own process and process group: Spark is never loaded here.

The process reports over a pipe that is only for that, one JSON object a line: ``{"type": "progress", "step", "of",
"what"}`` and at its end ``{"type": "result", "result"}``; what it says on stdout and stderr is its log. It gets none of
our secrets, and cannot reach the store. Its stdin is a pipe whose other end is ours: when that closes, because we were
killed, it ends. What it writes besides its results goes into a folder of its own, which is removed after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from inorder.logs import logger
from inorder.scratch import SCRATCH, Scratch
from inorder_worker.store.analyses import Job, Progress
from inorder_worker.store.results import LOG_BYTES, RESULT_BYTES, last_lines, storable

COMMAND: Final = (sys.executable, "-P", "-m", "inorder", "analyze")
"""-P: no module is taken from the folder that we happen to be in."""
DRAIN_SECONDS: Final = 2.0
"""How long the pipes of a process that has ended may stay open elsewhere."""
_OURS: Final = re.compile(r"INORDER_|PG[A-Z]")
"""Variables of inorder and of PostgreSQL's clients: tokens, URLs of stores, passwords."""
_SECRET_NAME: Final = re.compile(r"(?i)secret|token|passw|credential|_key$|_key_id$")
_AUTHORITY: Final = re.compile(r"[^\s/]*")
_MASK: Final = "***"

log = logger("inorder.controlplane")


def arguments(job: Job, source: str, out: str | None, report: int) -> list[str]:
    """Return the command's arguments for a job with checked places."""
    given = [f"--window={job.window_s:g}", f"--max-pairs={job.max_pairs}", f"--master={job.master}"]
    if out is not None:
        given.append(f"--out={out}")
    return [*given, f"--report-fd={report}", "--", source]


def environment(ours: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return the environment of an analysis: ours without inorder's own variables, with a place for temporary files.
    Those of object stores and of Spark are for it."""
    kept = {name: value for name, value in ours.items() if not _OURS.match(name)}
    return {"SPARK_LOCAL_DIRS": scratch, **kept, "TMPDIR": scratch}


def masked(text: str, secrets: Sequence[str]) -> str:
    """Return a text without these secrets and without passwords in URLs."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    before, *urls = text.split("://")  # one look at each place: a log line may be long, and is anybody's
    return "://".join([before, *map(_without_password, urls)])


def _without_password(url: str) -> str:
    """Return a URL's part behind ``scheme://`` with the password masked."""
    found = _AUTHORITY.match(url)
    authority = found.group() if found else ""
    user, _, rest = authority.partition(":")
    _, at, host = rest.rpartition("@")
    return f"{user}:{_MASK}@{host}{url[len(authority) :]}" if at and "@" not in user else url


class AnalysisProcess:
    """Runs a job; ``start`` comes first, then ``wait``.

    Attributes:
        progress: how far it is, as far as it has said.
        result: of its end.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self.progress: Progress | None = None
        self.result: dict[str, Any] | None = None
        self._log = bytearray()
        self._secrets = [value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 8]
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self._scratch: Scratch | None = None

    @property
    def log(self) -> str:
        """The last lines of the process's log."""
        return last_lines(masked(storable(self._log.decode(errors="replace")), self._secrets), LOG_BYTES)

    async def start(self, job: Job, source: str, out: str | None) -> None:
        """Start the process. Raises OSError."""
        self._scratch = scratch = await asyncio.to_thread(Scratch, SCRATCH)
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments(job, source, out, writing),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment(os.environ, str(scratch.path)),
                pass_fds=(writing, scratch.lock),
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            await self._clean()
            raise
        finally:
            os.close(writing)
        assert self._process.stdout is not None
        self._readers = [
            asyncio.create_task(self._read_log(self._process.stdout), name="inorder-analysis-log"),
            asyncio.create_task(self._read_reports(reading), name="inorder-analysis-reports"),
        ]

    async def wait(self) -> int:
        """Return the exit code (negative: a signal), once the process and all its children are gone."""
        assert self._process is not None
        code = await self._process.wait()
        self._signal(signal.SIGKILL)  # whatever it left behind
        _, open_ones = await asyncio.wait(self._readers, timeout=DRAIN_SECONDS)
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._stopping is not None:
            self._stopping.cancel()
        await self._clean()
        return code

    def stop(self, grace: float) -> None:
        """Ask a started process to end, and kill it after ``grace`` seconds. ``wait`` returns then."""
        if self._process is not None and self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace), name="inorder-analysis-stop")

    async def _clean(self) -> None:
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
            self._scratch = None

    async def _stop(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
        await asyncio.sleep(grace)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(64 * 1024):
            self._log += data
            del self._log[: -2 * LOG_BYTES]

    async def _read_reports(self, descriptor: int) -> None:
        reader = asyncio.StreamReader(limit=RESULT_BYTES + 4096)
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while line := await reader.readline():
                self._take(line)
        except ValueError:
            log.error("event=analysis_report_too_long limit=%s", RESULT_BYTES)
        finally:
            transport.close()

    def _take(self, line: bytes) -> None:
        try:
            match json.loads(line):
                case {"type": "progress", "step": int(step), "of": int(of), "what": str(what)}:
                    self.progress = Progress(step, of, what)
                case {"type": "result", "result": dict(result)}:
                    self.result = result
        except ValueError:
            log.warning("event=analysis_report_not_read bytes=%s", len(line))
