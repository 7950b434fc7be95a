"""Authentication and authorization: bearer tokens, and browser sessions made from them."""

from __future__ import annotations

import hmac
import time
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Security, WebSocket
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import HTTPConnection

from inorder_controlplane.context import PRINCIPAL, Context, ContextDep
from inorder_controlplane.guards import is_origin
from inorder_controlplane.problems import Problem
from inorder_controlplane.proxied import PROTO, client_address, not_believed
from inorder_controlplane.roles import ROLES, Principal, Role
from inorder_controlplane.sessions import BrowserSessions
from inorder_worker.store.tokens import TokenStore

__all__ = [
    "ROLES",
    "Principal",
    "Role",
    "authenticate",
    "check_origin",
    "is_current",
    "require",
    "require_current",
    "require_socket",
]

COOKIE: Final = "inorder_session"
CSRF_HEADER: Final = "X-CSRF-Token"
NOT_VALID: Final = "the token or login is not valid (any more)"
REMEMBERED: Final = 1.0
"""Seconds for which an answer of the store counts, as at the workers."""
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))

_bearer: Final = HTTPBearer(auto_error=False, description="a token of `inorder tokens`")
_cookie: Final = APIKeyCookie(name=COOKIE, auto_error=False, description="made by POST /api/v1/session")


def require(role: Role) -> Any:
    """Return a dependency that admits principals of at least that role: ``Annotated[Principal, require("viewer")]``."""

    async def check(
        request: Request,
        context: ContextDep,
        _bearer_given: Annotated[Any, Security(_bearer)],
        _cookie_given: Annotated[Any, Security(_cookie)],
    ) -> Principal:
        principal = await authenticate(request, context)
        if request.method not in SAFE_METHODS:
            check_origin(request, is_needed=False)
            _check_csrf(request, principal)
        return _checked(principal, role)

    check.required_role = role  # type: ignore[attr-defined]
    return Depends(check)


Viewer = Annotated[Principal, require("viewer")]
Operator = Annotated[Principal, require("operator")]
Admin = Annotated[Principal, require("admin")]


def require_socket(role: Role) -> Any:
    """Return :func:`require` for WebSockets. Browsers send cookies from any page, so Origin must be this server."""

    async def check(socket: WebSocket, context: ContextDep) -> Principal:
        principal = await authenticate(socket, context)
        check_origin(socket, is_needed=principal.csrf is not None)
        return _checked(principal, role)

    check.required_role = role  # type: ignore[attr-defined]
    return Depends(check)


async def authenticate(connection: HTTPConnection, context: Context) -> Principal:
    """Find the principal of a request, once for each request. Raises Problem."""
    known: Principal | None = connection.scope.get(PRINCIPAL)
    if known is None:
        found = await _authenticate(connection, context)
        found = replace(found, address=client_address(connection), found_at=time.monotonic())
        known = connection.scope[PRINCIPAL] = found
    return known


async def _authenticate(connection: HTTPConnection, context: Context) -> Principal:
    header = connection.headers.get("authorization")
    if header is not None:
        scheme, _, secret = header.partition(" ")
        found = await _of_token(context, secret.strip()) if scheme.lower() == "bearer" else None
    elif cookie := connection.cookies.get(COOKIE):
        found = await _of_cookie(context, cookie)
    else:
        raise _unauthorized("this needs a token: Authorization: Bearer ..., or a login")
    if found is None:
        raise _unauthorized(NOT_VALID)
    return found


async def require_current(principal: Principal, context: Context) -> None:
    """Look at a token or login again, unless it was looked at just now: since then a request may have waited for its
    body, for its turn or for another change. Raises Problem."""
    if time.monotonic() > principal.found_at + REMEMBERED and not await is_current(principal, context):
        raise _unauthorized(NOT_VALID)


async def is_current(principal: Principal, context: Context) -> bool:
    """Tell whether a principal's token and login are still valid; long-lived WebSockets check this at intervals."""
    now, session = context.now_ms(), principal.session_hash
    if session is not None:
        return await context.database.call(lambda store: BrowserSessions(store).find_hash(session, now)) is not None
    found = await context.database.call(lambda store: TokenStore(store).get(principal.token_id))
    return found is not None and found.is_valid(now)


async def _of_token(context: Context, secret: str) -> Principal | None:
    token = await context.database.call(lambda store: TokenStore(store).find(secret))
    if token is None or token.is_internal:
        return None
    return Principal(token.name, token.role, token.id, token.expires_ms)


async def _of_cookie(context: Context, cookie: str) -> Principal | None:
    return await context.database.call(lambda store: BrowserSessions(store).find(cookie, context.now_ms()))


def check_origin(connection: HTTPConnection, *, is_needed: bool) -> None:
    """Refuse a request from another server's page. Raises Problem."""
    origin = connection.headers.get("origin")
    if origin is None and not is_needed:
        return
    host = connection.headers.get("host", "")
    scheme: str = connection.scope["scheme"]
    scheme, other = ("https", "http") if scheme in ("https", "wss") else ("http", "https")
    if is_origin(origin or "", scheme, host):
        return
    detail = "the request comes from a page of another server"
    if is_origin(origin or "", other, host):
        detail = f"the page was loaded by {other}, and this request came by {scheme}{not_believed(connection, PROTO)}"
    elif origin is not None:
        detail += ": its header Origin is not that of Host; a proxy must pass Host on as it is"
    raise Problem("forbidden", detail, allowed=f"{scheme}://{host}")


def _check_csrf(request: Request, principal: Principal) -> None:
    if principal.csrf is None:
        return
    given = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(given.encode(), principal.csrf.encode()):
        raise Problem("forbidden", f"the header {CSRF_HEADER} is missing or not that of this login")


def _checked(principal: Principal, role: str) -> Principal:
    if not principal.may(role):
        allowed = [each for each in ROLES if ROLES.index(each) >= ROLES.index(role)]
        raise Problem("forbidden", f"this needs the role {role}; yours is {principal.role}", allowed=allowed)
    return principal


def _unauthorized(detail: str) -> Problem:
    return Problem("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="inorder"'})
