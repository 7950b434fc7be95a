"""Standbys: following, the lease, the race for a stage, stepping down and coming back."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.worker.helpers import TestJournal, kinds, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import Fenced, InvalidOption, StoreCorrupt, StoreError, StoreFull, StoreUnreachable
from inorder.protocol.wire import ClusterMap, CreateTimestamps, NewEvent, Opened, StageInfo, Timestamps, Welcome
from inorder_worker.service import Worker, standby
from inorder_worker.service.following import Follower, recover
from inorder_worker.service.standby import Standby
from inorder_worker.store.identity import is_gone, new_owner, process_of
from inorder_worker.store.journal import Holder, Member, MemoryJournal, MemoryStore
from inorder_worker.store.spreading import shares
from inorder_worker.store.watch import Watch

# -- the lease, in time that the test makes ---------------------------------------------------------------------------


def holder(owner: str = "a", *, stage: int = 0, epoch: int = 1, beat: int = 0) -> Holder:
    return Holder(stage, owner, epoch, beat)


def test_silence_is_counted_while_nothing_changes() -> None:
    watch = Watch(2.0, 0.4)
    for at in range(10):
        watch.see([holder()], [], {}, at * 0.2)
        assert watch.silence("a") == pytest.approx(at * 0.2)
        assert not watch.has_shown_life("a")
    watch.see([holder(beat=1)], [], {}, 2.0)
    assert watch.silence("a") == 0.0
    assert watch.has_shown_life("a")


@pytest.mark.parametrize("sign", ["beat", "epoch", "row", "other stage"])
def test_any_sign_of_life_counts_for_all_stages_of_an_owner(sign: str) -> None:
    """Beats, claims and rows: a worker that commits one stage under load lives with all of them."""
    watch = Watch(5.0, 1.0)
    for at in range(3):
        watch.see([holder(stage=0), holder(stage=1)], [], {0: 5, 1: 7}, float(at))
    changed = holder(stage=1, beat=sign == "beat", epoch=1 + (sign == "epoch"))
    found = [holder(stage=0), changed, *([holder(stage=2)] if sign == "other stage" else [])]
    watch.see(found, [], {0: 5, 1: 7 + (sign == "row")}, 3.0)
    assert watch.silence("a") == 0.0


def test_losing_a_stage_is_no_sign_of_life() -> None:
    """Of an owner that stands still one stage is taken; the others follow at once, not a lease later."""
    watch = Watch(5.0, 1.0)
    for at in range(3):
        watch.see([holder(stage=0), holder(stage=1)], [], {0: 5}, float(at))
    watch.see([holder("b", stage=0, epoch=2), holder(stage=1)], [], {}, 3.0)
    assert watch.silence("a") == 3.0


def test_time_that_was_not_watched_does_not_count() -> None:
    """The watcher was paused, or the store was away from everybody: the owner could show nothing, or we saw nothing."""
    watch = Watch(2.0, 0.4)
    watch.see([holder()], [], {}, 0.0)
    watch.see([holder()], [], {}, 3600.0)
    assert watch.silence("a") == 0.4


def test_an_owner_seen_for_the_first_time_has_a_whole_lease() -> None:
    watch = Watch(2.0, 0.4)
    watch.see([holder("a")], [], {}, 0.0)
    watch.see([holder("a")], [], {}, 0.3)
    watch.see([holder("b", epoch=2)], [], {}, 0.6)
    assert (watch.silence("a"), watch.silence("b")) == (0.0, 0.0)


# -- who an owner is --------------------------------------------------------------------------------------------------


def test_an_owner_that_ended_is_known_to_be_gone() -> None:
    """On the same machine: by number and start of its process."""
    code = "from inorder_worker.store.identity import new_owner; print(new_owner('a/b'), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        owner = child.stdout.readline().strip()
        assert not is_gone(owner)
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(owner)  # not reaped yet
    assert is_gone(owner)


def test_of_others_nobody_knows() -> None:
    """Another machine, another container, somebody else's way to write owners, a process that got an old number."""
    ours = new_owner("me")
    name, place, process, token = ours.split("/")
    assert process_of(ours) is not None
    assert not is_gone(ours)
    for other in ("another", f"{name}/elsewhere/{process}/{token}", f"{name}/{place}/x-1/{token}", f"{name}//1-1/x"):
        assert process_of(other) is None
        assert not is_gone(other)
    assert is_gone(f"{name}/{place}/{os.getpid()}-1/{token}")


