"""An app over a real store, and clients with tokens of each role."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from inorder_controlplane import ControlPlaneSettings, Database, create_app, running, watching
from inorder_controlplane.guards import HEADERS
from inorder_controlplane.problems import KINDS
from inorder_controlplane.routes import live
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import Token, TokenStore

BASE = "http://localhost:8080"
ROLES = ("client", "viewer", "operator", "admin")


@dataclass
class Site:
    """An app with its store, and what tests do with it.

    Attributes:
        tokens, secrets: by role; there is one of each.
        now_ms: the app's clock; ``None``: the real one.
        cluster: what the app is connected to.
    """

    app: FastAPI
    store: Store
    tokens: dict[str, Token] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, role: str | None = None, **headers: str) -> httpx.AsyncClient:
        """Return a client that shows the token of a role, or none."""
        if role is not None:
            headers["Authorization"] = f"Bearer {self.secrets[role]}"
        transport = httpx.ASGITransport(self.app)
        found = httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)
        self.clients.append(found)
        return found

    async def browser(self, role: str) -> tuple[httpx.AsyncClient, str]:
        """Return a client that has logged in, and the CSRF token that it got."""
        client = self.client()
        answer = await client.post("/api/v1/session", json={"token": self.secrets[role]})
        assert answer.status_code == 200, answer.text
        return client, answer.json()["csrf"]


Serve = Callable[..., Site]


@dataclass(frozen=True)
class MadeStore:
    """A store with a token of each role, to be copied: making one takes longer than a test."""

    path: Path
    issued: dict[str, tuple[Token, str]]


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> MadeStore:
    path = tmp_path_factory.mktemp("store") / "inorder.db"
    store = Store(f"sqlite:///{path}")
    store.open(1)
    issued = {role: TokenStore(store).issue(f"the {role}", role) for role in ROLES}
    store.close()
    return MadeStore(path, issued)


@pytest.fixture
async def serve(tmp_path: Path, made_store: MadeStore) -> AsyncIterator[Serve]:
    """Make apps over one store: ``serve(cluster=..., **settings)``."""
    shutil.copy(made_store.path, tmp_path / "inorder.db")
    url, issued = f"sqlite:///{tmp_path}/inorder.db", made_store.issued
    store = Store(url)
    databases: list[Database] = []
    sites: list[Site] = []

    def make(cluster: Any = None, **settings: Any) -> Site:
        @asynccontextmanager
        async def connect() -> AsyncIterator[Any]:
            assert cluster is not None, "this needs no workers"
            yield cluster

        databases.append(Database(url))
        site = Site(create_app(ControlPlaneSettings(**settings), databases[-1], connect), store)
        for role, (token, secret) in issued.items():
            site.tokens[role], site.secrets[role] = token, secret
        sites.append(site)
        return site

    yield make
    for site in sites:
        for client in site.clients:
            await client.aclose()
    for database in databases:
        await database.close()
    store.close()


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane looks, tells who looks on, and beats for its runs ten times as often; so soon it also kills."""
    for module, names in (
        (watching, ("FRESH_SECONDS", "BUSY_SECONDS")),
        (live, ("SECONDS",)),
        (running, ("BUSY_SECONDS", "BEAT_SECONDS", "STOP_SECONDS")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name) / 10)


@pytest.fixture
def site(serve: Serve) -> Site:
    return serve()


def assert_problem(answer: httpx.Response, slug: str) -> dict[str, Any]:
    """Check that an answer is these problem details, and return them."""
    status, title = KINDS[slug]
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["type"], body["title"]) == (status, f"/problems/{slug}", title), body
    assert body["status"] == status
    assert body["instance"] == answer.request.url.path
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    return body
