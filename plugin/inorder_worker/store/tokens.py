"""Tokens: who may do what, and how much. Of a secret only its SHA-256 is kept; it is shown once, when it is made."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from inorder.errors import InvalidOption
from inorder.protocol.access import ROLES
from inorder.protocol.filters import filter_of
from inorder_worker.store import records
from inorder_worker.store.records import now_ms
from inorder_worker.store.schema import tokens
from inorder_worker.store.store import Store

PREFIX: Final = "ino_"
"""What every secret begins with, so that one in the wrong place is seen for what it is."""
SECRET_BYTES: Final = 32
MAX_NAME: Final = 128
MAX_SECONDS: Final = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token without its hash.

    Attributes:
        id: what it is called in lists and to revoke it; nothing secret.
        publish, subscribe: ``space:filter`` of the topics that it may publish to and subscribe to; ``None``: all.
        max_unconfirmed: numbers that a session may have open at a time; ``None``: any.
        max_topics: topics that it and others of its name may make; 0: any, ``None``: as the workers are set
            (``max_token_topics``), and any for an admin.
        max_subscriptions: durable subscriptions that it and others of its name may have at a time; 0 and ``None`` alike
            (``max_token_subscriptions``).
        created_ms, expires_ms, revoked_ms: ms since 1970.
        is_internal: of a control plane, which keeps the audit log of what it does with it itself.
        by: who made it.
    """

    id: str
    name: str
    role: str
    publish: tuple[str, ...] | None
    subscribe: tuple[str, ...] | None
    max_unconfirmed: int | None
    max_topics: int | None
    max_subscriptions: int | None
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    is_internal: bool
    by: str

    def is_valid(self, now: int) -> bool:
        """Tell whether the token is valid at this time (ms since 1970)."""
        return self.revoked_ms is None and (self.expires_ms is None or now < self.expires_ms)


class TokenStore:
    """The tokens of a store. All calls block, and raise StoreErrors."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def issue(
        self,
        name: str,
        role: str,
        *,
        expires_s: float | None = None,
        publish: Sequence[str] | None = None,
        subscribe: Sequence[str] | None = None,
        max_unconfirmed: int | None = None,
        max_topics: int | None = None,
        max_subscriptions: int | None = None,
        is_internal: bool = False,
        by: str = "",
    ) -> tuple[Token, str]:
        """Make a token and return it with its secret, which is shown nowhere else. See Token; ``expires_s``: seconds
        from now, ``None`` for never. Raises InvalidOption and InvalidFilter."""
        most = {"max_topics": max_topics, "max_subscriptions": max_subscriptions}
        _check(name, role, expires_s, publish, subscribe, max_unconfirmed, most)
        now, secret = now_ms(), PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        token = Token(
            id=secrets.token_hex(8), name=name, role=role,
            publish=None if publish is None else tuple(publish),
            subscribe=None if subscribe is None else tuple(subscribe),
            max_unconfirmed=max_unconfirmed, max_topics=max_topics,
            max_subscriptions=max_subscriptions, created_ms=now,
            expires_ms=None if expires_s is None else now + round(expires_s * 1000),
            revoked_ms=None, is_internal=is_internal, by=by,
        )  # fmt: skip
        values = {**_values(token), "hash": hash_of(secret)}
        self._store.write(lambda connection: records.add(connection, tokens, values))
        return token, secret

    def find(self, secret: str) -> Token | None:
        """Return the token of a secret; ``None`` if it is unknown, expired or revoked."""
        found = self.find_any(secret)
        return found if found is not None and found.is_valid(now_ms()) else None

    def find_any(self, secret: str) -> Token | None:
        """Return the token of a secret, also an invalid one."""
        return self._first(sa.select(tokens).where(tokens.c.hash == hash_of(secret)))

    def of(self, ids: Sequence[str]) -> dict[str, Token]:
        """Return the tokens with these ids, by id."""
        these = sa.select(tokens).where(tokens.c.id.in_(ids))
        return {token.id: token for token in self._read(these)}

    def get(self, id_: str) -> Token | None:
        """Return a token by its id, also an invalid one."""
        return self._first(sa.select(tokens).where(tokens.c.id == id_))

    def list(self) -> list[Token]:
        """Return all tokens, the newest first, also invalid ones."""
        newest = sa.select(tokens).order_by(tokens.c.created_ms.desc(), tokens.c.id)
        return [*self._read(newest)]

    def revoke(self, id_: str) -> Token | None:
        """Revoke a token and return it; ``None`` for an unknown id. Doing it again changes nothing."""

        def end(connection: sa.Connection) -> None:
            found = connection.execute(sa.select(tokens.c.revoked_ms).where(tokens.c.id == id_)).one_or_none()
            if found is not None and found.revoked_ms is None:
                records.change(connection, tokens, id_, {"revoked_ms": now_ms()})

        self._store.write(end)
        return self.get(id_)

    def _first(self, statement: sa.Select[tuple[object, ...]]) -> Token | None:
        return next(iter(self._read(statement)), None)

    def _read(self, statement: sa.Select[tuple[object, ...]]) -> Sequence[Token]:
        rows = self._store.run(lambda connection: connection.execute(statement).mappings().all())
        return [*records.read(self._store.url, tokens, rows, _token)]


def hash_of(secret: str) -> str:
    """Return the stored hash of a secret. It is 32 random bytes, so a fast hash says as little of it as a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def filters_of(patterns: Sequence[str]) -> list[tuple[str, str]]:
    """Return each ``space:filter`` as a pair (space, filter). Raises InvalidOption."""
    found = []
    for text in patterns:
        space, separator, name = text.partition(":")
        if not (space and separator and name):
            raise InvalidOption("topic filter", text, "space:filter, for example mqtt:plant/#")
        found.append((space, name))
    return found


