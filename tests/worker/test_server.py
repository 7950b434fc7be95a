"""The worker's port: hellos, bad frames, sessions, slow readers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.worker.helpers import PATIENCE, TestJournal, commands_in, kinds, settings, until
from tests.worker.raw_client import RawClient

from inorder.logs import fields_of
from inorder.protocol.filters import MAX_SLASHES, MAX_WILDCARDS, redis_filter
from inorder.protocol.globs import MAX_GLOB_BYTES
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.wire import (
    PROTOCOL_VERSIONS,
    AskNumbers,
    ChangeLog,
    CreateTimestamps,
    Failure,
    Frame,
    Heads,
    Hello,
    LogRule,
    NewEvent,
    Numbers,
    NumberState,
    Opened,
    Ping,
    Pong,
    Renew,
    Resolve,
    Settle,
    ShowSubscriptions,
    SpaceFilter,
    Subscribe,
    Subscriptions,
    Timestamps,
    encode_frame,
)
from inorder_worker.sequencer.commands import LeaveSession
from inorder_worker.sequencer.link_wire import MAX_HELLO_BYTES
from inorder_worker.sequencer.settling import MAX_ANSWERS
from inorder_worker.service import Worker, admission
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.connection import Connection


async def refused(client: RawClient, *frames: Frame | bytes) -> Failure:
    """Send frames, or bytes, on a bare connection and return why it was closed."""
    await client.connect()
    for frame in frames:
        client.writer.write(frame if isinstance(frame, bytes) else encode_frame(frame))
    failure = await client.failure()
    await client.close()
    return failure


# -- hello -----------------------------------------------------------------------------------------------------------


async def test_the_welcome() -> None:
    journal = TestJournal()
    async with (
        Worker(settings(publisher_grace=2.5, stages=2), journal=journal) as worker,
        RawClient(worker.address) as client,
    ):
        welcome = client.welcome
        assert journal.store.info is not None
        assert (welcome.version, welcome.domain) == (PROTOCOL_VERSIONS[1], journal.store.info.domain)
        assert (welcome.worker, welcome.publisher_grace_ms) == ("test", 2500)
        assert [(stage.stage, stage.epoch) for stage in welcome.stages] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("token", ["", "wrong", "hunter22", "hünter2"])
async def test_a_wrong_token(token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with Worker(settings(token="hunter2"), journal=TestJournal()) as worker:
        failure = await refused(RawClient(worker.address), RawClient(worker.address, token=token).hello)
        assert failure.code == "unauthorized"
        async with RawClient(worker.address, token="hunter2") as client:
            await client.ping()
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("versions", [(0, 0), (PROTOCOL_VERSIONS[1] + 1, 9)])
async def test_no_version_in_common(versions: tuple[int, int]) -> None:
    async with Worker(settings(), journal=TestJournal()) as worker:
        failure = await refused(RawClient(worker.address), RawClient(worker.address, versions=versions).hello)
        assert (failure.code, failure.facts) == ("version", [*PROTOCOL_VERSIONS])
        low, high = PROTOCOL_VERSIONS
        assert failure.message.endswith(f"versions {low} to {high}, not {versions[0]} to {versions[1]}")
        async with RawClient(worker.address, versions=(0, 9)) as client:
            assert client.welcome.version == PROTOCOL_VERSIONS[1]


async def test_a_silent_connection_is_closed() -> None:
    async with Worker(settings(hello_timeout=0.05), journal=TestJournal()) as worker:
        assert "no hello" in (await refused(RawClient(worker.address))).message


# -- bad frames ------------------------------------------------------------------------------------------------------

HELLO = Hello(1, 1, "", "bad", 1)
WILD = Filter("#", FilterKind.MQTT, "#")
LONG_GLOB = "a" * MAX_GLOB_BYTES + "*"
GLOBS = [SpaceFilter("s", redis_filter(f"{each}{'a' * 999}*")) for each in range(3)]
DEEP = Filter("+/" * (MAX_SLASHES + 1) + "#", FilterKind.MQTT, "#")
BAD: dict[str, tuple[str, list[Frame | bytes]]] = {
    "garbage": ("too_large", [b"GET / HTTP/1.1\r\n\r\n"]),
    "not MessagePack": ("protocol", [b"\0\0\0\4\xc1\xc1\xc1\xc1"]),
    "empty frame": ("protocol", [b"\0\0\0\0"]),
    "a worker's frame": ("protocol", [HELLO, b"\0\0\0\3\x92\x26\x90"]),
    "oversized": ("too_large", [HELLO, (65_537).to_bytes(4, "big")]),
    "no hello": ("protocol", [Ping(1)]),
    "two hellos": ("protocol", [HELLO, Hello(1, 1, "", "another", 1)]),
    "empty client id": ("protocol", [Hello(1, 1, "", "", 1)]),
    "long client id": ("protocol", [Hello(1, 1, "", "x" * 129, 1)]),
    "client id for a terminal": ("protocol", [Hello(1, 1, "", "desk\x1b[2J", 1)]),
    "no such stage": ("protocol", [HELLO, CreateTimestamps(1, 1, [])]),
    "counter 0": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(0, 1)])]),
    "odd after": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(1, 1, [2])])]),
    "odd triples": ("protocol", [HELLO, Settle(0, 1, [1, 2])]),
    "ranges that overlap": ("protocol", [HELLO, Settle(0, 1, [1, 5, 9, 2, 1, 9, 1, 1, 5])]),
    "confirmed and void": ("protocol", [HELLO, Settle(0, 1, [1, 5, 9], [1, 9, 9])]),
    "a topic named twice": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(1, 1, [2, 1, 3, 1, 2, 2])])]),
    "a stage named twice": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(1, 1, required=[0, 1, 0, 2])])]),
    "stages beyond the last": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(1, 1, required=[0, 1, 1, 2])])]),
    "an unknown stage": ("protocol", [HELLO, CreateTimestamps(0, 1, [NewEvent(1, 1, required=[1, 2])])]),
    "reversed range": ("protocol", [HELLO, Settle(0, 1, [1, 5, 4])]),
    "huge number": ("protocol", [HELLO, Settle(0, 1, [], [1, 1, 2**63])]),
    "odd ranges": ("protocol", [HELLO, AskNumbers(1, 0, 1, [1])]),
    "no name": ("protocol", [HELLO, Resolve(1, [("s", "")])]),
    "version 0": ("protocol", [HELLO, Subscribe(0, [])]),
    "empty filter": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("s", exact(""))])]),
    "many wildcards": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("", WILD)] * (MAX_WILDCARDS + 1))]),
    "long globs": ("protocol", [HELLO, Subscribe(1, GLOBS)]),
    "deep filter": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("s", DEEP)])]),
    "deep filter of a log": ("protocol", [HELLO, ChangeLog(1, LogRule("s", DEEP))]),
    "long glob": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("s", Filter(LONG_GLOB, FilterKind.REDIS, "a"))])]),
    "another name": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("s", Filter("a/#", FilterKind.MQTT, "b" * 99))])]),
    "another exact name": ("protocol", [HELLO, Subscribe(1, [SpaceFilter("s", Filter("a", FilterKind.EXACT, "b"))])]),
    "another name of a log": ("protocol", [HELLO, ChangeLog(1, LogRule("s", Filter("a*", FilterKind.REDIS, "b")))]),
    "long glob of a log": ("protocol", [HELLO, ChangeLog(1, LogRule("s", Filter(LONG_GLOB, FilterKind.REDIS, "a")))]),
}


@pytest.mark.parametrize(("code", "frames"), BAD.values(), ids=BAD.keys())
async def test_bad_frames_end_their_connection_and_no_other(code: str, frames: list[Frame | bytes]) -> None:
    journal = TestJournal()
    async with (
        Worker(settings(max_frame_bytes=65_536), journal=journal) as worker,
        RawClient(worker.address) as bystander,
    ):
        assert (await refused(RawClient(worker.address), *frames)).code == code
        await bystander.ping()
        assert not {"Create", "SettleNumbers", "ChangeSubscription", "CreateTopics"} & set(kinds(journal))


async def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of end is told once in a while."""
    async with Worker(settings(token="right"), journal=TestJournal()) as worker:
        for _ in range(3):
            for frame in (Ping(1), b"GET / HTTP/1.1\r\n\r\n", HELLO):
                await refused(RawClient(worker.address), frame)
    ended = [each.getMessage() for each in caplog.records if "connection_ended" in each.getMessage()]
    assert [fields_of(each)["code"] for each in ended] == ["protocol", "too_large", "unauthorized"]  # type: ignore[index]


