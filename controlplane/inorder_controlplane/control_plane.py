"""A control plane with all its parts, which runs in any event loop: alone, or beside a worker."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from inorder.errors import InvalidOption
from inorder.logs import CERTIFICATES, logger
from inorder_controlplane.access import Access
from inorder_controlplane.app import create_app
from inorder_controlplane.database import Database
from inorder_controlplane.serving import Service
from inorder_controlplane.sessions import has_admin
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_worker.service.monitor import Answer
from inorder_worker.service.settings import is_loopback
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.records import now_ms
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

log = logger("inorder.controlplane")
certificates = logger(CERTIFICATES)

FIRST_TOKEN_NAME: Final = "first admin"
FIRST_START: Final = "first start"
"""Who made it, as the audit log has it."""


class ControlPlane:
    """The HTTP API and the web UI; ``async with`` starts and stops it. Its port is taken when it is made.

    Args:
        settings: see ControlPlaneSettings.
        store: SQLAlchemy URL of the store.
        token, tls: see Access.
        monitor: of the worker in this process, for health and metrics.

    Raises PortInUse, InvalidOption and MissingExtra.
    """

    def __init__(
        self,
        settings: ControlPlaneSettings,
        *,
        store: str,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        monitor: Callable[[str, str], Answer] | None = None,
    ) -> None:
        self._settings = settings
        self._database = Database(store)
        self._access = access = Access(self._database, settings.workers, token, tls)
        app = create_app(settings, self._database, access.cluster, access=access, monitor=monitor)
        self._service = Service(app, settings)
        self._is_started = False

    @property
    def address(self) -> str:
        """The listening address, ``host:port``."""
        return self._service.address

    @property
    def url(self) -> str:
        """The page's URL for a browser on this machine."""
        return self._service.url

    @property
    def store(self) -> str:
        """The store's URL with its password masked."""
        return self._database.url

    def renew_certificates(self, tls: Callable[[], ssl.SSLContext | None]) -> bool:
        """Read the TLS files again for new connections; open connections stay. A file that is no good is logged, and
        changes nothing. ``tls``: for connections to workers. Return whether there are any."""
        try:
            made, to_workers = self._service.tls_context(), tls()
        except InvalidOption as error:
            log.error("event=certificates_not_renewed error=%s", error)
            return True
        if made is not None:
            self._service.renew(made)
        self._access.tls = to_workers
        if made is None and to_workers is None:
            return False
        certificates.info("event=certificates_renewed certificate=%s", self._settings.tls_cert)
        return True

    async def first_token(self) -> str | None:
        """Make an admin's token if there is none; return its secret. Raises StoreErrors."""
        return await self._database.call(_first_token)

    async def __aenter__(self) -> Self:
        """Start serving. Raises StoreUnreachable where no store can be, InvalidOption on an address that others reach,
        while nobody has an admin's token, and StoreErrors where it cannot be known."""
        await self._database.check_place()
        host = self._settings.host
        if not is_loopback(host) and not await self._database.call(lambda store: has_admin(store, now_ms())):
            allowed = "an address of this machine only, as long as there is no token of an admin (see inorder tokens)"
            raise InvalidOption("controlplane.host", host, allowed)
        self._is_started = True
        await self._service.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let open requests end."""
        await self._service.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Release the resources of a control plane that was not started. No error."""
        if not self._is_started:
            self._service.close()
            await self._database.close()


def _first_token(store: Store) -> str | None:
    if has_admin(store, now_ms()):
        return None
    log, detail = AuditLog(store), {"name": FIRST_TOKEN_NAME, "role": "admin"}
    entry = log.begin(FIRST_START, "admin", "store", "token.issue", FIRST_TOKEN_NAME, detail)
    token, secret = TokenStore(store).issue(FIRST_TOKEN_NAME, "admin", by=FIRST_START)
    log.end(entry, "done", {"id": token.id})
    return secret
