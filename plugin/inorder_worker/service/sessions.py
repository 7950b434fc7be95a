"""The sessions of connected clients: each client's connection, its welcome, answers, and what it is told unasked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from inorder.errors import ProtocolError
from inorder.logs import SELDOM, logger
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    ClusterMap,
    Frame,
    Heads,
    Hello,
    Opened,
    Positions,
    Subscribed,
    Welcome,
)
from inorder_worker.sequencer.commands import LeaveSession
from inorder_worker.sequencer.inputs import session_of
from inorder_worker.service.admission import Admission
from inorder_worker.service.attesting import Attestor
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.connection import FRAME_COST, Connection, common_version
from inorder_worker.service.host import StageHost
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.work import Session, Work
from inorder_worker.store.store_info import StoreInfo

TOLD_AT_ONCE: Final = 250
"""Clients that are told of heads between two commits: some milliseconds. Thousands would keep each publisher waiting
for a tenth of a second, every second."""

log = logger("inorder.worker")


class _Round:
    """One time in which all clients are told of heads.

    Attributes:
        clients: those that have not been told yet.
        changed: stage -> its topics whose heads changed before this round and since the one before it.
    """

    def __init__(self, clients: deque[str]) -> None:
        self.clients, self.changed = clients, dict[int, list[int]]()


class Sessions:
    """The clients that are connected; the host's ClientSink.

    Invariant: a client id has at most one current connection, the one that said hello last.

    Args:
        settings: see WorkerSettings.
        cluster: where the stages are.
        admission: knows who may come by which id, and what each may be told.
    """

    def __init__(self, settings: WorkerSettings, cluster: Cluster, admission: Admission) -> None:
        self._settings, self._cluster, self._admission = settings, cluster, admission
        self._host: StageHost
        self._domain = 0
        self._address = ""
        self._attestor = Attestor(0, b"")
        self._connections: dict[str, Connection] = {}
        self._round: _Round | None = None

    def serve(self, host: StageHost, info: StoreInfo, address: str) -> None:
        """Comes before everything else. ``address``: where clients reach this worker."""
        self._host, self._domain, self._address = host, info.domain, address
        self._attestor = Attestor(info.domain, info.key)

    def __len__(self) -> int:
        return len(self._connections)

    # -- coming and going --------------------------------------------------------------------------------------

    def open(self, connection: Connection, hello: Hello, version: int) -> None:
        """A client said hello: from now on this connection is its current one, if it may come by this id."""
        session = hello.client_id, hello.incarnation
        older = self._connections.get(session[0])
        if not self._admission.may_be(connection, session[0], older):
            return
        self._connections[session[0]] = connection
        connection.welcomed(session, version)
        if older is not None and older.session == session:
            older.close()  # the same process connected anew; it has given this one up
        elif older is not None:
            older.fail("replaced", "another process connected with this client id")
        welcome = lambda: self._welcome(connection, session, hello, version)  # noqa: E731
        self._host.commits.submit(Work(None, FRAME_COST, welcome, of=session[0], of_owner=connection.owner))

    def greet_again(self, connection: Connection, hello: Hello) -> Callable[[], None]:
        """A stage came here while the client was connected: it says hello once more, for that stage. Raises
        ProtocolError."""
        session, version = connection.session, common_version(hello, PROTOCOL_VERSIONS)
        if session != (hello.client_id, hello.incarnation) or version is None:
            raise ProtocolError("a second hello is that of the same session")
        self.see_positions(hello)
        return lambda: self._welcome(connection, session, hello, version)

    def see_positions(self, hello: Hello) -> None:
        """Look whether what workers of this store have told a client can be true of it. Of each stage one is shown."""
        host = self._host
        if host.is_ready and (reason := self._attestor.contradiction(hello.positions[: host.count], host.standings)):
            host.tenure.doubt(reason)

    def _welcome(self, connection: Connection, session: Session, hello: Hello, version: int) -> None:
        """Tell each stage here of the session, once for each connection."""
        if not connection.is_current:
            return
        host, passed = self._host, connection.passed
        welcome = Welcome(
            version=version,
            domain=self._domain,
            worker=self._settings.name,
            order_epoch=max((stage.order_epoch for stage in host.stages.values()), default=0),
            stages=[],  # filled in when it leaves
            publisher_grace_ms=self._settings.stage_settings().publisher_grace_ms,
            max_frame_bytes=self._settings.max_frame_bytes,
            address=self._address,
            access=passed.access,
        )
        if connection.welcome is None:
            connection.welcome = welcome
        host.commits.reply(session, welcome)
        self._tell_positions(connection, Positions(self._attestor.positions(host.standings)))
        for stage, epoch in host.epochs.items():
            if (stage, epoch) not in connection.opened:
                connection.opened.add((stage, epoch))
                host.commits.step(stage, session_of(hello, stage, passed.access, passed.owner))

    def remove(self, connection: Connection) -> bool:
        """A connection has ended; tell whether its client has gone with it. A superseded connection's end does not end
        the session."""
        session = connection.session
        if session is None or self._connections.get(session[0]) is not connection:
            return False
        del self._connections[session[0]]
        return True

    def leave(self, session: Session, owner: str) -> None:
        """Tell the stages that a client has gone. ``owner``: whose it is, see Turns."""

        def run() -> None:
            for stage in self._host.epochs:
                self._host.commits.step(stage, LeaveSession(*session))

        self._host.commits.submit(Work(None, FRAME_COST, run, of=session[0], of_owner=owner))

    def leave_silent(self) -> None:
        """R12: who says nothing for a whole ``session_timeout`` is gone, however alive its connection looks."""
        for each in list(self._connections.values()):
            if each.is_silent(self._settings.session_timeout):
                log.warning(
                    "event=silent_client peer=%s client=%s action=disconnected", each.peer, each.name, extra=SELDOM
                )
                each.abort()

    def forget_all(self) -> None:
        """All sessions are void; their connections are ended by others."""
        self._round = None
        self._connections.clear()

    # -- ClientSink --------------------------------------------------------------------------------------------

    def answer(self, session: Session, frames: list[Frame]) -> None:
        """See ClientSink."""
        connection = self._connections.get(session[0])
        if connection is None or connection.session != session or not connection.is_current:
            return
        if not connection.is_welcome:  # what is left of an older connection is not for this one: it will ask again
            frames = frames[next((i for i, frame in enumerate(frames) if frame is connection.welcome), len(frames)) :]
            if not frames or connection.welcome is None:
                return
            connection.is_welcome = True
        epochs, is_welcome = self._host.epochs, False
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

    def stages_changed(self) -> None:
        """See ClientSink."""
        for connection in self._connections.values():
            if connection.is_current:
                self.show_map(connection)

    # -- unasked -----------------------------------------------------------------------------------------------

    def show_map(self, connection: Connection) -> None:
        """Tell a client where the stages are, unless it has not been welcomed yet."""
        if connection.is_welcome:
            connection.send([self._map()])

    def _map(self) -> ClusterMap:
        return ClusterMap(self._cluster.told(self._host.epochs), self._cluster.workers)

    def tell_heads(self) -> None:
        """Tell clients the heads that changed (R17), behind all work under commit: only durable numbers show."""
        if self._host.is_ready and self._round is None and self._connections:
            self._round = round_ = _Round(deque(self._connections))
            self._host.commits.submit(Work(None, FRAME_COST, lambda: self._begin_round(round_)))

    def _begin_round(self, round_: _Round) -> None:
        round_.changed = {index: stage.changed_heads() for index, stage in self._host.stages.items()}
        self._tell_some(round_)

    def _tell_some(self, round_: _Round) -> None:
        """Tell the next clients of a round. The ones after them have their turn when that has left, and with it what
        publishers wait for."""
        positions = Positions(self._attestor.positions(self._host.standings))
        for _ in range(min(TOLD_AT_ONCE, len(round_.clients))):
            client_id = round_.clients.popleft()
            if (connection := self._connections.get(client_id)) is not None:
                self._tell(client_id, connection, round_.changed, positions)
        if round_.clients:
            self._host.commits.after_commit(lambda: self._go_on(round_))
        else:
            self._round = None

    def _go_on(self, round_: _Round) -> None:
        if self._round is round_:  # else the sessions are others
            self._host.commits.submit(Work(None, FRAME_COST, lambda: self._tell_some(round_)))

    def _tell(
        self, client_id: str, connection: Connection, changed: dict[int, list[int]], positions: Positions
    ) -> None:
        """Tell a client of changed heads, by stage, or of all heads on a connection that was told none."""
        assert connection.session is not None
        if not connection.is_writable:
            connection.is_told = False  # once it reads again, all of them
            return
        told, connection.is_told = connection.is_told, True
        heads: list[int] = []
        for index, stage in self._host.stages.items():
            if (topics := changed.get(index)) or not told:
                heads += stage.heads(client_id, topics if told else None)
        if heads:
            self._host.commits.reply(connection.session, Heads(heads))
        self._tell_positions(connection, positions)

    def _tell_positions(self, connection: Connection, positions: Positions) -> None:
        if connection.session is not None and connection.positions != positions:
            connection.positions = positions
            self._host.commits.reply(connection.session, positions)
