"""Who may open a WebSocket: the same as may ask, and from a browser only this server's own page."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import pytest
from fastapi import WebSocket
from tests.controlplane.conftest import Site

from inorder.worker.tokens import TokenStore
from inorder_controlplane.principals import Principal, is_current, require_socket

HERE = "http://localhost:8080"


async def opened(site: Site, **headers: str) -> tuple[int, dict[str, Any]]:
    """Ask for a WebSocket; return (101, what it says first) or the status and body of the refusal."""

    if not any(getattr(route, "path", "") == "/socket" for route in site.app.routes):

        @site.app.websocket("/socket")
        async def socket(websocket: WebSocket, principal: Annotated[Principal, require_socket("operator")]) -> None:
            await websocket.accept()
            await websocket.send_json({"name": principal.name})
            await websocket.close()

    sent: list[dict[str, Any]] = []
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"Host": "localhost:8080", **headers}
    scope = {
        "type": "websocket", "asgi": {"version": "3.0", "spec_version": "2.3"}, "scheme": "ws", "path": "/socket",
        "raw_path": b"/socket", "root_path": "", "query_string": b"", "subprotocols": [],
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await site.app(scope, incoming.get, send)
    if sent[0]["type"] == "websocket.accept":
        return 101, json.loads(sent[1]["text"])
    assert sent[0]["type"] == "websocket.http.response.start"
    body = b"".join(message.get("body", b"") for message in sent[1:])
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
    return sent[0]["status"], json.loads(body)


async def test_bearer_tokens_by_role(site: Site) -> None:
    for role, status in (("client", 403), ("viewer", 403), ("operator", 101), ("admin", 101)):
        assert (await opened(site, Authorization=f"Bearer {site.secrets[role]}"))[0] == status
    assert (await opened(site))[0] == 401
    assert (await opened(site, Authorization="Bearer ino_wrong"))[0] == 401


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "https://localhost:8080", "http://localhost"])
async def test_a_cookie_counts_only_from_this_servers_page(site: Site, origin: str | None) -> None:
    browser, _ = await site.browser("operator")
    cookie = f"inorder_session={browser.cookies['inorder_session']}"
    headers = {} if origin is None else {"Origin": origin}
    status, body = await opened(site, Cookie=cookie, **headers)
    assert (status, body["type"]) == (403, "/problems/forbidden")
    assert await opened(site, Cookie=cookie, Origin=HERE) == (101, {"name": "the operator"})


async def test_a_token_is_refused_from_a_foreign_page_too(site: Site) -> None:
    bearer = f"Bearer {site.secrets['admin']}"
    assert (await opened(site, Authorization=bearer, Origin="http://evil.example"))[0] == 403


async def test_foreign_names_are_refused(site: Site) -> None:
    status, body = await opened(site, Authorization=f"Bearer {site.secrets['admin']}", Host="evil.example")
    assert (status, body["type"]) == (421, "/problems/wrong-host")


async def test_who_has_a_socket_open_is_asked_about_again(site: Site) -> None:
    """What revokes a token, or logs out, also ends what was opened with it."""
    context = site.app.state.context
    browser, csrf = await site.browser("operator")
    session = browser.cookies["inorder_session"]
    principals = [await _principal(site, Cookie=f"inorder_session={session}")]
    principals.append(await _principal(site, Authorization=f"Bearer {site.secrets['operator']}"))
    assert [await is_current(each, context) for each in principals] == [True, True]
    await browser.delete("/api/v1/session", headers={"X-CSRF-Token": csrf})
    assert [await is_current(each, context) for each in principals] == [False, True]
    TokenStore(site.store).revoke(site.tokens["operator"].id)
    assert [await is_current(each, context) for each in principals] == [False, False]


async def _principal(site: Site, **headers: str) -> Principal:
    from starlette.requests import HTTPConnection

    from inorder_controlplane.principals import authenticate

    given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return await authenticate(HTTPConnection({"type": "http", "headers": given}), site.app.state.context)
