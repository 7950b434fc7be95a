"""Browser logins in the store: a cookie has 256 random bits, of which the store keeps only the SHA-256."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from inorder_controlplane.roles import Principal
from inorder_worker.store.schema import browser_sessions, tokens
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import Token, TokenStore, hash_of

_BYTES = 32
MAX_SESSIONS = 100
"""Logins of one token at a time; with a further one the oldest ends."""


class BrowserSessions:
    """The logins of a store. All calls block, and raise StoreErrors."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, token: Token, *, now_ms: int, ttl_s: float) -> tuple[str, Principal]:
        """Log a token's holder in, no longer than the token is valid; return the cookie's value and the principal."""
        cookie, csrf = secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES)
        expires = now_ms + round(ttl_s * 1000)
        if token.expires_ms is not None:
            expires = min(expires, token.expires_ms)
        session_hash = hash_of(cookie)
        row = {"hash": session_hash, "token_id": token.id, "csrf": csrf, "created_ms": now_ms, "expires_ms": expires}

        def insert(connection: sa.Connection) -> None:
            connection.execute(browser_sessions.delete().where(browser_sessions.c.expires_ms <= now_ms))
            its = sa.select(browser_sessions.c.hash).where(browser_sessions.c.token_id == token.id)
            older = its.order_by(browser_sessions.c.created_ms.desc()).offset(MAX_SESSIONS - 1)
            connection.execute(browser_sessions.delete().where(browser_sessions.c.hash.in_(older)))
            connection.execute(browser_sessions.insert(), row)

        self._store.write(insert)
        return cookie, Principal(token.name, token.role, token.id, expires, csrf, session_hash)

    def find(self, cookie: str, now_ms: int) -> Principal | None:
        """Return the principal of a cookie; ``None`` for an unknown one, or one whose login or token is over."""
        return self.find_hash(hash_of(cookie), now_ms)

    def find_hash(self, session_hash: str, now_ms: int) -> Principal | None:
        """Return the principal of a cookie's stored hash."""
        wanted = sa.select(browser_sessions).where(browser_sessions.c.hash == session_hash)
        row = self._store.run(lambda connection: connection.execute(wanted).mappings().one_or_none())
        if row is None or row["expires_ms"] <= now_ms:
            return None
        token = TokenStore(self._store).get(row["token_id"])
        if token is None or not token.is_valid(now_ms):
            return None
        return Principal(token.name, token.role, token.id, row["expires_ms"], row["csrf"], row["hash"])

    def end(self, session_hash: str) -> None:
        """End a login. No error where there is no such login."""
        gone = browser_sessions.delete().where(browser_sessions.c.hash == session_hash)
        self._store.write(lambda connection: connection.execute(gone))


def has_admin(store: Store, now_ms: int, *, besides: str = "") -> bool:
    """Tell whether anybody could log in as an admin, by another token than the one of this id."""
    good = (tokens.c.expires_ms.is_(None)) | (tokens.c.expires_ms > now_ms)
    is_admin = (tokens.c.role == "admin") & tokens.c.internal.is_(False) & (tokens.c.id != besides)
    wanted = sa.select(sa.func.count()).where(is_admin, tokens.c.revoked_ms.is_(None), good)
    return bool(store.run(lambda connection: connection.execute(wanted).scalar_one()))