# -- two and three workers over one store in memory -------------------------------------------------------------------


def worker(store: MemoryStore, name: str, **changes: Any) -> Worker:
    """Return a worker that may have the only stage; a lease is a third of a second."""
    quick = {"beat_interval": 0.02, "lease": 0.3, "name": name}
    return Worker(settings(**{**quick, **changes}), journal=TestJournal(store))


def journal_of(worker: Worker) -> TestJournal:
    assert isinstance(worker._journal, TestJournal)
    return worker._journal


async def test_a_second_worker_steals_nothing_and_follows() -> None:
    store = MemoryStore()
    async with worker(store, "first") as first, worker(store, "second") as second:
        assert (first.state, second.state) == ("active", "standby")
        assert store.epochs[0] == 1
        async with RawClient(first.address) as client:
            topic, *_ = await client.resolve("a")
            await client.create(topic, 1, 2, 3)
        rows = len(store.rows[0])
        await until(lambda: second.status()["following"][0]["rows"] >= rows)  # type: ignore[index]
        followed = second._standby._follower._stages[0].hosted
        assert followed is not None
        assert followed.stage.has_number(topic.id, 3)
        assert second.health()[1]["stages"] == [{"stage": 0, "role": "standby", "epoch": None}]


async def test_a_standby_answers_nobody_but_says_where_the_stage_is() -> None:
    store = MemoryStore()
    async with worker(store, "first") as first, worker(store, "second") as second, RawClient(second.address) as client:
        place = StageInfo(0, 1, first.address)
        assert client.welcome.stages == [place]
        assert client.welcome.order_epoch == 0
        client.send(CreateTimestamps(0, 1, [NewEvent(1, 1)]))
        assert (await client.next(ClusterMap)).stages == [place]
        await client.ping()
        assert not [each for each in client.skipped if isinstance(each, Timestamps | Opened)]
        assert "OpenSession" not in kinds(MemoryJournal(store))


async def test_a_standby_takes_over_when_the_owner_has_left() -> None:
    """At once, with all that was committed; a client that waits there introduces itself to the stage."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        first = worker(store, "first")
        await first.__aenter__()
        second = await stack.enter_async_context(worker(store, "second", lease=60.0))
        async with RawClient(first.address, "p") as client:
            topic, *_ = await client.resolve("a")
            events = await client.create(topic, 1, 2, 3)
        waiting = await stack.enter_async_context(RawClient(second.address, "p"))
        assert first.status()["takeovers"] == 0
        await first.__aexit__(None, None, None)
        places = (await waiting.next(ClusterMap)).stages
        while places != [StageInfo(0, 2, "")]:
            places = (await waiting.next(ClusterMap)).stages
        assert second.state == "active"
        waiting.send(waiting.hello)
        assert (await waiting.next(Opened)).epoch == 2
        assert (await waiting.next(Welcome)).stages == [StageInfo(0, 2, "")]
        assert await waiting.create(topic, 1, 2, 3) == events
        assert [each.number for each in await waiting.create(topic, 4)] == [4]
        assert kinds(MemoryJournal(store)).count("RestartTimers") == 1


async def test_an_owner_that_is_silent_is_taken_over_and_steps_down() -> None:
    """It is cut from its store for longer than the lease, and comes back: it has lost its stage, answers nobody, is a
    standby, and takes over when the other one is silent."""
    store = MemoryStore()
    async with worker(store, "first") as first, worker(store, "second") as second:
        async with RawClient(first.address, "p") as client:
            topic, *_ = await client.resolve("a")
            journal_of(first).freeze()
            client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
            await until(lambda: second.state == "active")
            assert second.status()["takeovers"] == 1
            assert second.status()["takeover_ms"] is not None
            async with RawClient(second.address, "q") as other:
                assert [each.number for each in await other.create(topic, 1)] == [1]
            journal_of(first).let_go()
            assert (await client.failure()).code == "moved"
            assert not [each for each in client.skipped if isinstance(each, Timestamps)]
        await until(lambda: first.state == "standby" and first.status()["ready"] is True)
        journal_of(second).freeze()
        await until(lambda: first.state == "active")
        assert store.epochs[0] == 3
        journal_of(second).let_go()


async def test_a_worker_that_was_taken_over_goes_on_to_show_that_it_lives() -> None:
    """Nobody talks to it: it is idle, follows, and is a standby to the others, not a suspect."""
    store = MemoryStore()

    def shown() -> list[Member]:  # none while it has not shown itself yet
        return [each for each in MemoryJournal(store).read_members() if each.owner.startswith("first/")]

    async with worker(store, "first") as first, worker(store, "second", take_over=True):
        await until(lambda: first.state == "standby" and any(0 in each.rows for each in shown()))
        (member,) = shown()
        await until(lambda: shown()[0].beat > member.beat + 1)


@pytest.mark.parametrize("standbys", [2, 3])
async def test_of_several_standbys_exactly_one_takes_over(standbys: int) -> None:
    """One crash after another, down to the last one: each time the epoch rises by one, and one worker has the stage."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(worker(store, str(each))) for each in range(standbys + 1)]
        crashed: list[Worker] = []
        for crash in range(1, standbys + 1):
            before = next(each for each in workers if each.state == "active")
            workers.remove(before)
            crashed.append(before)
            journal_of(before).freeze()
            await until(lambda: any(each.state == "active" for each in workers))
            assert store.epochs[0] == crash + 1
            async with RawClient(next(each for each in workers if each.state == "active").address) as client:
                await client.resolve(f"topic-{crash}")
            assert [each.state for each in workers].count("active") == 1
        for each in crashed:
            journal_of(each).let_go()


