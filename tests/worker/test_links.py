"""Two workers with one stage each, over one store in memory: rides between them, and what a link refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.worker.helpers import TestJournal, commands_in, settings, until
from tests.worker.raw_client import PATIENCE, RawClient

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    AskHeads,
    ClusterMap,
    CreateTimestamps,
    Failure,
    Frame,
    FrameSplitter,
    Heads,
    NewEvent,
    Ping,
    Pong,
    StageInfo,
    Subscribe,
    TopicInfo,
    Welcome,
    encode_frame,
)
from inorder.testing.services import Certificates
from inorder_worker.sequencer.commands import Create, Deliver
from inorder_worker.sequencer.link_wire import (
    Durable,
    LinkHello,
    LinkWelcome,
    ReceiverFrame,
    Rides,
    decode_receiver_frame,
    encode_ride,
)
from inorder_worker.sequencer.rides import AnyRide, CompleteRide, LingerEndRide, StampRide, TopicRide
from inorder_worker.service import Worker
from inorder_worker.store.journal import MemoryJournal, MemoryStore

ORDER = [["s:u"], ["s:v"]]
U, V = TopicInfo(1, "s", "u", 0), TopicInfo(2, "s", "v", 1)


def half(store: MemoryStore, stage: int, **changes: Any) -> Worker:
    """Return a worker of one of two stages. It looks around as often as asked for by hints only, unless told."""
    order = {"stages": 2, "hosted": [stage], "topic_order": ORDER, "beat_interval": 0.02, "name": f"stage-{stage}"}
    return Worker(settings(**{**order, **changes}), journal=TestJournal(store))


def journal_of(worker: Worker) -> TestJournal:
    assert isinstance(worker._journal, TestJournal)
    return worker._journal


@asynccontextmanager
async def both(store: MemoryStore, **changes: Any) -> AsyncIterator[tuple[Worker, Worker]]:
    async with half(store, 0, **changes) as top, half(store, 1, **changes) as bottom:
        yield top, bottom


@asynccontextmanager
async def subscribed(bottom: Worker) -> AsyncIterator[tuple[RawClient, RawClient]]:
    """Two clients that share both topics, connected to the bottom worker: an event on v rides to the top."""
    async with RawClient(bottom.address, "p") as one, RawClient(bottom.address, "q") as two:
        for each in (one, two):
            await each.subscribe("u", "v")
        yield one, two


def delivered(store: MemoryStore, stage: int, kind: type[AnyRide]) -> list[AnyRide]:
    commands = [command for row in commands_in(MemoryJournal(store), stage) for command in row]
    return [each.ride for each in commands if isinstance(each, Deliver) and isinstance(each.ride, kind)]


def cut(store: MemoryStore, stage: int, is_it: Callable[[Any], bool]) -> None:
    """End a stage's journal before the first row that holds such a command: the crash came before its commit."""
    rows = commands_in(MemoryJournal(store), stage)
    del store.rows[stage][next(index for index, row in enumerate(rows) if any(map(is_it, row))) :]


# -- rides -----------------------------------------------------------------------------------------------------------


async def test_the_belt_works_between_workers() -> None:
    """R1, R2: an event of the lower stage rides to the other worker, and comes back with what it depends on there."""
    store = MemoryStore()
    async with both(store) as (top, bottom), subscribed(bottom) as (p, _):
        async with RawClient(top.address, "p") as above:
            first, *_ = await above.create(U, 1)
        event, *_ = await p.create(V, 2)
        assert event.number == 1
        assert dict(pairs(event.deps))[U.id] == first.number
    assert len(delivered(store, 0, StampRide)) == len(delivered(store, 1, CompleteRide)) == 1


async def test_nothing_leaves_before_its_commit() -> None:
    store = MemoryStore()
    async with both(store) as (top, bottom), subscribed(bottom) as (p, _):
        journal_of(bottom).hold()
        p.send(CreateTimestamps(1, 1, [NewEvent(1, V.id)]))
        await until(lambda: journal_of(bottom).waiting == 1)
        async with RawClient(top.address, "r") as other:
            await other.ping()
        assert not delivered(store, 0, StampRide)
        journal_of(bottom).let_go()
        assert (await p.create(V, 1))[0].number == 1


