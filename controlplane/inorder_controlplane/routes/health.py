"""``/health/live`` and ``/health/ready``, for probes. Need no token and tell no secrets."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel

from inorder.errors import StoreError
from inorder_controlplane.context import ContextDep

router = APIRouter(prefix="/health", tags=["health"])


class Live(BaseModel):
    """The process answers."""

    status: str = "live"


class Ready(BaseModel):
    """Whether requests can be answered."""

    status: str
    store: str
    store_error: str | None


@router.get("/live", operation_id="getLive")
async def get_live() -> Live:
    """Tell that the process answers."""
    return Live()


@router.get("/ready", operation_id="getReady", responses={503: {"model": Ready}})
async def get_ready(context: ContextDep, response: Response) -> Ready:
    """Tell whether the store answers."""
    try:
        await context.database.call(lambda store: store.run(store.require_current))
    except StoreError as error:
        response.status_code = 503
        return Ready(status="store failed", store=context.database.url, store_error=str(error))
    return Ready(status="ready", store=context.database.url, store_error=None)
