"""The connections to a client's workers, and the tasks that keep them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from inorder.client.worker_link import WorkerLink


class LinkPool:
    """A client's connections to workers.

    Args:
        make: makes a link to an address, which is not connected yet.
    """

    def __init__(self, make: Callable[[str], WorkerLink]) -> None:
        self._make = make
        self._links: list[WorkerLink] = []
        self._tasks: dict[WorkerLink, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def __iter__(self) -> Iterator[WorkerLink]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)

    def has(self, address: str) -> bool:
        """Tell whether there is a connection to a worker, or will be."""
        return any(address in (link.address, link.advertised) for link in self._links)

    def run(self, group: asyncio.TaskGroup) -> None:
        """Keep the connections by tasks of this group from now on."""
        self._group = group
        for link in self._links:
            self.keep(link)

    async def connect(self, link: WorkerLink) -> None:
        """Add a link once it is connected. Raises what WorkerLink.connect does."""
        self._links.append(link)
        try:
            await link.connect()
        except BaseException:
            if link in self._links:  # else all were closed meanwhile
                self._links.remove(link)
            raise

    async def connect_to(self, address: str) -> WorkerLink:
        """Return a new link that is connected. Raises what WorkerLink.connect does."""
        link = self._make(address)
        await self.connect(link)
        return link

    def open(self, address: str) -> None:
        """Add a link that connects by itself."""
        link = self._make(address)
        self._links.append(link)
        self.keep(link)

    def keep(self, link: WorkerLink) -> None:
        """Keep a link connected, unless it was discarded meanwhile."""
        if self._group is not None and link in self._links:
            self._tasks[link] = self._group.create_task(link.run(), name=f"inorder: link {link.address}")

    def discard(self, link: WorkerLink) -> None:
        """Drop a link."""
        self._links.remove(link)
        task = self._tasks.pop(link, None)
        if task is not None:
            task.cancel()
        link.drop()

    async def close(self, timeout: float) -> None:
        """Close all connections within ``timeout`` seconds."""
        links, self._links = self._links, []
        await asyncio.gather(*(link.close(timeout) for link in links))
