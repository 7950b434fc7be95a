"""What a client does when its connection to a worker breaks over a frame, and when a stage forgot what it lacks: by a
worker whose losses the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.helpers import Mode, events_of, gaps_of, payloads, take, times, until
from tests.client.stage_worker import StageWorker
from tests.core.cluster import SPACE

from inorder import Bounded, Client, GapReason
from inorder.protocol.wire import (
    AskDurable,
    AskNumbers,
    CreateTimestamps,
    NameTopics,
    Numbers,
    ReadLog,
    Renew,
    Resolve,
    SaveClock,
    Settle,
    Subscribe,
)
from inorder_adapters.memory import Hub, hub
from inorder_adapters.memory.options import MemoryOptions
from inorder_worker.sequencer.commands import StageSettings


@pytest.fixture
async def worker() -> AsyncIterator[StageWorker]:
    async with StageWorker() as made:
        yield made


class Scene:
    """A client of a worker, at a broker of its own."""

    def __init__(self, name: str, worker: StageWorker) -> None:
        self.name, self.worker = name, worker

    @property
    def hub(self) -> Hub:
        return hub(self.name)

    def client(self, client_id: str, *, mode: Mode = "strict", durable: bool = False, **clock: float) -> Client:
        quick = times(**{"gap_timeout": 0.02, "save_delay": 0.001, **clock})
        return Client(
            f"memory://{self.name}", workers=[self.worker.address], client_id=client_id, space=SPACE, mode=mode,
            durable=durable, times=quick,
        )  # fmt: skip

    def lose(self, client_id: str, share: float) -> None:
        """Let a client miss this share of what comes next."""
        self.hub.members[client_id].line._options = MemoryOptions(loss=share)


@pytest.fixture
def scene(worker: StageWorker, tmp_path: Path) -> Scene:
    return Scene(f"asked-again-{tmp_path.name}", worker)


ALL = {AskDurable, Subscribe, Resolve, CreateTimestamps, Settle, SaveClock, NameTopics, AskNumbers, ReadLog}


@pytest.mark.parametrize("what", ["frame", "answer"])
async def test_whatever_was_unanswered_when_the_connection_broke_is_asked_again(
    scene: Scene, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1, R7, R11, R13, R16, R17, R18: each kind of frame, or its answer, is lost with its connection once. Else
    publishers wait for ever, subscribers hold what they have not got the names of, clocks stay unsaved."""
    worker = scene.worker
    monkeypatch.setattr("inorder.endpoint.durable.ASK_AGAIN", 0.05)
    worker.log_all()
    worker.lost, worker.loses_answers = set(ALL), what == "answer"
    async with scene.client("one", durable=True) as one:
        async with asyncio.timeout(60):
            await one.subscribe("a", "n/#")
            await one.publish("a", b"1")
            await one.publish("n/1", b"2")
            stream = one.events()
            seen = [await anext(stream), await anext(stream)]
            scene.lose("one", 1.0)
            await one.publish("a", b"3")
            await until(lambda: worker.cluster.stages[0].heads("one", None) == [1, 2, 2, 1], "what is confirmed")
            worker.tell_heads()
            seen.append(await anext(stream))
            scene.lose("one", 0.0)
            await one.publish("a", b"4")
            seen.append(await anext(stream))
            assert payloads(seen) == [b"1", b"2", b"3", b"4"]
            saved = worker.cluster.stages[0]._state.clocks["one"].numbers
            await until(lambda: saved == {1: 2, 2: 1}, "the clock that is saved")
    assert worker.lost == set()
    once = {kind for kind in ALL if worker.count(kind) < 2}
    assert once == ({Resolve} if what == "answer" else set()), "a new connection is told of all topics with a log"


@pytest.mark.parametrize("is_logged", [False, True])
async def test_what_the_stage_has_forgotten_makes_the_topic_begin_anew(tmp_path: Path, is_logged: bool) -> None:
    """R17: nobody knows any more what the missing numbers depended on, nor has an event log all of them. A client that
    is told so and subscribes to nothing anew would wait for ever."""
    async with StageWorker(StageSettings(number_retention=1)) as worker:
        scene = Scene(f"forgotten-{tmp_path.name}", worker)
        async with scene.client("one") as one, scene.client("two") as two, asyncio.timeout(60):
            if is_logged:
                worker.log_all()
            await one.subscribe("a")
            scene.lose("one", 1.0)
            for payload in (b"1", b"2", b"3", b"4"):
                await two.publish("a", payload)
            await until(lambda: worker.cluster.stages[0].heads("one", None) == [1, 4])
            scene.lose("one", 0.0)
            if is_logged:
                worker.cluster.log[1].clear()
            worker.is_deaf_to.add(Subscribe)
            await two.publish("a", b"5")
            await until(lambda: worker.count(Subscribe) == 2, "the subscription that begins anew")
            assert [each.anew for each in worker.seen if isinstance(each, Subscribe)] == [False, True]
            worker.is_deaf_to.clear()
            worker.hang_up()
            (gap,) = gaps_of(await take(one, 1))
            assert (gap.first, gap.reason) == (1, GapReason.EXPIRED)
            await two.publish("a", b"6")
            assert events_of(await take(one, 6 - gap.last))[-1].payload == b"6"


