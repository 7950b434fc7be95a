"""The routes' shared context: one per app, found by the dependency ``get_context``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from inorder_controlplane.access import Access
from inorder_controlplane.database import Database
from inorder_controlplane.login_limit import LoginLimit
from inorder_controlplane.roles import Principal
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_controlplane.turns import Turns
from inorder_worker.admin import Cluster
from inorder_worker.service.monitor import Answer

ClusterFactory = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Makes a connection to the workers; entering it raises LinkErrors and PeerErrors."""
PRINCIPAL: Final = "inorder.principal"
"""In a request's scope: who asks."""


@dataclass(slots=True)
class Context:
    """The objects that the routes share.

    Attributes:
        settings: of the control plane.
        database: the store.
        cluster_factory: makes connections to the workers.
        login_limit: failed logins.
        access: where the workers are and what to show them; ``None`` in tests without.
        monitor: of the worker in this process: answers paths of health and metrics (target, Accept header).
        now_ms: the wall clock, ms since 1970.
        parts: what the modules of routes keep for all requests, by their names.
        turns: of requests that ask the workers.
        edits: held from the look at what a change compares with If-Match until the change is made, so that of two
            changes of one version the second is refused.
        rights_ended: set when a token or login ends here; another one takes its place (``end_rights``).
    """

    settings: ControlPlaneSettings
    database: Database
    cluster_factory: ClusterFactory
    login_limit: LoginLimit
    access: Access | None = None
    monitor: Callable[[str, str], Answer] | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    parts: dict[str, Any] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)
    edits: asyncio.Lock = field(default_factory=asyncio.Lock)
    rights_ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end_rights(self) -> None:
        """Have everybody with an open WebSocket looked at, as some token or login has ended."""
        ended, self.rights_ended = self.rights_ended, asyncio.Event()
        ended.set()


def get_context(connection: HTTPConnection) -> Context:
    """Return the app's context, for requests and WebSockets."""
    return cast(Context, connection.app.state.context)


ContextDep = Annotated[Context, Depends(get_context)]


async def get_cluster(connection: HTTPConnection, context: ContextDep) -> AsyncIterator[Cluster]:
    """Connect to the workers for one request in its turn. A route names its principal first, to admit no other."""
    who: Principal = connection.scope[PRINCIPAL]
    async with context.turns.taken(who.token_id), context.cluster_factory() as cluster:
        yield cluster


ClusterDep = Annotated[Cluster, Depends(get_cluster)]
