"""``/session``: logging in with a token, the present login, logging out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Request, Response

from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ContextDep
from inorder_controlplane.login_limit import LoginLimit
from inorder_controlplane.models.common import moment_or_none
from inorder_controlplane.models.session import Login, Session
from inorder_controlplane.principals import COOKIE, ROLES, Principal, Viewer, check_origin
from inorder_controlplane.problems import Problem
from inorder_controlplane.proxied import FOR, client_address, not_believed
from inorder_controlplane.sessions import BrowserSessions
from inorder_worker.store.tokens import TokenStore

router = APIRouter(prefix="/session", tags=["session"])

MAX_LOGINS: Final = 60
"""Of one token in a minute: each is written down, in the audit log for ever."""


@router.post("", operation_id="logIn")
async def log_in(body: Login, request: Request, response: Response, context: ContextDep) -> Session:
    """Exchange a token for a session cookie. Failures are counted by address, logins by token, and too many
    refused (429)."""
    check_origin(request, is_needed=False)
    address, now = client_address(request), time.monotonic()
    if wait := context.login_limit.wait_s(address, now):
        detail = f"too many failed logins from {address}; try again in {wait} s{not_believed(request, FOR)}"
        raise Problem("too-many-requests", detail, headers={"Retry-After": str(wait)})
    token = await context.database.call(lambda store: TokenStore(store).find(body.token))
    if token is None or token.is_internal:
        context.login_limit.note(address, now)
        raise Problem("unauthorized", "the token is not valid (any more)")
    if token.role not in ROLES:
        raise Problem("forbidden", f"a token of the role {token.role} is for workers only", allowed=ROLES)
    logins: LoginLimit = context.parts.setdefault("logins", LoginLimit(MAX_LOGINS))
    if wait := logins.wait_s(token.id, now):
        detail = (
            f"too many logins with the token {token.name!r}; a program shows the token itself (try again in {wait} s)"
        )
        raise Problem("too-many-requests", detail, headers={"Retry-After": str(wait)})
    logins.note(token.id, now)
    ttl = context.settings.session_ttl
    cookie, principal = await context.database.call(
        lambda store: BrowserSessions(store).begin(token, now_ms=context.now_ms(), ttl_s=ttl)
    )
    principal = replace(principal, address=address)
    async with audited(context, principal, "session.begin", token.id):
        assert principal.expires_ms is not None
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=max(0, (principal.expires_ms - context.now_ms()) // 1000),
            path=f"{context.settings.root_path}/",
            secure=request.scope["scheme"] == "https",
            httponly=True,
            samesite="strict",
        )
    return _session(principal)


@router.get("", operation_id="getSession")
async def get_session(principal: Viewer) -> Session:
    """Return the user of the present token or login."""
    return _session(principal)


@router.delete("", operation_id="logOut", status_code=204)
async def log_out(request: Request, response: Response, context: ContextDep, principal: Viewer) -> None:
    """End this login. A bearer token stays as it is: revoke it to end it."""
    if (session := principal.session_hash) is not None:
        async with audited(context, principal, "session.end", principal.token_id):
            await context.database.call(lambda store: BrowserSessions(store).end(session))
            context.end_rights()
    secure, path = request.scope["scheme"] == "https", f"{context.settings.root_path}/"
    response.delete_cookie(COOKIE, path=path, secure=secure, httponly=True, samesite="strict")


def _session(principal: Principal) -> Session:
    return Session.model_validate(
        {
            "name": principal.name,
            "role": principal.role,
            "csrf": principal.csrf,
            "expires_at": moment_or_none(principal.expires_ms),
        }
    )
