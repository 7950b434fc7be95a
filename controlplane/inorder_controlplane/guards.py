"""Security headers for every answer, and checks of the Host header and of cookies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from inorder_controlplane.problems import Problem, response
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_worker.service.settings import is_loopback

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_is_cookie: Final = re.compile(rb"[A-Za-z0-9_-]{1,128}").fullmatch
HSTS: Final = "max-age=31536000"


class SecurityHeaders:
    """ASGI middleware: it adds HEADERS to every answer, and forbids browsers to keep private ones."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if scope["scheme"] in ("https", "wss"):
                    headers["Strict-Transport-Security"] = HSTS
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OwnCookie:
    """ASGI middleware: it removes all cookies from a request except for one that may be this server's. Others are none
    of our business, and reading some takes a time that is the square of their length (before Python 3.11.10).

    Args:
        name: of the cookie.
    """

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app, self._name = app, name.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] in ("http", "websocket"):
            given = [value for key, value in scope["headers"] if key == b"cookie"]
            if given:
                others = [each for each in scope["headers"] if each[0] != b"cookie"]
                scope["headers"] = [*others, *((b"cookie", each) for each in self._own(given))]
        await self._app(scope, receive, send)

    def _own(self, given: Iterable[bytes]) -> Iterator[bytes]:
        for each in b";".join(given).split(b";"):
            name, _, value = each.strip().partition(b"=")
            if name == self._name and _is_cookie(value):
                yield b"%b=%b" % (name, value)
                return


class Hosts:
    """ASGI middleware: on a loopback address it answers only requests for names of this machine. A foreign page can
    have its own name resolved to 127.0.0.1, but then the request carries that name (DNS rebinding)."""

    def __init__(self, app: ASGIApp, settings: ControlPlaneSettings) -> None:
        self._app = app
        self._names = {name.lower() for name in settings.hosts}
        self._is_checked = is_loopback(settings.host) or bool(self._names)
        self._names |= {settings.host.lower(), "localhost", "127.0.0.1", "::1"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] not in ("http", "websocket") or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        detail = "the header Host names no host of this server; the setting controlplane.hosts names further ones"
        problem = Problem("wrong-host", detail, allowed=sorted(self._names))
        answer = response(problem, scope["path"])
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer)
        else:
            await answer(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        given = [value.decode("latin-1") for key, value in scope["headers"] if key == b"host"]
        if not self._is_checked:
            return True
        return len(given) == 1 and _name(given[0]) in self._names


def is_origin(text: str, scheme: str, host: str) -> bool:
    """Tell whether the Origin header names this server."""
    try:
        found = urlsplit(text)
    except ValueError:
        return False
    return (found.scheme, found.netloc) == (scheme, host)


def _name(host: str) -> str:
    """Return the name in a Host header, without port and brackets; empty for a malformed one."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
