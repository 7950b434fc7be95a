"""``/overview``: the state of the whole cluster at a glance."""

from __future__ import annotations

from fastapi import APIRouter

from inorder_controlplane.context import ContextDep
from inorder_controlplane.models.overview import Overview
from inorder_controlplane.principals import Viewer
from inorder_controlplane.showing import overview_of
from inorder_controlplane.watching import watching_of

router = APIRouter(tags=["overview"])


@router.get("/overview", operation_id="getOverview")
async def get_overview(context: ContextDep, _: Viewer) -> Overview:
    """Return state, alarms, counts, totals, rates, latencies, and the figures of the last ten minutes.

    What clients see (delivered, late, gaps, duplicates, latencies) is what they report; it is null where none does.
    While the workers do not answer, what they would say is missing, and an alarm says so.
    """
    part = watching_of(context)
    return overview_of(await part.picture(), part.series)
