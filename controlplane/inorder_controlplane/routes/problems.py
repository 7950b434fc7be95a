"""``/problems/<slug>``: the meaning of a problem's type, and its remedy. Needs no token."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel

from inorder_controlplane.problems import KINDS, Problem

router = APIRouter(prefix="/problems", tags=["problems"])

ADVICE: Final = {
    "malformed": "Send JSON (RFC 8259) in UTF-8: no NaN or Infinity, no name twice in one object.",
    "unauthorized": "Show a valid token: Authorization: Bearer <token>. An admin makes one: inorder tokens create.",
    "forbidden": "Use a token of a higher role. From a browser, changes also need the login's X-CSRF-Token.",
    "not-found": "See /openapi.json for the paths; lists name what there is.",
    "method-not-allowed": "The header Allow names the methods of this path.",
    "conflict": "Read the present state again. Where another change was under way, repeat yours when it is done.",
    "stale": "Read it again, see whether your change still fits, and send it with the new ETag in If-Match.",
    "too-large": "Send less at a time: a body may have 1 MiB.",
    "unsupported-media-type": "Send bodies as Content-Type: application/json.",
    "wrong-host": "Use localhost or the address that the server listens on, or add the name to controlplane.hosts.",
    "invalid": "errors names what is wrong; allowed says what would be right.",
    "precondition-required": "GET it first, and send its ETag in If-Match.",
    "too-many-requests": "Wait for the seconds in Retry-After.",
    "internal": "This is a defect: the control plane's log has the traceback.",
    "store-unavailable": "Try again once the store answers; inorder status looks at it without the control plane.",
    "workers-unavailable": "Try again once a worker answers; inorder status says which there are.",
    "broker-unavailable": "Try again once the broker answers; inorder check tells what is the matter with it.",
    "unknown-outcome": "Read the present state to see whether the change was made; the detail says what is known.",
}


class ProblemKind(BaseModel):
    """The meaning of a problem's type."""

    slug: str
    title: str
    status: int
    advice: str


@router.get("/{slug}", operation_id="getProblemKind")
async def get_problem_kind(slug: str) -> ProblemKind:
    """Explain a type of problem and its remedy."""
    if slug not in KINDS:
        raise Problem("not-found", "there is no such type of problem", allowed=sorted(KINDS))
    status, title = KINDS[slug]
    return ProblemKind(slug=slug, title=title, status=status.value, advice=ADVICE[slug])
