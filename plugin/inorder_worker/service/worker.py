"""A worker process: its parts, in the order in which they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Self

from inorder.errors import InorderError, InvalidOption
from inorder.listening import raise_open_files
from inorder.logs import CERTIFICATES, logger, set_up
from inorder.masking import masked_url
from inorder.signals import on_signals
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.exposition import View
from inorder_worker.service.gate import Gate
from inorder_worker.service.host import StageHost
from inorder_worker.service.links import Links
from inorder_worker.service.monitor import Answer, Monitor
from inorder_worker.service.server import Server
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.slow import NAMED, SlowClient
from inorder_worker.service.standby import Standby
from inorder_worker.store.identity import new_owner
from inorder_worker.store.journal import Journal
from inorder_worker.store.sql_journal import SqlJournal

log = logger("inorder.worker")
certificates = logger(CERTIFICATES)


class Worker:
    """One worker; ``async with`` starts and stops it.

    Args:
        settings: see WorkerSettings.
        journal: instead of the one that ``settings.store`` names.
    """

    def __init__(self, settings: WorkerSettings, *, journal: Journal | None = None) -> None:
        self.settings = settings
        cluster = Cluster()
        self._links = Links(settings, cluster)
        self._journal = journal or SqlJournal(settings.store, timeout=settings.store_timeout, pause=settings.lease)
        self._gate = Gate(settings, self._journal.records())
        self._server = Server(settings, cluster, self._links, self._gate)
        owner = new_owner(settings.name)
        self._host = StageHost(self._journal, settings, owner, self._server, self._server.sessions, self._links)
        self._standby = Standby(self._journal.sibling(), settings, self._host.tenure)
        self._host.heartbeat.member = self._standby.member
        self._server.standby = self._standby
        view = View(settings, self._host, self._server, self._links.describe, lambda: self.health()[0], _release())
        self._monitor = Monitor(settings, self.health, view)
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def state(self) -> str:
        """``active`` with a stage, else ``standby``."""
        return self._host.state

    @property
    def address(self) -> str:
        """The listening address, ``host:port`` (the first of several)."""
        return self._server.listeners.addresses[0]

    async def __aenter__(self) -> Self:
        """Start. Raises PortInUse, InvalidOption and StoreErrors; nothing is left behind then."""
        self.settings.ssl_context()
        self.settings.peer_ssl_context()
        try:
            await self._monitor.start()
            await self._server.listen()
            info = await self._host.open(self._server.listeners.advertised)
            self._links.serve(self._host, info.domain, self._server.listeners.advertised)
            await self._standby.begin(self._server.listeners.advertised)
            await self._host.begin()
            self._server.serve(self._host, info)
        except BaseException:
            await self._server.close(self.settings.stop_timeout)
            await self._standby.close()
            await self._host.close()
            await self._monitor.close()
            await self._gate.close()
            raise
        self._task = asyncio.create_task(self._run(), name="inorder-worker")
        log.info(
            "event=started worker=%s address=%s store=%s advertised=%s state=%s epochs=%s tls=%s token=%s http=%s",
            self.settings.name, ",".join(self._server.listeners.addresses), masked_url(self.settings.store),
            self._server.listeners.advertised, self._host.state, self._host.epochs,
            "yes" if self.settings.tls_cert else "no", _token_kind(self.settings),
            self.http_address or "no",
        )  # fmt: skip
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, answering what was taken. Errors of the run are raised by ``wait_stopped``, not here."""
        self.stop()
        with contextlib.suppress(Exception):
            await self.wait_stopped()

    def stop(self) -> None:
        """Begin a clean stop."""
        self._stop.set()

    def renew_certificates(self) -> bool:
        """Read the TLS files again for new connections; open connections stay. A bad file is logged and changes
        nothing. Return whether there are any."""
        try:
            made, peer = self.settings.ssl_context(), self.settings.peer_ssl_context()
        except InvalidOption as error:
            log.error("event=certificates_not_renewed error=%s", error)
            return True
        if made is None:
            return False
        self._server.listeners.renew(made)
        self._links.tls = peer
        certificates.info("event=certificates_renewed certificate=%s", self.settings.tls_cert)
        return True

    async def wait_stopped(self) -> None:
        """Return when it has stopped cleanly. Raises what made it stop otherwise: a defect."""
        assert self._task is not None, "not started"
        await asyncio.shield(self._task)

    def status(self) -> dict[str, object]:
        """Return a description for health checks: plain values, no secrets."""
        return {
            "worker": self.settings.name,
            "address": self._server.listeners.addresses[0] if self._server.listeners.addresses else "",
            "store": masked_url(self.settings.store),
            **self._server.describe(),
            "links": self._links.describe(),
            **self._host.describe(),
            **self._standby.describe(),
        }

    @property
    def http_address(self) -> str:
        """The address of health and metrics, ``host:port``; empty without any."""
        return self._monitor.address

    def answer(self, target: str, accept: str = "") -> Answer:
        """Return what its HTTP port answers a path with, also where it has none (see ``monitor``)."""
        return self._monitor.answer(target, accept)

    def health(self) -> tuple[bool, dict[str, object]]:
        """Return the worker's readiness and facts, in plain values without secrets. It is ready when it takes work for
        its stages, its store answering; a standby, when it can follow."""
        now = asyncio.get_running_loop().time()
        error, is_failing = self._store_error()
        is_ready = self._host.is_ready and not (self._server.is_stopping or is_failing)
        if self._server.is_stopping:
            status = "stopping"
        elif is_ready:
            status = "ready"
        else:
            status = "store failed" if error else "starting"
        thrown_out = self._server.slow.last(now - SLOW_MEMORY)
        facts: dict[str, object] = {
            "status": status,
            "worker": self.settings.name,
            "state": self._host.state,
            "store": masked_url(self.settings.store),
            "store_error": error or None,
            "stages": [
                {"stage": stage, "role": role, "epoch": self._host.epochs.get(stage)}
                for stage, role in self._host.roles().items()
            ],
            "paused": self._server.is_pressed,
            "slow_clients": [_slow(each) for each in self._server.slow_clients()[:NAMED]],
            "slow_clients_disconnected": [{**_slow(each), "seconds_ago": round(now - each.at)} for each in thrown_out],
        }
        return is_ready, facts

    def _store_error(self) -> tuple[str, bool]:
        """Return the store's fault, and whether it alone makes the worker unready. It does so for a standby, and after
        a whole lease without an answer, or with beats that fail, when a standby that reaches the store takes over."""
        failed, silence = self._server.store_error, self._host.silence
        if failed is not None:
            return str(failed), False
        if silence >= self.settings.lease:
            return f"store {masked_url(self.settings.store)}: it has not answered for {silence:.0f} s", True
        if self._host.doubt:
            return self._host.doubt, True
        beats = self._host.beat_failure
        failing = self._standby.failure or beats.text
        is_cut_off = beats.age >= self.settings.lease if self.state == "active" else bool(failing)
        return failing, is_cut_off

    async def _run(self) -> None:
        """Own all background tasks: one that dies stops the worker with its error."""
        try:
            async with asyncio.TaskGroup() as group:
                commits = group.create_task(self._host.run(), name="inorder-commits")
                heads = group.create_task(self._server.send_heads(), name="inorder-heads")
                links = group.create_task(self._links.run(), name="inorder-links")
                tokens = group.create_task(self._server.watch_tokens(), name="inorder-token-watch")
                standby = group.create_task(self._standby.run(), name="inorder-standby")
                logs = group.create_task(self._host.logs.run(), name="inorder-logs")
                rates = group.create_task(self._host.rates.run(), name="inorder-rates")
                await self._stop.wait()
                self._server.stop_accepting()
                standby.cancel()
                heads.cancel()
                tokens.cancel()
                logs.cancel()
                rates.cancel()
                self._host.stop()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.settings.stop_timeout):
                        await asyncio.shield(commits)
                commits.cancel()
                links.cancel()  # only now: what the last commits hold may still leave
        except BaseExceptionGroup as group_error:
            error = _first(group_error)
            log.error("event=died worker=%s error=%s", self.settings.name, error)
            raise error from None
        finally:
            await self._server.close(self.settings.stop_timeout)
            await self._standby.close()
            await self._host.close()
            await self._monitor.close()
            await self._gate.close()
            log.info("event=stopped worker=%s", self.settings.name)


