"""Who gets in: tokens, browser sessions, roles, CSRF, origins, and what is never shown."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute
from tests.controlplane.conftest import ROLES, Serve, Site, assert_problem
from tests.costs import ended
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from inorder_controlplane import principals, sessions
from inorder_controlplane.documents import PREFIX
from inorder_controlplane.routes import registry, session
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.tokens import TokenStore

PUBLIC = {("POST", "/session")}
"""Where no token is shown: it is in the body."""


EXCEPTIONS = {
    ("DELETE", "/session"): "viewer",
    ("POST", "/order/preview"): "viewer",
    ("GET", "/definitions"): "operator",
    ("POST", "/definitions"): "admin",
}
"""Else who looks is a viewer, who changes an operator, and tokens and the audit log are for admins."""


def expected(method: str, path: str) -> str:
    if path.startswith(("/tokens", "/audit")):
        return "admin"
    return EXCEPTIONS.get((method, path), "viewer" if method == "GET" else "operator")


def routes() -> Iterator[tuple[str, str, str]]:
    """Yield method, path and the role that is needed, of each route of the API."""
    for route in all_routes():
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                if (method, route.path) not in PUBLIC:
                    yield method, PREFIX + route.path, needed(route.dependant)


def all_routes() -> list[BaseRoute]:
    return [route for router in registry.API for route in router.routes]


def needed(dependant: Dependant) -> str:
    found = [getattr(each.call, "required_role", "") or needed(each) for each in dependant.dependencies]
    return next(filter(None, found), "")


def filled(path: str) -> str:
    """Return a path with something in its places."""
    parts = ["1" if part.startswith("{") else part for part in path.split("/")]
    return "/".join(parts)


def test_every_route_says_what_role_it_needs() -> None:
    found = list(routes())
    assert len(found) > 5
    wrong = [each for each in found if each[2] != expected(each[0], each[1].removeprefix(PREFIX))]
    assert wrong == []
    sockets = [route for route in all_routes() if isinstance(route, APIWebSocketRoute)]
    assert all(needed(route.dependant) for route in sockets)


async def test_every_route_refuses_the_missing_token_and_each_role_too_low(site: Site) -> None:
    clients = {role: site.client(role) for role in ROLES}
    nobody, wrong = site.client(), site.client(Authorization="Bearer ino_wrong")
    for method, path, role in routes():
        for client in (nobody, wrong):
            answer = await client.request(method, filled(path))
            assert_problem(answer, "unauthorized")
            assert answer.headers["www-authenticate"] == 'Bearer realm="inorder"'
        for lower in ROLES[: ROLES.index(role)]:
            body = assert_problem(await clients[lower].request(method, filled(path)), "forbidden")
            assert role in body["allowed"]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "ino_x", "Bearer ino_x y", "bearer \xff"])
async def test_headers_that_are_no_token(site: Site, header: str) -> None:
    client = site.client()
    answer = await client.get("/api/v1/session", headers=[(b"Authorization", header.encode("latin-1"))])
    assert_problem(answer, "unauthorized")


async def test_a_token_that_is_revoked_while_its_body_comes_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one whose request waits for its turn, or for another change: it is looked at again before it is made."""
    monkeypatch.setattr(principals, "REMEMBERED", 0.0)
    tokens = TokenStore(site.store)

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"name": "kept", '
        tokens.revoke(site.tokens["admin"].id)
        yield b'"role": "admin"}'

    answer = await site.client("admin").post(
        "/api/v1/tokens", content=slowly(), headers={"Content-Type": "application/json"}
    )
    assert_problem(answer, "unauthorized")
    assert [each.name for each in tokens.list() if each.name == "kept"] == []
    assert AuditLog(site.store).count() == 0


async def test_expired_and_revoked_tokens(site: Site) -> None:
    """Also the logins that were made from them."""
    tokens = TokenStore(site.store)
    token, secret = tokens.issue("brief", "viewer", expires_s=3600)
    site.secrets["brief"] = secret
    bearer, (browser, _) = site.client("brief"), await site.browser("brief")
    assert (await bearer.get("/api/v1/session")).json()["role"] == "viewer"
    assert (await browser.get("/api/v1/session")).json()["name"] == "brief"
    tokens.revoke(token.id)
    for client in (bearer, browser):
        assert_problem(await client.get("/api/v1/session"), "unauthorized")
    assert_problem(await site.client().post("/api/v1/session", json={"token": secret}), "unauthorized")

    _, ended = tokens.issue("over", "viewer", expires_s=0.001)
    assert_problem(await site.client(Authorization=f"Bearer {ended}").get("/api/v1/session"), "unauthorized")


