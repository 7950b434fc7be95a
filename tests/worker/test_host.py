"""Group commit, release after the commit, recovery: on a journal that the test holds in its hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.worker.helpers import TestJournal, commands_in, disk_full, kinds, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption, StoreUnreachable
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    ClusterMap,
    CreateTimestamps,
    NewEvent,
    Ping,
    Resolve,
    Settle,
    Settled,
    StageInfo,
    StampedEvent,
    Subscribed,
    Timestamps,
    Topics,
)
from inorder_worker.sequencer.commands import AnyCommand, Configure, Create, Deliver, Place, StageSettings
from inorder_worker.sequencer.rides import StampRide
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service import Worker, commits, host
from inorder_worker.service.hosted import HostedStage
from inorder_worker.store.journal import MemoryJournal, MemoryStore

# -- group commit ----------------------------------------------------------------------------------------------------


async def test_a_group_is_one_row() -> None:
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        journal.hold()
        before = len(journal.batches)
        client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: journal.waiting == 1)
        for counter in range(2, 12):
            client.send(CreateTimestamps(0, 1, [NewEvent(counter, topic.id)]))
        await until(lambda: worker._host.commits.collecting.commands == 10)
        journal.let_go()
        seen: list[int] = []
        while len(seen) < 11:
            seen += [event.number for event in (await client.next(Timestamps)).events]
        assert seen == list(range(1, 12))
        assert len(journal.batches) == before + 2
    counts = [sum(isinstance(command, Create) for command in row) for row in commands_in(journal)]
    assert [count for count in counts if count] == [1, 10]


async def test_nothing_is_said_before_its_commit() -> None:
    """Neither timestamps, nor read-only answers that could show what is not durable."""
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        journal.hold()
        client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]), Ping(7))
        await until(lambda: journal.waiting == 1)
        client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]), Ping(8))
        await until(lambda: worker._host.commits.collecting.commands == 1)
        assert not client.reader._buffer  # type: ignore[attr-defined]
        journal.let_go()
        answers = [await client.read() for _ in range(4)]
        assert [type(answer).__name__ for answer in answers] == ["Timestamps", "Pong", "Timestamps", "Pong"]


async def test_no_ride_leaves_before_its_commit() -> None:
    """Nor what a stage sends up because of what it is told first when a worker takes it."""
    journal = TestJournal()
    journal.hold()
    worker = Worker(settings(stages=2, hosted=[1], log_topics=["s:a"]), journal=journal)
    starting = asyncio.ensure_future(worker.__aenter__())
    await until(lambda: journal.waiting == 1)
    assert worker._host.stage(1).sent(0) == 1
    assert worker._host.relay.sent(1, 0) == 0
    journal.let_go()
    await starting
    await until(lambda: worker._host.relay.sent(1, 0) == 1)
    await worker.__aexit__(None, None, None)


async def test_a_batch_is_bounded() -> None:
    """What has no room waits, in order, for the next commit."""
    journal = TestJournal()
    bounds = settings(max_batch_commands=4)
    async with Worker(bounds, journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        client.send(*(CreateTimestamps(0, 1, [NewEvent(counter, topic.id)]) for counter in range(1, 51)))
        seen: list[int] = []
        while len(seen) < 50:
            seen += [event.number for event in (await client.next(Timestamps)).events]
        assert seen == list(range(1, 51))
    assert max(len(row) for row in commands_in(journal)) <= 4


async def test_reading_pauses_while_too_much_waits() -> None:
    journal = TestJournal()
    bounds = settings(max_requests=8, max_queue_bytes=2048)
    async with Worker(bounds, journal=journal) as worker, RawClient(worker.address) as client:
        journal.hold()
        client.send(*(Resolve(1, [("s", "a")]) for _ in range(20)))
        connection = next(iter(worker._server._connections))
        await until(lambda: not connection._is_reading)
        journal.let_go()
        client.send(*(Ping(2) for _ in range(200)))
        await client.ping()
        assert connection._is_reading
        assert connection._requests == 0


FOR_EVER = 3600.0


async def test_what_nobody_waits_for_is_committed_with_what_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher confirms one number and asks for the next: its request does not wait for the confirm's commit."""
    monkeypatch.setattr(commits, "SETTLE_WAIT", FOR_EVER)
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        event, *_ = await client.create(topic, 1)
        before = len(journal.batches)
        client.send(Settle(0, 1, [topic.id, event.number, event.number]))
        await until(lambda: worker._host.commits.collecting.commands == 1)
        worker._host.look()
        assert not worker._host.context.wake.is_set()
        client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
        assert (await client.read(), await client.read()) == (
            Settled(0, worker._host.epochs[0], 1),
            Timestamps(0, worker._host.epochs[0], [StampedEvent(2, topic.id, 2, [])]),
        )
        assert len(journal.batches) == before + 1
    assert [type(each).__name__ for each in commands_in(journal)[before]] == ["SettleNumbers", "Create"]


