"""``/stages`` and ``/workers``: the stages with their workers, and moving them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ClusterDep, Context, ContextDep
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.stages import Stage, StageMove, Takeover, Worker
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.showing import stages_of, workers_of
from inorder_controlplane.watching import Picture, watching_of
from inorder_worker.store.history import History

router = APIRouter(tags=["workers"])


WAIT_SECONDS: Final = 20.0
"""How long a hand-over is waited for."""
MAX_TAKEOVERS: Final = 10_000
"""Of older ones nothing is told."""


@router.get("/stages", operation_id="listStages")
async def list_stages(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[Stage]:
    """List the stages, the top one first, with the workers that have them."""
    return page_of(
        stages_of(await _seen(context)),
        query,
        lambda each: each,
        ident=lambda each: each.stage,
        sorts=by("stage", "state", "topics", "rate"),
        default="stage",
        text=lambda each: f"{each.stage} {each.owner} {each.address} {each.state}",
    )


@router.get("/stages/takeovers", operation_id="listTakeovers")
async def list_takeovers(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[Takeover]:
    """List the changes of the stages' workers, the newest first."""
    return page_of(
        await context.database.call(lambda store: History(store).take_overs(limit=MAX_TAKEOVERS)),
        query,
        lambda each: answer(Takeover, each, at=each.at_ms),
        ident=lambda each: f"{each.stage:04d}-{each.epoch:020d}",
        sorts=by("stage", "epoch", at=lambda each: each.at_ms),
        default="-at",
        text=lambda each: f"{each.owner} {each.address} {each.kind}",
    )


@router.post("/stages/{stage}/move", operation_id="moveStage")
async def move_stage(
    who: Operator,
    stage: Annotated[int, Path(ge=0, le=63, description="which stage; 0 is the top")],
    body: StageMove,
    context: ContextDep,
    cluster: ClusterDep,
) -> Stage:
    """Move a stage to another worker without an outage. Pins that worker to its stages until its next start."""
    await _find(context, body.to)
    if stage not in {each.stage for each in await cluster.stages()}:
        raise Problem("not-found", f"there is no stage {stage}")
    async with audited(context, who, "stage.move", str(stage), to=body.to):
        await cluster.move_stage(stage, body.to, wait_s=WAIT_SECONDS)
    return next(each for each in stages_of(await _seen(context, is_new=True)) if each.stage == stage)


@router.post("/workers/{owner:path}/drain", operation_id="drainWorker")
async def drain_worker(
    who: Operator,
    owner: str,
    context: ContextDep,
    cluster: ClusterDep,
    off: Annotated[bool, Query(description="let it take stages again")] = False,
) -> Worker:
    """Make a worker hand over its stages, one after the other and without an outage, and take none until it is started
    again. Then it can be stopped without anybody noticing. Refused (409) where nobody else can take one of them."""
    await _find(context, owner)
    async with audited(context, who, "worker.drain", owner, off=off):
        await cluster.drain(owner, is_on=not off, wait_s=0.0 if off else WAIT_SECONDS)
    return next(each for each in workers_of(await _seen(context, is_new=True)) if each.owner == owner)


@router.get("/workers", operation_id="listWorkers")
async def list_workers(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[Worker]:
    """List the living workers, and the workers that went a short time ago."""
    return page_of(
        workers_of(await _seen(context)),
        query,
        lambda each: each,
        ident=lambda each: each.owner,
        sorts=by("owner", "address", "state"),
        default="owner",
        text=lambda each: f"{each.owner} {each.address} {each.state}",
    )


async def _find(context: Context, owner: str) -> None:
    """Raise Problem for an unknown worker."""
    if all(each.owner != owner for each in workers_of(await _seen(context, is_new=True))):
        raise Problem("not-found", "there is no such worker", allowed="an owner's name, as GET /workers lists it")


async def _seen(context: Context, *, is_new: bool = False) -> Picture:
    """Return an observation of the store. Raises Problem while it does not answer."""
    picture = await watching_of(context).picture(is_new=is_new)
    if picture.store is None:
        raise Problem("store-unavailable", picture.store_error or "", headers={"Retry-After": "1"})
    return picture
