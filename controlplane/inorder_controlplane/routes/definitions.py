"""``/definitions``: the whole setup as one document, to keep, to compare, or to import elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ClusterDep, ContextDep
from inorder_controlplane.definitions import Name, Plan, definitions_of, plan
from inorder_controlplane.models.analytics import NewSchedule
from inorder_controlplane.models.definitions import Definitions, ImportPlan, TopicName
from inorder_controlplane.principals import Admin, Operator
from inorder_controlplane.running import runner_of
from inorder_worker.admin import Cluster
from inorder_worker.store.analyses import Job
from inorder_worker.store.schedules import Schedule, Schedules
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Conflict

router = APIRouter(prefix="/definitions", tags=["definitions"])


@router.get("", operation_id="exportDefinitions")
async def export_definitions(principal: Operator, context: ContextDep, cluster: ClusterDep) -> Definitions:
    """Return topic order, pins, rules of event logs, automatic changes, and schedules of analyses, by name."""
    schedules = await context.database.call(_schedules)
    return definitions_of(await cluster.order(), await cluster.log_rules(), await cluster.automatic(), schedules)


@router.post("", operation_id="importDefinitions")
async def import_definitions(
    principal: Admin,
    body: Definitions,
    context: ContextDep,
    cluster: ClusterDep,
    dry_run: Annotated[bool, Query(description="only say what would change")] = False,
) -> ImportPlan:
    """Set up everything in the document. Everything that can be known to be wrong is refused before anything is
    changed; what is not named in it stays. Repeating an import that was interrupted goes on with it."""
    schedules = await context.database.call(_schedules)
    found = plan(body, await cluster.order(), await cluster.log_rules(), await cluster.automatic(), schedules)
    if not dry_run:
        counts: dict[str, Any] = {"creates": len(found.creates), "moves": found.moves, "logs": len(found.rules)}
        if found.schedules:
            counts["schedules"] = len(found.schedules)
        async with audited(context, principal, "definitions.import", **counts) as result:
            async with context.edits:
                await _apply(cluster, found, result)
            for each in found.schedules:
                await context.database.call(partial(_put, wanted=each, by=principal.name))
            result["made"] = "all"
        runner_of(context).wake()
    return ImportPlan(
        dry_run=dry_run,
        creates=_names(found.creates),
        reorders=found.is_other_order,
        moves=found.moves,
        pins=_names(found.pins),
        lets_go=_names(found.lets_go),
        logs=len(found.rules),
        automatic=found.automatic is not None,
        schedules=len(found.schedules),
    )


async def _apply(cluster: Cluster, found: Plan, result: dict[str, Any]) -> None:
    """Make the changes one by one; ``made`` of ``result`` names those that are made."""

    def note(what: str) -> None:
        result["made"] = ", ".join(filter(None, (result.get("made"), what)))

    for space, name in found.creates:
        await cluster.create(space, name)
        result["made"] = "topics"
    order = await cluster.order()
    ids = {(info.space, info.name): info.id for info in order.topics}
    if found.lets_go:
        await cluster.pin([ids[name] for name in found.lets_go], is_pinned=False)
        note("pins let go")
    stages = [[ids[name] for name in names] for names in found.stages]
    if stages != [[info.id for info in topics] for topics in order.by_stage()]:
        result["order_epoch"] = str(await cluster.change(order.order_epoch + 1, stages))
        note("order")
    if found.pins:
        await cluster.pin([ids[name] for name in found.pins], is_pinned=True)
        note("pins")
    for at, rule in enumerate(found.rules):
        await cluster.change_log(rule, is_on=True)
        if not at:
            note("logs")
    if found.automatic is not None:
        await cluster.set_automatic(found.automatic)
        note("automatic")


def _schedules(store: Store) -> list[Schedule]:
    return Schedules(store).list()


def _put(store: Store, wanted: NewSchedule, by: str) -> None:
    """Set a schedule to its definition, also against concurrent changes."""
    job = Job(**wanted.job.model_dump())
    values: dict[str, Any] = {
        "name": wanted.name, "cron": wanted.cron, "timezone": wanted.timezone, "job": job, "is_on": wanted.is_on
    }  # fmt: skip
    while True:
        seen = next((each for each in Schedules(store).list() if each.name == wanted.name), None)
        try:
            made = Schedules(store).change(seen, **values) if seen else Schedules(store).add(**values, by=by)
        except Conflict:  # somebody has made it meanwhile
            continue
        if made is not None:
            return


def _names(names: list[Name]) -> list[TopicName]:
    return [TopicName(space=space, name=name) for space, name in names]