async def test_what_nobody_waits_for_is_committed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing else comes; a second one does not put it off."""
    delays: list[float] = []
    async with Worker(settings(), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        first, second = await client.create(topic, 1, 2)
        loop, call_later = asyncio.get_running_loop(), asyncio.get_running_loop().call_later

        def note(delay: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
            if call == worker._host.context.wake.set:
                delays.append(delay)
            return call_later(delay, call, *args)

        monkeypatch.setattr(loop, "call_later", note)
        client.send(*(Settle(0, each.number, [topic.id, each.number, each.number]) for each in (first, second)))
        assert [(await client.next(Settled)).request for _ in range(2)] == [1, 2]
    assert delays == [commits.SETTLE_WAIT]


async def test_an_answer_does_not_wait_for_what_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves when its own commit is done, whatever has collected meanwhile; and a stop waits for nothing."""
    monkeypatch.setattr(commits, "SETTLE_WAIT", FOR_EVER)
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        event, *_ = await client.create(topic, 1)
        journal.hold()
        client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
        await until(lambda: journal.waiting == 1)
        client.send(Settle(0, 1, [topic.id, event.number, event.number]))
        await until(lambda: worker._host.commits.collecting.commands == 1)
        journal.let_go()
        assert isinstance(await client.read(), Timestamps)
        assert worker._host.commits.collecting.commands == 1
        worker.stop()
        assert (await client.next(Settled)).request == 1


# -- time ------------------------------------------------------------------------------------------------------------


