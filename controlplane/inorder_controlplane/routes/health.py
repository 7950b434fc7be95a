"""``/health/live``, ``/health/ready`` and ``/metrics``, for probes.

Where a worker runs in the same process they speak of it as its own port would; else of the control plane alone. They
need no token on an address of this machine; on others metrics need one, and without one ``ready`` says no more than
that.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from inorder.errors import StoreError
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.principals import authenticate
from inorder_controlplane.problems import Problem
from inorder_worker.service.monitor import Answer
from inorder_worker.service.settings import is_loopback

router = APIRouter(tags=["health"])


class Live(BaseModel):
    """The process answers."""

    model_config = ConfigDict(extra="allow")

    status: str = "live"


class Ready(BaseModel):
    """The readiness to answer requests, with the reasons."""

    model_config = ConfigDict(extra="allow")

    status: str
    store: str | None = Field(default=None, description="its URL, the password masked")
    store_error: str | None = None


@router.get("/health/live", operation_id="getLive")
async def get_live() -> Live:
    """Tell that the process answers."""
    return Live()


@router.get("/health/ready", operation_id="getReady", responses={503: {"model": Ready}})
async def get_ready(request: Request, context: ContextDep, response: Response) -> Ready:
    """Tell whether the worker in this process takes work; without one, whether the store answers."""
    answer = _of_worker(request, context)
    if answer is not None:
        response.status_code = answer.status
        found = Ready.model_validate(json.loads(answer.body))
    else:
        found = await _own(context)
        if found.store_error is not None:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return found if await _may_see(request, context) else Ready(status=found.status)


@router.get("/metrics", include_in_schema=False)
@router.get("/metrics/topics", include_in_schema=False)
async def get_metrics(request: Request, context: ContextDep) -> Response:
    """Return the metrics of the worker in this process."""
    answer = _of_worker(request, context)
    if answer is None:
        raise Problem("not-found", "the metrics are the workers': see their --http-port")
    if not is_loopback(context.settings.host):
        await authenticate(request, context)
    return Response(answer.body, answer.status, media_type=answer.kind)


def _of_worker(request: Request, context: Context) -> Answer | None:
    if context.monitor is None:
        return None
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    return context.monitor(target, request.headers.get("accept", ""))


async def _own(context: Context) -> Ready:
    try:
        await context.database.call(lambda store: store.run(store.require_current))
    except StoreError as error:
        return Ready(status="store failed", store=context.database.url, store_error=str(error))
    return Ready(status="ready", store=context.database.url)


async def _may_see(request: Request, context: Context) -> bool:
    """Tell whether clients and places may be named to this principal."""
    if is_loopback(context.settings.host):
        return True
    try:
        await authenticate(request, context)
    except (Problem, StoreError):
        return False
    return True
