"""Accepts clients and other workers, knows which connection speaks for which session, and tells clients the heads and
where the stages are."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import cast

from inorder.errors import Fenced, ProtocolError
from inorder.logs import logger
from inorder.protocol.names import CLIENT_ID, is_client_id
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    AskHeads,
    ClientFrame,
    ClusterMap,
    Done,
    DrainWorker,
    Frame,
    Heads,
    Hello,
    MoveStage,
    Opened,
    Positions,
    Report,
    Reported,
    ShowReports,
    ShowWorker,
    Subscribed,
    Welcome,
    WorkerShown,
)
from inorder_worker.sequencer.commands import LeaveSession
from inorder_worker.sequencer.inputs import session_of
from inorder_worker.sequencer.link_wire import LinkHello, SenderFrame
from inorder_worker.service.admission import Admission
from inorder_worker.service.attesting import Attestor
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.connection import FRAME_COST, Connection, common_version
from inorder_worker.service.gate import Gate
from inorder_worker.service.host import StageHost
from inorder_worker.service.links import Links
from inorder_worker.service.listeners import Listeners
from inorder_worker.service.peers import Peers
from inorder_worker.service.reports import ClientReports, well_formed
from inorder_worker.service.router import entry_of, route
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.slow import SlowClient, SlowClients
from inorder_worker.service.standby import Standby
from inorder_worker.service.work import Session, StageElsewhere, Work
from inorder_worker.store.journal import Holder
from inorder_worker.store.store_info import StoreInfo

log = logger("inorder.worker")


class Server:
    """The listening side of a worker; the host's sink.

    Invariant: a client id has at most one current connection, the one that said hello last.

    Args:
        settings: see WorkerSettings.
        cluster: where the stages are; kept up to date here.
        gate: who may come in.
        links: told of news about that.
    """

    def __init__(self, settings: WorkerSettings, cluster: Cluster, links: Links, gate: Gate) -> None:
        self.settings, self._admission = settings, Admission(gate)
        self._cluster, self._links = cluster, links
        self._peers = Peers(settings, cluster)
        self.is_pressed = False
        self.listeners = Listeners(settings)
        self._host: StageHost | None = None
        self._domain = 0
        self._attestor = Attestor(0, b"")
        self._connections: set[Connection] = set()
        self._sessions: dict[str, Connection] = {}
        self._store_error: Exception | None = None
        self.slow = SlowClients()
        self.reports = ClientReports(_now_us())
        self.standby: Standby | None = None
        self._heads_queued = False
        self._is_stopping = False
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    # -- life --------------------------------------------------------------------------------------------------

    async def serve(self, host: StageHost, info: StoreInfo) -> None:
        """Accept clients and hand their frames to the host. Raises InvalidOption for bad TLS files."""
        self._host, self._domain = host, info.domain
        self._attestor = Attestor(info.domain, info.key)
        self._peers.serve(host, info.domain)
        self._admission.serve(host)
        await self.listeners.accept(lambda: Connection(self), self._admission)

    async def send_heads(self) -> None:
        """Tell connected subscribers the heads that changed, for ever (R17)."""
        while True:
            await asyncio.sleep(self.settings.heads_interval)
            self._leave_silent()
            self.slow.bound(self._connections, self.settings.max_write_bytes)
            if self._the_host.is_ready and not self._heads_queued and self._sessions:
                self._heads_queued = True
                self._the_host.commits.submit(Work(None, FRAME_COST, self._tell_heads))

    def _leave_silent(self) -> None:
        """R12: who says nothing for a whole ``session_timeout`` is gone, however alive its connection looks."""
        for each in list(self._sessions.values()):
            if each.is_silent(self.settings.session_timeout):
                log.warning("event=silent_client peer=%s client=%s action=disconnected", each.peer, each.name)
                each.abort()

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
        return {"connections": self.connections, "sessions": self.sessions, "paused": self.is_pressed}

    @property
    def connections(self) -> int:
        """The number of connections of clients and other workers, greeted or not, also during their handshake."""
        return len(self._connections) + self.listeners.handshakes

    @property
    def sessions(self) -> int:
        """Clients that are connected."""
        return len(self._sessions)

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
        elif not self._the_host.is_ready:
            connection.fail("store", self._store_text())
        else:
            self._admission.admit(connection, hello.token, lambda: self._open_session(connection, hello, version))

    def link_greeted(self, connection: Connection, hello: LinkHello) -> None:
        """See ConnectionOwner."""
        if not self._the_host.is_ready:
            connection.fail("store", self._store_text())
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
        host = self._the_host
        if isinstance(frame, Report | ShowReports):
            self._reported(connection, frame, size)
            return
        if isinstance(frame, ShowWorker | DrainWorker | MoveStage):
            answer = self._placed(frame)
            self._admission.answered(connection, [answer])
            connection.send([answer])
            host.commits.submit(Work(connection, size, lambda: None))
            return
        show_map = lambda: self._show_map(connection)  # noqa: E731
        try:
            run = self._greet_again(connection, frame) if isinstance(frame, Hello) else route(frame, session, host)
            work = Work(connection, size, run, entry_of(frame, host), show_map)
        except StageElsewhere:
            work = Work(connection, size, show_map)
        if isinstance(frame, AskHeads):
            connection.is_told = False
        host.commits.submit(work)

    def _reported(self, connection: Connection, frame: Report | ShowReports, size: int) -> None:
        """Answer a client's report at once, with our time, as it does not concern the stages."""
        assert connection.session is not None
        run = lambda: None  # noqa: E731
        if isinstance(frame, ShowReports):  # costs much: it waits for its turn
            run = lambda: connection.send([self.reports.show(frame, _now_us())])  # noqa: E731
        elif well_formed(frame):
            now = _now_us()
            connection.send([Reported(frame.request, now)])
            self.reports.take(connection.session, self._admission.seen(connection, frame), now)
        else:
            raise ProtocolError("a report is out of range or not well formed")
        self._the_host.commits.submit(Work(connection, size, run))

    def _placed(self, frame: ShowWorker | DrainWorker | MoveStage) -> Frame:
        """Answer a question about this worker's stages, which does not concern the stages themselves."""
        host, standby = self._the_host, self.standby
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
        """See ConnectionOwner. A superseded connection's end does not end the session."""
        self._connections.discard(connection)
        self._peers.closed(connection)
        self._admission.closed(connection)
        if not self._connections:
            self._all_closed.set()
        session = connection.session
        if session is None or self._sessions.get(session[0]) is not connection:
            return
        del self._sessions[session[0]]
        self.reports.left(session)
        if self._the_host.is_ready and not self._is_stopping:
            self._the_host.commits.submit(
                Work(None, FRAME_COST, lambda: self._leave(session), of=session[0], of_owner=connection.owner)
            )

    # -- HostSink ----------------------------------------------------------------------------------------------

    def answer(self, session: Session, frames: list[Frame]) -> None:
        """See HostSink."""
        connection = self._sessions.get(session[0])
        if connection is None or connection.session != session or not connection.is_current:
            return
        if not connection.is_welcome:  # what is left of an older connection is not for this one: it will ask again
            frames = frames[next((i for i, frame in enumerate(frames) if frame is connection.welcome), len(frames)) :]
            if not frames or connection.welcome is None:
                return
            connection.is_welcome = True
        epochs, is_welcome = self._the_host.epochs, False
        for frame in frames:
            if isinstance(frame, Welcome):  # news since it was made: none was told it yet
                frame.stages = self._cluster.told(dict(connection.opened & epochs.items()))
                frame.workers, is_welcome = self._cluster.workers, True
        if is_welcome:
            if not epochs.items() <= connection.opened:
                frames = [*frames, self._map()]
            # who reads it may ask: it must know before what the stages have dropped of its session (R12, R19)
            frames = sorted(frames, key=lambda each: not isinstance(each, Opened))
        if any(isinstance(frame, Subscribed) for frame in frames):
            connection.is_told = False
        connection.send(self._admission.answered(connection, frames))

    def made_durable(self, stage: int, origin: int, number: int) -> None:
        """See HostSink."""
        self._peers.made_durable(stage, origin, number)

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """See HostSink."""
        if not self._cluster.update(rows, workers):
            return
        self._links.stages_changed()
        self.stages_changed()

    def stages_changed(self) -> None:
        """See HostSink."""
        for connection in self._sessions.values():
            if connection.is_welcome and connection.is_current:
                self._show_map(connection)

    def store_failed(self, error: Exception) -> None:
        """See HostSink."""
        is_fenced = isinstance(error, Fenced)
        self._store_error = None if is_fenced else error
        code, text = ("moved", str(error)) if is_fenced else ("store", self._store_text())
        self._heads_queued = False
        self._sessions.clear()
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

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def _the_host(self) -> StageHost:
        assert self._host is not None, "serve() comes before the first connection"
        return self._host

    def _store_text(self) -> str:
        return f"the worker cannot use its store: {self._store_error or 'it is being read'}"

    def _open_session(self, connection: Connection, hello: Hello, version: int) -> None:
        self._see_positions(hello)
        if not self._the_host.is_ready:  # since its token was looked at
            connection.fail("store", self._store_text())
            return
        session = hello.client_id, hello.incarnation
        older = self._sessions.get(session[0])
        if not self._admission.may_be(connection, session[0], older):
            return
        self._sessions[session[0]] = connection
        connection.welcomed(session, version)
        if older is not None and older.session == session:
            older.close()  # the same process connected anew; it has given this one up
        elif older is not None:
            older.fail("replaced", "another process connected with this client id")
        welcome = lambda: self._welcome(connection, session, hello, version)  # noqa: E731
        self._the_host.commits.submit(Work(None, FRAME_COST, welcome, of=session[0], of_owner=connection.owner))

    def _greet_again(self, connection: Connection, hello: Hello) -> Callable[[], None]:
        """A stage came here while the client was connected: it says hello once more, for that stage. Raises
        ProtocolError."""
        session, version = connection.session, common_version(hello, PROTOCOL_VERSIONS)
        if session != (hello.client_id, hello.incarnation) or version is None:
            raise ProtocolError("a second hello is that of the same session")
        self._see_positions(hello)
        return lambda: self._welcome(connection, session, hello, version)

    def _see_positions(self, hello: Hello) -> None:
        """Look whether what workers of this store have told a client can be true of it. Of each stage one is shown."""
        host = self._the_host
        if host.is_ready and (reason := self._attestor.contradiction(hello.positions[: host.count], host.standings)):
            host.tenure.doubt(reason)

    def _welcome(self, connection: Connection, session: Session, hello: Hello, version: int) -> None:
        """Tell each stage here of the session, once for each connection."""
        if not connection.is_current:
            return
        welcome = Welcome(
            version=version,
            domain=self._domain,
            worker=self.settings.name,
            order_epoch=max((stage.order_epoch for stage in self._the_host.stages.values()), default=0),
            stages=[],  # filled in when it leaves
            publisher_grace_ms=self.settings.stage_settings().publisher_grace_ms,
            max_frame_bytes=self.settings.max_frame_bytes,
            address=self.listeners.advertised,
            access=connection.passed.access,
        )
        if connection.welcome is None:
            connection.welcome = welcome
        self._the_host.commits.reply(session, welcome)
        self._tell_positions(connection, Positions(self._attestor.positions(self._the_host.standings)))
        for stage, epoch in self._the_host.epochs.items():
            if (stage, epoch) in connection.opened:
                continue
            connection.opened.add((stage, epoch))
            passed = connection.passed
            self._the_host.commits.step(stage, session_of(hello, stage, passed.access, passed.owner))

    def _leave(self, session: Session) -> None:
        for stage in self._the_host.epochs:
            self._the_host.commits.step(stage, LeaveSession(*session))

    def _show_map(self, connection: Connection) -> None:
        if connection.is_welcome:
            connection.send([self._map()])

    def _map(self) -> ClusterMap:
        return ClusterMap(self._cluster.told(self._the_host.epochs), self._cluster.workers)

    def _tell_heads(self) -> None:
        """Collect heads behind all work under commit, so that heads show only durable numbers."""
        self._heads_queued = False
        stages = list(self._the_host.stages.values())
        changed = [stage.changed_heads() for stage in stages]
        positions = Positions(self._attestor.positions(self._the_host.standings))
        for client_id, connection in self._sessions.items():
            assert connection.session is not None
            if not connection.is_writable:
                connection.is_told = False  # once it reads again, all of them
                continue
            told, connection.is_told = connection.is_told, True
            heads: list[int] = []
            for stage, topics in zip(stages, changed, strict=True):
                if topics or not told:
                    heads += stage.heads(client_id, topics if told else None)
            if heads:
                self._the_host.commits.reply(connection.session, Heads(heads))
            self._tell_positions(connection, positions)

    def _tell_positions(self, connection: Connection, positions: Positions) -> None:
        if connection.session is not None and connection.positions != positions:
            connection.positions = positions
            self._the_host.commits.reply(connection.session, positions)


def _now_us() -> int:
    return time.time_ns() // 1000