SLOW_MEMORY = 300.0
"""Seconds for which health names a client that was disconnected because it was slow."""
COLLECTED_AFTER = (100_000, 50, 100)
"""New objects, and collections of these, before the collector looks at the next older ones."""
SWITCH_INTERVAL = 0.0005
"""Seconds that the event loop may keep the store's thread waiting for the interpreter; Python's default is 0.005."""


def set_pace() -> None:
    """Have the interpreter go at a worker's pace, with as many connections as the system allows; for the whole process,
    so whoever runs a worker says so."""
    raise_open_files()
    # Stages keep many small objects and make no cycles; at its default pace the collector took a sixth of the time.
    gc.set_threshold(*COLLECTED_AFTER)
    # A commit takes the interpreter lock several times; while the loop computes, each would wait for a whole interval.
    sys.setswitchinterval(SWITCH_INTERVAL)


def run(settings: WorkerSettings) -> int:
    """Run a worker until SIGTERM, SIGINT or SIGHUP (see ``inorder.signals``); return 0 after a clean stop, 1 if it
    stopped by itself (the log says why). Raises InorderErrors that kept it from starting."""
    set_pace()
    set_up(settings.log_format)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(_run_until_signal(settings))


async def _run_until_signal(settings: WorkerSettings) -> int:
    worker = Worker(settings)
    on_signals(worker.stop, worker.renew_certificates)
    async with worker:
        try:
            await worker.wait_stopped()
        except InorderError:
            return 1
    return 0


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _token_kind(settings: WorkerSettings) -> str:
    """Return what clients must show."""
    return "yes" if settings.token else "required" if settings.require_token else "no"


def _slow(client: SlowClient) -> dict[str, object]:
    return {"client": client.client, "peer": client.peer, "unread_bytes": client.unread_bytes}


def _release() -> str:
    """Return the release of the installed distribution."""
    try:
        return version("inorder")
    except PackageNotFoundError:
        return "unknown"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
