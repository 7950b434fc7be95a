"""``/analytics``: runs of analyses over traces, their outcomes, and the allowed places."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import PlainTextResponse

from inorder.errors import InvalidOption
from inorder_controlplane.auditing import audited
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.cron import Cron
from inorder_controlplane.models.analytics import (
    RESULT_EXAMPLE,
    AllowedPaths,
    AnalyticsRun,
    AnalyticsRunDetail,
    CronAnswer,
    Job,
    Outcome,
    Progress,
    ShownJob,
)
from inorder_controlplane.models.common import answer, moment
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.running import allow_list_of, runner_of
from inorder_controlplane.tables import csv_of, exact
from inorder_worker.store import analyses
from inorder_worker.store.analyses import OPEN, Analyses, Run
from inorder_worker.store.store import Store

router = APIRouter(prefix="/analytics", tags=["analytics"])

Id = Annotated[str, Path(pattern="^[0-9a-z]{1,64}$", description="the run's id")]
MAX_WAITING: Final = 100
"""Runs that may wait for their turn."""
NEXT_TIMES: Final = 3


@router.get("/places", operation_id="getAnalyticsPlaces")
async def get_places(_: Viewer, context: ContextDep) -> AllowedPaths:
    """Return the places that may be analysed here, and where results may go."""
    places = allow_list_of(context)
    return AllowedPaths(
        traces=list(places.traces),
        masters=list(places.masters),
        concurrency=context.settings.analyses,
        found=await context.database.call(lambda _: places.found()),
    )


@router.get("/cron", operation_id="explainCron")
async def explain_cron(
    _: Viewer,
    context: ContextDep,
    expression: Annotated[str, Query(max_length=100, description="minute, hour, day of month, month, day of week")],
    timezone: Annotated[str, Query(max_length=64, description="in which it is meant")] = "UTC",
) -> CronAnswer:
    """Return the next three times of a cron expression."""
    cron = cron_of(expression, timezone, "query")
    return CronAnswer(next=[moment(each) for each in cron.upcoming(context.now_ms(), NEXT_TIMES)])


@router.get("/runs", operation_id="listAnalyticsRuns")
async def list_runs(
    _: Viewer,
    context: ContextDep,
    query: ListQueryDep,
    outcome: Annotated[Outcome | None, Query(description="only runs with this outcome")] = None,
    schedule: Annotated[
        str | None, Query(pattern="^[0-9a-z]{1,64}$", description="only runs of the schedule with this id")
    ] = None,
) -> Page[AnalyticsRun]:
    """List the runs of analyses, the newest first. Results and logs are left out."""
    found = await context.database.call(lambda store: Analyses(store).list())
    now_ms = context.now_ms()
    return page_of(
        [each for each in found if outcome in (None, each.outcome) and schedule in (None, each.schedule)],
        query,
        lambda run: shown_run(run, now_ms),
        ident=lambda run: run.id,
        sorts=by(
            "outcome",
            "by",
            queued_at=lambda run: run.queued_ms,
            started_at=lambda run: run.started_ms,
            ended_at=lambda run: run.ended_ms,
            duration_s=lambda run: duration(run, now_ms),
            kind=lambda run: run.job.kind,
            source=lambda run: run.job.source,
        ),
        default="-queued_at",
        text=lambda run: f"{run.id} {run.job.kind} {run.job.source} {run.outcome} {run.by} {run.reason}",
    )


@router.post("/runs", operation_id="startAnalysis", status_code=201)
async def start_run(who: Operator, body: Job, context: ContextDep, response: Response) -> AnalyticsRun:
    """Queue an analysis. It waits for its turn; one control plane of those on this store runs it."""
    allow_list_of(context).check(body.source, body.out, body.master)
    job = analyses.Job(**body.model_dump())

    def queue(store: Store) -> Run:
        require_room(store)
        return Analyses(store).queue(job, who.name)

    async with audited(context, who, "analysis.start", body.source, **body.model_dump(exclude={"source"})) as result:
        run = await context.database.call(queue)
        result["id"] = run.id
    runner_of(context).wake()
    response.headers["Location"] = f"/api/v1/analytics/runs/{run.id}"
    return shown_run(run, context.now_ms())


@router.get("/runs/{run_id}", operation_id="getAnalyticsRun")
async def get_run(_: Viewer, run_id: Id, context: ContextDep) -> AnalyticsRunDetail:
    """Return a run with its result and the end of its log."""
    run = await known(context, run_id)
    result, log = await context.database.call(
        lambda store: (Analyses(store).result(run_id), Analyses(store).log(run_id))
    )
    return answer(AnalyticsRunDetail, run, **facts(run, context.now_ms()), result=exact(result), log=log or "")


RESULT_CONTENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "the result, or one of its lists as CSV",
        "content": {
            "application/json": {"schema": {"type": "object", "examples": [RESULT_EXAMPLE]}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
}


@router.get(
    "/runs/{run_id}/result", operation_id="downloadAnalyticsResult", response_class=Response, responses=RESULT_CONTENT
)
async def download_result(
    _: Viewer,
    run_id: Id,
    context: ContextDep,
    list_: Annotated[
        str | None,
        Query(alias="list", max_length=64, description="as CSV, this list of it: by_topic, worst_pairs, ..."),
    ] = None,
) -> Response:
    """Download a run's result: JSON, or one of its lists as CSV."""
    run = await known(context, run_id)
    result = exact(await context.database.call(lambda store: Analyses(store).result(run_id)))
    if result is None:
        raise Problem("not-found", f"the run has no result: it is {run.outcome}")
    name = f"analysis-{run_id}.json" if list_ is None else f"analysis-{run_id}-{list_}.csv"
    if list_ is None:
        kept: Response = Response(json.dumps(result, ensure_ascii=False), media_type="application/json")
    else:
        kept = PlainTextResponse(csv_of(result, list_), media_type="text/csv")
    kept.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return kept