async def test_false_suspicion_costs_nothing() -> None:
    """The owner shows life after a standby has decided, and before its claim: it keeps the stage."""
    store = MemoryStore()
    journal, late = MemoryJournal(store), MemoryJournal(store)
    journal.open(1)
    epoch = journal.claim(0, "owner")
    seen = late.read_map()[0]
    journal.beat([(0, epoch)])
    with pytest.raises(Fenced, match="has shown life"):
        late.claim(0, "late", seen.epoch, beat=seen.beat)
    assert journal.read_map()[0].owner == "owner"


async def test_a_lock_keeps_a_standby_from_nothing_but_what_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is gone cannot be forgotten while another one, which stands still, keeps the store locked. That one
    is asked for all the same, whether it has a stage or not, and the silent owner is taken over."""
    store, asked = MemoryStore(), set[str]()
    gone, stopped = f"gone/{new_owner('x').split('/')[1]}/{os.getpid()}-1/a", "stopped/elsewhere/1-1/b"

    def is_locked(owners: Collection[str], *, are_silent: bool = False) -> bool:
        raise StoreUnreachable("memory", "another process has kept it locked")

    def asks(owner: str) -> bool:
        asked.add(owner)
        return False

    async with worker(store, "first") as first, worker(store, "second") as second:
        journal = second._standby._follower._journal
        monkeypatch.setattr(journal, "forget_members", is_locked)
        monkeypatch.setattr(journal, "unblock", asks)
        monkeypatch.setattr(standby, "PAUSE_AFTER_FAILURE", 0.01)
        store.members |= {owner: Member(owner, "") for owner in (gone, stopped)}
        await until(lambda: stopped in asked)
        assert (first._host.owner in asked, first.state) == (False, "active")
        journal_of(first).freeze()
        await until(lambda: second.state == "active")
        assert first._host.owner in asked
        journal_of(first).let_go()


async def test_that_a_stage_is_taken_over_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long the store cannot be written, as on a disk that is full."""
    store, attempts = MemoryStore(), [0]
    async with worker(store, "first") as first, worker(store, "second") as second:
        claim = journal_of(second).claim

        def is_full(*given: Any) -> int:
            attempts[0] += 1
            if attempts[0] < 5:
                raise StoreFull("memory", "0 bytes are free")
            return claim(*given)

        monkeypatch.setattr(journal_of(second), "claim", is_full)
        monkeypatch.setattr(standby, "PAUSE_AFTER_FAILURE", 0.01)
        journal_of(first).freeze()
        await until(lambda: second.state == "active")
        assert attempts[0] >= 5
        assert len([each for each in caplog.messages if each.startswith("event=taking_over")]) == 1
        journal_of(first).let_go()


