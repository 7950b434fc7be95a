"""An ``inorder up`` in a process of its own, as operators run it, and a browser logged in to it."""

from __future__ import annotations

import json
import os
import pwd
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

from inorder.testing.services import Server, WorkerServer, free_port
from inorder.testing.services.server import HOST

LINK = re.compile(r"http://\S+#token=\S+")

PAGES = {
    "/": "Overview",
    "/topics": "Topics",
    "/subscriptions": "Subscriptions",
    "/workers": "Workers",
    "/events": "Events",
    "/gaps": "Gaps",
    "/analytics": "Analytics",
    "/settings": "Settings",
}
"""Path and heading of each."""


class UpServer(Server):
    """Worker, control plane and web UI in one process, over a store that lives as long as the context.

    Args:
        broker: URL of the broker that test events are published through.
        topics: those that each stage has from the beginning, from the top, without their space.

    Attributes:
        worker_port: where its clients connect to.
    """

    binary = "python"
    package = "python3"

    def __init__(self, broker: str, topics: Sequence[Sequence[str]] = ((),)) -> None:
        super().__init__()
        self._broker, self._topics = broker, topics
        self.worker_port = free_port()
        # Our own code, so our own user: another one may not be able to read the Python it is installed in.
        self.service_user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def url(self) -> str:
        """Where the browser goes."""
        return f"http://{HOST}:{self.port}"

    @property
    def worker(self) -> str:
        """Host and port, as ``Client(workers=[...])`` takes them."""
        return f"{HOST}:{self.worker_port}"

    @property
    def link(self) -> str:
        """The ready link that the first start printed."""
        found = LINK.search(self.log())
        assert found, f"no link was printed: {self.log()}"
        return found.group()

    @property
    def store(self) -> str:
        """The store's URL."""
        return f"sqlite:///{self.folder / 'inorder.db'}"

    @property
    def traces(self) -> Path:
        """The folder below which analyses may read."""
        return self.folder / "traces"

    def _find_program(self) -> str:
        return sys.executable

    def _command(self) -> list[str]:
        ports = ["--port", str(self.port), "--worker-port", str(self.worker_port)]
        return [self.binary, "-m", "inorder", "up", *ports, "--store", self.store]

    def _environment(self) -> dict[str, str]:
        order = [[f"mqtt:{name}" for name in stage] for stage in self._topics]
        return {
            **super()._environment(),
            "INORDER_CLIENT__BROKERS": self._broker,
            "INORDER_WORKER__STAGES": str(len(self._topics)),
            "INORDER_WORKER__TOPIC_ORDER": json.dumps(order),
            "INORDER_WORKER__HEADS_INTERVAL": "0.2",
            "INORDER_WORKER__BEAT_INTERVAL": "0.2",
            "INORDER_CONTROLPLANE__TRACES": str(self.traces),
            "INORDER_WORKER__CONFIRM_TIMEOUT": "3600",  # what a test lets hang does not settle by itself
        }

    def _ping(self) -> None:
        if "page: " not in self._log_of_start():
            raise ConnectionRefusedError("it is starting")


class Standby(WorkerServer):
    """One more worker of a site, with the same settings."""

    def __init__(self, site: UpServer) -> None:
        super().__init__(store=site.store, args=["--name", "standby"])
        self._site = site

    def _environment(self) -> dict[str, str]:
        return self._site._environment()


def log_in(page: Page, site: UpServer) -> None:
    """Open the ready link, and wait until the first page is there."""
    page.goto(site.link)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
