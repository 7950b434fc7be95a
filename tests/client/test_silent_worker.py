"""A worker that stands still: its connection stays open, and nothing comes over it. Its client listens to another
worker meanwhile, and goes where its stages are as soon as it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
from tests.client.helpers import PATIENCE, gaps_of, payloads, published, take_events, times, until, worker_settings
from tests.loopback import FrameServer

from inorder import Client
from inorder.client import worker_link
from inorder.client.worker_link import WorkerLink
from inorder.client.workers import Workers
from inorder.errors import InorderError, TimedOut
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    ClientFrame,
    ClusterMap,
    Failure,
    Frame,
    Hello,
    Opened,
    Ping,
    Pong,
    Renew,
    StageInfo,
    Welcome,
    WorkerFrame,
    encode_frame,
)
from inorder.testing.services import FaultProxy
from inorder_worker.service import Worker

DOMAIN = 7


class Peer(FrameServer):
    """A worker that says what a test says.

    Attributes:
        stages: what its maps say; the empty address is its own, as in a frame.
        others: the workers that it names.
        refusal: the code of what it answers a hello with instead of a welcome.
        hangs_up: it takes clients in and throws them out again.
        is_silent: it takes connections, reads, and says nothing; what it has to say it says when it goes on.
        pings, renewals: how many came.
    """

    def __init__(self, *stages: StageInfo, domain: int = DOMAIN) -> None:
        super().__init__()
        self.stages, self.domain = list(stages), domain
        self.others: list[str] = []
        self.advertised = ""
        self.refusal = ""
        self.is_silent = self.hangs_up = False
        self.pings = self.renewals = 0
        self.on_accept: Callable[[], None] = lambda: None
        self._unsaid: list[tuple[asyncio.StreamWriter, bytes]] = []

    def tell(self, *stages: StageInfo) -> None:
        """The map has changed."""
        self.stages = list(stages)
        for writer in self._writers:
            self._say(writer, ClusterMap(self.stages, self.others))

    def go_on(self) -> None:
        """Say what is unsaid."""
        self.is_silent = False
        unsaid, self._unsaid = self._unsaid, []
        for writer, data in unsaid:
            writer.write(data)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.advertised = self.address
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.on_accept()
        await super()._serve(reader, writer)

    def _say(self, writer: asyncio.StreamWriter, *frames: Frame) -> None:
        data = b"".join(map(encode_frame, frames))
        if self.is_silent:
            self._unsaid.append((writer, data))
        else:
            writer.write(data)

    def _read(self, writer: asyncio.StreamWriter, frame: ClientFrame) -> None:
        if isinstance(frame, Ping):
            self.pings += 1
            self._say(writer, Pong(frame.nonce))
        elif isinstance(frame, Renew):
            self.renewals += 1
        elif isinstance(frame, Hello) and self.refusal:
            self._say(writer, Failure(self.refusal, "no"))
        elif isinstance(frame, Hello):
            own = [each for each in self.stages if each.epoch and not each.address]
            opened = [Opened(each.stage, each.epoch, True, 0, 30_000) for each in own]
            welcome = Welcome(
                PROTOCOL_VERSIONS[1],
                self.domain,
                "peer",
                1,
                self.stages,
                10_000,
                address=self.advertised,
                workers=self.others,
            )
            # a map comes along: nothing of it may be taken from a worker that is not wanted
            self._say(writer, *opened, welcome, ClusterMap(self.stages, self.others))
            if self.hangs_up:
                writer.close()


class Told:
    """What the client was told, in the order of time."""

    def __init__(self) -> None:
        self.reached: list[set[int]] = []
        self.lost: list[set[int]] = []
        self.domains: list[int] = []
        self.errors: list[Exception] = []
        self.failures: list[InorderError] = []

    def greeting(self, hello: Hello) -> Hello:
        return hello

    def on_other_domain(self, domain: int) -> int:
        self.domains.append(domain)
        return 2

    def on_worker_welcomed(self, welcome: Welcome) -> None: ...

    def on_stages_lost(self, stages: set[int]) -> None:
        self.lost.append(stages)

    def on_stages_reached(self, stages: set[int], bottom: int) -> None:
        self.reached.append(stages)

    def on_stage_opened(self, frame: Opened, greeted: float) -> None: ...

    def on_worker_frame(self, frame: WorkerFrame) -> None: ...

    def on_worker_lost(self, error: Exception) -> None:
        self.errors.append(error)

    def on_worker_failed(self, error: InorderError) -> None:
        self.failures.append(error)


class Scene:
    """Workers, and a client's connections to them; they begin at the first one."""

    def __init__(self, peers: list[Peer], heartbeat: float) -> None:
        self.peers, self.told = peers, Told()
        for each in peers:
            each.others = [other.address for other in peers]
        self.workers = Workers(
            [peers[0].address],
            Hello(*PROTOCOL_VERSIONS, "", "one", 1),
            self.told,
            times(heartbeat=heartbeat, connect_timeout=PATIENCE),
        )

    @property
    def links(self) -> dict[str, WorkerLink]:
        return {each.address: each for each in self.workers._links}

    async def routed(self, stage: int, peer: Peer) -> None:
        """Wait until the client's frames for a stage go to this worker."""
        await until(lambda: self.goes_to(stage, peer), "the way to the stage")

    def goes_to(self, stage: int, peer: Peer) -> bool:
        link = self.workers._routes.get(stage)
        return link is not None and link is self.links.get(peer.address)

    async def listening(self, *peers: Peer) -> None:
        """Wait until the client listens to one of these."""
        addresses = [each.address for each in peers]
        await until(lambda: self.listener in addresses, "somebody who is listened to")

    @property
    def listener(self) -> str:
        """The address of who is listened to."""
        link = self.workers._listener
        return link.address if link is not None and link.is_connected else ""

    async def some_beats(self, peer: Peer, pings: int = 4) -> None:
        """Wait until a worker that is silent was asked to answer so many times more."""
        enough = peer.pings + pings
        await until(lambda: peer.pings >= enough, "pings")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent worker is never given up: what the client finds out it finds out by listening."""
    monkeypatch.setattr(worker_link, "HALVES", 10**9)


@asynccontextmanager
async def scene(*peers: Peer, heartbeat: float = 0.3) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        for each in peers:
            await stack.enter_async_context(each)
        made = Scene(list(peers), heartbeat)
        await made.workers.connect()
        running = asyncio.create_task(made.workers.run())
        try:
            await made.routed(0, peers[0])
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await made.workers.close(1.0)


def own(stage: int = 0, epoch: int = 1) -> StageInfo:
    return StageInfo(stage, epoch, "")


def at(peer: Peer, stage: int = 0, epoch: int = 1) -> StageInfo:
    return StageInfo(stage, epoch, peer.address)


# -- the whole -----------------------------------------------------------------------------------------------------


async def test_a_client_goes_over_while_its_worker_is_silent(tmp_path: Path, patient: None) -> None:
    """Real workers, the first one behind a network that carries nothing: nothing is lost, nothing comes twice."""
    store, quick = tmp_path / "worker.db", {"beat_interval": 0.05, "lease": 1.0}
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(1))
        place = f"127.0.0.1:{proxy.port}"
        first = await stack.enter_async_context(Worker(worker_settings(store, advertise=place, **quick)))
        proxy.target_port = int(first.address.rpartition(":")[2])
        one = await stack.enter_async_context(
            Client(f"memory://{tmp_path.name}", workers=[place], client_id="one", times=times())
        )
        await one.subscribe("a")
        await published(one, "a", 5)
        second = await stack.enter_async_context(Worker(worker_settings(store, **quick)))
        await until(lambda: second.address in one._worker._map._workers, "the map")  # type: ignore[union-attr]
        proxy.stall()
        futures = [one.publish("a", b"%d" % number) for number in range(5, 10)]
        await until(lambda: second.status()["sessions"] == 1, "the client that listens")
        third = await stack.enter_async_context(Worker(worker_settings(store, take_over=True, **quick)))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*futures)
        await published(one, "a", 5, first=10)
        seen = await take_events(one, 15)
        assert payloads(seen) == [b"%d" % number for number in range(15)]
        assert not gaps_of(seen)
        assert [each.advertised for each in one._worker._links] == [third.address]  # type: ignore[union-attr]
        await until(lambda: second.status()["sessions"] == 0, "its leave")


# -- who is listened to, and for how long ----------------------------------------------------------------------------


async def test_the_standby_tells_that_it_has_the_stage(patient: None) -> None:
    first, standby = Peer(own()), Peer()
    async with scene(first, standby) as it:
        standby.stages = [at(first)]
        first.is_silent = True
        await it.listening(standby)
        assert it.goes_to(0, first)
        assert first.open == 1
        standby.tell(own(epoch=2))
        await it.routed(0, standby)
        await until(lambda: first.open == 0, "the end of the silent connection")
        assert [*it.links] == [standby.address]
        assert it.told.reached == [{0}, {0}]
        assert it.workers.reconnects == 1


async def test_the_standby_tells_that_a_third_has_the_stage(patient: None) -> None:
    first, standby, third = Peer(own()), Peer(), Peer()
    async with scene(first, standby) as it, third:
        standby.stages = [at(first)]
        first.is_silent = True
        await it.listening(standby)
        third.stages = [own(epoch=2)]
        standby.tell(at(third, epoch=2))
        await it.routed(0, third)
        await until(lambda: [first.open, standby.open, third.open] == [0, 0, 1], "one connection")


async def test_a_worker_that_answers_again_is_stayed_with(patient: None) -> None:
    """The connection to the other one is closed, and nothing has happened."""
    first, standby = Peer(own()), Peer()
    async with scene(first, standby) as it:
        standby.stages = [at(first)]
        for _ in range(2):
            first.is_silent = True
            await it.listening(standby)
            first.go_on()
            await until(lambda: standby.open == 0, "the end of listening")
        assert [*it.links] == [first.address]
        assert (first.open, first.accepted) == (1, 1)
        assert it.told.reached == [{0}]
        assert it.told.lost == []
        assert it.told.errors == []


async def test_nobody_is_listened_to_where_another_worker_answers(patient: None) -> None:
    """It tells as well."""
    first, second, standby = Peer(own(0), StageInfo(1, 1, "")), Peer(), Peer()
    async with scene(first, second, standby) as it:
        second.stages = [at(first, 0), own(1, 2)]
        first.tell(own(0), at(second, 1, 2))
        it.workers.need([0, 1])
        await it.routed(1, second)
        needless: list[int] = []  # so that a machine that is too busy to answer in time does no harm
        standby.on_accept = lambda: needless.extend([1] * (not it.links[second.address].is_silent))
        first.is_silent = True
        await until(lambda: it.links[first.address].is_silent, "silence")
        await it.some_beats(first)
        assert not needless
        second.tell(own(0, 2), own(1, 2))
        await it.routed(0, second)
        assert it.goes_to(1, second)


async def test_another_one_is_listened_to_when_the_first_is_silent_too(patient: None) -> None:
    first, *standbys = Peer(own()), Peer(), Peer(), Peer()
    async with scene(first, *standbys) as it:
        most = 0

        def accepted() -> None:
            nonlocal most
            most = max(most, len(it.workers._links))

        for each in standbys:
            each.stages, each.on_accept = [at(first)], accepted
        standbys[0].is_silent = True  # from the hello on
        first.is_silent = True
        await it.listening(*standbys[1:])
        second, third = sorted(standbys[1:], key=lambda each: each.address != it.listener)
        second.is_silent = True  # and later
        await it.listening(third)
        assert most == 2  # one beside that to the first, at any time
        third.tell(own(epoch=2))
        await it.routed(0, third)
        await until(lambda: [each.open for each in (first, *standbys)].count(0) == 3, "one connection")
        assert third.open == 1


async def test_a_worker_that_hangs_up_is_not_asked_without_a_rest(patient: None, full_pauses: None) -> None:
    first, standby = Peer(own()), Peer()
    async with scene(first, standby) as it:
        standby.stages = [at(first)]
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        standby.on_accept = lambda: seen.append(loop.time())
        standby.hangs_up = True
        first.is_silent = True
        await until(lambda: len(seen) >= 5, "connections")
        rest = it.workers._times.backoff_first
        assert all(after - before >= 0.9 * rest for before, after in itertools.pairwise(seen))
        assert it.goes_to(0, first)


async def test_a_worker_that_refuses_is_passed_over(patient: None) -> None:
    """It is not the one that decides whether this client may come."""
    first, other, standby = Peer(own()), Peer(), Peer()
    async with scene(first, other, standby) as it:
        other.refusal = "unauthorized"
        standby.stages = [at(first)]
        first.is_silent = True
        await it.listening(standby)
        assert other.accepted
        assert it.told.failures == []
        assert it.goes_to(0, first)


async def test_what_is_left_says_once_why_it_takes_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    """The worker that had the stage is gone, and the other one cannot use its store, such as an older copy of it."""
    first, other = Peer(own()), Peer()
    async with scene(first, other):
        other.refusal = "store"
        await first.__aexit__(None, None, None)
        await until(lambda: other.accepted >= 3, "the other one to be asked again")
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [other.address in each for each in said if "worker_unreachable" in each] == [True]


async def test_alone_a_silent_worker_is_given_up_after_three_heartbeats() -> None:
    first = Peer(own())
    async with scene(first) as it:
        asked = first.pings
        first.is_silent = True
        await until(lambda: bool(it.told.errors), "the end of patience")
        assert isinstance(it.told.errors[0], TimedOut)
        assert first.pings - asked >= worker_link.HALVES == 6
        first.go_on()
        await it.routed(0, first)


async def test_a_client_that_stood_still_while_it_connected_does_not_blame_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The welcome is there when it goes on, and it is the first attempt's."""
    first, loop = Peer(own()), asyncio.get_running_loop()
    time, stood = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: time() + sum(stood))
    first.on_accept = lambda: stood.append(2 * PATIENCE)
    async with scene(first):
        assert first.accepted == 1


