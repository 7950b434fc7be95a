"""What operators ask of the workers, wherever the stages are, and what they hear when a worker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.admin.fake_worker import FakeWorker
from tests.admin.helpers import cluster_at
from tests.client.helpers import PATIENCE, payloads, published, take_events, until
from tests.client.test_several_workers import TwoStages

from inorder.errors import (
    ChangeUnderWay,
    Forbidden,
    InvalidOption,
    InvalidTopic,
    OutcomeUnknown,
    Refused,
    StaleOrder,
    Unauthorized,
    UnknownTopic,
    WorkerUnreachable,
)
from inorder.protocol.filters import filter_of
from inorder.protocol.names import exact
from inorder.protocol.wire import (
    Access,
    ChangeOrder,
    ClientFrame,
    ClusterMap,
    Frame,
    LogRule,
    OrderChanged,
    ShowOrder,
    StageInfo,
    TopicOrder,
)
from inorder.testing.services import free_port
from inorder_worker.admin import Cluster

ORDER = TopicOrder(0, 1, 1, [], [])


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoStages]:
    made = TwoStages(tmp_path)
    async with made.stack:
        yield made


async def test_the_address_of_one_worker_is_enough(two: TwoStages) -> None:
    """Whichever it is; each question goes to the worker that has the stage."""
    top, low = await two.worker(0), await two.worker(1)
    for address in (top.address, low.address):
        async with cluster_at(f"127.0.0.1:{free_port()}", address) as cluster:
            assert [each.address for each in await cluster.stages()] == [top.address, low.address]
            now = await cluster.order()
            assert [(each.name, each.stage) for each in now.topics] == [("top", 0), ("low", 1)]


async def test_everything_that_is_shown_can_be_changed(two: TwoStages) -> None:
    top, _ = await two.worker(0), await two.worker(1)
    async with cluster_at(top.address) as cluster, two.client("desk", top.address) as client:
        made = await cluster.create("memory", "new")
        assert (made.name, made.stage) == ("new", 1)
        assert await cluster.create("memory", "new") == made
        assert await cluster.pin([made.id], is_pinned=True) == 1
        assert (await cluster.order()).pinned == [made.id]
        assert await cluster.pin([made.id], is_pinned=False) == 1
        await cluster.change_log(LogRule("memory", filter_of("memory", "#")), is_on=True)
        assert [rule.filter.text for rule in await cluster.log_rules()] == ["#"]
        assert [[each.name for each in part] async for part in cluster.logged_topics()] == [["top", "low", "new"]]
        await client.subscribe("top")
        await published(client, "top", 3)
        assert payloads(await take_events(client, 3)) == [b"0", b"1", b"2"]
        topic = (await cluster.order()).topics[0].id
        page = await cluster.read_log(topic, 1, 100, limit=2)
        assert ([each.number for each in page.events], page.through, page.last) == ([1, 2], 2, 3)
        (known,) = await cluster.subscriptions()
        assert (known.client_id, known.topics) == ("desk", 1)
        with pytest.raises(Refused, match="connected"):
            await cluster.end_subscription("desk")


async def test_a_topic_is_found_where_it_moved(two: TwoStages) -> None:
    """What is asked about it meanwhile goes to its new home."""
    top, _ = await two.worker(0), await two.worker(1)
    async with cluster_at(top.address) as cluster, cluster_at(top.address) as other:
        await cluster.change_log(LogRule("memory", exact("low")), is_on=True)
        topic = (await cluster.order()).topics[1].id
        assert (await other.read_log(topic, 1, 9)).events == []
        assert await cluster.change(2, [[topic], []]) == 2
        assert (await other.read_log(topic, 1, 9)).events == []
        with pytest.raises(StaleOrder) as stale:
            await other.change(2, [[], [topic]])
        assert stale.value.order_epoch == 2
        with pytest.raises(Refused, match="present topic order"):
            await other.change(3, [[], []])
        with pytest.raises(UnknownTopic, match="99"):
            await other.read_log(99, 1, 1)


async def test_a_stage_is_found_at_another_worker(two: TwoStages) -> None:
    """A worker ends and another one takes its stage: the next question goes there by itself."""
    top, _ = await two.worker(0), await two.worker(1)
    async with cluster_at(top.address) as cluster:
        await cluster.create("memory", "a")
        await two.stop_worker(1)
        later = await two.worker(1)
        async with asyncio.timeout(PATIENCE):
            while (await cluster.stages())[1].address != later.address:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert [each.name for each in (await cluster.order()).topics] == ["top", "low", "a"]


async def test_a_stage_that_nobody_has_is_named(two: TwoStages) -> None:
    top = await two.worker(0)
    async with Cluster([top.address]) as cluster:
        with pytest.raises(WorkerUnreachable, match="none of them has stage 1"):
            await cluster.order()
        await two.worker(1)
        async with asyncio.timeout(PATIENCE):
            while not (await cluster.stages())[1].epoch:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await cluster.order()).stages == 2


async def test_any_number_of_questions_share_a_connection(two: TwoStages) -> None:
    both = await two.worker(0, 1)
    async with Cluster([both.address]) as cluster:
        answers = await asyncio.gather(*(cluster.order() for _ in range(50)), *(cluster.log_rules() for _ in range(50)))
        assert len(answers) == 100
        assert both.status()["sessions"] == 1


async def test_nobody_is_there(two: TwoStages) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    async with Cluster([nobody]) as cluster:
        with pytest.raises(WorkerUnreachable, match=nobody):
            await cluster.order()
        top = await two.worker(0, token="secret")
        async with Cluster([nobody, top.address]) as other:
            with pytest.raises(Unauthorized):
                await other.order()


def closes(kind: type[Frame], times: int = 1) -> FakeWorker:
    """Return a worker that closes the connection when it is asked this, so often, and else answers."""
    left = times

    def answer(frame: ClientFrame) -> list[Frame] | None:
        nonlocal left
        if isinstance(frame, kind) and left:
            left -= 1
            return None
        if isinstance(frame, ShowOrder):
            return [TopicOrder(frame.request, 1, 1, [], [])]
        return [OrderChanged(getattr(frame, "request"), 2)]  # noqa: B009

    return FakeWorker(answer)


async def test_a_question_that_got_no_answer_is_asked_once_more() -> None:
    async with closes(ShowOrder) as worker, Cluster([worker.address]) as cluster:
        assert (await cluster.order()).order_epoch == 1
        assert [type(each) for each in worker.asked] == [ShowOrder, ShowOrder]
    async with closes(ShowOrder, times=2) as worker, Cluster([worker.address]) as cluster:
        with pytest.raises(WorkerUnreachable, match="closed the connection"):
            await cluster.order()


async def test_nothing_is_asked_over_a_connection_that_is_just_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader hears of the end a turn of the event loop later; until then uvloop raises for what is written."""
    connect, write, writers = asyncio.open_connection, asyncio.StreamWriter.write, list[asyncio.StreamWriter]()

    async def opened(*args: Any, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await connect(*args, **kwargs)
        writers.append(writer)
        return reader, writer

    def written(writer: asyncio.StreamWriter, data: bytes) -> None:
        if writer.is_closing():
            raise RuntimeError("the handler is closed")
        write(writer, data)

    monkeypatch.setattr(asyncio, "open_connection", opened)
    monkeypatch.setattr(asyncio.StreamWriter, "write", written)
    async with closes(ShowOrder, times=0) as worker, Cluster([worker.address]) as cluster:
        await cluster.order()
        writers[-1].transport.abort()
        assert (await cluster.order()).order_epoch == 1
        assert worker.accepted == 2
        writers[-1].transport.abort()
        assert await cluster.change(2, [[]]) == 2, "it was certainly not made before"


async def test_a_worker_that_dies_during_a_change_leaves_its_outcome_unknown() -> None:
    """It is not asked again: it may have been made. What was asked before and after is not touched by that."""
    async with closes(ChangeOrder) as worker, Cluster([worker.address]) as cluster:
        await cluster.order()
        with pytest.raises(OutcomeUnknown, match="epoch 2") as unknown:
            await cluster.change(2, [[]])
        assert unknown.value.what == "the topic order was changed to epoch 2"
        assert [type(each) for each in worker.asked] == [ShowOrder, ChangeOrder]
        assert await cluster.change(2, [[]]) == 2
        assert worker.accepted == 2


async def test_a_worker_that_stands_still_is_not_waited_for() -> None:
    """One that steps nothing loses its connection; one that has only not answered yet keeps it."""
    async with FakeWorker(lambda frame: []) as worker, Cluster([worker.address], timeout=0.05) as cluster:
        for connections in (1, 1):
            with pytest.raises(OutcomeUnknown, match=r"within 0\.05 s"):
                await cluster.change(2, [[]])
            assert worker.accepted == connections
        worker.takes = False
        with pytest.raises(WorkerUnreachable, match=r"within 0\.05 s"):
            await cluster.order()
        assert worker.accepted == 2


async def test_a_change_for_a_stage_that_has_gone_is_made_where_it_is() -> None:
    """The worker answers with the map before it has stepped anything behind the question."""
    async with FakeWorker(lambda frame: [OrderChanged(frame.request, 2)]) as new:  # type: ignore[union-attr]
        moved = StageInfo(0, 2, new.address)
        async with FakeWorker(lambda frame: [ClusterMap([moved])]) as old, Cluster([old.address]) as cluster:
            new.stages = [StageInfo(0, 2, "")]
            assert await cluster.change(2, [[]]) == 2
            assert len(old.asked) == len(new.asked) == 1


async def test_a_change_that_left_with_its_stage_is_not_made_again() -> None:
    """It was stepped, and had to wait; then the stage went: its answer went to nobody."""
    moved = ClusterMap([StageInfo(0, 2, "127.0.0.1:9")])
    seen: list[Frame] = []

    def answer(frame: ClientFrame) -> list[Frame]:
        seen.append(frame)
        return [] if len(seen) == 1 else [moved, TopicOrder(seen[1].request, 1, 1, [], [])]  # type: ignore[attr-defined]

    async with FakeWorker(answer) as worker, Cluster([worker.address]) as cluster:
        change = asyncio.create_task(cluster.change(2, [[]]))
        await until(lambda: bool(seen))
        question = asyncio.create_task(cluster.order())
        with pytest.raises(OutcomeUnknown, match="another worker"):
            await change
        question.cancel()


async def test_what_the_token_does_not_allow_is_not_sent() -> None:
    """The worker would close the connection."""
    async with FakeWorker(lambda frame: []) as worker, Cluster([worker.address]) as cluster:
        worker.access = Access("viewer")
        with pytest.raises(Forbidden, match="role viewer may not send ChangeOrder"):
            await cluster.change(2, [[]])
        assert worker.asked == []


async def test_a_change_under_way_is_told_from_others() -> None:
    text = "another change of the topic order is under way"
    refuses = FakeWorker(lambda frame: [OrderChanged(frame.request, 1, text)])  # type: ignore[union-attr]
    async with refuses as worker, Cluster([worker.address]) as cluster:
        with pytest.raises(ChangeUnderWay):
            await cluster.change(2, [[]])


async def test_what_a_worker_would_close_the_connection_for_is_not_sent() -> None:
    async with FakeWorker(lambda frame: []) as worker, Cluster([worker.address]) as cluster:
        for space, name in (("", "a"), ("m", ""), ("m" * 256, "a"), ("m", "a" * 65_536), ("m", "\ud800")):
            with pytest.raises(InvalidTopic):
                await cluster.create(space, name)
        for epoch, stages in ((0, [[1]]), (2**63, [[1]]), (2, [[0]]), (2, [[-1]])):
            with pytest.raises(InvalidOption):
                await cluster.change(epoch, stages)
        with pytest.raises(InvalidOption):
            await cluster.read_log(1, -1, 2)
        assert worker.accepted == 0
