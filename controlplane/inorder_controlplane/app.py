"""The assembly of the control plane's app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from starlette.middleware import Middleware

from inorder_controlplane import documents, problems
from inorder_controlplane.access import Access
from inorder_controlplane.bodies import Bodies
from inorder_controlplane.context import ClusterFactory, Context
from inorder_controlplane.database import Database
from inorder_controlplane.documents import PREFIX, PUBLIC
from inorder_controlplane.guards import Hosts, OwnCookie, SecurityHeaders
from inorder_controlplane.login_limit import LoginLimit
from inorder_controlplane.pages import Pages
from inorder_controlplane.principals import COOKIE
from inorder_controlplane.proxied import RootPath
from inorder_controlplane.routes import registry
from inorder_controlplane.running import running
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_controlplane.watching import watching
from inorder_worker.service.monitor import Answer


def create_app(
    settings: ControlPlaneSettings,
    store: Database,
    cluster_factory: ClusterFactory,
    *,
    access: Access | None = None,
    monitor: Callable[[str, str], Answer] | None = None,
) -> FastAPI:
    """Make the control plane's app.

    Args:
        settings: where it listens and what it allows.
        store: closed with the app.
        cluster_factory: makes a connection to the workers, for one request or one WebSocket.
        access: where the workers are, for those who connect otherwise; closed with the app.
        monitor: of the worker in this process, for health and metrics.
    """
    context = Context(settings, store, cluster_factory, LoginLimit(settings.login_rate), access, monitor)
    app = FastAPI(
        title="inorder control plane",
        version=_release(),
        description="Topics, their order, subscriptions, workers and events of inorder. Sequence numbers, epochs and "
        "ids are texts, because browsers cannot hold 64 bits in a number.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        middleware=[
            Middleware(RootPath, settings.root_path),
            Middleware(SecurityHeaders),
            Middleware(Hosts, settings),
            Middleware(OwnCookie, COOKIE),
            Middleware(problems.Failures),
            Middleware(Bodies, context, PREFIX, PUBLIC),
        ],
        redirect_slashes=False,
    )
    app.state.context = context
    problems.install(app)
    documents.install(app, settings.root_path)
    for router in registry.API:
        app.include_router(router, prefix=PREFIX)
    for router in registry.ROOT:
        app.include_router(router)
    app.router.default = Pages(settings.root_path)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    try:
        async with watching(context), running(context):
            yield
    finally:
        if context.access is not None:
            await context.access.close()
        await context.database.close()


def _release() -> str:
    try:
        return version("inorder")
    except PackageNotFoundError:  # run from a source tree
        return "0"
