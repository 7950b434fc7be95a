"""Accepts clients and other workers, and takes their frames to the stages, or answers them here."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import cast

from inorder.errors import Fenced, ProtocolError
from inorder.protocol.names import CLIENT_ID, is_client_id
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    AskHeads,
    ClientFrame,
    Done,
    DrainWorker,
    Frame,
    Hello,
    MoveStage,
    Report,
    Reported,
    ShowReports,
    ShowWorker,
    WorkerShown,
)
from inorder_worker.sequencer.link_wire import LinkHello, SenderFrame
from inorder_worker.service.admission import Admission
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.connection import Connection, common_version
from inorder_worker.service.gate import Gate
from inorder_worker.service.host import StageHost
from inorder_worker.service.links import Links
from inorder_worker.service.listeners import Listeners
from inorder_worker.service.peers import Peers
from inorder_worker.service.reports import ClientReports, well_formed
from inorder_worker.service.router import entry_of, parts_of, route
from inorder_worker.service.sessions import Sessions
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.slow import ALL_CLIENTS, SlowClient, SlowClients, UnfinishedFrames
from inorder_worker.service.standby import Standby
from inorder_worker.service.work import Session, StageElsewhere, Work
from inorder_worker.store.journal import Holder
from inorder_worker.store.store_info import StoreInfo


class Server:
    """The listening side of a worker; the host's HostSink.

    Args:
        settings: see WorkerSettings.
        cluster: where the stages are; kept up to date here.
        links: told of news about that.
        gate: who may come in.

    Attributes:
        sessions: the clients that are connected.
    """

    def __init__(self, settings: WorkerSettings, cluster: Cluster, links: Links, gate: Gate) -> None:
        self.settings, self._admission = settings, Admission(gate)
        self._cluster, self._links = cluster, links
        self._peers = Peers(settings, cluster)
        self.sessions = Sessions(settings, cluster, self._admission)
        self.is_pressed = False
        self.listeners = Listeners(settings)
        self._host: StageHost
        self._is_serving = False
        self._connections: set[Connection] = set()
        self._store_error: Exception | None = None
        self.slow = SlowClients()
        self.unfinished = UnfinishedFrames(int(ALL_CLIENTS * settings.max_frame_bytes))
        self.reports = ClientReports(_now_us())
        self.standby: Standby | None = None
        self._is_stopping = False
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    # -- life --------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Accept connections: until ``serve`` whoever says hello is told that the worker is starting. Raises PortInUse
        and InvalidOption."""
        await self.listeners.listen(lambda: Connection(self), self._admission)

    def serve(self, host: StageHost, info: StoreInfo) -> None:
        """Hand frames to the host from now on."""
        self._host, self._is_serving = host, True
        self.sessions.serve(host, info, self.listeners.advertised)
        self._peers.serve(host, info.domain)
        self._admission.serve(host)

    async def send_heads(self) -> None:
        """Tell connected subscribers the heads that changed, for ever (R17)."""
        while True:
            await asyncio.sleep(self.settings.heads_interval)
            self.sessions.leave_silent()
            self.slow.bound(self._connections, self.settings.max_write_bytes)
            self.sessions.tell_heads()

    async def watch_tokens(self) -> None:
        """Throw out whose token is no good any more, for ever."""
        await self._admission.watch(self._connections)

    def stop_accepting(self) -> None:
        """Take no more connections and no more frames."""
        self._is_stopping = True
        self.listeners.stop()
        for connection in self._connections:
            connection.stop_reading()

    async def close(self, timeout: float) -> None:
        """Announce the worker's stop, close all connections, and cut those still open after ``timeout`` seconds."""
        self.stop_accepting()
        if self._connections:
            self._all_closed.clear()
        for connection in list(self._connections):
            connection.fail("stopping", "the worker stops")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._all_closed.wait()
        await self.listeners.cut()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # lets connection_lost be called
        await self._admission.close(timeout)

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status."""
        return {"connections": self.connections, "sessions": len(self.sessions), "paused": self.is_pressed}

    @property
    def connections(self) -> int:
        """The number of connections of clients and other workers, greeted or not, also during their handshake."""
        return len(self._connections) + self.listeners.handshakes

    @property
    def store_error(self) -> Exception | None:
        """The present fault of the store, or nothing."""
        return self._store_error

    @property
    def is_stopping(self) -> bool:
        """Tell whether the server takes no more work."""
        return self._is_stopping

    def slow_clients(self) -> list[SlowClient]:
        """Return the clients (and workers) that leave too much unread now, the worst first."""
        return self.slow.present(self._connections, asyncio.get_running_loop().time())

    # -- ConnectionOwner ---------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """See ConnectionOwner."""
        self._connections.add(connection)
        self._admission.came(connection)
        if self._is_stopping:
            connection.fail("stopping", "the worker stops")

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """See ConnectionOwner."""
        version = common_version(hello, PROTOCOL_VERSIONS)
        if version is None:
            low, high = PROTOCOL_VERSIONS
            theirs = f"{hello.lowest_version} to {hello.highest_version}"
            text = f"this worker speaks protocol versions {low} to {high}, not {theirs}"
            connection.fail("version", text, [low, high])
        elif not is_client_id(hello.client_id):
            connection.fail("protocol", f"a client id is {CLIENT_ID}")
        elif reason := self._unready():
            connection.fail("store", reason)
        else:
            self._admission.admit(connection, hello.token, lambda: self._let_in(connection, hello, version))

    def _let_in(self, connection: Connection, hello: Hello, version: int) -> None:
        self.sessions.see_positions(hello)
        if reason := self._unready():  # since its token was looked at
            connection.fail("store", reason)
        else:
            self.sessions.open(connection, hello, version)

    def link_greeted(self, connection: Connection, hello: LinkHello) -> None:
        """See ConnectionOwner."""
        if reason := self._unready():
            connection.fail("store", reason)
        else:
            self._admission.admit(connection, hello.token, lambda: self._take_in(connection, hello))

    def _take_in(self, connection: Connection, hello: LinkHello) -> None:
        role = connection.passed.access.role
        if role != "admin":
            connection.fail("unauthorized", f"another worker needs a token with role admin, not {role}")
        else:
            self._peers.greeted(connection, hello)

    def asked(self, connection: Connection, frame: ClientFrame | SenderFrame, size: int) -> None:
        """See ConnectionOwner."""
        session = connection.session
        if session is None:
            self._peers.asked(connection, cast(SenderFrame, frame), size)
            return
        asked = cast(ClientFrame, frame)
        self._admission.ask(connection, asked, lambda: self._ask(connection, session, asked, size))

    def _ask(self, connection: Connection, session: Session, frame: ClientFrame, size: int) -> None:
        host = self._host
        if isinstance(frame, Report | ShowReports):
            self._reported(connection, frame, size)
            return
        if isinstance(frame, ShowWorker | DrainWorker | MoveStage):
            answer = self._placed(frame)
            self._admission.answered(connection, [answer])
            connection.send([answer])
            host.commits.submit(Work(connection, size, lambda: None))
            return
        show_map = lambda: self.sessions.show_map(connection)  # noqa: E731
        try:
            if isinstance(frame, Hello):
                runs = [self.sessions.greet_again(connection, frame)]
            else:
                runs = [route(part, session, host) for part in parts_of(frame)]
            entry = entry_of(frame, host)
        except StageElsewhere:
            runs, entry = [show_map], None
        if isinstance(frame, AskHeads):
            connection.is_told = False
        *others, last = runs
        share = size // len(runs)
        for run in others:
            host.commits.submit(Work(connection, share, run, entry, show_map, count=0))
        host.commits.submit(Work(connection, size - share * len(others), last, entry, show_map))

    def _reported(self, connection: Connection, frame: Report | ShowReports, size: int) -> None:
        """Answer a client's report at once, with our time, as it does not concern the stages."""
        assert connection.session is not None
        run = lambda: None  # noqa: E731
        if isinstance(frame, ShowReports):  # costs much: it waits for its turn
            run = lambda: connection.send([self.reports.show(frame, _now_us())])  # noqa: E731
        elif well_formed(frame):
            now = _now_us()
            connection.send([Reported(frame.request, now)])
            self.reports.take(connection.session, self._admission.seen(connection, frame), now, connection.owner)
        else:
            raise ProtocolError("a report is out of range or not well formed")
        self._host.commits.submit(Work(connection, size, run))

    def _placed(self, frame: ShowWorker | DrainWorker | MoveStage) -> Frame:
        """Answer a question about this worker's stages, which does not concern the stages themselves."""
        host, standby = self._host, self.standby
        assert standby is not None, "a worker has one"
        if isinstance(frame, ShowWorker):
            stages, pins = sorted(host.epochs), list(standby.pins)
            return WorkerShown(frame.request, host.owner, self.settings.name, stages, pins, standby.is_drained)
        if isinstance(frame, MoveStage):
            return Done(frame.request, standby.move(frame.stage, frame.owner))
        if frame.owner != host.owner:
            return Done(frame.request, f"this is worker {host.owner}, and not {frame.owner}")
        return Done(frame.request, standby.drain(is_on=frame.is_on))

    def left_unread(self, connection: Connection) -> None:
        """See ConnectionOwner."""
        self.slow.disconnected(connection, asyncio.get_running_loop().time())

    def closed(self, connection: Connection) -> None:
        """See ConnectionOwner."""
        self._connections.discard(connection)
        self._peers.closed(connection)
        self._admission.closed(connection)
        if not self._connections:
            self._all_closed.set()
        if not self.sessions.remove(connection):
            return
        assert connection.session is not None
        self.reports.left(connection.session)
        if self._host.is_ready and not self._is_stopping:
            self.sessions.leave(connection.session, connection.owner)

    # -- HostSink ----------------------------------------------------------------------------------------------

    def made_durable(self, stage: int, origin: int, number: int) -> None:
        """See HostSink."""
        self._peers.made_durable(stage, origin, number)

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """See HostSink."""
        if not self._cluster.update(rows, workers):
            return
        self._links.stages_changed()
        self.sessions.stages_changed()

    def store_failed(self, error: Exception) -> None:
        """See HostSink."""
        is_fenced = isinstance(error, Fenced)
        self._store_error = None if is_fenced else error
        code, text = ("moved", str(error)) if is_fenced else ("store", self._unready())
        self.sessions.forget_all()
        self.reports.all_left()
        for connection in list(self._connections):
            if connection.is_greeted:
                connection.fail(code, text)

    def store_recovered(self) -> None:
        """See HostSink."""
        self._store_error = None

    def pressed(self, is_pressed: bool) -> None:
        """See HostSink."""
        self.is_pressed = is_pressed
        for connection in self._connections:
            connection.pressure_changed()

    def _unready(self) -> str:
        """Return why no work is taken, empty where it is."""
        if not self._is_serving:
            return "the worker is starting: its store is being opened"
        is_ready = self._host.is_ready
        return "" if is_ready else f"the worker cannot use its store: {self._store_error or 'it is being read'}"


def _now_us() -> int:
    return time.time_ns() // 1000
