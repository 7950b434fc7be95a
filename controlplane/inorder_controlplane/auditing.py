"""Every change of this API in the audit log, recorded before it is made and again with its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inorder.errors import LinkError, OutcomeUnknown, PeerError, StoreError, UsageError
from inorder.logs import logger
from inorder_controlplane.context import Context
from inorder_controlplane.principals import Principal
from inorder_controlplane.problems import Problem
from inorder_worker.store.audit import AuditLog

log = logger("inorder.controlplane")


@asynccontextmanager
async def audited(
    context: Context, principal: Principal, action: str, target: str = "", **detail: Any
) -> AsyncIterator[dict[str, Any]]:
    """Make one change inside: ``async with audited(context, principal, "topic.pin", topic_id) as result: ...``.

    What is put into ``result`` stands in the entry as well. Errors pass through; those that say that nothing was done
    make the outcome ``refused``, all others ``unknown``.
    """
    if principal.address:
        detail["address"] = principal.address
    number = await context.database.call(
        lambda store: AuditLog(store).begin(principal.name, principal.role, "rest", action, target, detail)
    )
    result: dict[str, Any] = {}
    try:
        yield result
    except OutcomeUnknown as error:
        await _end(context, number, "unknown", {**result, "why": str(error)})
        raise
    except (Problem, UsageError, PeerError, LinkError) as error:
        is_unknown = isinstance(error, Problem) and error.slug == "unknown-outcome"
        await _end(context, number, "unknown" if is_unknown else "refused", {**result, "why": str(error)})
        raise
    except BaseException as error:
        await _end(context, number, "unknown", {**result, "why": type(error).__name__})
        raise
    await _end(context, number, "done", result)


async def _end(context: Context, number: int, outcome: str, detail: dict[str, Any]) -> None:
    """Record the outcome, also for a request that is being cancelled."""
    work = context.database.call(lambda store: AuditLog(store).end(number, outcome, detail))
    try:
        await asyncio.shield(asyncio.ensure_future(work))
    except StoreError as error:
        log.error("event=audit_not_ended entry=%s outcome=%s error=%s", number, outcome, error)
