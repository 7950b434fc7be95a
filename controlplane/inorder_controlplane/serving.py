"""A server of the app on a port, in a foreign event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Final, Self

import uvicorn
from fastapi import FastAPI

from inorder.errors import InvalidOption, PortInUse
from inorder.listening import NO_PASS_PHRASE, Listener, RenewableTls, queue_length
from inorder.logs import logger
from inorder_controlplane.connections import HEAD_SECONDS, BoundedProtocol, BoundedSocket, WaitingConnections
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_worker.service.settings import is_loopback

STOP_SECONDS: Final = 3
"""How long open requests and WebSockets may take to end."""
MAX_SOCKET_MESSAGE_BYTES: Final = 64 * 1024
"""Of what a browser sends over a WebSocket."""

log = logger("inorder.controlplane")


class Service:
    """Serves an app; ``async with`` starts and stops it.

    Args:
        app: from ``create_app``.
        settings: where to listen. The port is taken when this is made: raises PortInUse and InvalidOption.
    """

    def __init__(self, app: FastAPI, settings: ControlPlaneSettings) -> None:
        self._settings = settings
        if settings.tls_key is not None and settings.tls_cert is None:
            allowed = "a PEM file together with tls_cert"
            raise InvalidOption("controlplane.tls_key", str(settings.tls_key), allowed)
        self._socket = _listening(settings.host, settings.port)
        try:
            made = self.tls_context()
        except InvalidOption:
            self._socket.close()
            raise
        self._tls = None if made is None else RenewableTls(made)
        self._server = _Server(_config(app, settings), made)
        self._server.config.load()
        self._task: asyncio.Task[None] | None = None

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context from the present files, or ``None`` without TLS. Raises InvalidOption."""
        settings = self._settings
        if settings.tls_cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password=NO_PASS_PHRASE)
        except (OSError, ssl.SSLError) as error:
            allowed = f"a PEM certificate with its key, without a pass phrase, in tls_key ({error})"
            raise InvalidOption("controlplane.tls_cert", str(settings.tls_cert), allowed) from None
        return context

    def renew(self, context: ssl.SSLContext) -> None:
        """Use another TLS context for new connections."""
        if self._tls is not None:
            self._tls.renew(context)

    @property
    def address(self) -> str:
        """The listening address, ``host:port``."""
        host, port, *_ = self._socket.getsockname()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def url(self) -> str:
        """The page's address for a browser on this machine."""
        scheme = "https" if self._settings.tls_cert else "http"
        host, _, port = self.address.rpartition(":")
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
        return f"{scheme}://{host}:{port}{self._settings.root_path}/"

    async def __aenter__(self) -> Self:
        """Start serving."""
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="inorder-controlplane")
        ready = asyncio.create_task(self._server.ready.wait(), name="inorder-controlplane-ready")
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            await self._task
        if not is_loopback(self._settings.host) and self._settings.tls_cert is None:
            log.warning("event=no_tls address=%s hint=%s", self.address, "tokens travel readable for others")
        log.info("event=serving address=%s tls=%s", self.address, "yes" if self._settings.tls_cert else "no")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let open requests end."""
        assert self._task is not None
        self._server.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)

    def close(self) -> None:
        """Release the port without having started."""
        self._socket.close()


class _Server(uvicorn.Server):
    """uvicorn's server without signal handlers, which the command has. ``ready`` is set once it accepts."""

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._tls = tls
        self._secure: Listener | None = None
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting. The sockets are listened on here: uvicorn sets no bounds."""
        await super().startup([])
        waiting = WaitingConnections(self.server_state.connections)
        protocol: Callable[[], asyncio.Protocol] = partial(
            BoundedProtocol,
            waiting,
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state,
        )  # fmt: skip
        if self._tls is not None:
            self._secure = Listener(self._tls, HEAD_SECONDS, protocol, waiting.handshake_came, waiting.handshake_left)
        for sock in sockets or []:
            if self._secure is not None:
                self._secure.accept_on(sock)
            else:
                loop = asyncio.get_running_loop()
                self.servers.append(await loop.create_server(protocol, sock=sock, backlog=queue_length()))
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cut open handshakes, and end as uvicorn does."""
        if self._secure is not None:
            await self._secure.cut()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield


def _config(app: FastAPI, settings: ControlPlaneSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws=BoundedSocket,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=STOP_SECONDS,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
    )


def _listening(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises PortInUse and InvalidOption."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"{host}:{port}") from None
        allowed = f"an address this process may listen on ({error.strerror or error})"
        raise InvalidOption("controlplane.host", f"{host}:{port}", allowed) from None