async def test_a_stage_that_cannot_be_read_is_not_taken() -> None:
    """A standby that has not followed to the end does not claim; its owner goes on."""
    store = MemoryStore()
    async with worker(store, "first") as first:
        async with RawClient(first.address) as client:
            await client.resolve("a")
        rows, store.rows[0] = store.rows[0], [row._replace(entries=row.entries + b"x") for row in store.rows[0]]
        with pytest.raises(StoreError, match="damaged"):
            async with worker(store, "second", take_over=True):
                pass
        store.rows[0] = rows
        assert (store.epochs[0], first.state) == (1, "active")


async def test_a_worker_outlives_a_store_whose_stages_were_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, in SQL. A standby says what is missing and looks again; one that starts then is refused."""
    store = MemoryStore()
    async with worker(store, "first"), worker(store, "second") as second:
        journal = second._standby._follower._journal
        with monkeypatch.context() as patch:
            patch.setattr(standby, "PAUSE_AFTER_FAILURE", 0.01)
            patch.setattr(journal, "read_map", list)
            await until(lambda: "there is no stage 0" in str(second.health()[1]["store_error"]))
        await until(lambda: second.health()[0])
        monkeypatch.setattr(MemoryJournal, "read_map", lambda journal: [])
        with pytest.raises(StoreCorrupt, match="there is no stage 0"):
            async with worker(store, "third"):
                pass


async def test_a_follower_that_fell_behind_begins_with_a_later_snapshot() -> None:
    """The rows that it would need next were forgotten meanwhile."""
    store = MemoryStore()
    async with worker(store, "first", snapshot_rows=3) as first, RawClient(first.address) as client:
        follower = Follower(MemoryJournal(store), 1, first.settings)
        follower.read([0])
        for at in range(30):
            await client.resolve(f"topic-{at}")
        assert store.rows[0][0].seq > follower.rows[0] + 1
        follower.read([0])
        assert follower.rows[0] == store.rows[0][-1].seq
        assert follower.take(0).stage.snapshot() == recover(MemoryJournal(store), 0, 1).stage.snapshot()


def test_a_lease_that_a_late_beat_would_end_is_refused() -> None:
    with pytest.raises(InvalidOption, match="at least 3 beat_intervals"):
        settings(beat_interval=1.0, lease=2.9)


# -- who should have which stage ---------------------------------------------------------------------------------------


def spread(holders: str, *members: str) -> str:
    """``holders``: the owner of each stage, a point where there is none; ``members``: a name, and its pins."""
    living = [Member(each[0], "", 0, tuple(map(int, each[1:]))) for each in members]
    placed = shares({at: owner.strip(".") for at, owner in enumerate(holders)}, living)
    return "".join(placed.get(at, ".") for at in range(len(holders)))


@pytest.mark.parametrize(
    ("holders", "members", "placed"),
    [
        ("...", "a", "aaa"),
        ("aaa", "a b", "aab"),  # one moves to whoever came
        ("aab", "a b c", "acb"),
        ("acb", "a b c", "acb"),  # and then nothing does
        ("aab", "a c", "aac"),  # b died
        ("aabb", "a b c", "aabc"),
        ("a", "a b c", "a"),  # a single stage stays where it is
        ("aaaa", "a b", "aabb"),
        ("......", "a b c", "abcabc"),
        ("aaa", "a b1", "aba"),  # pinned: it is the one that has it
        ("aaa", "b1 c2", ".bc"),  # others have what nobody is pinned to
        ("aba", "a", "aaa"),  # until the pinned one is gone
        ("...", "b1", ".b."),
        ("bb", "b01 c01", "bc"),
    ],
)
def test_stages_are_spread_evenly_and_few_move(holders: str, members: str, placed: str) -> None:
    assert spread(holders, *members.split()) == placed


def test_spreading_comes_to_rest() -> None:
    """Whatever is given: once things are where they should be, nothing moves any more, and loads differ by one."""
    rng = random.Random(7)
    for _ in range(300):
        members = rng.sample("abcdefg", rng.randint(1, 7))
        holders = "".join(rng.choice([*members, ".", "z"]) for _ in range(rng.randint(1, 9)))
        once = spread(holders, *members)
        assert spread(once, *rng.sample(members, len(members))) == once
        loads = [once.count(each) for each in members]
        assert max(loads) - min(loads) <= 1
        kept = sum(before == after for before, after in zip(holders, once, strict=True))
        assert kept >= sum(min(holders.count(each), len(holders) // len(members)) for each in members)


# -- several stages ----------------------------------------------------------------------------------------------------


def stages_of(worker: Worker) -> list[int]:
    return sorted(worker._host.epochs)


def three(store: MemoryStore, name: str, **changes: Any) -> Worker:
    order = [["s:a"], ["s:b"], ["s:c"]]
    return worker(store, name, **{"stages": 3, "topic_order": order, "lease": 0.6, **changes})


async def test_workers_share_the_stages_and_share_again() -> None:
    """One that joins is handed some, warm and without a lease of silence; one that leaves or dies is replaced. Clients
    stay connected, and every event keeps its number."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(three(store, "1"))
        client = await stack.enter_async_context(RawClient(first.address, "p"))
        topics = await client.resolve("a", "b", "c")
        events = {topic.name: await client.create(topic, counter) for counter, topic in enumerate(topics, start=1)}
        second = three(store, "2")
        await second.__aenter__()
        assert stages_of(second) == []
        await until(lambda: (stages_of(first), stages_of(second)) == ([0, 1], [2]))
        assert second.status()["takeovers"] == 0
        third = await stack.enter_async_context(three(store, "3"))
        await until(lambda: sorted(map(stages_of, (first, second, third))) == [[0], [1], [2]])
        await client.ping()  # nobody threw it out
        for each in (first, second, third):
            async with RawClient(each.address, "p", incarnation=client.hello.incarnation) as again:
                for counter, topic in enumerate(topics, start=1):
                    if topic.stage in stages_of(each):
                        assert await again.create(topic, counter) == events[topic.name]
        await second.__aexit__(None, None, None)
        await until(lambda: sorted(stages_of(first) + stages_of(third)) == [0, 1, 2])
        journal_of(third).freeze()
        await until(lambda: stages_of(first) == [0, 1, 2])
        journal_of(third).let_go()