@router.get("/runs/{run_id}/log", operation_id="readAnalyticsLog", response_class=PlainTextResponse)
async def read_log(_: Viewer, run_id: Id, context: ContextDep) -> PlainTextResponse:
    """Return the last lines of a run's log as text."""
    await known(context, run_id)
    return PlainTextResponse(await context.database.call(lambda store: Analyses(store).log(run_id)) or "")


@router.post("/runs/{run_id}/cancel", operation_id="cancelAnalysis")
async def cancel_run(who: Operator, run_id: Id, context: ContextDep) -> AnalyticsRun:
    """Cancel a run: a waiting one ends at once, a running one as soon as its process has ended."""
    _require_open(await known(context, run_id))
    async with audited(context, who, "analysis.cancel", run_id):
        run = await context.database.call(lambda store: Analyses(store).cancel(run_id, who.name))
        if run is None:
            raise Problem("not-found", "there is no run of this id")
        if run.outcome != "cancelled":
            _require_open(run)
    runner_of(context).wake()
    return shown_run(run, context.now_ms())


@router.delete("/runs/{run_id}", operation_id="removeAnalyticsRun", status_code=204)
async def remove_run(who: Operator, run_id: Id, context: ContextDep) -> None:
    """Delete a run that has ended, with its result and log. What it wrote elsewhere stays."""
    run = await known(context, run_id)
    if run.outcome in OPEN:
        raise Problem("conflict", f"the run is {run.outcome}: cancel it first")
    async with audited(context, who, "analysis.remove", run_id, source=run.job.source):
        await context.database.call(lambda store: Analyses(store).remove(run_id))


# -- what schedules share ----------------------------------------------------------------------------------------------


async def known(context: Context, run_id: str) -> Run:
    """Return an existing run. Raises Problem."""
    run = await context.database.call(lambda store: Analyses(store).get(run_id))
    if run is None:
        raise Problem("not-found", "there is no run of this id")
    return run


def require_room(store: Store) -> None:
    """Raise Problem while too many runs wait."""
    if len(Analyses(store).open()) >= MAX_WAITING:
        raise Problem("conflict", f"{MAX_WAITING} runs wait already", allowed="cancel some of them, or wait")


def cron_of(text: str, timezone: str, where: str) -> Cron:
    """Return a cron expression. Raises Problem."""
    try:
        return Cron(text, timezone)
    except InvalidOption as error:
        name = "timezone" if error.option == "timezone" else "cron" if where == "body" else "expression"
        wrong = (f"{where}.{name}", f"{error.value!r} is not allowed: {error.allowed}")
        raise Problem("invalid", str(error), allowed=error.allowed, errors=[wrong]) from None


def shown_run(run: Run, now_ms: int) -> AnalyticsRun:
    """Return a run in the API's form."""
    return answer(AnalyticsRun, run, **facts(run, now_ms))


def facts(run: Run, now_ms: int) -> dict[str, Any]:
    """Return what an answer says of a run otherwise than the store."""
    return {
        "kind": run.job.kind,
        "source": run.job.source,
        "job": answer(ShownJob, run.job),
        "queued_at": run.queued_ms,
        "started_at": run.started_ms,
        "ended_at": run.ended_ms,
        "duration_s": duration(run, now_ms),
        "reason": run.reason or None,
        "owner": run.owner or None,
        "progress": run.progress and answer(Progress, run.progress),
        "summary": exact(run.summary),
    }


def duration(run: Run, now_ms: int) -> float | None:
    """Return the duration of a run in seconds; ``None`` before its start."""
    if run.started_ms is None:
        return None
    end = now_ms if run.ended_ms is None else run.ended_ms
    return max(0, end - run.started_ms) / 1000


def _require_open(run: Run) -> None:
    if run.outcome not in OPEN:
        raise Problem("conflict", f"the run has ended: it is {run.outcome}")
