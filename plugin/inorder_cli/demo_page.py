"""The demo's run in a browser: the page of its worker, which stays up until it is stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from inorder.signals import stop_event
from inorder_cli import options, output
from inorder_cli.controlplane import make_control_plane

if TYPE_CHECKING:
    from rich.console import Console

    from inorder_cli.demo.outcome import Outcome
    from inorder_worker.service import Worker


class Bars(Protocol):
    """A display of progress, which must end before something else is printed for good."""

    def stop(self) -> None:
        """End the display of progress."""


class Page:
    """Shows a run of the demo in a browser (see ``inorder_cli.demo.run.RunObserver``).

    Args:
        console: where the page is named.
        brokers: for the live tail and test events.
        port: of the page; ``None``: the usual one.
        bars: of the run.
        report: tells the outcome.
        is_json: the page is named in a line of JSON.
    """

    def __init__(
        self,
        console: Console,
        brokers: list[str],
        port: int | None,
        bars: Bars,
        report: Callable[[Outcome], None],
        *,
        is_json: bool,
    ) -> None:
        self._console, self._brokers, self._port = console, brokers, port
        self._bars, self._report, self._is_json = bars, report, is_json
        self._link = ""

    @asynccontextmanager
    async def observe(self, worker: Worker) -> AsyncIterator[None]:
        """Serve the page of this worker. Raises PortInUse and MissingExtra."""
        loaded = options.settings(
            None,
            store={"url": worker.settings.store},
            controlplane={"port": self._port, "host": "127.0.0.1", "workers": ()},
            client={"brokers": self._brokers},
        )
        plane = make_control_plane(loaded.settings, monitor=worker.answer)
        try:
            secret = await plane.first_token()
            async with plane:
                self._link = f"{plane.url}#token={secret}"
                if self._is_json:
                    output.emit({"type": "page", "link": self._link})
                else:
                    self._console.print(f"See it live: {self._link}", soft_wrap=True)
                yield
        finally:
            await plane.close()

    async def finish(self, outcome: Outcome) -> None:
        """Print the outcome and the page's address, and wait for Ctrl-C or SIGTERM."""
        stop = stop_event()
        self._bars.stop()
        self._report(outcome)
        if not self._is_json:
            self._console.print(f"This run can be seen, until you press Ctrl-C: {self._link}", soft_wrap=True)
        await stop.wait()
