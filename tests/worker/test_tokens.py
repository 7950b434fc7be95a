"""Tokens in the store, and the audit log: what is kept of a secret, and until when a token is good."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from inorder.errors import InvalidFilter, InvalidOption, StoreCorrupt
from inorder.testing.services import PostgresServer
from inorder_worker.store import schema
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import PREFIX, TokenStore
from inorder_worker.store.verification import verify


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/inorder.db"
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.database()
    journal = SqlJournal(url)
    journal.open(1)
    journal.close()
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture
def tokens(store: Store) -> TokenStore:
    return TokenStore(store)


def at(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    monkeypatch.setattr("inorder_worker.store.tokens.now_ms", lambda: milliseconds)


def test_a_token_is_found_by_its_secret_alone(tokens: TokenStore) -> None:
    limits = {
        "publish": ["mqtt:plant/#"],
        "subscribe": ["mqtt:#", "redis:news.*"],
        "max_unconfirmed": 7,
        "max_topics": 9,
        "max_subscriptions": 5,
    }
    token, secret = tokens.issue("desk", "client", by="ann", **limits)  # type: ignore[arg-type]
    assert re.fullmatch(PREFIX + r"[\w-]{43}", secret)
    assert tokens.find(secret) == token
    assert (token.publish, token.subscribe) == (("mqtt:plant/#",), ("mqtt:#", "redis:news.*"))
    assert (token.max_unconfirmed, token.max_topics, token.max_subscriptions) == (7, 9, 5)
    assert (token.is_internal, token.by) == (False, "ann")
    assert tokens.find(secret + "x") is tokens.find("") is tokens.find(token.id) is None
    other, another = tokens.issue("desk", "viewer", is_internal=True)
    assert tokens.find(another) == other
    assert another != secret


def test_the_secret_is_not_in_the_store(store: Store, tokens: TokenStore) -> None:
    _, secret = tokens.issue("desk", "admin")
    row = store.run(lambda connection: connection.execute(sa.select(schema.tokens)).one())
    assert not any(secret[len(PREFIX) :] in str(each) for each in row)


def test_it_expires(tokens: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 1_000_000)
    token, secret = tokens.issue("desk", "viewer", expires_s=1.5)
    at(monkeypatch, 1_001_499)
    assert tokens.find(secret) == token
    at(monkeypatch, 1_001_500)
    assert tokens.find(secret) is None
    assert tokens.get(token.id) == token


def test_it_is_revoked_once(tokens: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 1_000)
    token, secret = tokens.issue("desk", "viewer")
    other, others = tokens.issue("other", "viewer")
    at(monkeypatch, 2_000)
    ended = tokens.revoke(token.id)
    assert ended is not None
    assert ended.revoked_ms == 2_000
    at(monkeypatch, 3_000)
    assert tokens.revoke(token.id) == ended
    assert tokens.find(secret) is None
    assert tokens.find(others) == other
    assert tokens.revoke("unknown") is None
    assert {each.id: each.revoked_ms for each in tokens.list()} == {token.id: 2_000, other.id: None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a\nb"}, {"name": "x" * 129}, {"role": "root"}, {"role": ""},
        {"expires_s": 0}, {"expires_s": -1}, {"expires_s": float("nan")}, {"expires_s": float("inf")},
        {"publish": ["plant/#"]}, {"subscribe": [":x"]}, {"subscribe": ["mqtt:"]}, {"max_unconfirmed": 0},
        {"max_topics": -1}, {"role": "viewer", "max_topics": 0}, {"role": "viewer", "publish": ["mqtt:#"]},
        {"max_subscriptions": -1}, {"max_subscriptions": 2**31}, {"role": "viewer", "max_subscriptions": 0},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tokens: TokenStore, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        tokens.issue(**{"name": "desk", "role": "client", **wrong})  # type: ignore[arg-type]
    assert tokens.list() == []


def test_a_filter_that_is_not_well_formed_is_refused(tokens: TokenStore) -> None:
    with pytest.raises(InvalidFilter):
        tokens.issue("desk", "client", publish=["mqtt:a/#/b"])


def test_a_damaged_token_lets_nobody_in(store: Store, tokens: TokenStore) -> None:
    token, secret = tokens.issue("desk", "viewer")
    update = schema.tokens.update().where(schema.tokens.c.id == token.id).values(role="admin")
    store.run(lambda connection: connection.execute(update))
    with pytest.raises(StoreCorrupt, match="tokens: the row of id"):
        tokens.find(secret)
    (problem,) = verify(store._engine.url.render_as_string(hide_password=False)).problems
    assert problem.what == "tokens"


def test_the_audit_log_tells_what_became_of_each_change(store: Store) -> None:
    log = AuditLog(store)
    first = log.begin("ann", "operator", "rest", "pin", "mqtt:a", {"is_pinned": True})
    second = log.begin("desk", "client", "worker", "change_order", "order", outcome="refused")
    log.end(first, "done", {"ms": 3})
    newest, oldest = log.page()
    assert (newest.id, newest.outcome, newest.detail) == (second, "refused", {})
    assert (oldest.outcome, oldest.detail) == ("done", {"is_pinned": True, "ms": 3})
    assert log.page(before=second) == [oldest]
    assert log.page(limit=1) == [newest]
    assert log.count() == 2
    for target, kept in (("a\0b", "a\\0b"), ("x" * 10**6, "x" * 1024 + "...")):  # whatever a stranger names
        log.begin("desk", "client", "worker", "end_subscription", target, {"client": target[:9]}, outcome="refused")
        assert log.page(limit=1)[0].target == kept
