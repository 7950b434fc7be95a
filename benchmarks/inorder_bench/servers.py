"""The servers of a workload, started when a contender needs them, and what is left out because one is not here."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from inorder.testing.services import (
    MissingBinary,
    Mosquitto,
    PostgresServer,
    RedisServer,
    Server,
    ServerFailed,
    WorkerServer,
)
from inorder.testing.services.server import HOST, PING_SECONDS
from inorder_bench.nats import NatsServer, find_nats
from inorder_bench.shapes import SHAPES
from inorder_worker.store.sql_journal import SqlJournal

# No client's queue is bounded, so that nothing is dropped; and what waits for acknowledgements is bounded by the
# window of publishers alone.
_UNBOUNDED = ("--client-output-buffer-limit", "pubsub", "0", "0", "0")
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class EchoServer(Server):
    """A server of a worker's frames that only counts (:mod:`inorder_bench.echo`), in a process of its own."""

    binary = "python"
    package = "python3"

    def __init__(self) -> None:
        super().__init__()
        self.service_user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def url(self) -> str:
        """Host and port."""
        return f"{HOST}:{self.port}"

    def _find_program(self) -> str:
        return sys.executable

    def _command(self) -> list[str]:
        return [self.binary, "-m", "inorder_bench.echo", str(self.port)]

    def _ping(self) -> None:
        socket.create_connection((HOST, self.port), timeout=PING_SECONDS).close()


KINDS: dict[str, Callable[[], Server]] = {
    "mosquitto": lambda: Mosquitto(max_queued=0, extra=("max_inflight_messages 1000",)),
    "redis": lambda: RedisServer(args=_UNBOUNDED),
    "redis, appendfsync always": lambda: RedisServer(args=_DURABLE),
    "nats": NatsServer,
    "nats, synced": lambda: NatsServer(is_synced=True),
    "worker": WorkerServer,
}
ON_POSTGRESQL, THREE_WORKERS = "worker on PostgreSQL", "three workers"
"""Kinds of workers: those that share a store have it on PostgreSQL, and so has what they are compared with."""
OPTIONAL = ("nats", "nats, synced")
"""Where these are missing their rows are left out; every other one is an error that says what to install."""


class Servers:
    """A context manager: what was started in it ends with it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, Server] = {}
        self._several: dict[str, list[str]] = {}
        self._postgres: PostgresServer | None = None

    def url(self, kind: str) -> str:
        """Return a server's URL; it is started when it is asked for first. Raises MissingBinary, ServerFailed."""
        if kind not in self._running:
            server = WorkerServer(store=self._database()) if kind == ON_POSTGRESQL else KINDS[kind]()
            self._running[kind] = self._stack.enter_context(server)
        return self._running[kind].url

    def workers(self, kind: str) -> list[str]:
        """Return the addresses of workers, a kind each; they are started when they are asked for first."""
        if kind != THREE_WORKERS:
            return [self.url(kind)]
        if kind not in self._several:
            self._several[kind] = self._three_workers()
        return self._several[kind]

    def _three_workers(self) -> list[str]:
        """Start a worker for each of three stages, which share the topics of a shape."""
        store, stages, topics = self._database(), 3, SHAPES["stages"].topics
        size = len(topics) // stages
        journal = SqlJournal(store)
        try:
            order = [[f"mqtt:{name}" for name in topics[first : first + size]] for first in range(0, len(topics), size)]
            journal.open(stages, order)
        finally:
            journal.close()
        args = [["--stages", str(stages), "--stage", str(each), "--name", f"stage-{each}"] for each in range(stages)]
        return [self._stack.enter_context(WorkerServer(store=store, args=each)).url for each in args]

    def _database(self) -> str:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(PostgresServer(durable=True))
        return self._postgres.database()

    def missing(self, kind: str) -> str:
        """Return why an optional server cannot be had, in words; nothing where it can."""
        if kind not in OPTIONAL:
            return ""
        try:
            find_nats()
            self.url(kind)
        except (MissingBinary, ServerFailed) as error:
            return " ".join(str(error).split())
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