async def test_before_its_hello_nobody_has_much_kept() -> None:
    """A hello is short; what is as long as a frame may be is read for those who are known."""
    async with Worker(settings(), journal=TestJournal()) as worker:
        failure = await refused(RawClient(worker.address), (MAX_HELLO_BYTES + 1).to_bytes(4, "big"))
        assert (failure.code, str(MAX_HELLO_BYTES) in failure.message) == ("too_large", True)
        async with RawClient(worker.address) as client:
            await client.resolve(*(f"{'x' * 1_000}{each}" for each in range(2 * MAX_HELLO_BYTES // 1_000)))


async def test_a_hello_that_is_nested_without_an_end_is_refused() -> None:
    body = encode_frame(HELLO)[4:-3] + b"\x91" * 20_000
    async with Worker(settings(), journal=TestJournal()) as worker:
        failure = await refused(RawClient(worker.address), len(body).to_bytes(4, "big") + body)
    assert failure.code == "protocol"


async def test_a_full_worker_keeps_places_for_those_it_needs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever says nothing goes for the next one, the oldest first; clients leave the last places to others."""
    monkeypatch.setattr(admission, "places", lambda share: 6)
    async with Worker(settings(), journal=TestJournal()) as worker, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(RawClient(worker.address, f"c{each}")) for each in range(3)]
        silent = [RawClient(worker.address) for _ in range(5)]
        for each in silent:
            await each.connect()
            stack.push_async_callback(each.close)
        for each in silent[:2]:
            assert await each.is_closed()
        failure = await refused(RawClient(worker.address), Hello(1, 1, "", "one more", 1))
        assert failure.code == "full"
        assert "6 places (as many as its limit of open files allows" in failure.message
        assert "event=few_places places=6" in caplog.text
        for client in clients:
            await client.ping()
        await clients[0].close()
        await until(lambda: worker.status()["sessions"] == 2)
        await stack.enter_async_context(RawClient(worker.address, "one more"))


async def test_half_a_frame_waits_for_the_other() -> None:
    async with Worker(settings(), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        whole = encode_frame(Ping(77))
        for at in range(len(whole)):
            client.writer.write(whole[at : at + 1])
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.next(Pong)).nonce == 77


async def test_a_topic_that_a_subscription_names_again_and_again_is_kept_once() -> None:
    """However the filter spells it; not for one of another space, or of what has wildcards."""
    texts = [SpaceFilter("s", Filter(text, FilterKind.EXACT, "x")) for text in ("x", r"\x", "x")]
    others = [
        SpaceFilter("t", exact("x")),
        SpaceFilter("s", Filter("#", FilterKind.MQTT, "#")),
        SpaceFilter("s", exact("#")),
    ]
    async with Worker(settings(), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        client.send(Subscribe(1, [*others, *texts]), ShowSubscriptions(1))
        (known,) = (await client.next(Subscriptions)).subscriptions
        assert known.filters == [*others, texts[0]]


async def test_too_many_numbers_are_answered_in_part() -> None:
    async with Worker(settings(), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        await client.create(topic, 1)
        client.send(AskNumbers(5, 0, topic.id, [1, 2**62]))
        answer = await client.next(Numbers)
        assert (answer.request, len(answer.answers)) == (5, MAX_ANSWERS)
        assert answer.answers[0].state is NumberState.PENDING


# -- sessions --------------------------------------------------------------------------------------------------------


async def test_the_same_incarnation_supersedes_its_older_connection() -> None:
    """Requests that still come over the old one are dropped, and its end is not the end of the session."""
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker:
        old = RawClient(worker.address)
        async with old:
            topic, *_ = await old.resolve("a")
            async with RawClient(worker.address) as new:
                old.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
                assert await old.is_closed()
                assert [event.number for event in await new.create(topic, 2)] == [1]
                await new.ping()
                assert "LeaveSession" not in kinds(journal)
        await until(lambda: "LeaveSession" in kinds(journal))


async def test_a_store_that_stands_still_makes_no_idle_client_give_the_worker_up() -> None:
    """Thousands would come back at once. Whoever has asked for something hears the worker behind the answer to that."""
    journal = TestJournal()
    async with (
        Worker(settings(), journal=journal) as worker,
        RawClient(worker.address, "busy") as busy,
        RawClient(worker.address, "idle") as idle,
    ):
        topic, *_ = await busy.resolve("a")
        await idle.ping()
        journal.hold()
        busy.send_create(topic, NewEvent(1, topic.id))
        await until(lambda: journal.waiting == 1)
        busy.send(Ping(7))
        await idle.ping()
        idle.send(Ping(1), Ping(2), Renew(1), Ping(3))  # in one read: the worker may have stood still, too
        assert [(await idle.next(Pong)).nonce for _ in (1, 2)] == [1, 2]
        assert journal.waiting == 1
        journal.let_go()
        await busy.next(Pong)
        assert (await idle.next(Pong)).nonce == 3
        assert [type(each) for each in busy.skipped if isinstance(each, Timestamps)] == [Timestamps]


async def test_queued_requests_of_a_superseded_connection_are_dropped() -> None:
    journal = TestJournal()
    async with Worker(settings(max_batch_commands=2), journal=journal) as worker, RawClient(worker.address) as old:
        topic, *_ = await old.resolve("a")
        journal.hold()
        old.send(*(CreateTimestamps(0, 1, [NewEvent(counter, topic.id)]) for counter in range(1, 11)))
        await until(lambda: journal.waiting == 1 and worker._host.queued > 2)
        new = RawClient(worker.address)
        await new.connect()
        new.send(new.hello)
        assert await old.is_closed()
        journal.let_go()
        await new.next(type(old.welcome))
        assert {type(each) for each in new.skipped} == {
            Opened
        }  # answers to the old connection's requests do not come before the welcome
        await new.ping()
        assert worker._host.metrics.timestamps < 10
        await new.close()


async def test_a_new_incarnation_replaces_the_older_one() -> None:
    async with (
        Worker(settings(), journal=TestJournal()) as worker,
        RawClient(worker.address, incarnation=1) as old,
        RawClient(worker.address, incarnation=2) as new,
    ):
        assert (await old.failure()).code == "replaced"
        await new.ping()


async def test_a_disconnect_begins_the_grace() -> None:
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker:
        async with RawClient(worker.address, "gone", 7):
            pass
        await until(lambda: LeaveSession("gone", 7) in commands_in(journal)[-1])


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_a_client_that_leaves_answers_unread_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    """By time, and nothing more is taken from it meanwhile; others live on."""
    options = settings(max_requests=10_000, max_write_bytes=200_000, write_timeout=0.05)
    async with (
        Worker(options, journal=TestJournal()) as worker,
        RawClient(worker.address, "bystander") as bystander,
        RawClient(worker.address, "slow") as client,
    ):
        names = [f"topic/{index:030}" for index in range(200)]
        await client.resolve(*names)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = encode_frame(Resolve(1, [("s", name) for name in names]))
        async with asyncio.timeout(PATIENCE):
            while "slow_client" not in caplog.text:
                client.writer.write(request)
                await asyncio.sleep(0)
        await bystander.ping()
        assert worker.status()["connections"] == 1
    assert "client=slow" in caplog.text


async def test_memory_for_unread_answers_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """By size: a megabyte of answers at once to a client that may have 100 kB unread."""
    journal = TestJournal()
    async with (
        Worker(settings(max_write_bytes=100_000), journal=journal) as worker,
        RawClient(worker.address, "slow") as client,
    ):
        names = [f"topic/{index:030}" for index in range(500)]
        await client.resolve(*names)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(20):
            journal.hold()
            client.send(*(Resolve(1, [("s", name) for name in names]) for _ in range(40)))
            await until(lambda: journal.waiting == 1 or not worker._server._connections)
            journal.let_go()
            await until(lambda: worker._host.commits.is_idle)
            if not worker._server._connections:
                break
    assert "event=slow_client" in caplog.text


async def test_answers_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    sends: list[int] = []
    send = Connection.send

    def counted(connection: Connection, frames: list[Frame]) -> None:
        sends.append(len(frames))
        send(connection, frames)

    monkeypatch.setattr(Connection, "send", counted)
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        journal.hold()
        client.send(*(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]) for _ in range(2)))
        await until(lambda: journal.waiting == 1)
        client.send(*(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]) for _ in range(9)), Ping(1))
        collecting = worker._host.commits.collecting
        await until(lambda: len(collecting.replies) + len(collecting.settled) >= 11)
        sends.clear()
        journal.let_go()
        await client.next(Pong)
        assert len(sends) == 2
        assert sum(sends) == 2 + 10


# -- heads -----------------------------------------------------------------------------------------------------------


async def test_heads_are_told_when_they_change_and_all_at_first() -> None:
    """R17."""
    async with Worker(settings(heads_interval=0.02), journal=TestJournal()) as worker:
        async with RawClient(worker.address, "p") as publisher, RawClient(worker.address, "q") as subscriber:
            a, b = await publisher.resolve("a", "b")
            for counter, topic in enumerate((a, b), start=1):
                await publisher.confirm((await publisher.create(topic, counter))[0])
            await subscriber.subscribe("a", "b")
            # what was to be told while the answer was on its way is told, too, and all of them behind it
            while (await subscriber.next(Heads)).heads != [a.id, 1, b.id, 1]:
                pass
            await until(lambda: worker._server.sessions._connections["q"].is_told)
            await publisher.confirm((await publisher.create(b, 3))[0])
            while (heads := (await subscriber.next(Heads)).heads) == [a.id, 1, b.id, 1]:
                pass
            assert heads == [b.id, 2]
        async with RawClient(worker.address, "q") as subscriber:
            assert (await subscriber.next(Heads)).heads == [a.id, 1, b.id, 2]


async def test_r17_heads_of_many_clients_are_told_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher waits for one of these at most. Who has gone meanwhile keeps nobody from it."""
    monkeypatch.setattr("inorder_worker.service.sessions.TOLD_AT_ONCE", 2)
    journal, portions, release = TestJournal(), list[int](), CommitLoop.release

    def counted(commits: CommitLoop) -> None:
        if commits._durable is not None:
            portions.append(sum(isinstance(reply.frame, Heads) for reply in commits._durable.replies))
        release(commits)

    async with Worker(settings(), journal=journal) as worker, AsyncExitStack() as all_:
        sessions = worker._server.sessions
        readers = [await all_.enter_async_context(RawClient(worker.address, f"r{each}")) for each in range(6)]
        for reader in readers:
            await reader.subscribe("a")
        topic, *_ = await readers[0].resolve("a")
        await readers[0].confirm((await readers[0].create(topic, 1))[0])
        monkeypatch.setattr(CommitLoop, "release", counted)
        journal.hold()  # the first two are told behind this commit
        readers[0].send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
        await until(lambda: journal.waiting == 1)
        sessions.tell_heads()
        sessions.tell_heads()
        await readers[5].close()
        await until(lambda: len(sessions) == 5)
        journal.let_go()
        event, *_ = (await readers[0].next(Timestamps)).events
        for reader in readers[:5]:
            assert (await reader.next(Heads)).heads == [topic.id, 1]
        await readers[0].confirm(event)
        assert (max(portions), sum(portions)) == (2, 5)
        sessions.tell_heads()
        assert (await readers[0].next(Heads)).heads == [topic.id, 2], "another round comes"


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_a_stop_answers_what_was_taken() -> None:
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            journal.hold()
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            await until(lambda: journal.waiting == 1)
            worker.stop()
            journal.let_go()
            assert [event.number for event in (await client.next(Timestamps)).events] == [1]
            assert (await client.failure()).code == "stopping"
        await worker.wait_stopped()
        late = RawClient(worker.address)
        with pytest.raises(ConnectionRefusedError):
            await late.connect()


async def test_status_has_no_secrets() -> None:
    options = settings(token="hunter2", store="postgresql://me:hunter2@db/x")
    async with Worker(options, journal=TestJournal()) as worker, RawClient(worker.address, token="hunter2") as client:
        topic, *_ = await client.resolve("a")
        await client.create(topic, 1, 2)
        status = worker.status()
    assert "hunter2" not in str(status)
    assert (status["sessions"], status["timestamps"], status["ready"]) == (1, 2, True)
    assert status["commit_ms_p50"] is not None