async def test_of_all_cookies_only_ours_is_read(site: Site) -> None:
    """A browser shows a server what others of that host have set, and anybody may show anything: some of it would take
    minutes to be read."""
    browser, _ = await site.browser("viewer")
    ours = f"inorder_session={browser.cookies['inorder_session']}"
    slow = 'a="' + "\\" * 200_000 + '"'

    async def status(*cookies: str) -> int:
        headers = [("Cookie", each) for each in cookies]
        return (await site.client().get("/api/v1/session", headers=headers)).status_code

    with ended():
        assert await status(f"{slow}; {ours}; b=c") == 200
        assert await status(slow, ours) == 200
        assert await status(f"inorder_session={slow}") == 401
        assert await status("inorder_session=x y", "inorder_session", "") == 401


async def test_names_that_are_none_are_no_defects(serve: Serve) -> None:
    """On an address that others reach every host is answered."""
    site = serve(host="0.0.0.0")
    for host in ("[::1", "[", "a@[b"):
        for path, code in (("/health/live", 200), ("/api/v1/nothing", 404), ("/api/v1/session", 401)):
            assert (await site.client().get(path, headers={"Host": host})).status_code == code
        login = await site.client().post(
            "/api/v1/session",
            json={"token": site.secrets["viewer"]},
            headers={"Host": host, "Origin": f"http://{host}"},
        )
        assert login.status_code == 403


async def test_a_login_ends(site: Site) -> None:
    browser, _ = await site.browser("viewer")
    context = site.app.state.context
    begun = context.now_ms()
    context.now_ms = lambda: begun + 12 * 3_600_000 - 5_000
    assert (await browser.get("/api/v1/session")).status_code == 200
    context.now_ms = lambda: begun + 12 * 3_600_000 + 5_000
    assert_problem(await browser.get("/api/v1/session"), "unauthorized")


async def test_a_login_is_no_longer_good_than_its_token(site: Site) -> None:
    _, site.secrets["brief"] = TokenStore(site.store).issue("brief", "viewer", expires_s=60)
    browser, _ = await site.browser("brief")
    answer = (await browser.get("/api/v1/session")).json()
    bearer = (await site.client("brief").get("/api/v1/session")).json()
    assert answer["expires_at"] == bearer["expires_at"]
    assert bearer["csrf"] is None


async def test_tokens_of_workers_do_not_log_in(site: Site) -> None:
    """Neither a client's, nor one that another control plane made for itself."""
    answer = await site.client().post("/api/v1/session", json={"token": site.secrets["client"]})
    assert_problem(answer, "forbidden")
    _, secret = TokenStore(site.store).issue("control plane", "admin", is_internal=True)
    assert_problem(await site.client().post("/api/v1/session", json={"token": secret}), "unauthorized")
    assert_problem(await site.client(Authorization=f"Bearer {secret}").get("/api/v1/session"), "unauthorized")