async def test_only_what_is_durable_is_acknowledged() -> None:
    """The sender keeps a ride until the receiver's commit."""
    store = MemoryStore()
    async with both(store) as (top, bottom), subscribed(bottom) as (p, _):
        stage = bottom._host.stage(1)
        await until(lambda: stage.waiting(0) == 0)
        journal_of(top).hold()
        p.send(CreateTimestamps(1, 1, [NewEvent(1, V.id)]))
        await until(lambda: journal_of(top).waiting == 1)
        assert stage.waiting(0) == 1
        journal_of(top).let_go()
        await until(lambda: stage.waiting(0) == 0)


async def test_a_stage_commits_while_the_other_is_away() -> None:
    """What it cannot complete waits, everything else goes on; the other one gets it when it comes."""
    store = MemoryStore()
    async with half(store, 1) as bottom:
        async with both_subscribed_later(store, bottom):
            pass
        async with RawClient(bottom.address, "p") as p:
            p.send(CreateTimestamps(1, 1, [NewEvent(5, V.id)]))
            await p.ping()
            assert bottom._host.stage(1).waiting(0) == 1
            assert [topic.name for topic in await p.resolve("v")] == ["v"]
            async with half(store, 0):
                assert (await p.create(V, 5))[0].number == 1


@asynccontextmanager
async def both_subscribed_later(store: MemoryStore, bottom: Worker) -> AsyncIterator[None]:
    """The top worker is there until two clients have subscribed."""
    async with half(store, 0), subscribed(bottom):
        yield


async def test_rides_under_way_at_a_crash_of_the_receiver_are_sent_again() -> None:
    """Its commit is lost: the sender was told nothing, and sends it again to the next owner of the stage."""
    store = MemoryStore()
    async with half(store, 1) as bottom:
        async with half(store, 0, lease=60.0) as top, subscribed(bottom) as (p, _):
            journal_of(top).hold()
            p.send(CreateTimestamps(1, 1, [NewEvent(5, V.id)]))
            await until(lambda: journal_of(top).waiting == 1)
            MemoryJournal(store).claim(0, "the next owner")  # so that the commit fails
            journal_of(top).let_go()
            await until(lambda: top.state == "standby")
        assert not delivered(store, 0, StampRide)
        async with half(store, 0), RawClient(bottom.address, "p") as p:
            assert (await p.create(V, 5))[0].number == 1
    assert len(delivered(store, 0, StampRide)) == 1


async def test_rides_under_way_at_a_crash_of_the_sender_are_sent_again_and_taken_once() -> None:
    """The journal of the sender says what was made; the receiver says what it has."""
    store = MemoryStore()
    async with both(store) as (_, bottom), subscribed(bottom) as (p, _):
        event, *_ = await p.create(V, 5)
    # the crash: the sender committed the request, and nothing after it
    rows = commands_in(MemoryJournal(store), 1)
    at = next(index for index, row in enumerate(rows) if any(isinstance(each, Create) for each in row))
    del store.rows[1][at + 1 :]
    async with both(store) as (_, bottom), RawClient(bottom.address, "p") as p:
        assert await p.create(V, 5) == [event]
    assert len(delivered(store, 0, StampRide)) == 1


async def test_a_link_takes_back_what_the_receiver_lost() -> None:
    """A stage that recovers to before a ride says so in its welcome."""
    store = MemoryStore()
    async with both(store) as (_, bottom), subscribed(bottom) as (p, _):
        event, *_ = await p.create(V, 5)
    cut(store, 0, lambda command: isinstance(command, Deliver) and isinstance(command.ride, StampRide))
    cut(store, 1, lambda command: isinstance(command, Deliver) and isinstance(command.ride, CompleteRide))
    async with both(store) as (_, bottom), RawClient(bottom.address, "p") as p:
        assert await p.create(V, 5) == [event]


async def test_requests_are_held_when_too_much_waits_for_the_stage_above() -> None:
    """Back-pressure: only what would add to it, in its order; the rest goes on."""
    store = MemoryStore()
    async with half(store, 1, max_outbox=4) as bottom:
        async with both_subscribed_later(store, bottom):
            pass
        async with RawClient(bottom.address, "p") as p:
            for counter in range(1, 11):
                p.send(CreateTimestamps(1, 1, [NewEvent(counter, V.id)]))
            await until(lambda: bottom.status()["held"] == 6)
            await p.ping()
            assert bottom._host.stage(1).waiting(0) == 4
            async with half(store, 0):
                assert [event.number for event in await p.create(V, 11)] == [11]
                events = {event.counter: event.number for event in await p.create(V, *range(1, 11))}
                assert events == {counter: counter for counter in range(1, 11)}
        assert bottom.status()["held"] == 0


