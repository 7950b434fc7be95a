"""The process of one site: ``python -m inorder_cli.demo.site``.

It reads its job from stdin, one JSON line, and answers on stdout, one JSON object a line: ``ready``, ``seen`` and
``result`` or ``error``. After ``ready`` it waits for the common start on stdin. When stdin ends, whoever started it
is gone, and so it ends too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from typing import Any

import msgspec

from inorder.errors import InorderError
from inorder_cli.demo.plan import Link, SiteJob, SiteResult

_input = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (unbuffered: no lock is held while a thread reads)


async def run_site(job: SiteJob, link: Link) -> SiteResult:
    """Run one site, with inorder if the job names workers."""
    if job.workers:
        from inorder_cli.demo.ordered import run_ordered

        return await run_ordered(job, link)
    from inorder_cli.demo.bare import run_bare

    return await run_bare(job, link)


class _Pipes:
    """The link to the parent process."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start: asyncio.Future[float] = self._loop.create_future()
        self._told = -1
        threading.Thread(target=self._listen, name="demo-stdin", daemon=True).start()

    async def ready(self) -> float:
        """Report that the site is subscribed and wait for the start."""
        write({"ready": True})
        return await self._start

    def progress(self, seen: int) -> None:
        """Report progress to the parent, if there is any."""
        if seen != self._told:
            self._told = seen
            write({"seen": seen})

    def _listen(self) -> None:
        if line := _input.readline():
            self._loop.call_soon_threadsafe(self._start.set_result, msgspec.json.decode(line, type=float))
            _input.readline()
        os._exit(1)


def write(message: dict[str, Any]) -> None:
    """Send one message to the parent."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


async def _main() -> None:
    job = msgspec.json.decode(_input.readline(), type=SiteJob)
    try:
        write({"result": await run_site(job, _Pipes())})
    except Exception as error:
        if not isinstance(error, InorderError):
            traceback.print_exception(error)
        write({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    asyncio.run(_main())