async def test_a_token_logs_in_so_often_in_a_minute(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest role could else fill the store: the audit log keeps each login for ever."""
    monkeypatch.setattr(session, "MAX_LOGINS", 2)
    login = {"token": site.secrets["viewer"]}
    assert [(await site.client().post("/api/v1/session", json=login)).status_code for _ in range(2)] == [200, 200]
    answer = await site.client().post("/api/v1/session", json=login)
    assert_problem(answer, "too-many-requests")
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert (await site.client().post("/api/v1/session", json={"token": site.secrets["admin"]})).status_code == 200
    assert (await site.client("viewer").get("/api/v1/session")).status_code == 200, (
        "the token itself is as good as ever"
    )


async def test_the_oldest_login_of_a_token_ends_where_there_are_too_many(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    made, _ = TokenStore(site.store).issue("many", "viewer")
    other, _ = TokenStore(site.store).issue("other", "viewer")
    logins = sessions.BrowserSessions(site.store)
    cookies = [logins.begin(token, now_ms=at, ttl_s=60.0)[0] for at, token in enumerate((other, made, made, made), 1)]
    assert [logins.find(cookie, 10) is not None for cookie in cookies] == [True, False, True, True]


async def test_the_cookie(serve: Serve) -> None:
    site = serve()
    answer = await site.client().post("/api/v1/session", json={"token": site.secrets["viewer"]})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("inorder_session=")
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts
    secure = httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="https://localhost:8443")
    site.clients.append(secure)
    answer = await secure.post("/api/v1/session", json={"token": site.secrets["viewer"]})
    assert "; secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["strict-transport-security"]


async def test_a_browsers_changes_need_the_csrf_token(site: Site) -> None:
    browser, csrf = await site.browser("admin")
    body = {"name": "x", "role": "viewer"}
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": csrf[:-1] + "!"}, {"X-CSRF-Token": "\xff"}):
        sent = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
        assert_problem(await browser.post("/api/v1/tokens", json=body, headers=sent), "forbidden")
    _, other = await site.browser("admin")
    assert_problem(await browser.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": other}), "forbidden")
    assert (await browser.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": csrf})).status_code == 201
    assert (await browser.get("/api/v1/tokens")).json()["total"] == len(ROLES) + 1


ORIGINS = [
    "http://evil.example", "null", "http://localhost:8081", "https://localhost:8080", "",
    "http://[", "http://[::1", "//]",
]  # fmt: skip


@pytest.mark.parametrize("origin", ORIGINS)
async def test_pages_of_other_servers_change_nothing(site: Site, origin: str) -> None:
    browser, csrf = await site.browser("admin")
    headers = {"Origin": origin, "X-CSRF-Token": csrf}
    body = {"name": "x", "role": "viewer"}
    assert_problem(await browser.post("/api/v1/tokens", json=body, headers=headers), "forbidden")
    login = {"token": site.secrets["viewer"]}
    assert_problem(await site.client().post("/api/v1/session", json=login, headers={"Origin": origin}), "forbidden")
    headers["Origin"] = "http://localhost:8080"
    assert (await browser.post("/api/v1/tokens", json=body, headers=headers)).status_code == 201


async def test_logging_out_ends_this_login_only(site: Site) -> None:
    browser, csrf = await site.browser("viewer")
    other, _ = await site.browser("viewer")
    cookie = browser.cookies["inorder_session"]
    assert (await browser.delete("/api/v1/session", headers={"X-CSRF-Token": csrf})).status_code == 204
    assert "inorder_session" not in browser.cookies
    assert_problem(await site.client(Cookie=f"inorder_session={cookie}").get("/api/v1/session"), "unauthorized")
    assert (await other.get("/api/v1/session")).status_code == 200


async def test_logins_that_fail_are_limited(serve: Serve) -> None:
    site = serve(login_rate=3)
    client = site.client()
    for _ in range(3):
        assert_problem(await client.post("/api/v1/session", json={"token": "ino_guess"}), "unauthorized")
    answer = await client.post("/api/v1/session", json={"token": site.secrets["admin"]})
    assert_problem(answer, "too-many-requests")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert (await site.client("viewer").get("/api/v1/session")).status_code == 200


async def test_behind_a_proxy_that_is_not_known_refusals_name_header_and_setting(serve: Serve) -> None:
    site = serve(login_rate=1)
    login = {"token": site.secrets["viewer"]}

    async def refused(**headers: str) -> str:
        answer = await site.client(**headers).post("/api/v1/session", json=login)
        detail: str = answer.json()["detail"]
        assert answer.status_code in (403, 421, 429), answer.text
        return detail

    origin = "https://localhost:8080"
    told = await refused(Origin=origin, **{"X-Forwarded-Proto": "https"})
    assert "loaded by https, and this request came by http" in told
    assert "X-Forwarded-Proto is not believed, as the setting controlplane.proxies does not name 127.0.0.1" in told
    assert "controlplane" not in await refused(Origin=origin)
    assert "a proxy must pass Host on" in await refused(Origin="https://order.example")
    assert "the setting controlplane.hosts" in await refused(Host="order.example")
    assert (await site.client().post("/api/v1/session", json={"token": "x"})).status_code == 401
    told = await refused(**{"X-Forwarded-For": "10.1.2.3"})
    assert "X-Forwarded-For is not believed, as the setting controlplane.proxies does not name 127.0.0.1" in told
    assert "believed" not in await refused(**{"X-Forwarded-For": "10.1.2.3, 127.0.0.1"})  # as one has it that is


async def test_the_audit_log_has_the_address_of_who_asked(serve: Serve) -> None:
    """The one that a proxy tells, where it is believed: uvicorn puts that into the request."""
    site = serve()
    inner: Any = site.app
    app = ProxyHeadersMiddleware(inner, trusted_hosts=["127.0.0.1"])
    headers = {"X-Forwarded-For": "10.1.2.3", "X-Forwarded-Proto": "https", "Host": "localhost:8080"}
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080", headers=headers) as client:
        answer = await client.post(
            "/api/v1/session", json={"token": site.secrets["admin"]}, headers={"Origin": "https://localhost:8080"}
        )
        assert answer.status_code == 200, answer.text
        assert "Secure" in answer.headers["set-cookie"]
        bearer = {"Authorization": f"Bearer {site.secrets['admin']}"}
        assert (await client.post("/api/v1/tokens", json={"name": "x", "role": "viewer"}, headers=bearer)).is_success
    found = [(each.action, each.detail["address"]) for each in AuditLog(site.store).page(limit=2)]
    assert found == [("token.issue", "10.1.2.3"), ("session.begin", "10.1.2.3")]


async def test_no_secret_is_shown_or_logged_or_kept(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser, _ = await site.browser("admin")
    cookie = browser.cookies["inorder_session"]
    made = (await site.client("admin").post("/api/v1/tokens", json={"name": "new", "role": "viewer"})).json()
    secrets = [*site.secrets.values(), cookie, made["secret"], "ino_guessed"]
    answers = [
        await site.client("admin").get(path)
        for path in ("/api/v1/tokens", "/api/v1/audit", "/api/v1/session", "/openapi.json")
    ]
    answers.append(await site.client().post("/api/v1/session", json={"token": "ino_guessed"}))
    answers.append(await site.client().post("/api/v1/session", json={"token": ["ino_guessed"]}))
    answers.append(await site.client(Authorization="Bearer ino_guessed").get("/api/v1/session"))
    seen = "".join(answer.text for answer in answers) + caplog.text + str(vars(site.app.state))
    assert [secret for secret in secrets if secret in seen] == []
    dump = _dump(site)
    assert [secret for secret in secrets if secret in dump] == []


def _dump(site: Site) -> str:
    def read(connection: Any) -> str:
        found = []
        for table in ("tokens", "browser_sessions", "audit"):
            found += [str(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}").all()]
        return "\n".join(found)

    return site.store.run(read)


async def test_changes_are_in_the_audit_log(site: Site) -> None:
    admin = site.client("admin")
    made = (await admin.post("/api/v1/tokens", json={"name": "line 4", "role": "client"})).json()
    await admin.delete(f"/api/v1/tokens/{made['id']}")
    await admin.delete(f"/api/v1/tokens/{site.tokens['admin'].id}")
    answer = (await admin.get("/api/v1/audit")).json()
    shown = [(each["who"], each["via"], each["action"], each["target"], each["outcome"]) for each in answer["items"]]
    assert shown == [
        ("the admin", "rest", "token.revoke", site.tokens["admin"].id, "refused"),
        ("the admin", "rest", "token.revoke", made["id"], "done"),
        ("the admin", "rest", "token.issue", "line 4", "done"),
    ]
    assert answer["items"][2]["detail"]["id"] == made["id"]
    first = (await admin.get("/api/v1/audit", params={"limit": 2})).json()
    rest = (await admin.get("/api/v1/audit", params={"limit": 2, "cursor": first["next"]})).json()
    assert first["items"] + rest["items"] == answer["items"]
    assert (first["total"], rest["next"]) == (3, None)
    assert AuditLog(site.store).count() == 3


async def test_an_admins_last_token_stays(site: Site) -> None:
    admin = site.client("admin")
    path = f"/api/v1/tokens/{site.tokens['admin'].id}"
    assert_problem(await admin.delete(path), "conflict")
    await admin.post("/api/v1/tokens", json={"name": "another", "role": "admin"})
    revoked = (await admin.delete(path)).json()
    assert revoked["revoked_at"] is not None
    assert_problem(await admin.get("/api/v1/tokens"), "unauthorized")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body.name"),
        ({"name": "", "role": "viewer"}, "body.name"),
        ({"name": "x", "role": "root"}, "body.role"),
        ({"name": "x", "role": "client", "expires_in_s": 0}, "body.expires_in_s"),
        ({"name": "x", "role": "client", "max_unconfirmed": "5"}, "body.max_unconfirmed"),
        ({"name": "x", "role": "client", "publish": ["no space"]}, "body.publish.0"),
        ({"name": "x", "role": "client", "secret": "mine"}, "body.secret"),
    ],
)
async def test_tokens_that_cannot_be_made(site: Site, body: dict[str, object], where: str) -> None:
    found = assert_problem(await site.client("admin").post("/api/v1/tokens", json=body), "invalid")
    assert where in [each["where"] for each in found["errors"]]


async def test_names_that_no_store_keeps_are_refused(site: Site) -> None:
    admin = site.client("admin")
    assert_problem(await admin.post("/api/v1/tokens", json={"name": "a\0b", "role": "viewer"}), "invalid")
    entry = (await admin.get("/api/v1/audit")).json()["items"][0]
    assert (entry["target"], entry["outcome"]) == ("a\\0b", "refused")


async def test_what_only_the_store_knows_to_be_wrong(site: Site) -> None:
    body = {"name": "x", "role": "viewer", "publish": ["mqtt:a"]}
    found = assert_problem(await site.client("admin").post("/api/v1/tokens", json=body), "invalid")
    assert "limits" in found["detail"]
    assert_problem(await site.client("admin").delete("/api/v1/tokens/none"), "not-found")