# -- who has which stage ---------------------------------------------------------------------------------------------


async def test_clients_are_told_where_the_stages_are() -> None:
    store = MemoryStore()
    async with half(store, 1) as bottom, RawClient(bottom.address, "p") as p:
        assert p.welcome.address == bottom.address
        assert p.welcome.stages == [StageInfo(0, 0, ""), StageInfo(1, 1, "")]
        async with half(store, 0) as top:
            assert (await p.next(ClusterMap)).stages == [StageInfo(0, 1, top.address), StageInfo(1, 1, "")]
            await until(lambda: bottom.status()["links"] == {"0": 0})
        async with half(store, 0, advertise="127.0.0.1:9", take_over=True):
            there = [StageInfo(0, 2, "127.0.0.1:9"), StageInfo(1, 1, "")]
            while (await p.next(ClusterMap)).stages != there:  # one from before may be under way
                pass


async def test_a_map_that_changes_while_a_client_is_welcomed_is_in_the_welcome() -> None:
    store = MemoryStore()
    async with half(store, 1) as bottom:
        client = RawClient(bottom.address, "p")
        await client.connect()
        journal_of(bottom).hold()
        client.send(client.hello)
        await until(lambda: journal_of(bottom).waiting == 1)
        claimed = MemoryJournal(store).claim(0, "another", address="127.0.0.1:9")
        bottom._server.map_read(MemoryJournal(store).read_map(), None)
        journal_of(bottom).let_go()
        welcome = await client.next(Welcome)
        assert welcome.stages == [StageInfo(0, claimed, "127.0.0.1:9"), StageInfo(1, 1, "")]
        await client.close()


async def test_a_frame_for_a_stage_elsewhere_is_answered_with_the_map() -> None:
    async with both(MemoryStore()) as (top, bottom):
        async with RawClient(top.address, "p") as p:
            for frame in (CreateTimestamps(1, 1, [NewEvent(1, V.id)]), Subscribe(1, [])):
                p.send(frame)
                told = {each.stage: each.address for each in (await p.next(ClusterMap)).stages}
                while told != {0: "", 1: bottom.address}:
                    told = {each.stage: each.address for each in (await p.next(ClusterMap)).stages}
            await p.ping()
        async with RawClient(top.address, "p") as p:
            p.send(CreateTimestamps(2, 1, [NewEvent(1, V.id)]))
            assert (await p.failure()).message == "there is no stage 2"


async def test_a_worker_that_loses_a_stage_goes_on_with_the_others() -> None:
    """Fenced for one of its stages: clients come back and find the new owner; what was committed is still there."""
    store = MemoryStore()
    async with (
        Worker(settings(stages=2, topic_order=ORDER, beat_interval=0.02), journal=TestJournal(store)) as old,
        subscribed(old) as (p, _),
    ):
        event, *_ = await p.create(V, 1)
        async with half(store, 1, take_over=True) as new:
            assert (await p.failure()).code == "moved"
            await until(lambda: old.status()["ready"] is True)
            async with RawClient(old.address, "p") as again, RawClient(new.address, "p") as below:
                places = {each.stage: each.address for each in again.welcome.stages}
                assert places == {0: "", 1: new.address}
                assert await below.create(V, 1) == [event]
                assert (await again.create(U, 2))[0].number == 1
                after, *_ = await below.create(V, 3)
                assert after.number == 2
                assert dict(pairs(after.deps))[U.id] == 1


async def test_heads_are_told_again_when_a_client_asks() -> None:
    """R17: it was told them before it knew the topic, because it subscribes at another worker."""
    store = MemoryStore()
    async with (
        both(store, heads_interval=0.02) as (top, bottom),
        RawClient(top.address, "p") as above,
        subscribed(bottom),
    ):
        await above.confirm((await above.create(U, 1))[0])
        assert (await above.next(Heads)).heads == [U.id, 1]
        above.send(AskHeads())
        assert (await above.next(Heads)).heads == [U.id, 1]


# -- what a link refuses ---------------------------------------------------------------------------------------------


