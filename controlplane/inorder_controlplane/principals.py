"""Who asks, and whether they may: bearer tokens, and browser sessions made from them."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security, WebSocket
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import HTTPConnection

from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.problems import Problem

Role = Literal["viewer", "operator", "admin"]

COOKIE: Final = "inorder_session"
CSRF_HEADER: Final = "X-CSRF-Token"
ROLES: Final = ("viewer", "operator", "admin")
"""Each may do what those before it may. Tokens of the role ``client`` are for workers only."""
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))

_bearer: Final = HTTPBearer(auto_error=False, description="a token of `inorder tokens`")
_cookie: Final = APIKeyCookie(name=COOKIE, auto_error=False, description="made by POST /api/v1/session")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        name, role: of the token.
        token_id: the token's id.
        expires_ms: when this login or token ends; ``None``: never.
        csrf: of a browser session, what its changes must show; else ``None``.
        session_hash: of a browser session.
    """

    name: str
    role: str
    token_id: str
    expires_ms: int | None = None
    csrf: str | None = None
    session_hash: str | None = None

    def may(self, role: str) -> bool:
        """Tell whether that role's rights are among this one's."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)


Find = Callable[[Context, str], Awaitable[Principal | None]]
"""Finds who shows a secret, ``None`` where it is not valid."""


def require(role: Role) -> Any:
    """Return the dependency that lets only principals of at least that role through: ``Annotated[Principal,
    require("operator")]``."""

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


def require_socket(role: Role) -> Any:
    """Return the same for WebSockets. A browser sends its cookie from any page, so then Origin must be this server."""

    async def check(socket: WebSocket, context: ContextDep) -> Principal:
        principal = await authenticate(socket, context)
        check_origin(socket, is_needed=principal.csrf is not None)
        return _checked(principal, role)

    check.required_role = role  # type: ignore[attr-defined]
    return Depends(check)


async def authenticate(connection: HTTPConnection, context: Context) -> Principal:
    """Find out who asks. Raises Problem."""
    header = connection.headers.get("authorization")
    if header is not None:
        scheme, _, secret = header.partition(" ")
        find: Find = context.parts["find_token"]
        found = await find(context, secret.strip()) if scheme.lower() == "bearer" else None
    elif cookie := connection.cookies.get(COOKIE):
        find = context.parts["find_session"]
        found = await find(context, cookie)
    else:
        raise _unauthorized("this needs a token: Authorization: Bearer ..., or a login")
    if found is None:
        raise _unauthorized("the token or login is not valid (any more)")
    return found


def check_origin(connection: HTTPConnection, *, is_needed: bool) -> None:
    """Refuse what a page of another server sends. Raises Problem."""
    origin = connection.headers.get("origin")
    if origin is None and not is_needed:
        return
    host = connection.headers.get("host", "")
    scheme = {"ws": "http", "wss": "https"}.get(connection.url.scheme, connection.url.scheme)
    found = urlsplit(origin or "")
    if (found.scheme, found.netloc) != (scheme, host):
        raise Problem("forbidden", "the request comes from a page of another server", allowed=f"{scheme}://{host}")


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
