"""Operation behind a proxy: the path under which it serves us, and hints if its headers are not trusted."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

FOR: Final = "X-Forwarded-For"
PROTO: Final = "X-Forwarded-Proto"


class RootPath:
    """ASGI middleware: it removes a proxy's path from requests if the proxy has not done so.

    Args:
        root: such as ``/inorder``; empty: none.
    """

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app, self._root = app, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if self._root and scope["type"] in ("http", "websocket"):
            rest = str(scope["path"]).removeprefix(self._root)
            if rest != scope["path"] and rest[:1] in ("", "/"):
                scope = {**scope, "path": rest or "/"}
        await self._app(scope, receive, send)


def client_address(connection: HTTPConnection) -> str:
    """Return the client's address: the peer's, or the one that a trusted proxy names; empty if unknown."""
    return connection.client.host if connection.client else ""


def not_believed(connection: HTTPConnection, header: str) -> str:
    """Return a hint about an untrusted proxy's header; an empty text if there is none, or the proxy is trusted."""
    told, address = connection.headers.get(header), client_address(connection)
    if told is None:
        return ""
    if header == FOR:
        is_taken = address in [each.strip() for each in told.split(",")]
    else:
        is_taken = told.strip().lower() == connection.scope["scheme"].replace("ws", "http")
    if is_taken:
        return ""
    return f"; its header {header} is not believed, as the setting controlplane.proxies does not name {address}"
