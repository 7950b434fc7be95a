"""Who may open a WebSocket: the same as may ask, and from a browser only this server's own page."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Annotated, Any

import pytest
from fastapi import WebSocket
from tests.controlplane.conftest import Site
from tests.worker.helpers import PATIENCE

from inorder.errors import StoreUnreachable
from inorder_controlplane import sockets
from inorder_controlplane.principals import Principal, is_current, require_socket
from inorder_controlplane.problems import Problem
from inorder_controlplane.sockets import SocketLimit, tell
from inorder_worker.store.tokens import TokenStore

HERE = "http://localhost:8080"
ORIGINS = [None, "http://evil.example", "null", "https://localhost:8080", "http://localhost", "http://[", "http://[::1"]


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

    await site.app(scope_of(headers), incoming.get, send)
    if sent[0]["type"] == "websocket.accept":
        return 101, json.loads(sent[1]["text"])
    assert sent[0]["type"] == "websocket.http.response.start"
    body = b"".join(message.get("body", b"") for message in sent[1:])
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
    return sent[0]["status"], json.loads(body)


def scope_of(headers: dict[str, str]) -> dict[str, Any]:
    given = {"Host": "localhost:8080", **headers}
    return {
        "type": "websocket", "asgi": {"version": "3.0", "spec_version": "2.3"}, "scheme": "ws", "path": "/socket",
        "raw_path": b"/socket", "root_path": "", "query_string": b"", "subprotocols": [],
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "extensions": {"websocket.http.response": {}},
    }  # fmt: skip


async def test_bearer_tokens_by_role(site: Site) -> None:
    for role, status in (("client", 403), ("viewer", 403), ("operator", 101), ("admin", 101)):
        assert (await opened(site, Authorization=f"Bearer {site.secrets[role]}"))[0] == status
    assert (await opened(site))[0] == 401
    assert (await opened(site, Authorization="Bearer ino_wrong"))[0] == 401


@pytest.mark.parametrize("origin", ORIGINS)
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


@pytest.mark.parametrize("how", ["revoked", "logged out", "its token revoked"])
async def test_what_ends_here_ends_its_sockets_at_once(site: Site, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """No look is due meanwhile. Others go on."""
    monkeypatch.setattr(sockets, "LOOK_SECONDS", 3600.0)
    browser, csrf = await site.browser("viewer")
    cookie = {"Cookie": f"inorder_session={browser.cookies['inorder_session']}", "Origin": HERE}
    bearer = {role: {"Authorization": f"Bearer {site.secrets[role]}"} for role in ("viewer", "operator")}
    context = site.app.state.context

    async def open_for(headers: dict[str, str]) -> asyncio.Task[None]:
        async def told(message: Any) -> None:
            assert message["type"] == "websocket.close"

        socket = WebSocket(scope_of(headers), asyncio.Queue[Any]().get, told)
        principal = await _principal(site, **headers)
        return asyncio.create_task(tell(socket, context, principal, asyncio.sleep(3600)))

    ends = await open_for(bearer["viewer"] if how == "revoked" else cookie)
    stays = await open_for(bearer["operator"])
    if how == "logged out":
        await browser.delete("/api/v1/session", headers={"X-CSRF-Token": csrf})
    else:
        await site.client("admin").delete(f"/api/v1/tokens/{site.tokens['viewer'].id}")
    async with asyncio.timeout(PATIENCE):
        await ends
    assert not stays.done()
    stays.cancel()
    await asyncio.gather(stays, return_exceptions=True)


@pytest.mark.parametrize("by_cookie", [True, False])
async def test_what_was_opened_with_a_token_ends_with_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, by_cookie: bool
) -> None:
    """While the store does not answer it goes on."""
    monkeypatch.setattr(sockets, "LOOK_SECONDS", 0.01)
    looks, context = 0, site.app.state.context
    real = context.database.call

    @site.app.websocket("/socket")
    async def socket(websocket: WebSocket, principal: Annotated[Principal, require_socket("viewer")]) -> None:
        await websocket.accept()
        context.database.call = call
        await tell(websocket, context, principal, asyncio.sleep(3600))

    async def call(work: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise StoreUnreachable("sqlite:///x", "locked")
        if looks == 3:
            TokenStore(site.store).revoke(site.tokens["viewer"].id)
        return await real(work)

    browser, _ = await site.browser("viewer")
    cookie = {"Cookie": f"inorder_session={browser.cookies['inorder_session']}", "Origin": HERE}
    headers = cookie if by_cookie else {"Authorization": f"Bearer {site.secrets['viewer']}"}
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(PATIENCE):
        await site.app(scope_of(headers), incoming.get, send)
    assert [each["type"] for each in sent] == ["websocket.accept", "websocket.close"]
    assert (sent[-1]["code"], looks) == (sockets.REFUSED, 3)


def test_nobody_takes_all_seats() -> None:
    ann, ben, cid = (Principal(name, "viewer", f"token of {name}") for name in ("ann", "ben", "cid"))
    limit = SocketLimit("tails", 3, 2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(limit.counted(ann))
        with pytest.raises(Problem, match="2 tails of this token") as refused, limit.counted(ann):
            pass
        assert refused.value.allowed == "2 of one token, 3 of all"
        with limit.counted(ben), pytest.raises(Problem, match="3 tails are open"), limit.counted(cid):
            pass
        with limit.counted(cid):
            pass
    with limit.counted(ann):
        pass


async def _principal(site: Site, **headers: str) -> Principal:
    from starlette.requests import HTTPConnection

    from inorder_controlplane.principals import authenticate

    given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return await authenticate(HTTPConnection({"type": "http", "headers": given}), site.app.state.context)