class RawLink:
    """The sending end of a link that speaks frames and nothing more."""

    def __init__(self, worker: Worker) -> None:
        host, _, port = worker.address.rpartition(":")
        self._place = (host, int(port))
        self._splitter, self._frames = FrameSplitter(), list[ReceiverFrame]()

    async def __aenter__(self) -> RawLink:
        self.reader, self.writer = await asyncio.open_connection(*self._place)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(map(encode_frame, frames)))

    async def read(self) -> ReceiverFrame:
        async with asyncio.timeout(PATIENCE):
            while not self._frames:
                data = await self.reader.read(65_536)
                if not data:
                    raise EOFError
                self._frames += [decode_receiver_frame(body) for body in self._splitter.feed(data)]
        return self._frames.pop(0)

    async def failure(self) -> Failure:
        """Return the Failure that ends this connection; it must really end."""
        while not isinstance(frame := await self.read(), Failure):
            pass
        with pytest.raises(EOFError):
            await self.read()
        return frame


def hello(worker: Worker, **changes: Any) -> LinkHello:
    """Return the hello of a worker of stage 1 that has rides for stage 0."""
    domain = worker._links.domain
    values = {"token": "", "domain": domain, "stage": 0, "origins": [StageInfo(1, 1, "other:1")], **changes}
    return LinkHello(1, 1, values["token"], values["domain"], "other", values["stage"], values["origins"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"token": "wrong"}, "unauthorized"),
        ({"token": "secret", "domain": 12345}, "domain"),
        ({"token": "secret", "stage": 1, "origins": [StageInfo(0, 1, "")]}, "moved"),
        ({"token": "secret", "origins": [StageInfo(0, 1, "")]}, "protocol"),
        ({"token": "secret", "origins": []}, "protocol"),
        ({"token": "secret", "origins": [StageInfo(1, 1, ""), StageInfo(1, 2, "")]}, "protocol"),
        ({"token": "secret", "origins": [StageInfo(7, 1, "")]}, "protocol"),
        ({"token": "secret", "stage": -1}, "protocol"),
    ],
)
async def test_a_wrong_hello_is_refused(changes: dict[str, Any], code: str) -> None:
    async with half(MemoryStore(), 0, token="secret") as top, RawLink(top) as link:
        link.send(hello(top, **changes))
        assert (await link.failure()).code == code


async def test_other_versions_are_refused() -> None:
    async with half(MemoryStore(), 0) as top, RawLink(top) as link:
        wanted = hello(top)
        wanted.lowest_version, wanted.highest_version = 2, 3
        link.send(wanted)
        refused = await link.failure()
        assert refused.facts == [1, 1]
        assert "versions 1 to 1 with other workers, not 2 to 3" in refused.message


async def test_an_owner_that_has_lost_its_stage_is_turned_away() -> None:
    """Whether the store says so, or its successor was here before the store was looked at."""
    store = MemoryStore()
    async with half(store, 0) as top:
        async with RawLink(top) as new, RawLink(top) as old:
            new.send(hello(top, origins=[StageInfo(1, 5, "")]))
            assert isinstance(await new.read(), LinkWelcome)
            old.send(hello(top, origins=[StageInfo(1, 4, "")]))
            assert (await old.failure()).code == "fenced"
        for _ in range(3):
            MemoryJournal(store).claim(1, "another")
        await until(lambda: top._server._cluster.place(1).epoch == 3)
        async with RawLink(top) as old:
            old.send(hello(top, origins=[StageInfo(1, 2, "")]))
            assert (await old.failure()).code == "fenced"


async def test_a_second_connection_takes_the_place_of_the_first() -> None:
    async with half(MemoryStore(), 0) as top, RawLink(top) as first, RawLink(top) as second:
        first.send(hello(top))
        assert isinstance(await first.read(), LinkWelcome)
        second.send(hello(top))
        assert isinstance(await second.read(), LinkWelcome)
        with pytest.raises(EOFError):
            await first.read()


def linger_end(number: int) -> AnyRide:
    return LingerEndRide("c", 1, number)


