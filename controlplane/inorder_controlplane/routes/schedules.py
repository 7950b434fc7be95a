"""``/analytics/schedules``: schedules of analyses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from inorder.errors import InvalidOption
from inorder_controlplane.auditing import audited
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.cron import Cron
from inorder_controlplane.etags import etag, require_match
from inorder_controlplane.models.analytics import AnalyticsRun, NewSchedule, Schedule, ScheduledRun, ShownJob
from inorder_controlplane.models.common import answer
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.routes.analytics import NEXT_TIMES, cron_of, require_room, shown_run
from inorder_controlplane.running import allow_list_of, runner_of
from inorder_worker.store import analyses
from inorder_worker.store.analyses import Analyses, Run
from inorder_worker.store.schedules import Schedule as Stored
from inorder_worker.store.schedules import Schedules
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Conflict

router = APIRouter(prefix="/analytics/schedules", tags=["analytics"])

Id = Annotated[str, Path(pattern="^[0-9a-z]{1,64}$", description="the schedule's id")]


@router.get("", operation_id="listSchedules")
async def list_schedules(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[Schedule]:
    """List the schedules."""
    found, last = await context.database.call(lambda store: (Schedules(store).list(), _last_runs(store)))
    now_ms = context.now_ms()
    return page_of(
        found,
        query,
        lambda each: _shown(each, last.get(each.id), now_ms),
        ident=lambda each: each.id,
        sorts=by("name", "is_on", created_at=lambda each: each.created_ms, fired_at=lambda each: each.fired_ms),
        default="name",
        text=lambda each: f"{each.id} {each.name} {each.cron} {each.timezone} {each.job.source} {each.by}",
    )


@router.post("", operation_id="createSchedule", status_code=201)
async def create_schedule(who: Operator, body: NewSchedule, context: ContextDep, response: Response) -> Schedule:
    """Make a schedule. It is due at times from now on."""
    job = _checked(body, context)
    async with audited(context, who, "schedule.create", body.name, **body.model_dump(exclude={"name"})) as result:
        made = await _unless_taken(
            context,
            body.name,
            lambda store: Schedules(store).add(body.name, body.cron, body.timezone, job, is_on=body.is_on, by=who.name),
        )
        result["id"] = made.id
    runner_of(context).wake()
    response.headers["Location"] = f"/api/v1/analytics/schedules/{made.id}"
    response.headers["ETag"] = _etag(made)
    return _shown(made, None, context.now_ms())


@router.get("/{schedule}", operation_id="getSchedule")
async def get_schedule(_: Viewer, schedule: Id, context: ContextDep, response: Response) -> Schedule:
    """Return a schedule. Its ETag is needed to change it."""
    return await _detail(context, schedule, response)


@router.put("/{schedule}", operation_id="changeSchedule")
async def change_schedule(
    who: Operator, schedule: Id, body: NewSchedule, context: ContextDep, request: Request, response: Response
) -> Schedule:
    """Change a schedule. Needs If-Match with the ETag of the schedule that you read. Times that were missed while it
    was off, or was due at others, do not count."""
    require_match(request, _etag(await _known(context, schedule)))
    job = _checked(body, context)

    def change(store: Store) -> Stored:
        while True:  # until it is not due in the same moment
            seen = Schedules(store).get(schedule)
            if seen is None:
                raise _unknown()
            require_match(request, _etag(seen))
            changed = Schedules(store).change(
                seen, name=body.name, cron=body.cron, timezone=body.timezone, job=job, is_on=body.is_on
            )
            if changed is not None:
                return changed

    async with audited(context, who, "schedule.change", schedule, **body.model_dump()):
        await _unless_taken(context, body.name, change)
    runner_of(context).wake()
    return await _detail(context, schedule, response)


@router.delete("/{schedule}", operation_id="removeSchedule", status_code=204)
async def remove_schedule(who: Operator, schedule: Id, context: ContextDep) -> None:
    """Delete a schedule. Its runs stay, also one that goes on."""
    found = await _known(context, schedule)
    async with audited(context, who, "schedule.remove", schedule, name=found.name):
        await context.database.call(lambda store: Schedules(store).remove(schedule))


@router.post("/{schedule}/run", operation_id="runSchedule", status_code=201)
async def run_schedule(who: Operator, schedule: Id, context: ContextDep, response: Response) -> AnalyticsRun:
    """Queue a run of a schedule now, also of one that is off. When it is due stays as it is."""
    found = await _known(context, schedule)
    allow_list_of(context).check(found.job.source, found.job.out, found.job.master)

    def queue(store: Store) -> Run:
        require_room(store)
        return Analyses(store).queue(found.job, who.name, schedule=schedule)

    async with audited(context, who, "schedule.run", schedule, name=found.name) as result:
        run = await context.database.call(queue)
        result["id"] = run.id
    runner_of(context).wake()
    response.headers["Location"] = f"/api/v1/analytics/runs/{run.id}"
    return shown_run(run, context.now_ms())


# -- inside ------------------------------------------------------------------------------------------------------------


def _checked(body: NewSchedule, context: Context) -> analyses.Job:
    """Return the checked job of a schedule. Raises Problem."""
    cron_of(body.cron, body.timezone, "body")
    allow_list_of(context).check(body.job.source, body.job.out, body.job.master)
    return analyses.Job(**body.job.model_dump())


async def _unless_taken(context: Context, name: str, work: Callable[[Store], Stored]) -> Stored:
    try:
        return await context.database.call(work)
    except Conflict:
        detail = f"another schedule is called {name!r} already"
        raise Problem("conflict", detail, allowed="a name that no other schedule has") from None


async def _known(context: Context, schedule: str) -> Stored:
    found = await context.database.call(lambda store: Schedules(store).get(schedule))
    if found is None:
        raise _unknown()
    return found


def _unknown() -> Problem:
    return Problem("not-found", "there is no schedule of this id")


async def _detail(context: Context, schedule: str, response: Response) -> Schedule:
    found = await _known(context, schedule)
    last = await context.database.call(_last_runs)
    response.headers["ETag"] = _etag(found)
    return _shown(found, last.get(schedule), context.now_ms())


def _last_runs(store: Store) -> dict[str, Run]:
    """Return the newest run of each schedule."""
    return {run.schedule: run for run in reversed(Analyses(store).list()) if run.schedule is not None}


def _etag(found: Stored) -> str:
    """Return the ETag of a schedule's editable fields, without its last time."""
    return etag("schedule", found.id, found.name, found.cron, found.timezone, found.job.text(), found.is_on)


def _shown(found: Stored, last: Run | None, now_ms: int) -> Schedule:
    return answer(
        Schedule,
        found,
        job=answer(ShownJob, found.job),
        created_at=found.created_ms,
        fired_at=found.fired_ms,
        next=_next(found, now_ms),
        last_run=last and answer(ScheduledRun, last),
    )


def _next(found: Stored, now_ms: int) -> list[int]:
    if not found.is_on:
        return []
    try:
        return Cron(found.cron, found.timezone).upcoming(max(found.after_ms, now_ms), NEXT_TIMES)
    except InvalidOption:  # of a zone that this machine does not know
        return []
