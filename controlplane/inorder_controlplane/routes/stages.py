"""``/stages`` and ``/workers``: who has which stage, since when, and moving them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends

from inorder.worker.history import History, TakeOver
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.models.common import moment
from inorder_controlplane.models.stages import Stage, Takeover, Worker
from inorder_controlplane.paging import ListQuery, Page, list_query, page_of
from inorder_controlplane.principals import Principal, require
from inorder_controlplane.problems import Problem
from inorder_controlplane.showing import stages_of, workers_of
from inorder_controlplane.watching import Picture, watching_of

router = APIRouter(tags=["workers"])

Viewer = Annotated[Principal, require("viewer")]
Operator = Annotated[Principal, require("operator")]
Query = Annotated[ListQuery, Depends(list_query)]

MAX_TAKEOVERS: Final = 10_000
"""Of older ones nothing is told."""


@router.get("/stages", operation_id="listStages")
async def list_stages(_: Viewer, context: ContextDep, query: Query) -> Page[Stage]:
    """List the stages, the top one first, with the workers that have them."""
    items, following, total = page_of(
        stages_of(await _seen(context)),
        query,
        ident=lambda each: each.stage,
        sorts={
            "stage": lambda each: each.stage,
            "state": lambda each: each.state,
            "topics": lambda each: each.topics,
            "rate": lambda each: each.rate,
        },
        default="stage",
        text=lambda each: f"{each.stage} {each.owner} {each.address} {each.state}",
    )
    return Page(items=items, next=following, total=total)


@router.get("/stages/takeovers", operation_id="listTakeovers")
async def list_takeovers(_: Viewer, context: ContextDep, query: Query) -> Page[Takeover]:
    """List who got which stage when, the newest first."""
    items, following, total = page_of(
        await context.database.call(lambda store: History(store).take_overs(limit=MAX_TAKEOVERS)),
        query,
        ident=lambda each: f"{each.stage:04d}-{each.epoch:020d}",
        sorts={"at": lambda each: each.at_ms, "stage": lambda each: each.stage, "epoch": lambda each: each.epoch},
        default="-at",
        text=lambda each: f"{each.owner} {each.address} {each.kind}",
    )
    return Page(items=[_takeover(each) for each in items], next=following, total=total)


@router.get("/workers", operation_id="listWorkers")
async def list_workers(_: Viewer, context: ContextDep, query: Query) -> Page[Worker]:
    """List the workers that live, and those that have not been gone for long."""
    items, following, total = page_of(
        workers_of(await _seen(context)),
        query,
        ident=lambda each: each.owner,
        sorts={
            "owner": lambda each: each.owner,
            "address": lambda each: each.address,
            "state": lambda each: each.state,
        },
        default="owner",
        text=lambda each: f"{each.owner} {each.address} {each.state}",
    )
    return Page(items=items, next=following, total=total)


async def _seen(context: Context) -> Picture:
    """Look at the store. Raises Problem while it does not answer."""
    picture = await watching_of(context).picture()
    if picture.store is None:
        raise Problem("store-unavailable", picture.store_error or "", headers={"Retry-After": "1"})
    return picture


def _takeover(each: TakeOver) -> Takeover:
    return Takeover.model_validate(
        {
            "stage": each.stage,
            "epoch": str(each.epoch),
            "owner": each.owner,
            "address": each.address,
            "at": moment(each.at_ms),
            "kind": each.kind,
        }
    )
