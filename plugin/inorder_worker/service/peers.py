"""Other workers with rides for our stages: the receiving end of the links.

A ride is taken when it is the next of its link, and acknowledged when the commit that holds it is durable. What a
worker sent was committed by it before, so rides of an owner that has lost its stage are those of its successor, under
the same numbers; it is turned away all the same, because it has nothing to add.
"""

from __future__ import annotations

from inorder.errors import ProtocolError
from inorder.logs import logger
from inorder.protocol.pairs import joined
from inorder.protocol.wire import Ping, Pong, StageInfo
from inorder_worker.sequencer.link_wire import (
    LINK_VERSIONS,
    Durable,
    LinkHello,
    LinkWelcome,
    Rides,
    SenderFrame,
    decode_ride,
)
from inorder_worker.sequencer.ride_check import check_ride
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.connection import FRAME_COST, Connection, common_version
from inorder_worker.service.host import StageHost
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.work import Work

log = logger("inorder.worker")


class Peers:
    """The connections by which rides of other stages come.

    Invariant: for each pair of (stage here, origin) at most one connection is current, the one that said hello last.
    """

    def __init__(self, settings: WorkerSettings, cluster: Cluster) -> None:
        self._settings, self._cluster = settings, cluster
        self._host: StageHost
        self._domain = 0
        self._current: dict[tuple[int, int], Connection] = {}

    def serve(self, host: StageHost, domain: int) -> None:
        """Comes before everything else."""
        self._host, self._domain = host, domain

    def greeted(self, connection: Connection, hello: LinkHello) -> None:
        """Another worker introduced itself; its token was right. Answers, or fails the connection."""
        version = common_version(hello, LINK_VERSIONS)
        if version is None:
            low, high = LINK_VERSIONS
            theirs = f"{hello.lowest_version} to {hello.highest_version}"
            text = f"this worker speaks versions {low} to {high} with other workers, not {theirs}"
            connection.fail("version", text, [low, high])
        elif hello.domain != self._domain:
            text = f"this worker's store is domain {self._domain}, yours is {hello.domain}: they are different stores"
            connection.fail("domain", text)
        elif not self._is_well_formed(hello):
            connection.fail("protocol", "a worker's hello names one stage, and its own other ones")
        elif not self._host.has(hello.stage):
            connection.fail("moved", f"stage {hello.stage} is not here")
        elif (stale := self._stale(hello)) is not None:
            connection.fail("fenced", f"stage {stale.stage} has another owner than epoch {stale.epoch}")
            self._host.heartbeat.look_around_soon()  # which of us is it?
        else:
            self._take_in(connection, hello, version)

    def _is_well_formed(self, hello: LinkHello) -> bool:
        stages = [each.stage for each in hello.origins]
        count = self._host.count
        return (
            0 <= hello.stage < count
            and 0 < len(stages) == len(set(stages))
            and hello.stage not in stages
            and all(0 <= each.stage < count and each.epoch > 0 for each in hello.origins)
        )

    def _stale(self, hello: LinkHello) -> StageInfo | None:
        """Return a stage of which the other worker cannot be the owner."""
        for origin in hello.origins:
            known = self._cluster.place(origin.stage).epoch
            current = self._current.get((hello.stage, origin.stage))
            if current is not None and current.link is not None:
                known = max(known, *(each.epoch for each in current.link.origins if each.stage == origin.stage))
            if origin.epoch < known or self._host.has(origin.stage):
                return origin
        return None

    def _take_in(self, connection: Connection, hello: LinkHello, version: int) -> None:
        connection.linked(hello)
        for origin in hello.origins:
            older = self._current.get((hello.stage, origin.stage))
            self._current[hello.stage, origin.stage] = connection
            if older is not None:
                older.close()  # what it brought and was not stepped yet comes again
            if origin.epoch > self._cluster.place(origin.stage).epoch:
                self._host.heartbeat.look_around_soon()
        self._host.commits.submit(Work(None, FRAME_COST, lambda: self._welcome(connection, hello, version)))

    def _welcome(self, connection: Connection, hello: LinkHello, version: int) -> None:
        if not (connection.is_current and self._host.has(hello.stage)):
            return
        stage = self._host.stage(hello.stage)
        received = joined((each.stage, stage.received(each.stage)) for each in hello.origins)
        epoch = self._host.epochs[hello.stage]
        answer = LinkWelcome(version, self._settings.name, hello.stage, epoch, received)

        def send() -> None:
            if connection.is_current:
                connection.is_welcome = True
                connection.send([answer])

        self._host.commits.after_commit(send)  # then the numbers in it are durable

    def asked(self, connection: Connection, frame: SenderFrame, size: int) -> None:
        """A frame of another worker arrived. Raises ProtocolError."""
        assert connection.link is not None
        if isinstance(frame, Rides):
            rides = [decode_ride(raw) for raw in frame.rides]
            if not any(each.stage == frame.origin for each in connection.link.origins):
                raise ProtocolError(f"this worker did not say that it has stage {frame.origin}")
            target, origin, first = connection.link.stage, frame.origin, frame.first

            def run() -> None:
                for number, ride in enumerate(rides, first):
                    if not self._host.has(target) or number <= self._host.stage(target).received(origin):
                        continue
                    try:
                        self._check(number, origin, target)
                        check_ride(ride, origin, self._host.stage(target))
                    except ProtocolError as error:
                        connection.fail("protocol", str(error))
                        return
                    self._host.commits.deliver(target, origin, number, ride)

            self._host.commits.submit(Work(connection, size, run, target if origin > target else None))
            return
        if isinstance(frame, Ping):
            connection.send([Pong(frame.nonce)])
        self._host.commits.submit(Work(connection, size, lambda: None))

    def _check(self, number: int, origin: int, target: int) -> None:
        last = self._host.stage(target).received(origin)
        if number != last + 1:
            raise ProtocolError(f"ride {number} of stage {origin} came after {last}")

    def made_durable(self, stage: int, origin: int, number: int) -> None:
        """Rides up to this number are durable here."""
        connection = self._current.get((stage, origin))
        if connection is not None and connection.is_welcome and connection.is_current:
            connection.send([Durable([origin, number])])

    def closed(self, connection: Connection) -> None:
        """A connection ended."""
        if connection.link is not None:
            for origin in connection.link.origins:
                if self._current.get((connection.link.stage, origin.stage)) is connection:
                    del self._current[connection.link.stage, origin.stage]
