"""``/analytics``: runs over traces and their schedules, as the store has them."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter

from inorder.worker import schema
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.models.analytics import AnalyticsRun, Schedule
from inorder_controlplane.models.common import moment, moment_or_none
from inorder_controlplane.paging import ListQueryDep, Page, page_of
from inorder_controlplane.principals import Viewer

router = APIRouter(prefix="/analytics", tags=["analytics"])


@router.get("/runs", operation_id="listAnalyticsRuns")
async def list_runs(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[AnalyticsRun]:
    """List the runs of analyses, the newest first."""
    items, following, total = page_of(
        await _rows(context, schema.analytics_runs),
        query,
        ident=lambda row: str(row["id"]),
        sorts={
            "started_at": lambda row: int(row["started_ms"]),
            "ended_at": lambda row: row["ended_ms"],
            "kind": lambda row: str(row["kind"]),
            "outcome": lambda row: str(row["outcome"]),
        },
        default="-started_at",
        text=lambda row: f"{row['id']} {row['kind']} {row['source']} {row['outcome']} {row['by']}",
    )
    return Page(items=[_run(row) for row in items], next=following, total=total)


@router.get("/schedules", operation_id="listSchedules")
async def list_schedules(_: Viewer, context: ContextDep, query: ListQueryDep) -> Page[Schedule]:
    """List when which analyses are due."""
    items, following, total = page_of(
        await _rows(context, schema.schedules),
        query,
        ident=lambda row: str(row["id"]),
        sorts={"name": lambda row: str(row["name"]), "created_at": lambda row: int(row["created_ms"])},
        default="name",
        text=lambda row: f"{row['id']} {row['name']} {row['cron']} {row['by']}",
    )
    return Page(items=[_schedule(row) for row in items], next=following, total=total)


async def _rows(context: Context, table: sa.Table) -> list[Any]:
    return await context.database.call(
        lambda store: list(store.run(lambda connection: connection.execute(sa.select(table)).mappings().all()))
    )


def _run(row: Any) -> AnalyticsRun:
    return AnalyticsRun(
        id=row["id"],
        kind=row["kind"],
        source=row["source"],
        started_at=moment(row["started_ms"]),
        ended_at=moment_or_none(row["ended_ms"]),
        outcome=row["outcome"],
        detail=json.loads(row["detail"]),
        log=row["log"],
        by=row["by"],
    )


def _schedule(row: Any) -> Schedule:
    return Schedule(
        id=row["id"],
        name=row["name"],
        cron=row["cron"],
        job=json.loads(row["job"]),
        is_on=row["is_on"],
        created_at=moment(row["created_ms"]),
        by=row["by"],
    )
