"""``/health/live``, ``/health/ready`` and ``/metrics``, for probes. Need no token and tell no secrets.

Where a worker runs in the same process they speak of it as its own port would; else of the control plane alone.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from inorder.errors import StoreError
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.problems import Problem

router = APIRouter(tags=["health"])


class Live(BaseModel):
    """The process answers."""

    model_config = ConfigDict(extra="allow")

    status: str = "live"


class Ready(BaseModel):
    """Whether requests can be answered, and what is known of it."""

    model_config = ConfigDict(extra="allow")

    status: str
    store: str
    store_error: str | None


@router.get("/health/live", operation_id="getLive", response_model=Live)
async def get_live(request: Request, context: ContextDep) -> Response | Live:
    """Tell that the process answers."""
    return _of_worker(request, context) or Live()


@router.get("/health/ready", operation_id="getReady", response_model=Ready, responses={503: {"model": Ready}})
async def get_ready(request: Request, context: ContextDep, response: Response) -> Response | Ready:
    """Tell whether the worker in this process takes work; without one, whether the store answers."""
    if answer := _of_worker(request, context):
        return answer
    try:
        await context.database.call(lambda store: store.run(store.require_current))
    except StoreError as error:
        response.status_code = 503
        return Ready(status="store failed", store=context.database.url, store_error=str(error))
    return Ready(status="ready", store=context.database.url, store_error=None)


@router.get("/metrics", include_in_schema=False)
@router.get("/metrics/topics", include_in_schema=False)
async def get_metrics(request: Request, context: ContextDep) -> Response:
    """Return the metrics of the worker in this process."""
    answer = _of_worker(request, context)
    if answer is None:
        raise Problem("not-found", "the metrics are the workers': see their --http-port")
    return answer


def _of_worker(request: Request, context: Context) -> Response | None:
    if context.monitor is None:
        return None
    target = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
    answer = context.monitor(target, request.headers.get("accept", ""))
    return Response(answer.body, answer.status, media_type=answer.kind)
