"""Topics, stuck numbers and single events, as real workers show them; numbers that operators release and repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.admin.fake_worker import FakeWorker
from tests.admin.helpers import cluster_at
from tests.client.helpers import PATIENCE, events_of, gaps_of, payloads, published, take, take_events
from tests.client.test_several_workers import TwoStages
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption, Refused, UnknownTopic
from inorder.protocol.names import exact
from inorder.protocol.wire import (
    ClientCounts,
    Logged,
    LogRule,
    NewEvent,
    NumberState,
    Report,
    Reported,
    ShowOpenNumbers,
    TopicInfo,
    Wait,
    encode_logged,
)
from inorder_worker.admin import Cluster, StuckNumber

VOID, PENDING, CONFIRMED = NumberState.VOID, NumberState.PENDING, NumberState.CONFIRMED


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoStages]:
    made = TwoStages(tmp_path)
    async with made.stack:
        yield made


async def topic_of(raw: RawClient, name: str) -> TopicInfo:
    return (await raw.resolve(name, space="memory"))[0]


async def test_topics_come_with_their_figures_in_the_topic_order(two: TwoStages) -> None:
    both = await two.worker(0, 1)
    async with two.client("one", both.address) as one, two.client("two", both.address) as other:
        for each in (one, other):
            await each.subscribe("top", "low")
        await published(one, "low", 3)
        await take_events(one, 3)
        async with RawClient(both.address) as raw, Cluster([both.address]) as cluster:
            await raw.create(await topic_of(raw, "low"), 1, 2)
            await cluster.release(2, 4, 4, "void")
            await cluster.pin([1], is_pinned=True)
            low = None
            async with asyncio.timeout(PATIENCE):
                while low is None or low.confirmed < 3 or not low.rate:
                    top, low = await cluster.topics()
                    await asyncio.sleep(0.05)
            assert (top.id, top.name, top.stage, top.rank, top.pinned, top.number) == (1, "top", 0, 1, True, 0)
            assert (low.id, low.name, low.stage, low.rank, low.pinned, low.number) == (2, "low", 1, 2, False, 5)
            assert (low.confirmed, low.pending, low.void, low.abandoned, low.late, low.head) == (3, 1, 1, 0, 0, 3)
            assert (low.group_size, low.group, top.group) == (1, (1,), (2,))
            assert low.rate > 0 == top.rate
            (again,) = await cluster.topics([2, 99], groups=False)
            assert (again.id, again.group_size, again.group) == (2, 1, ())


async def test_topics_of_a_stage_that_nobody_answers_for_come_without_figures(two: TwoStages) -> None:
    _, low = await two.worker(0), await two.worker(1)
    async with cluster_at(low.address) as cluster:
        assert [each.is_reached for each in await cluster.topics()] == [True, True]
        await two.stop_worker(0)
        assert [each.is_reached for each in await cluster.topics()] == [False, True]


async def test_many_topics_come_in_several_answers(two: TwoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder_worker.sequencer.inspection.TOPICS_SHOWN", 3)
    both = await two.worker(0, 1)
    async with Cluster([both.address]) as cluster:
        made = [await cluster.create("memory", f"t{at}") for at in range(10)]
        assert [each.name for each in await cluster.topics()] == ["top", "low", *(each.name for each in made)]
        some = [each.id for each in made[2:5]]
        assert [each.id for each in await cluster.topics(some)] == some


async def test_a_stuck_number_is_shown_released_and_skipped(two: TwoStages) -> None:
    """A publisher that does not confirm; the subscriber waits, and goes on."""
    both = await two.worker(0, 1)
    async with two.client("reader", both.address) as reader, RawClient(both.address, "silent") as raw:
        await reader.subscribe("low")
        low = await topic_of(raw, "low")
        await raw.create(low, 1, 2)
        await published(reader, "low", 1)
        async with Cluster([both.address]) as cluster:
            async with asyncio.timeout(PATIENCE):
                while len(found := await cluster.stuck(older_s=0.0)) > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)  # until the number of the reader's own event is confirmed
            (stuck,) = found
            assert stuck == StuckNumber(
                2, 1, 2, PENDING, "publisher connected, not confirmed", None, "silent", 0, stuck.age_ms, False
            )
            assert (await cluster.stuck(older_s=3_600)) == []
            await raw.close()
            async with asyncio.timeout(PATIENCE):
                while (stuck := (await cluster.stuck(older_s=0.0))[0]).reason != "publisher away":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert stuck.away_ms > 0
            assert await cluster.release(2, 1, 1, "void") == [1]
            assert await cluster.release(2, 1, 3, "abandoned") == [2]
            seen = await take(reader, 2)
            assert payloads(seen) == [b"0"]
            assert [(gap.first, gap.last, gap.reason) for gap in gaps_of(seen)] == [(2, 2, "abandoned")]
            assert await cluster.stuck(older_s=0.0) == []
            with pytest.raises(Refused, match="none of the numbers 1 to 3 is pending; the topic has none"):
                await cluster.release(2, 1, 3, "void")


async def test_what_clients_wait_for_is_shown_whatever_the_cause(two: TwoStages) -> None:
    """A number that was never given, and one that was confirmed; topics that are not there are left out."""
    both = await two.worker(0, 1)
    async with RawClient(both.address, "reader") as raw, Cluster([both.address]) as cluster:
        low = await topic_of(raw, "low")
        one, two_ = await raw.create(low, 1, 2)
        await raw.confirm(one, low.stage)
        waits = [Wait(2, 99, 1, 7, 3, 5_000), Wait(2, 1, 1, 8, 1, 4_000), Wait(2, 2, 1, 9, 1, 3_000)]
        others = [Wait(2, 98, 1, 6, 1, 900), Wait(4711, 1, 1, 5, 1, 9_000)]
        raw.send(Report(1, True, ClientCounts(), waits=waits + others))
        await raw.next(Reported)
        found = await cluster.stuck(older_s=0.0)
        assert two_.number == 2
        assert [(each.first, each.state, each.reason, each.waiting, each.holds, each.is_open) for each in found] == [
            (1, NumberState.CONFIRMED, "confirmed, and has not arrived", ("reader",), (1, 8), False),
            (2, PENDING, "publisher connected, not confirmed", ("reader",), (1, 9), True),
            (98, NumberState.UNKNOWN, "was never given", ("reader",), (1, 6), False),
            (99, NumberState.UNKNOWN, "was never given", ("reader",), (1, 7), False),
        ]
        assert [each.first for each in await cluster.stuck(older_s=1.0) if not each.is_open] == [1, 99]
        assert (await cluster.waiting_for(1, 7), await cluster.waiting_for(2, 99)) == (["reader"], ["reader"])
        assert await cluster.waiting_for(1, 4) == []


async def test_what_the_event_log_has_is_repaired(two: TwoStages) -> None:
    """The broker never got it; the subscriber gets it from the log."""
    both = await two.worker(0, 1)
    async with Cluster([both.address]) as cluster, two.client("reader", both.address) as reader:
        await cluster.change_log(LogRule("memory", exact("low")), is_on=True)
        await reader.subscribe("low")
        async with RawClient(both.address, "silent") as raw:
            low = await topic_of(raw, "low")
            raw.send_create(low, NewEvent(1, low.id, [], encode_logged(Logged(b"kept"))))
            await raw.stamped(1)
            with pytest.raises(Refused, match="repair them instead"):
                await cluster.release(low.id, 1, 1, "void")
            (stuck,) = await cluster.stuck(older_s=0.0)
            assert stuck.logged
            assert await cluster.confirm_logged(low.id, 1, 1) == [1]
        (event,) = events_of(await take_events(reader, 1))
        assert (event.payload, event.repaired) == (b"kept", True)


async def test_a_timestamp_that_cannot_be_completed_names_the_stage_it_waits_for(two: TwoStages) -> None:
    _, low = await two.worker(0), await two.worker(1)
    clients = two.client("a", low.address), two.client("b", low.address)
    async with cluster_at(low.address) as cluster, RawClient(low.address) as raw, clients[0], clients[1]:
        for each in clients:
            await each.subscribe("top", "low")
        await two.stop_worker(0)
        topic = await topic_of(raw, "low")
        raw.send_create(topic, NewEvent(1, topic.id))
        await raw.ping()
        (stuck,) = await cluster.stuck(older_s=0.0)
        assert (stuck.waits_for, stuck.reason) == (0, "timestamp waits for stage 0")
        found = await cluster.find_event(topic.id, 1)
        assert found is not None
        assert (found.is_complete, found.deps, found.state) == (False, (), PENDING)


async def test_an_event_is_found_by_its_number_and_by_its_id(two: TwoStages) -> None:
    _, low = await two.worker(0), await two.worker(1)
    async with cluster_at(low.address) as cluster, RawClient(low.address, "desk", incarnation=-7) as raw:
        await cluster.change_log(LogRule("memory", exact("low")), is_on=True)
        topic = await topic_of(raw, "low")
        raw.send_create(topic, NewEvent(1, topic.id, [], encode_logged(Logged(b"x", 1))), NewEvent(2, topic.id))
        await raw.confirm((await raw.stamped(1))[0], stage=1)
        found = await cluster.find_event(topic.id, 1)
        assert found is not None
        assert (found.state, found.is_complete, found.deps) == (CONFIRMED, True, ())
        assert (found.client_id, found.incarnation, found.counter) == ("desk", -7, 1)
        assert (found.logged, found.content) == (True, Logged(b"x", 1))
        assert found.stored_ms > 1_700_000_000_000
        assert await cluster.find_event_by_id("desk", -7, 1) == found
        other = await cluster.find_event_by_id("desk", -7, 2)
        assert other is not None
        assert (other.number, other.state, other.content) == (2, PENDING, None)
        assert await cluster.number_states([(topic.id, 1), (topic.id, 2), (1, 1)]) == {
            (topic.id, 1): CONFIRMED,
            (topic.id, 2): PENDING,
        }
        assert await cluster.find_event(topic.id, 3) is None
        assert await cluster.find_event_by_id("desk", 7, 1) is None
        assert await cluster.find_event_by_id("nobody", -7, 1) is None
        with pytest.raises(UnknownTopic):
            await cluster.find_event(99, 1)


async def test_a_wrong_question_is_refused_before_it_is_asked() -> None:
    async with FakeWorker(lambda frame: []) as worker, Cluster([worker.address]) as cluster:
        for first, last in ((0, 1), (2, 1), (1, 2**63)):
            with pytest.raises(InvalidOption):
                await cluster.release(1, first, last, "void")
        with pytest.raises(InvalidOption, match="void or abandoned"):
            await cluster.release(1, 1, 1, "lost")  # type: ignore[arg-type]
        with pytest.raises(InvalidOption):
            await cluster.find_event(1, 0)
        with pytest.raises(InvalidOption):
            await cluster.find_event_by_id("desk", 2**63, 1)
        assert worker.accepted == 0


async def test_a_worker_of_an_older_release_is_not_asked_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would close the connection, which all questions share."""
    monkeypatch.setattr(ShowOpenNumbers, "from_version", 2)
    async with FakeWorker(lambda frame: []) as worker, Cluster([worker.address]) as cluster:
        with pytest.raises(Refused, match="upgrade it first"):
            await cluster.stuck()
        assert worker.asked == []
