"""A PostgreSQL server with a fresh, empty cluster."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from inorder.testing.services.server import (
    HOST,
    PING_SECONDS,
    Server,
    as_service_user,
    find_binary,
    give_to_service_user,
)

_PACKAGE = "postgresql"
_SUPERUSER = "postgres"


class PostgresServer(Server):
    """A PostgreSQL server that admits everybody on loopback as ``postgres``, without a password.

    Args:
        settings: further settings of postgresql.conf.
        durable: commits really wait for the disk (``fsync``). Off by default: a killed server loses nothing by
            that, only a crashed machine does. Benchmarks turn it on.
        port, start_timeout: see :class:`Server`.
    """

    binary = "postgres"
    package = _PACKAGE
    service_user = "postgres"
    stop_signal = signal.SIGINT  # the "fast" shutdown: it does not wait for clients to leave

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        durable: bool = False,
        port: int | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(port=port, start_timeout=start_timeout)
        self._settings = {"fsync": "on" if durable else "off", "max_connections": "50", **(settings or {})}
        self._databases = 0

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``."""
        return self._url("postgres")

    def database(self) -> str:
        """Create an empty database and return its URL: one for each test, on one server."""
        self._databases += 1
        name = f"test_{self._databases}"
        self._run("createdb", "--host", HOST, "--port", str(self.port), "--username", _SUPERUSER, "--no-password", name)
        return self._url(name)

    def _url(self, database: str) -> str:
        return f"postgresql://{_SUPERUSER}@{HOST}:{self.port}/{database}"

    def _find_program(self) -> str:
        return find_postgres_binary(self.binary)

    def _prepare(self) -> None:
        if self._data.exists():
            return
        give_to_service_user(self.folder, self.service_user)
        self._run(
            "initdb", "--pgdata", str(self._data), "--username", _SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
        )  # fmt: skip

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _command(self) -> list[str]:
        command = [self.binary, "-D", str(self._data), "-h", HOST, "-p", str(self.port)]
        for name, value in {"unix_socket_directories": "", **self._settings}.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _is_passing_failure(self, log: str) -> bool:
        """Tell whether a start failed because children of a killed server still hold its memory."""
        return "pre-existing shared memory block" in log or "lock file" in log

    def _ping(self) -> None:
        """Log in and wait for ReadyForQuery; a server that still recovers answers with an error instead."""
        parameters = b"user\0%s\0database\0postgres\0\0" % _SUPERUSER.encode()
        with socket.create_connection((HOST, self.port), timeout=PING_SECONDS) as connection:
            connection.sendall(struct.pack("!II", len(parameters) + 8, 0x0003_0000) + parameters)
            with connection.makefile("rb") as reader:
                while (kind := reader.read(1)) != b"Z":
                    if kind in (b"", b"E"):
                        raise ConnectionRefusedError("the server is not ready")
                    reader.read(struct.unpack("!I", reader.read(4))[0] - 4)
            connection.sendall(b"X\0\0\0\4")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [find_postgres_binary(program), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            **as_service_user(self.service_user),
        )


def find_postgres_binary(binary: str) -> str:
    """Return the path of one of PostgreSQL's programs, of the newest version installed. Raises MissingBinary."""
    # Debian and Ubuntu keep them out of PATH, one folder for each version.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: _version(folder), reverse=True)
    return find_binary(binary, _PACKAGE, versions)


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0