def _check(
    name: str,
    role: str,
    expires_s: float | None,
    publish: Sequence[str] | None,
    subscribe: Sequence[str] | None,
    max_unconfirmed: int | None,
    most: Mapping[str, int | None],
) -> None:
    if not (0 < len(name) <= MAX_NAME and name.isprintable()):
        raise InvalidOption("name", name, f"1 to {MAX_NAME} printable characters")
    if role not in ROLES:
        raise InvalidOption("role", role, " or ".join(ROLES))
    if expires_s is not None and not 0 < expires_s <= MAX_SECONDS:
        raise InvalidOption("expiry", expires_s, f"a number of seconds over 0 and up to {MAX_SECONDS:g} (100 years)")
    if max_unconfirmed is not None and not 0 < max_unconfirmed < 2**31:
        raise InvalidOption("max_unconfirmed", max_unconfirmed, "a whole number over 0")
    for what, bound in most.items():
        if bound is not None and not 0 <= bound < 2**31:
            raise InvalidOption(what, bound, "a whole number, 0 for any")
    for space, text in filters_of([*(publish or ()), *(subscribe or ())]):
        filter_of(space, text)
    has_limits = publish or subscribe or max_unconfirmed or any(bound is not None for bound in most.values())
    if role in ("viewer", "operator") and has_limits:
        raise InvalidOption("limits", f"with role {role}", "limits of topics and numbers with role client or admin")


def _values(token: Token) -> dict[str, object]:
    return {
        "id": token.id, "name": token.name, "role": token.role,
        "publish": None if token.publish is None else json.dumps(token.publish),
        "subscribe": None if token.subscribe is None else json.dumps(token.subscribe),
        "max_unconfirmed": token.max_unconfirmed, "max_topics": token.max_topics,
        "max_subscriptions": token.max_subscriptions,
        "created_ms": token.created_ms, "expires_ms": token.expires_ms,
        "revoked_ms": token.revoked_ms, "internal": token.is_internal, "by": token.by,
    }  # fmt: skip


def _token(row: sa.RowMapping) -> Token:
    return Token(
        id=row["id"], name=row["name"], role=row["role"],
        publish=_patterns(row["publish"]), subscribe=_patterns(row["subscribe"]),
        max_unconfirmed=row["max_unconfirmed"], max_topics=row["max_topics"],
        max_subscriptions=row["max_subscriptions"],
        created_ms=row["created_ms"], expires_ms=row["expires_ms"],
        revoked_ms=row["revoked_ms"], is_internal=row["internal"], by=row["by"],
    )  # fmt: skip


def _patterns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))
