"""A PgBouncer in front of a PostgreSQL server."""

from __future__ import annotations

import socket
import struct

from inorder.testing.services.postgres import PostgresServer
from inorder.testing.services.server import HOST, PING_SECONDS, Server


class PgBouncer(Server):
    """A pooler that gives each transaction whatever connection is free (``pool_mode = transaction``).

    Args:
        postgres: the server behind it, which runs.
        size: connections to each database there.
    """

    binary = "pgbouncer"
    package = "pgbouncer"
    service_user = "postgres"

    def __init__(self, postgres: PostgresServer, *, size: int = 2) -> None:
        super().__init__()
        self._postgres, self._size = postgres, size

    @property
    def url(self) -> str:
        """The URL of the database ``postgres`` through the pooler."""
        return self.through(self._postgres.url)

    def through(self, url: str) -> str:
        """Return the URL of one of the server's databases through the pooler."""
        return url.replace(f":{self._postgres.port}/", f":{self.port}/")

    def _prepare(self) -> None:
        settings = {
            "listen_addr": HOST, "listen_port": self.port, "unix_socket_dir": "", "auth_type": "any",
            "pool_mode": "transaction", "default_pool_size": self._size,
        }  # fmt: skip
        server = f"* = host={HOST} port={self._postgres.port} user=postgres"
        lines = ["[databases]", server, "[pgbouncer]", *(f"{name} = {value}" for name, value in settings.items()), ""]
        (self.folder / "pgbouncer.ini").write_text("\n".join(lines))

    def _command(self) -> list[str]:
        return [self.binary, str(self.folder / "pgbouncer.ini")]

    def _ping(self) -> None:
        """Ask the pooler for TLS, a question that the pooler answers at once and without the server."""
        with socket.create_connection((HOST, self.port), timeout=PING_SECONDS) as connection:
            connection.sendall(struct.pack("!II", 8, 80877103))
            if connection.recv(1) not in (b"N", b"S"):
                raise ConnectionRefusedError("the pooler is not ready")
