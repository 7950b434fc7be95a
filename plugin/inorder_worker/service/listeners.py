"""The addresses on which a worker listens, with TLS or without."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

from inorder.errors import InvalidOption, PortInUse
from inorder.listening import Listener, RenewableTls, queue_length, stop_listening
from inorder_worker.service.admission import Admission
from inorder_worker.service.connection import Connection
from inorder_worker.service.settings import WorkerSettings


class Listeners:
    """Takes the addresses of the settings, and accepts connections there.

    Args:
        settings: see WorkerSettings.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self.addresses: list[str] = []
        """Where this worker listens, ``host:port``; known once it is bound."""
        self._sockets: list[socket.socket] = []
        """Those that are bound and from which nothing is accepted yet."""
        self._listener: Listener | None = None
        """One for all sockets."""
        self._tls: RenewableTls | None = None

    @property
    def advertised(self) -> str:
        """The address for clients and other workers, ``host:port``; known once it is bound."""
        if self._settings.advertise:
            return self._settings.advertise
        host, _, port = self.addresses[0].rpartition(":")
        return f"{socket.gethostname()}:{port}" if host in ("0.0.0.0", "[::]") else self.addresses[0]

    @property
    def handshakes(self) -> int:
        """Connections whose TLS handshake is not done."""
        return len(self._listener) if self._listener is not None else 0

    async def listen(self, connect: Callable[[], Connection], admission: Admission) -> None:
        """Take the listening addresses, and accept connections from now on. ``admission``: told of those that are in
        their TLS handshake. Raises PortInUse, and InvalidOption, also for bad TLS files."""
        await self._bind()
        self._accept(connect, admission)

    async def _bind(self) -> None:
        host, port = self._settings.host, self._settings.port
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise InvalidOption("host", host, f"an address of this machine ({error.strerror})") from None
        unique = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
        for family, address in unique if port else unique[:1]:  # a free port is free in one family only
            self._sockets.append(self._bound(family, address))

    def _bound(self, family: int, address: tuple[object, ...]) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(queue_length())
        except OSError as error:
            sock.close()
            where = f"{address[0]}:{address[1]}"
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(where) from None
            raise InvalidOption("host", where, f"an address this process may listen on ({error.strerror})") from None
        sock.setblocking(False)
        name = sock.getsockname()
        self.addresses.append(f"[{name[0]}]:{name[1]}" if family == socket.AF_INET6 else f"{name[0]}:{name[1]}")
        return sock

    def _accept(self, connect: Callable[[], Connection], admission: Admission) -> None:
        made = self._settings.ssl_context()
        if made is not None:
            self._tls = RenewableTls(made)
        timeout = self._settings.hello_timeout
        self._listener = Listener(made, timeout, connect, admission.came, admission.left)
        while self._sockets:
            self._listener.accept_on(self._sockets.pop(0))

    def renew(self, context: ssl.SSLContext) -> None:
        """Take another TLS context for the connections from now on."""
        if self._tls is not None:
            self._tls.renew(context)

    def stop(self) -> None:
        """Accept no more connections."""
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
        if self._listener is not None:
            stop_listening(self._listener)

    async def cut(self) -> None:
        """Cut what is in its TLS handshake."""
        if self._listener is not None:
            await self._listener.cut()
