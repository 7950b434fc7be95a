"""An app beside a real worker, over one store, with clients on an in-process broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
from tests.client.helpers import PATIENCE
from tests.client.helpers import Site as EventSite
from tests.controlplane.conftest import ROLES, Site

from inorder_controlplane import ControlPlaneSettings, Database, create_app
from inorder_controlplane.access import Access
from inorder_worker.admin import Cluster
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

ORDER = (("memory:a",), ("memory:b", "memory:c"), ("memory:d", "memory:e"))
"""Five topics on three stages; their ids are 1 to 5."""


class Live(Site):
    """The app, its store and clients for it (see Site), and:

    Attributes:
        events: the worker and the in-process broker.
        access: how the app reaches the worker.
    """

    events: EventSite
    access: Access

    async def get(self, path: str, role: str = "viewer", **query: Any) -> Any:
        """Return what a path answers."""
        answer = await self.client(role).get(f"/api/v1{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def found(self, path: str, is_wanted: Callable[[Any], Any], **query: str) -> Any:
        """Ask until an answer is as wanted."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self.client("viewer").get(f"/api/v1{path}", params=query)
                if answer.status_code == 200 and is_wanted(answer.json()):
                    return answer.json()
                await asyncio.sleep(0.1)

    async def edit(self, method: str, path: str, body: Any, role: str = "operator") -> httpx.Response:
        """Change what a path stands for, as it is now."""
        client = self.client(role)
        before = await client.get(f"/api/v1{path}")
        headers = {"If-Match": before.headers["etag"]}
        return await client.request(method, f"/api/v1{path}", json=body, headers=headers)


@asynccontextmanager
async def live_site(
    folder: Path, settings: dict[str, Any] | None = None, *, is_running: bool = True, **worker: Any
) -> AsyncIterator[Live]:
    """Make a site with three stages and the topics of ORDER. ``is_running``: the app's lifespan has begun; ``worker``:
    its settings."""
    events = EventSite(f"site-{folder.name}-{id(folder)}", folder / "inorder.db")
    await events.start(**{"stages": 3, "topic_order": ORDER, **worker})
    url = f"sqlite:///{events.store}"
    store, database = Store(url), Database(url)
    access = Access(database, [events.address])
    app = create_app(ControlPlaneSettings(**settings or {}), database, access.cluster, access=access)
    live = Live(app, store)
    live.events, live.access = events, access
    for role in ROLES:
        live.tokens[role], live.secrets[role] = TokenStore(store).issue(f"the {role}", role)
    try:
        async with app.router.lifespan_context(app) if is_running else nullcontext():
            yield live
    finally:
        for client in live.clients:
            await client.aclose()
        store.close()
        await events.stop()


def cluster_of(live: Live) -> Cluster:
    """Return an operator's connection of a test's own."""
    return Cluster([live.events.address])
