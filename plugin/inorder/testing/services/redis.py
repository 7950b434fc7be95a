"""redis-server, alone or replicating another one."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from io import BufferedReader
from types import TracebackType
from typing import Self

from inorder.testing.services.server import HOST, PING_SECONDS, Server, wait_until
from inorder.testing.services.tls import Certificates


class RedisProbe:
    """One connection that speaks RESP2: commands out, replies in. A context manager; errors are OSError."""

    def __init__(self, server: RedisServer, timeout: float = 2.0) -> None:
        self._socket = socket.create_connection((HOST, server.port), timeout=timeout)
        try:
            if server.tls:
                self._socket = server.tls.client_context().wrap_socket(self._socket, server_hostname="localhost")
            self._reader: BufferedReader = self._socket.makefile("rb")
        except BaseException:
            self._socket.close()
            raise

    def call(self, *command: str) -> object:
        """Send one command and return its reply. Raises ValueError for an error reply."""
        parts = [b"$%d\r\n%s\r\n" % (len(part.encode()), part.encode()) for part in command]
        self._socket.sendall(b"*%d\r\n%s" % (len(parts), b"".join(parts)))
        return self.reply()

    def reply(self, timeout: float | None = None) -> object:
        """Return the next reply or push message: str, int, list or None. ``timeout`` (seconds) stays set.

        After a TimeoutError in mid-reply the connection is of no more use.
        """
        if timeout is not None:
            self._socket.settimeout(timeout)
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, text = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise ValueError(text)
        if kind == b"*":
            return [self.reply() for _ in range(int(text))]
        if kind == b"$":
            return None if text == "-1" else self._reader.read(int(text) + 2)[:-2].decode()
        return int(text) if kind == b":" else text

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RedisServer(Server):
    """A Redis server without persistence.

    Args:
        args: further arguments (``"--notify-keyspace-events", "KEA"``).
        password: asked of every client, and told to the server that is replicated.
        tls: it speaks TLS only, with this certificate; clients trust ``tls.ca``.
        replicaof: the server that it replicates; must have the same ``password`` and ``tls``.
        port, start_timeout: see :class:`Server`.
    """

    binary = "redis-server"
    package = "redis-server"
    service_user = "redis"

    def __init__(
        self,
        *,
        args: Sequence[str] = (),
        password: str | None = None,
        tls: Certificates | None = None,
        replicaof: RedisServer | None = None,
        port: int | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        super().__init__(port=port, start_timeout=start_timeout)
        self.password, self.tls = password, tls
        self._args, self._replicaof = tuple(args), replicaof

    @property
    def url(self) -> str:
        """``redis://`` or ``rediss://`` with host and port; never with the password."""
        return f"{'rediss' if self.tls else 'redis'}://{'localhost' if self.tls else HOST}:{self.port}"

    def probe(self, timeout: float = 2.0) -> RedisProbe:
        """Return a bare, authenticated connection, for checks that must not depend on a client library."""
        probe = RedisProbe(self, timeout)
        try:
            if self.password is not None:
                probe.call("AUTH", self.password)
        except BaseException:
            probe.close()
            raise
        return probe

    def _prepare(self) -> None:
        # In a file, so that the password shows in no process list.
        secret = [] if self.password is None else [f"requirepass {self.password}", f"masterauth {self.password}"]
        (self.folder / "redis.conf").write_text("\n".join([*secret, ""]))
        if self.tls:
            self.tls.copy_to(self.folder)

    def _command(self) -> list[str]:
        command = [self.binary, str(self.folder / "redis.conf"), "--bind", HOST, "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        command += ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        if self.tls:
            command += ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            command += ["--tls-ca-cert-file", self.tls.ca.name, "--tls-cert-file", self.tls.certificate.name]
            command += ["--tls-key-file", self.tls.key.name, "--tls-replication", "yes"]
        else:
            command += ["--port", str(self.port)]
        if self._replicaof is not None:
            command += ["--replicaof", HOST, str(self._replicaof.port)]
        return [*command, *self._args]

    def _ping(self) -> None:
        with self.probe(PING_SECONDS) as probe:
            probe.call("PING")


@contextlib.contextmanager
def replicated_redis(
    *, args: Sequence[str] = (), password: str | None = None
) -> Iterator[tuple[RedisServer, RedisServer]]:
    """Start a primary and a replica, and yield them when what is published at the primary reaches the replica.

    Redis carries published messages from the primary to its replicas only, never back. ``args`` and ``password``
    are those of :class:`RedisServer`, for both. Raises TimeoutError when replication does not come up.
    """
    with (
        RedisServer(args=args, password=password) as primary,
        RedisServer(args=args, password=password, replicaof=primary) as replica,
    ):
        wait_for_replication(primary, replica)
        yield primary, replica


def wait_for_replication(primary: RedisServer, replica: RedisServer, timeout: float = 30.0) -> None:
    """Return when the link is up and a published message has crossed it, with no probe under way any more.

    Raises TimeoutError (seconds).
    """
    with replica.probe() as probe:
        wait_until(
            lambda: "master_link_status:up" in str(probe.call("INFO", "replication")),
            what=f"replication from {primary.url} to {replica.url}",
            timeout=timeout,
        )
    channel, deadline = f"probe-{secrets.token_hex(8)}", time.monotonic() + timeout
    with primary.probe() as sender, replica.probe(timeout) as receiver:
        receiver.call("SUBSCRIBE", channel)
        # The link is a FIFO and is up: one message is enough, and nothing can follow it.
        sender.call("PUBLISH", channel, "crossing")
        receiver.reply(max(0.001, deadline - time.monotonic()))
