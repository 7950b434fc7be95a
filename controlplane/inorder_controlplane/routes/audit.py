"""``/audit``: the log of changes, and who made them. For admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from inorder_controlplane.context import ContextDep
from inorder_controlplane.models.audit import AuditEntry
from inorder_controlplane.models.common import answer
from inorder_controlplane.paging import MAX_LIMIT, Page, decoded, encoded
from inorder_controlplane.principals import Admin
from inorder_controlplane.problems import Problem
from inorder_worker.store.audit import AuditEntry as Entry
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.store import Store

router = APIRouter(prefix="/audit", tags=["audit"])


@router.get("", operation_id="listAudit")
async def list_audit(
    context: ContextDep,
    principal: Admin,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
    cursor: Annotated[str | None, Query(max_length=4096)] = None,
) -> Page[AuditEntry]:
    """List changes, the newest first."""
    before = None if cursor is None else _before(cursor)

    def read(store: Store) -> tuple[list[Entry], int]:
        log = AuditLog(store)
        return log.page(before=before, limit=limit + 1), log.count()

    found, total = await context.database.call(read)
    following = encoded(["audit", str(found[limit - 1].id)]) if len(found) > limit else None
    return Page(items=[answer(AuditEntry, each, at=each.at_ms) for each in found[:limit]], next=following, total=total)


def _before(cursor: str) -> int:
    match decoded(cursor):
        case ["audit", str(number)] if number.isdigit() and number.isascii() and 0 < int(number[:20]) < 2**63:
            return int(number[:20])
    raise Problem("invalid", "cursor: it is none of this list", allowed="`next` of a page before")