async def test_a_number_nobody_confirms_is_abandoned_in_time() -> None:
    """R16: the deadline of a stage becomes a journaled Tick."""
    journal = TestJournal()
    async with Worker(settings(confirm_timeout=0.05), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        event, *_ = await client.create(topic, 1)
        await until(lambda: "Tick" in kinds(journal))
        assert (await client.confirm(event)).late == [topic.id, 1]


def test_time_stands_still_while_the_stage_is_down() -> None:
    """The clock of a recovered stage goes on from the last journaled time, however long nobody had it."""
    clock = [1000.0]
    hosted = HostedStage(Stage(0, 1), 1, lambda: clock[0])
    clock[0] += 0.25
    hosted.step(Configure(StageSettings()))
    row = hosted.close_row()
    assert row is not None
    assert hosted.now() == 250
    clock[0] += 3600
    recovered = HostedStage(Stage(0, 1), monotonic=lambda: clock[0])
    recovered.replay_row(row.seq, row.entries)
    clock[0] += 3600  # a long replay
    recovered.own(2)
    assert recovered.now() == 250
    clock[0] += 0.1
    assert recovered.now() == 350


# -- start and recovery ----------------------------------------------------------------------------------------------


async def test_a_new_store_is_configured_and_placed() -> None:
    journal = TestJournal()
    order = [["s:top"], ["s:a", "t:b:c"]]
    async with (
        Worker(settings(stages=2, topic_order=order), journal=journal) as worker,
        RawClient(worker.address) as client,
    ):
        topics = await client.resolve("top", "a") + await client.resolve("b:c", space="t")
        assert [(topic.id, topic.name, topic.stage) for topic in topics] == [
            (1, "top", 0),
            (2, "a", 1),
            (3, "b:c", 1),
        ]
    for stage in (0, 1):
        assert isinstance(commands_in(journal, stage)[0][0], Configure)
        assert isinstance(commands_in(journal, stage)[0][1], Place)


async def test_changed_settings_are_journaled_and_unchanged_ones_not() -> None:
    store = MemoryStore()
    for linger in (1.0, 1.0, 2.0):
        journal = TestJournal(store)
        async with Worker(settings(linger=linger), journal=journal):
            pass
    configured = [c for row in commands_in(journal) for c in row if isinstance(c, Configure)]
    assert [one.settings.linger_ms for one in configured] == [1000, 2000]


async def test_another_number_of_stages_is_refused() -> None:
    store = MemoryStore()
    async with Worker(settings(stages=2), journal=TestJournal(store)):
        pass
    before = store.epochs[0]
    with pytest.raises(InvalidOption, match=r"stages 3: allowed is 2, the number that the store"):
        async with Worker(settings(stages=3), journal=TestJournal(store)):
            pass
    assert store.epochs[0] == before


@pytest.mark.parametrize("snapshot_rows", [2, 10_000])
async def test_a_restart_knows_every_number(snapshot_rows: int) -> None:
    """From the journal alone, and from snapshots."""
    store = MemoryStore()
    first: list[Any] = []
    for start in range(1, 20, 2):
        async with (
            Worker(settings(snapshot_rows=snapshot_rows), journal=TestJournal(store)) as worker,
            RawClient(worker.address) as client,
        ):
            topic, *_ = await client.resolve("a")
            again = await client.create(topic, *range(1, start + 2))
            assert again[: len(first)] == first
            first = again
    assert [event.number for event in first] == list(range(1, 21))
    assert bool(store.snapshots[0]) == (snapshot_rows == 2)


async def test_sessions_of_the_last_run_begin_their_grace() -> None:
    """R16 and R12: who was connected when the worker died is told to leave when it is back."""
    store = MemoryStore()
    client = None
    journal = TestJournal(store)
    async with Worker(settings(), journal=journal) as worker:
        client = RawClient(worker.address)
        await client.__aenter__()
    await client.close()
    assert kinds(journal).count("LeaveSession") == 0
    async with Worker(settings(), journal=journal):
        pass
    assert kinds(journal).count("LeaveSession") == 1
    async with Worker(settings(), journal=journal):
        pass
    assert kinds(journal).count("LeaveSession") == 1


# -- two stages ------------------------------------------------------------------------------------------------------


async def test_the_belt_works_in_process() -> None:
    """R1, R2: an event of the lower stage rides up and comes back with the dependency on the upper topic."""
    journal = TestJournal()
    async with (
        Worker(settings(stages=2, topic_order=[["s:u"], ["s:v"]]), journal=journal) as worker,
        RawClient(worker.address, "p") as p,
        RawClient(worker.address, "q") as q,
    ):
        for subscriber in (p, q):
            answer = await subscriber.subscribe("u", "v")
            assert [start.topic.name for start in answer.topics] == ["u", "v"]
        u, v = await p.resolve("u", "v")
        first, *_ = await p.create(u, 1)
        second, *_ = await q.create(v, 1)
        assert (first.number, second.number) == (1, 1)
        assert dict(pairs(second.deps))[u.id] == 1
    assert "Deliver" in kinds(journal, 0)
    assert "Deliver" in kinds(journal, 1)


def cut(store: MemoryStore, stage: int, is_it: Callable[[AnyCommand], bool], *, keep_it: bool) -> None:
    """End a stage's journal at the first row that holds such a command."""
    rows = commands_in(MemoryJournal(store), stage)
    at = next(index for index, row in enumerate(rows) if any(map(is_it, row)))
    del store.rows[stage][at + keep_it :]


async def test_rides_under_way_at_a_crash_are_sent_again() -> None:
    """The row with the request is durable, the ride's delivery is not: the next start completes the timestamp."""
    store = MemoryStore()
    two = settings(stages=2, topic_order=[["s:u"], ["s:v"]])
    async with Worker(two, journal=TestJournal(store)) as worker, RawClient(worker.address) as client:
        await client.subscribe("u", "v")
        async with RawClient(worker.address, "other") as other:
            await other.subscribe("u", "v")
            _, v = await client.resolve("u", "v")
            await client.create(v, 1)
    # The crash: nothing was committed after the row with the request.
    cut(store, 1, lambda command: isinstance(command, Create), keep_it=True)
    cut(store, 0, lambda command: isinstance(command, Deliver) and isinstance(command.ride, StampRide), keep_it=False)
    async with Worker(two, journal=TestJournal(store)) as worker, RawClient(worker.address) as client:
        event, *_ = await client.create(v, 1)
        assert (event.counter, event.number) == (1, 1)


# -- the store fails -------------------------------------------------------------------------------------------------


async def test_a_failing_store_costs_the_connections_not_the_worker() -> None:
    """What ran ahead in memory is gone: the number is issued again, to whoever asks first after the recovery."""
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker:
        client = RawClient(worker.address)
        async with client:
            topic, *_ = await client.resolve("a")
            journal.error, journal.claims_fail = disk_full(), True
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            failure = await client.failure()
        assert (failure.code, "disk is full" in failure.message) == ("store", True)
        late = RawClient(worker.address)
        await late.connect()
        late.send(late.hello)
        assert (await late.failure()).code == "store"
        await late.close()
        assert worker.status()["ready"] is False
        journal.error = None
        await until(lambda: worker.status()["ready"] is True)
        async with RawClient(worker.address, "other") as other:
            assert [event.number for event in await other.create(topic, 5)] == [1]
        assert worker.status()["stages"][0]["epoch"] > 1  # type: ignore[index]


async def test_appends_fail_while_claims_work() -> None:
    """A full disk: recovery succeeds, the next commit fails again, until there is room. Pauses grow meanwhile."""
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
        await until(lambda: kinds(journal).count("LeaveSession") == 1)
        journal.error = disk_full()
        for _ in range(3):
            client = RawClient(worker.address)
            await client.connect()
            client.send(client.hello)
            assert (await client.failure()).code == "store"
            await client.close()
        journal.error = None
        await until(lambda: worker.status()["ready"] is True)
        async with RawClient(worker.address) as client:
            assert [event.number for event in await client.create(topic, 1)] == [1]


async def test_a_fenced_worker_steps_down_to_standby(caplog: pytest.LogCaptureFixture) -> None:
    """It writes nothing, answers nobody for the stage any more, and lives on. Its store has not failed."""
    caplog.set_level(logging.INFO, "inorder.worker")
    store = MemoryStore()
    async with Worker(settings(lease=60.0), journal=TestJournal(store)) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            MemoryJournal(store).claim(0, "another", address="127.0.0.1:9")
            rows = len(store.rows[0])
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            failure = await client.failure()
            assert failure.code == "moved"
            assert "stage 0 was taken over by another worker (another)" in failure.message
        await until(lambda: worker.status()["ready"] is True)
        assert (worker.state, len(store.rows[0])) == ("standby", rows)
        async with RawClient(worker.address) as client:
            assert client.welcome.stages == [StageInfo(0, 2, "127.0.0.1:9")]
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            assert (await client.next(ClusterMap)).stages == [StageInfo(0, 2, "127.0.0.1:9")]
        assert len(store.rows[0]) == rows
        status = worker.status()
        assert (status["store_failures"], status["fences"]) == (0, 1)
        worker._host.tenure.claim_again(worker._host.epochs)  # as whenever the store of a standby has failed
    assert caplog.text.count("event=stepped_down") == 1
    said = {record.getMessage().split()[0]: record.levelno for record in caplog.records}
    assert said["event=fenced"] == said["event=stepped_down"] == logging.WARNING
    assert said["event=connection_ended"] == logging.INFO
    assert "event=store_failed" not in said


async def test_a_store_that_goes_on_failing_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And once again after a while; each attempt is counted."""
    journal = TestJournal()

    def said() -> int:
        return caplog.text.count("event=store_failed")

    async with Worker(settings(retry_max=0.001), journal=journal) as worker, RawClient(worker.address) as client:
        journal.error, journal.claims_fail = StoreUnreachable("memory", "it is away"), True
        client.send(Resolve(9, [("s", "b")]))
        await until(lambda: worker._host.metrics.failures > 9)
        assert said() == 1
        monkeypatch.setattr(host, "TELL_INTERVAL", 0.0)
        await until(lambda: said() > 1)
        journal.error = None
        await until(lambda: worker.health()[0])


async def test_an_idle_worker_finds_out_by_its_beat() -> None:
    store = MemoryStore()
    async with Worker(settings(beat_interval=0.01, lease=60.0), journal=TestJournal(store)) as worker:
        await until(lambda: store.beats[0] > 2)
        MemoryJournal(store).claim(0, "another")
        await until(lambda: worker.state == "standby")


async def test_a_command_that_breaks_the_stage_is_not_journaled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect: the stage is read again from the store, and lives on without that command."""
    journal = TestJournal()
    step = Stage.step

    def fragile(stage: Stage, command: AnyCommand, now: int) -> Any:
        if isinstance(command, Create) and command.events[0].counter == 13:
            raise RuntimeError("thirteen")
        return step(stage, command, now)

    monkeypatch.setattr(Stage, "step", fragile)
    async with Worker(settings(), journal=journal) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            await client.create(topic, 1)
            with caplog.at_level(logging.CRITICAL, "inorder.worker"):
                client.send(CreateTimestamps(0, 1, [NewEvent(13, topic.id)]))
                assert (await client.failure()).code == "store"
                await until(lambda: worker.status()["ready"] is True)
        async with RawClient(worker.address) as client:
            assert [event.number for event in await client.create(topic, 1, 14)] == [1, 2]


async def test_frames_of_one_read_are_answered_together() -> None:
    journal = TestJournal()
    async with Worker(settings(), journal=journal) as worker, RawClient(worker.address) as client:
        before = len(journal.batches)
        topic, *_ = await client.resolve("a")
        client.send(*(CreateTimestamps(0, 1, [NewEvent(counter, topic.id)]) for counter in range(1, 21)))
        seen: list[int] = []
        while len(seen) < 20:
            seen += [event.counter for event in (await client.next(Timestamps)).events]
        assert len(journal.batches) - before <= 4
        assert not [frame for frame in client.skipped if isinstance(frame, Topics | Subscribed)]
