"""R12 at the worker: what its answer to a client proves, and whom it no longer hears."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from tests.worker.helpers import TestJournal, disk_full, kinds, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption, StoreError
from inorder.protocol.wire import CreateTimestamps, NewEvent, Opened, Ping, Pong, Renew, Renewed, Timestamps
from inorder_worker.service import Worker
from inorder_worker.store.journal import Member, MemoryJournal, MemoryStore


class _BeatJournal(TestJournal):
    """Counts beats, and those that were tried; ``beat_error`` is raised by each while it is set."""

    tried = 0
    beats = 0
    beat_error: StoreError | None = None

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        self.tried += 1
        if self.beat_error is not None:
            raise self.beat_error
        super().beat(owned, member)
        self.beats += 1


async def test_each_stage_tells_a_client_what_it_has_of_its_session() -> None:
    """Once it is durable, so it proves as much as a commit does; and ahead of the welcome: whoever asks for something
    knows before what was dropped."""
    journal = TestJournal()
    async with Worker(settings(stages=2, session_timeout=7.0), journal=journal) as worker:
        async with RawClient(worker.address, incarnation=5) as client:
            assert client.opened == [Opened(0, 1, False, 0, 7000), Opened(1, 1, False, 0, 7000)]
            await client.subscribe("a")
        async with RawClient(worker.address, incarnation=5) as client:
            assert client.opened == [Opened(0, 1, True, 1, 7000), Opened(1, 1, True, 1, 7000)]
        async with RawClient(worker.address, incarnation=6) as client:
            assert [(each.known, each.version) for each in client.opened] == [(False, 0), (False, 0)]


async def test_a_client_that_is_new_here_says_what_it_has_asked_for_before() -> None:
    """Of each stage; where it is forgotten those counters are never numbered (R1)."""
    async with Worker(settings(stages=2), journal=TestJournal()) as worker:
        client = RawClient(worker.address)
        client.hello.asked = [0, 8, 1, 3]
        async with client:
            topic, *_ = await client.resolve("a")
            client.send(CreateTimestamps(topic.stage, 1, [NewEvent(3, topic.id), NewEvent(4, topic.id)]))
            answers = [await client.next(Timestamps) for _ in (0, 1)]
            assert [number for each in answers for number in each.forgotten] == [3]
            assert [event.counter for each in answers for event in each.events] == [4]


async def test_what_was_asked_of_a_stage_below_may_have_been_numbered_above() -> None:
    """R19: such a request rode up. Where the session is forgotten its counter gets no second number (R1)."""
    order = [["s:high"], ["s:low"]]
    async with Worker(settings(stages=2, topic_order=order), journal=TestJournal()) as worker:
        client = RawClient(worker.address)
        client.hello.asked = [0, 2, 1, 8]
        async with client:
            high, *_ = await client.resolve("high")
            assert high.stage == 0
            client.send(CreateTimestamps(0, 1, [NewEvent(8, high.id), NewEvent(9, high.id)]))
            answers = [await client.next(Timestamps) for _ in (0, 1)]
            assert [number for each in answers for number in each.forgotten] == [8]
            assert [event.counter for each in answers for event in each.events] == [9]


async def test_an_idle_worker_shows_with_a_beat_that_it_has_its_stages() -> None:
    journal = _BeatJournal()
    quick = settings(stages=2, beat_interval=0.05)
    async with Worker(quick, journal=journal) as worker, RawClient(worker.address) as client:
        await client.ping()
        rows, beats = len(journal.batches), journal.beats
        client.send(Renew(4))
        assert await client.next(Renewed) == Renewed(4, [0, 1, 1, 1])
        assert journal.beats > beats
        assert len(journal.batches) == rows


async def test_a_commit_of_all_stages_shows_it_as_well() -> None:
    """The next beat is an hour away."""
    journal = _BeatJournal()
    async with Worker(settings(beat_interval=5.0), journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        beats = journal.beats
        client.send(Renew(1), CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        assert (await client.next(Renewed)).request == 1
        assert journal.beats == beats


async def test_a_worker_that_was_fenced_answers_no_more() -> None:
    """It was paused; another one has its stage. The question waited in its socket, and a later one comes: with nothing
    to commit, nothing else would tell it."""
    store = MemoryStore()
    worker = Worker(settings(lease=60.0), journal=TestJournal(store))
    async with worker:
        async with RawClient(worker.address) as client:
            client.send(Renew(1))
            assert (await client.next(Renewed)).request == 1
            MemoryJournal(store).claim(0, "another")
            client.send(Renew(2))
            assert await client.is_closed()
            assert not [each for each in client.skipped if isinstance(each, Renewed) and each.request == 2]
        await until(lambda: worker.state == "standby")


async def test_a_worker_that_is_cut_from_its_store_answers_no_more() -> None:
    """It goes on hearing its clients; the successor does not hear them, and their time runs out there."""
    journal = _BeatJournal()
    quick = settings(beat_interval=0.02, lease=60.0)
    async with Worker(quick, journal=journal) as worker, RawClient(worker.address) as client:
        await client.ping()
        journal.beat_error = disk_full()
        client.send(Renew(1), Ping(9))
        assert (await client.next(Pong)).nonce == 9
        beats, tried = journal.beats, journal.tried
        await until(lambda: journal.tried > tried + 1)
        await client.ping()
        journal.beat_error = None
        await until(lambda: journal.beats > beats)
        client.send(Renew(2))
        assert (await client.next(Renewed)).request == 2
        assert not [each for each in client.skipped if isinstance(each, Renewed)]


async def test_a_worker_that_is_cut_from_its_store_for_a_lease_sends_its_clients_away() -> None:
    """Others take it for dead by then, and clients that ask for nothing would never find out. As soon as the store is
    back, it is as well."""
    journal = _BeatJournal()
    quick = settings(beat_interval=0.02, lease=0.1)
    async with Worker(quick, journal=journal) as worker, RawClient(worker.address) as client:
        await client.ping()
        journal.error, journal.claims_fail = disk_full(), True
        journal.beat_error = journal.error
        assert (await client.failure()).code == "store"
        assert worker.health()[0] is False
        journal.error = journal.beat_error = None
        await until(lambda: worker.health()[0] is True)
        async with RawClient(worker.address) as client:
            await client.ping()


async def test_a_client_that_says_nothing_is_disconnected_however_alive_its_connection_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = TestJournal()
    quick = settings(heads_interval=0.02, session_timeout=0.3)
    async with Worker(quick, journal=journal) as worker, RawClient(worker.address, "talker") as talker:
        silent = RawClient(worker.address, "silent")
        await silent.__aenter__()
        talking = asyncio.create_task(_talk(talker))
        with caplog.at_level(logging.WARNING, "inorder.worker"):
            assert await silent.is_closed()
        await until(lambda: kinds(journal).count("LeaveSession") == 1)
        await silent.close()
        assert not talking.done()
        talking.cancel()
    assert "event=silent_client" in caplog.text
    assert "client=silent " in caplog.text
    assert "talker" not in caplog.text


async def _talk(client: RawClient) -> None:
    while True:
        await client.ping()
        await asyncio.sleep(0.01)


async def test_timers_start_anew_when_a_worker_takes_its_stages() -> None:
    store = MemoryStore()
    for starts in range(3):
        journal = TestJournal(store)
        async with Worker(settings(), journal=journal):
            pass
        assert kinds(journal).count("RestartTimers") == starts


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"session_timeout": 0}, ["session_timeout", "seconds"]),
        ({"session_timeout": 3.9, "beat_interval": 1.0}, ["session_timeout 3.9", "at least 4 beat_intervals"]),
    ],
)
def test_a_timeout_that_an_idle_worker_could_not_keep_is_refused(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidOption) as raised:
        settings(**given)
    for each in words:
        assert each in str(raised.value)
