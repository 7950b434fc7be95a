"""Runs of the sites of one half of the demo: each in its own process, or all in this one (memory)."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from inorder.errors import InorderError
from inorder_cli.demo.plan import SiteJob, SiteResult
from inorder_cli.demo.site import run_site

Progress = Callable[[int], None]
"""Called with the number of events seen by all subscribers together."""

HEAD_START_SECONDS = 0.1
"""Between the common start's announcement and the start itself."""

MAX_LINE_BYTES = 256 * 1024 * 1024


class SiteFailed(InorderError):
    """A site's process ended without a result. Attribute ``site``: its name."""

    def __init__(self, site: str, reason: str) -> None:
        self.site = site
        super().__init__(f"the demo's site {site} failed: {reason}")


async def run_in_processes(jobs: Sequence[SiteJob], progress: Progress) -> list[SiteResult]:
    """Run each site in its own process; all processes end before this returns, raises or is cancelled."""
    sites = [_Site(job, lambda: progress(sum(site.seen for site in sites))) for job in jobs]
    try:
        async with asyncio.TaskGroup() as group:
            for site in sites:
                group.create_task(site.start())
        start = time.monotonic() + HEAD_START_SECONDS
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(site.finish(start)) for site in sites]
        return [task.result() for task in tasks]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    finally:
        await asyncio.shield(asyncio.gather(*(site.close() for site in sites)))


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Site:
    """One site's process."""

    def __init__(self, job: SiteJob, changed: Callable[[], None]) -> None:
        self.seen = 0
        self._job, self._changed = job, changed
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and return when the site is subscribed."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "inorder_cli.demo.site"),  # -P: nothing from the current directory
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            start_new_session=True,  # Ctrl-C is for us alone; we end it
        )
        await self._send(self._job)
        await self._next("ready")

    async def finish(self, start: float) -> SiteResult:
        """Start the publishing and return the result."""
        await self._send(start)
        return msgspec.convert(await self._next("result"), SiteResult)

    async def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()

    async def _send(self, message: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        with contextlib.suppress(ConnectionError):  # it ended; reading from it says why
            await self._process.stdin.drain()

    async def _next(self, key: str) -> Any:
        """Return the next message of this kind, and pass progress on meanwhile."""
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = msgspec.json.decode(line)
            if key in message:
                return message[key]
            if "error" in message:
                raise SiteFailed(self._job.name, message["error"])
            self.seen = message["seen"]
            self._changed()
        raise SiteFailed(self._job.name, await self._last_words())

    async def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        lines = (await self._process.stderr.read()).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with {await self._process.wait()}"


async def run_here(jobs: Sequence[SiteJob], progress: Progress) -> list[SiteResult]:
    """Run all sites in this process, as the in-process broker reaches no further."""
    seen = dict.fromkeys((job.name for job in jobs), 0)
    barrier = asyncio.Barrier(len(jobs))
    start = 0.0

    class Here:
        def __init__(self, name: str) -> None:
            self._name = name

        async def ready(self) -> float:
            nonlocal start
            if await barrier.wait() == 0:
                start = time.monotonic() + HEAD_START_SECONDS
            await barrier.wait()
            return start

        def progress(self, count: int) -> None:
            seen[self._name] = count
            progress(sum(seen.values()))

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_site(job, Here(job.name))) for job in jobs]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]