async def test_what_is_missing_is_asked_for_again_and_again_though_nothing_else_happens(scene: Scene) -> None:
    """R17, R12: timers of the client alone. The worker takes the question, and does not answer."""
    worker = scene.worker
    worker.is_deaf_to.add(AskNumbers)
    async with scene.client("one") as one, scene.client("two") as two, asyncio.timeout(60):
        await one.subscribe("a")
        scene.lose("one", 1.0)
        await two.publish("a", b"1")
        scene.lose("one", 0.0)
        await two.publish("a", b"2")
        await until(lambda: worker.count(AskNumbers) >= 3, "questions")
        worker.is_deaf_to.clear()
        seen = await take(one, 2)
        assert [(each.first, each.last, each.reason) for each in gaps_of(seen)] == [(1, 1, GapReason.LOST)]


async def test_a_bounded_reader_lets_go_in_time_though_nothing_else_happens(scene: Scene, worker: StageWorker) -> None:
    """R6: ``max_wait`` is over, and neither broker nor worker says a word."""
    mode = Bounded(buffer=None, max_wait=0.05)
    async with scene.client("one", mode=mode, gap_timeout=600.0) as one, scene.client("two") as two:
        await one.subscribe("a")
        scene.lose("one", 1.0)
        await two.publish("a", b"1")
        worker.tell_heads()
        await one.publish("x", b"so that the head was heard: it is to be asked about in ten minutes")
        scene.lose("one", 0.0)
        await two.publish("a", b"2")
        assert payloads(await take(one, 1)) == [b"2"]


async def test_the_lease_is_asked_for_though_nothing_else_happens(scene: Scene, worker: StageWorker) -> None:
    """R12: a client that asked once would hold everything back after half of its timeout."""
    worker.cluster.stages[0]._state.settings = StageSettings(session_timeout_ms=300)
    async with scene.client("one") as one:
        await one.subscribe("a")
        await until(lambda: worker.count(Renew) >= 8, "questions about the lease")
        await one.publish("a", b"1")
        assert payloads(await take(one, 1)) == [b"1"]


async def test_names_are_asked_for_once_while_nobody_answers(scene: Scene, worker: StageWorker) -> None:
    """R13: an answer names what was asked for, and only that; so the client waits for it, on this connection."""
    worker.is_deaf_to.add(NameTopics)
    async with scene.client("one") as one, scene.client("two") as two, asyncio.timeout(60):
        await one.subscribe("n/#")
        for at in range(3):
            await two.publish("n/1", str(at).encode())
        await until(lambda: one.stats().waiting > 0 or worker.count(NameTopics) > 0)
        await two.publish("x", b"meanwhile")
        assert worker.count(NameTopics) == 1
        worker.is_deaf_to.clear()
        worker.hang_up()
        assert payloads(await take(one, 3)) == [b"0", b"1", b"2"]
        assert worker.count(NameTopics) == 2


async def test_an_event_that_depends_on_a_topic_being_subscribed_waits_for_its_start(scene: Scene) -> None:
    """R9: the stage has taken the subscription to b, and its answer is not here yet. Whoever has both topics sees the
    event of b first."""
    worker = scene.worker
    async with scene.client("one") as one, scene.client("two") as two, asyncio.timeout(60):
        await one.subscribe("a")
        await two.subscribe("a", "b")
        worker.is_deaf_to.add(Subscribe)
        task = asyncio.create_task(one.subscribe("b"))
        await until(lambda: worker.count(Subscribe) == 3)
        await two.publish("b", b"first")
        await two.publish("a", b"second")
        assert payloads(await take(two, 2)) == [b"first", b"second"]
        await until(lambda: one.stats().waiting > 0, "the event that waits")
        worker.answer_late()
        await task
        seen = events_of(await take(one, 2))
        assert [(each.payload, each.verdict) for each in seen] == [(b"first", "in_order"), (b"second", "in_order")]


async def test_an_answer_about_a_topic_that_was_left_meanwhile_ends_nothing(scene: Scene) -> None:
    """R11, R17: the stage has forgotten what was missing there, and nobody misses it any more."""
    worker = scene.worker
    worker.is_deaf_to.add(AskNumbers)
    worker.instead[AskNumbers] = lambda frame: [Numbers(frame.request, frame.topic, [], 1)]
    async with scene.client("one") as one, scene.client("two") as two, asyncio.timeout(60):
        await one.subscribe("a", "b")
        scene.lose("one", 1.0)
        await two.publish("a", b"1")
        scene.lose("one", 0.0)
        await two.publish("a", b"2")
        await until(lambda: worker.count(AskNumbers) > 0, "a question")
        await one.unsubscribe("a")
        before = worker.count(Subscribe)
        worker.answer_late()
        await two.publish("b", b"3")
        assert payloads(await take(one, 1)) == [b"3"]
        assert worker.count(Subscribe) == before
