"""Every change of this API in the audit log, recorded before it is made and again with its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inorder.errors import LinkError, OutcomeUnknown, PeerError, StoreError, UsageError
from inorder.logs import logger
from inorder_controlplane.context import Context
from inorder_controlplane.principals import Principal, require_current
from inorder_controlplane.problems import Problem
from inorder_worker.store.audit import AuditLog

log = logger("inorder.controlplane")


@asynccontextmanager
async def audited(
    context: Context, principal: Principal, action: str, target: str = "", **detail: Any
) -> AsyncIterator[dict[str, Any]]:
    """Make one change inside: ``async with audited(context, principal, "topic.pin", topic_id) as result: ...``.

    What is put into ``result`` stands in the entry as well; ``made`` is for the parts that are made already. Errors
    pass through; those that say that nothing was done make the outcome ``refused``, all others ``unknown``. Behind a
    part that was made no error says that: it becomes a Problem, ``unknown-outcome``. Whose token was revoked since the
    request came changes nothing: Problem.
    """
    await require_current(principal, context)
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
        made = "" if is_unknown else result.get("made", "")
        await _end(context, number, "unknown" if is_unknown or made else "refused", {**result, "why": str(error)})
        if made:
            raise half_made(made, error) from None
        raise
    except BaseException as error:
        await _end(context, number, "unknown", {**result, "why": type(error).__name__})
        raise
    await _end(context, number, "done", result)


def half_made(made: str, error: Exception) -> Problem:
    """Return what is said of a change of which a part is made, and the next one failed."""
    return Problem("unknown-outcome", f"{error}; made before that: {made}")


async def _end(context: Context, number: int, outcome: str, detail: dict[str, Any]) -> None:
    """Record the outcome, also for a request that is being cancelled."""
    work = context.database.call(lambda store: AuditLog(store).end(number, outcome, detail))
    try:
        await asyncio.shield(asyncio.ensure_future(work))
    except StoreError as error:
        log.error("event=audit_not_ended entry=%s outcome=%s error=%s", number, outcome, error)