async def test_a_stage_goes_back_to_the_worker_that_is_pinned_to_it() -> None:
    store = MemoryStore()
    async with three(store, "1") as first:
        async with three(store, "2", hosted=[0]) as second:
            await until(lambda: (stages_of(first), stages_of(second)) == ([1, 2], [0]))
        await until(lambda: stages_of(first) == [0, 1, 2])


async def test_what_is_asked_during_a_hand_over_is_answered_by_the_next_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner finishes its commit and answers it; later requests are not taken, and the client is told where."""
    store = MemoryStore()
    async with worker(store, "first") as first, RawClient(first.address, "p") as client:
        topic, *_ = await client.resolve("a")
        journal_of(first).hold()
        client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: journal_of(first).waiting == 1)
        first._host.tenure.hand_over(0)
        client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
        second = MemoryJournal(store)
        monkeypatch.setattr(Standby, "_followed", [])  # it does not take it back at once
        journal_of(first).let_go()
        journal_of(first).hold()
        await until(lambda: journal_of(first).waiting == 1 and first._host.commits.is_holding)
        client.send(CreateTimestamps(0, 1, [NewEvent(3, topic.id)]))
        await until(lambda: first._host.queued == 1)
        journal_of(first).let_go()
        for number in (1, 2):
            answer = await client.next(Timestamps)
            assert [(each.counter, each.number) for each in answer.events] == [(number, number)]
        await client.next(ClusterMap)
        assert stages_of(first) == []
        epoch = second.claim(0, "next", address="127.0.0.1:9")
        assert not [each for each in client.skipped if isinstance(each, Timestamps)]
        assert recover(second, 0, 1).stage.has_number(topic.id, 2)
        assert not recover(second, 0, 1).stage.has_number(topic.id, 3)
        assert epoch == 2