# -- who is believed ---------------------------------------------------------------------------------------------------


async def test_a_worker_of_another_domain_is_not_believed(patient: None) -> None:
    """R4's domain: it has another store, whatever epoch it names, and wherever it says that it is."""
    first, foreign, standby = Peer(own()), Peer(own(epoch=9), domain=8), Peer()
    async with scene(first, foreign, standby) as it:
        standby.stages = [at(first)]
        foreign.advertised = first.address
        first.is_silent = True
        await it.listening(standby)
        await until(lambda: foreign.open == 0, "the end of that connection")
        assert it.told.domains == []
        assert it.goes_to(0, first)
        assert (first.open, first.accepted) == (1, 1)
        tries = foreign.accepted
        assert tries
        standby.hang_up()  # it is tried again, and is not believed this time either
        await until(lambda: foreign.accepted > tries, "another try")
        await it.listening(standby)
        standby.tell(own(epoch=2))
        await it.routed(0, standby)
        assert it.told.domains == []
        assert it.workers._map.places == {0: StageInfo(0, 2, standby.address)}


async def test_an_older_announcement_moves_nobody(patient: None) -> None:
    """Epochs of take-overs: a standby that has read less than its client knows, and an owner that stood still."""
    first, standby, third = Peer(own(epoch=3)), Peer(own(epoch=2)), Peer()
    async with scene(first, standby) as it, third:
        first.is_silent = True
        await it.listening(standby)
        assert it.goes_to(0, first)
        standby.tell(at(third, epoch=2))
        await it.some_beats(first)
        assert it.goes_to(0, first)
        assert third.accepted == 0
        third.stages = [own(epoch=5)]
        standby.tell(at(third, epoch=5))
        await it.routed(0, third)
        first.go_on()
        third.tell(own(epoch=5))
        standby.tell(at(first, epoch=4))
        it.workers.renew(1)
        await until(lambda: third.renewals == 1, "what is sent to the owner")
        assert it.goes_to(0, third)
        assert it.workers._map.places[0] == StageInfo(0, 5, third.address)


async def test_nothing_is_written_to_a_connection_that_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """Until we hear of its end there may be much to say; asyncio would log each of it."""
    peer = Peer(StageInfo(0, 1, ""))
    async with scene(peer) as found:
        link = found.links[peer.address]
        assert link._connection is not None
        assert link._connection.transport is not None
        link._connection.transport.abort()
        for nonce in range(20):
            link.send(Ping(nonce))
    assert "socket.send() raised exception" not in caplog.text