async def test_rides_are_taken_once_and_in_order() -> None:
    """What was sent twice is dropped; what is durable is acknowledged, and told in the next welcome."""
    store = MemoryStore()
    async with half(store, 0) as top:
        async with RawLink(top) as link:
            link.send(hello(top))
            answer = await link.read()
            assert isinstance(answer, LinkWelcome)
            assert (answer.stage, answer.epoch, answer.received) == (0, 1, [1, 0])
            link.send(Rides(1, 1, [encode_ride(linger_end(each)) for each in (1, 2)]))
            assert await link.read() == Durable([1, 2])
            link.send(Rides(1, 2, [encode_ride(linger_end(each)) for each in (2, 3)]), Ping(9))
            assert {msgspec.json.encode(await link.read()) for _ in (0, 1)} == {
                msgspec.json.encode(each) for each in (Durable([1, 3]), Pong(9))
            }
        async with RawLink(top) as link:
            link.send(hello(top))
            answer = await link.read()
            assert isinstance(answer, LinkWelcome)
            assert answer.received == [1, 3]
    assert delivered(store, 0, LingerEndRide) == [linger_end(each) for each in (1, 2, 3)]


def stamp(**changes: Any) -> StampRide:
    values: dict[str, Any] = {
        "client_id": "c", "incarnation": 1, "counter": 1, "entry": 1, "topic": V.id, "home": 1, "number": 1,
        "after": [], "deps": [], "top": 0, "in_payload": False,
    }  # fmt: skip
    return StampRide(**{**values, **changes})


GARBAGE = {
    "number 1 is missing": Rides(1, 2, [encode_ride(linger_end(1))]),
    "of a stage it did not name": Rides(0, 1, [encode_ride(linger_end(1))]),
    "no MessagePack": Rides(1, 1, [msgspec.Raw(b"\xc1")]),
    "no ride": Rides(1, 1, [msgspec.Raw(b"\x92\x63\x01")]),
    "of no topic": Rides(1, 1, [encode_ride(stamp(topic=99))]),
    "half a dependency": Rides(1, 1, [encode_ride(stamp(deps=[1]))]),
    "depends on no topic": Rides(1, 1, [encode_ride(stamp(deps=[99, 1]))]),
    "after a number below 0": Rides(1, 1, [encode_ride(stamp(after=[1, -1]))]),
    "entered above": Rides(1, 1, [encode_ride(stamp(entry=0))]),
    "ends where it comes from": Rides(1, 1, [encode_ride(stamp(top=1))]),
    "goes down, not up": Rides(1, 1, [encode_ride(CompleteRide("c", 1, 1, U.id, 1, [], False))]),
    "the top stage has its own topics": Rides(1, 1, [encode_ride(TopicRide([TopicInfo(9, "s", "w", 0)]))]),
}


@pytest.mark.parametrize("frame", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_ends_the_connection_and_changes_nothing(frame: Rides) -> None:
    store = MemoryStore()
    async with half(store, 0) as top:
        async with RawLink(top) as link:
            link.send(hello(top))
            assert isinstance(await link.read(), LinkWelcome)
            link.send(frame)
            assert (await link.failure()).code == "protocol"
        assert top.status()["ready"] is True
        async with RawLink(top) as link:
            link.send(hello(top))
            assert isinstance(await link.read(), LinkWelcome)
            link.send(Rides(1, 1, [encode_ride(stamp())]))
            assert await link.read() == Durable([1, 1])
    assert [type(each) for each in delivered(store, 0, AnyRide)] == [StampRide]  # type: ignore[arg-type]


async def test_frames_of_a_client_are_refused_on_a_link_and_the_other_way_round() -> None:
    async with half(MemoryStore(), 0) as top:
        async with RawLink(top) as link:
            link.send(hello(top), CreateTimestamps(0, 1, []))
            assert (await link.failure()).code == "protocol"
        async with RawClient(top.address) as client:
            client.send(Rides(1, 1, []))
            assert (await client.failure()).code == "protocol"


async def test_tls_between_workers(caplog: pytest.LogCaptureFixture) -> None:
    """Each shows its certificate; one that is not trusted is not talked to."""
    store = MemoryStore()
    with Certificates() as made:
        files = {"tls_cert": made.certificate, "tls_key": made.key, "token": "secret"}
        trusting = {**files, "tls_client_ca": made.ca}
        async with half(store, 0, **trusting) as top:
            async with half(store, 1, **trusting) as bottom:
                await until(lambda: top.status()["links"] == {"1": 0} and bottom.status()["links"] == {"0": 0})
            with caplog.at_level(logging.INFO, "inorder.worker"):
                async with half(store, 1, **files) as bottom:
                    await until(lambda: "certificate verify failed" in caplog.text)
                    assert bottom.status()["links"] == {"0": None}
