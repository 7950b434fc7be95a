"""What a worker must not say, and must say in time: answers to others, proofs of stages it let go, who has what."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec
import pytest
from tests.worker.helpers import TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import (
    AskNumbers,
    ChangeOrder,
    CreateTimestamps,
    FindNumber,
    Frame,
    Heads,
    Moved,
    NewEvent,
    Numbers,
    OrderChanged,
    ReadLog,
    Renew,
    Renewed,
    Settle,
    Settled,
    Timestamps,
)
from inorder_worker.sequencer.commands import AnyCommand, CreateTopics
from inorder_worker.service import Worker
from inorder_worker.store.journal import Batch, Member, MemoryJournal, MemoryStore

ORDER = [["s:u"], ["s:v"]]


class CountingJournal(TestJournal):
    """Counts beats."""

    beats = 0

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        super().beat(owned, member)
        self.beats += 1


async def test_r12_a_commit_of_one_stage_proves_nothing_of_the_others() -> None:
    """The store has looked at the epoch of one stage; of the other one this worker may have been deprived."""
    journal = CountingJournal()
    two = settings(stages=2, topic_order=ORDER, beat_interval=5.0)
    async with Worker(two, journal=journal) as worker, RawClient(worker.address) as client:
        u, v = await client.resolve("u", "v")
        beats, rows = journal.beats, len(journal.batches)
        client.send(Renew(1), CreateTimestamps(1, 1, [NewEvent(1, v.id)]))
        await client.next(Timestamps)
        assert [each.stage for each in journal.batches[rows]] == [1]
        await client.ping()
        client.send(Renew(2), CreateTimestamps(1, 1, [NewEvent(2, v.id)]), CreateTimestamps(0, 1, [NewEvent(3, u.id)]))
        assert (await client.next(Renewed)).request == 2
        assert journal.beats == beats
        assert not [each for each in client.skipped if isinstance(each, Renewed)]


async def test_r12_a_stage_that_was_handed_over_is_not_proven_by_what_was_asked_before() -> None:
    """The answer would name it, and wait for the beat of what is left."""
    journal = CountingJournal()
    two = settings(stages=2, topic_order=ORDER, beat_interval=5.0)
    async with Worker(two, journal=journal) as worker, RawClient(worker.address) as client:
        _, v = await client.resolve("u", "v")
        client.send(Renew(1), CreateTimestamps(1, 1, [NewEvent(1, v.id)]))
        await client.next(Timestamps)
        worker._host.tenure.hand_over(1)
        await until(lambda: not worker._host.has(1))
        beats = journal.beats
        worker._host.heartbeat.look_around_soon()
        await until(lambda: journal.beats > beats)
        client.send(Renew(2))
        answer = await client.next(Renewed)
        assert (answer.request, answer.stages) == (2, [0, 1])
        assert not [each for each in client.skipped if isinstance(each, Renewed)]


async def test_what_is_told_to_a_former_incarnation_does_not_reach_the_present_one() -> None:
    """Its subscription is still that of the former one; the notice speaks of numbers that this one knows nothing of."""
    async with (
        Worker(settings(), journal=TestJournal()) as worker,
        RawClient(worker.address, "p") as publisher,
        RawClient(worker.address, "r", 1) as former,
    ):
        await former.subscribe("a")
        topic, *_ = await publisher.resolve("a")
        async with RawClient(worker.address, "r", 2) as present:
            event, *_ = await publisher.create(topic, 1)
            publisher.send(Settle(0, 1, [], [topic.id, event.number, event.number]))
            await publisher.next(Settled)
            await present.ping()
            assert not [each for each in present.skipped if isinstance(each, Numbers)]


async def test_r17_who_subscribes_is_told_all_heads_of_what_it_has_now() -> None:
    """They have not changed since this connection was told of others."""
    async with (
        Worker(settings(heads_interval=0.02), journal=TestJournal()) as worker,
        RawClient(worker.address, "p") as publisher,
        RawClient(worker.address, "r") as reader,
    ):
        a, b = await publisher.resolve("a", "b")
        for counter, topic in enumerate((a, b), start=1):
            await publisher.confirm((await publisher.create(topic, counter))[0])
        await reader.subscribe("b")
        assert (await reader.next(Heads)).heads == [b.id, 1]
        await reader.subscribe("a", "b", version=2)
        assert (await reader.next(Heads)).heads == [a.id, 1, b.id, 1]


@pytest.mark.parametrize(
    "question",
    [
        lambda topic: AskNumbers(7, 0, topic, [1, 1]),
        lambda topic: ReadLog(7, 0, topic, [1, 1]),
        lambda topic: FindNumber(7, 0, topic, 1),
    ],
    ids=["numbers", "log", "find"],
)
async def test_r14_who_asks_where_a_topic_was_hears_where_it_is(question: Callable[[int], Frame]) -> None:
    """Else it asks there for ever: it was away when the order changed."""
    two = settings(stages=2, topic_order=ORDER)
    async with Worker(two, journal=TestJournal()) as worker, RawClient(worker.address, "op") as operator:
        u, v = await operator.resolve("u", "v")
        operator.send(ChangeOrder(1, 2, [[v.id], [u.id]]))
        assert (await operator.next(OrderChanged)).refusal == ""
        async with RawClient(worker.address, "late") as client:
            client.send(question(u.id))
            moved = await client.next(Moved)
            assert (moved.stage, moved.order_epoch, moved.homes) == (0, 2, [u.id, 1])


_entries = msgspec.msgpack.Encoder()


class LateJournal(TestJournal):
    """A successor's; at its claim the former owner's last row arrives, which it has not read yet."""

    late: AnyCommand | None = None

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        if self.late is not None:
            command, self.late = self.late, None
            former = MemoryJournal(self.store)
            former.open(1)
            former._tails[stage] = former._tail(stage)
            entries = _entries.encode([(1, [command])])
            former.append([Batch(stage, self.store.epochs[stage], former.last_row(stage) + 1, entries)])
        return super().claim(stage, owner, seen, address, beat)


async def test_what_the_former_owner_wrote_until_the_epoch_rose_is_known_to_its_successor() -> None:
    """Whoever reads the tail before it raises the epoch gives numbers a second time."""
    store = MemoryStore()
    async with Worker(settings(), journal=TestJournal(store)) as first, RawClient(first.address) as client:
        await client.resolve("a")
    journal = LateJournal(store)
    journal.late = CreateTopics("raw", 1, 1, [("s", "late")])
    async with Worker(settings(), journal=journal) as second, RawClient(second.address) as client:
        assert [each.id for each in await client.resolve("a", "late", "next")] == [1, 2, 3]


async def test_r2_rides_of_a_stage_that_came_leave_on_a_link_that_was_open_before() -> None:
    """The other worker takes rides of a stage only of who has said that it has it; so the link is made anew."""
    store = MemoryStore()

    def worker(*stages: int, **changes: object) -> Worker:
        order = [["s:u"], ["s:v"], ["s:w"]]
        how = {"stages": 3, "hosted": list(stages), "topic_order": order, "beat_interval": 0.02, "name": str(stages)}
        return Worker(settings(**{**how, **changes}), journal=TestJournal(store))

    async with contextlib.AsyncExitStack() as middle:
        await middle.enter_async_context(worker(1))
        async with worker(0), worker(2, 1) as below, RawClient(below.address) as client:
            _, v, w = await client.resolve("u", "v", "w")
            await client.subscribe("u", "v", "w")
            async with RawClient(below.address, "other") as other:
                await other.subscribe("u", "v", "w")
            await until(lambda: below.status()["links"] == {"0": 0, "1": 0})
            await middle.aclose()
            await until(lambda: below._host.has(1))
            await client.close()
            async with RawClient(below.address) as again:
                again.send(CreateTimestamps(2, 1, [NewEvent(1, w.id)]))
                event, *_ = (await again.next(Timestamps)).events
                assert (event.topic, event.number) == (w.id, 1)
                again.send(CreateTimestamps(1, 1, [NewEvent(2, v.id)]))
                event, *_ = (await again.next(Timestamps)).events
                assert (event.topic, event.deps) == (v.id, [w.id, 1])
