"""The control plane's access to the workers: their addresses and its token.

Unless it is told otherwise it reads the workers' addresses in the store, and makes itself a token there: short-lived,
renewed while it runs, and marked as internal, because the control plane keeps the audit log itself.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from inorder.errors import StoreError, Unauthorized, WorkerUnreachable
from inorder_controlplane.database import Database
from inorder_worker.admin import Cluster
from inorder_worker.store import schema
from inorder_worker.store.records import now_ms
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import Token, TokenStore

TOKEN_SECONDS: Final = 3600.0
"""How long a token of its own is good; it is renewed after half of it."""


@dataclass(slots=True)
class _Shared:
    """A connection to the workers with its number of users. ``is_old``: no more users; the last one closes it."""

    cluster: Cluster
    token: str
    tls: ssl.SSLContext | None = None
    users: int = 0
    is_old: bool = False

    async def close(self) -> None:
        await self.cluster.__aexit__(None, None, None)


class Access:
    """Addresses and credentials for the workers.

    Args:
        database: the store.
        addresses: ``host:port`` of workers; empty: those in the store.
        token: what the workers ask for; ``None``: a token of its own, from the store.
        tls: ``None`` for plain TCP.
    """

    def __init__(
        self,
        database: Database,
        addresses: Sequence[str] = (),
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self._database, self._addresses, self._given = database, tuple(addresses), token
        self._own: tuple[Token, str] | None = None
        self._lock = asyncio.Lock()
        self._name = f"control plane {secrets.token_hex(4)}"
        self._shared: _Shared | None = None

    async def addresses(self) -> list[str]:
        """Return the addresses of the workers. Raises StoreErrors, and WorkerUnreachable where there is none."""
        found = list(self._addresses) or await self._database.call(_read_addresses)
        if not found:
            raise WorkerUnreachable([], "the store knows of no worker; start one with: inorder worker")
        return found

    async def token(self) -> str:
        """Return the secret for the workers. Raises StoreErrors."""
        if self._given is not None:
            return self._given
        async with self._lock:
            if self._own is None or _is_old(self._own[0]):
                old, self._own = self._own, await self._database.call(self._issue)
                if old is not None:
                    await self._revoke(old[0])
            return self._own[1]

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        """Use the one connection to the workers that all requests share, as each new one would be a session for the
        workers. Another one is made where token or TLS are others by now, or no worker was reached at the addresses
        known. Raises StoreErrors, LinkErrors and PeerErrors."""
        token, shared = await self.token(), self._shared
        if shared is None or shared.token != token or shared.tls is not self.tls:
            made = _Shared(Cluster(await self.addresses(), token, self.tls), token, self.tls)
            if self._shared is shared:
                await self._put_away(made)
        shared = self._shared
        assert shared is not None
        shared.users += 1
        try:
            yield shared.cluster
        except (WorkerUnreachable, Unauthorized) as error:
            if isinstance(error, Unauthorized):
                await self._forget_unknown(shared.token)
            if self._shared is shared:
                await self._put_away(None)
            raise
        finally:
            shared.users -= 1
            if shared.is_old and not shared.users:
                await shared.close()

    async def _forget_unknown(self, secret: str) -> None:
        """Forget the own token where the store calls it no good: the next request makes another one. A backup that was
        restored does not have the token, and an operator may have revoked it."""
        own = self._own
        if own is not None and own[1] == secret:
            with suppress(StoreError):
                if await self._database.call(lambda store: TokenStore(store).find(secret)) is None and self._own is own:
                    self._own = None

    async def _put_away(self, following: _Shared | None) -> None:
        shared, self._shared = self._shared, following
        if shared is not None:
            shared.is_old = True
            if not shared.users:
                await shared.close()

    async def close(self) -> None:
        """Disconnect from the workers, and revoke the own token, which expires by itself without the store."""
        await self._put_away(None)
        own, self._own = self._own, None
        if own is not None:
            with suppress(StoreError):
                await self._revoke(own[0])

    async def _revoke(self, token: Token) -> None:
        await self._database.call(lambda store: TokenStore(store).revoke(token.id))

    def _issue(self, store: Store) -> tuple[Token, str]:
        gone = schema.tokens.delete().where(schema.tokens.c.internal.is_(True), schema.tokens.c.expires_ms <= now_ms())
        store.write(lambda connection: connection.execute(gone))
        return TokenStore(store).issue(self._name, "admin", expires_s=TOKEN_SECONDS, is_internal=True, by=self._name)


def _read_addresses(store: Store) -> list[str]:
    """Return the workers' addresses, first those of workers with stages."""
    owners = sa.select(schema.stages.c.address).order_by(schema.stages.c.stage.desc())
    others = sa.select(schema.workers.c.address).order_by(schema.workers.c.owner)

    def read(connection: sa.Connection) -> list[str]:
        found = [*connection.execute(owners).scalars(), *connection.execute(others).scalars()]
        return [address for address in dict.fromkeys(found) if address]

    return store.run(read)


def _is_old(token: Token) -> bool:
    assert token.expires_ms is not None
    return token.expires_ms - now_ms() < TOKEN_SECONDS * 500
