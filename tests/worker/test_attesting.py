"""Older copies of a store are found out: by what clients show, and by what a worker knows itself. A client that lies
stops nobody."""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.worker.helpers import PATIENCE, TestJournal, kinds, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import StoreOutdated, StoreReplaced, StoreUnreachable
from inorder.protocol.wire import Position, Positions, Resolve
from inorder_worker.service import Worker
from inorder_worker.service.attesting import Attestor, Standing
from inorder_worker.store import schema
from inorder_worker.store.journal import Batch, Member, MemoryJournal, MemoryStore
from inorder_worker.store.log_rows import LogRow
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify

KEY = bytes(range(32))
HERE = {0: Standing(6, 500, 520), 1: Standing(3, 0, 0)}
"""Stage 0 is in epoch 6 since row 500, and has row 520."""


def _told(epoch: int, row: int, *, by: Attestor | None = None, stage: int = 0) -> list[Position]:
    return (by or Attestor(7, KEY)).positions({stage: Standing(epoch, 0, row)})


@pytest.mark.parametrize(("epoch", "row"), [(5, 501), (5, 10**9), (6, 521), (7, 1), (6, 510)])
def test_what_a_worker_of_this_store_has_told_and_cannot_be_is_the_proof(epoch: int, row: int) -> None:
    """The last one was told by another owner of epoch 6: there are two copies that each had one."""
    reason = Attestor(7, KEY).contradiction(_told(epoch, row), HERE)
    assert reason == (
        f"clients were told of row {row} of stage 0 in epoch {epoch}, and here it has row 520, in epoch 6 since row 500"
    )


def test_what_may_be_true_says_nothing() -> None:
    ours = Attestor(7, KEY)
    assert (
        ours.contradiction([*_told(5, 500), *_told(1, 1), *_told(6, 520, by=ours), *_told(6, 1, by=ours)], HERE) == ""
    )
    assert ours.contradiction(_told(9, 9, stage=2), HERE) == ""  # another worker's
    assert ours.positions(HERE) == [Position(0, 6, 520, ours._life, ours._code(0, 6, 520, ours._life))]


def test_what_no_worker_of_this_store_has_told_says_nothing() -> None:
    """R12 has it for leases, and so it is here: a peer's word alone stops nobody."""
    ours, (true,) = Attestor(7, KEY), _told(7, 900)
    assert ours.contradiction([true], HERE)
    forged = [replace(true, **{name: getattr(true, name) + 1}) for name in ("epoch", "row", "life")]
    forged += [replace(true, stage=1), replace(true, code=bytes(16)), replace(true, code=b"")]
    forged += [*_told(7, 900, by=Attestor(8, KEY)), *_told(7, 900, by=Attestor(7, KEY[::-1]))]
    assert [ours.contradiction([each], HERE) for each in forged] == [""] * len(forged)


async def test_a_forged_position_stops_no_worker_and_many_are_not_looked_at() -> None:
    async with Worker(settings(heads_interval=0.02), journal=TestJournal()) as worker:
        async with RawClient(worker.address) as client:
            await client.resolve("a")
            (position,) = (await client.next(Positions)).positions
            assert (position.stage, position.row) == (0, worker._host.standings[0].row)
        liar = RawClient(worker.address, "liar")
        liar.hello.positions = [replace(position, row=2**62), *[replace(position, stage=at) for at in range(1_000)]]
        async with liar:
            assert liar.welcome.domain
            assert worker.health()[0]


async def test_a_client_can_tell_a_copy_from_its_first_moment_on() -> None:
    """Numbers may be given, and the store be exchanged for a copy, before the heads are told for the first time."""
    journal = TestJournal()
    first = Worker(settings(heads_interval=PATIENCE), journal=journal)
    async with first, RawClient(first.address) as client:
        await client.resolve("a")
    held = ("epochs", "owners", "addresses", "beats", "members", "rows", "snapshots", "log")
    older = dataclasses.replace(journal.store, **{each: deepcopy(getattr(journal.store, each)) for each in held})
    again = Worker(settings(heads_interval=PATIENCE), journal=TestJournal(journal.store))
    async with again, RawClient(again.address) as client:
        (position,) = (await client.next(Positions)).positions
        assert position.epoch == 2
    async with Worker(settings(heads_interval=PATIENCE), journal=TestJournal(older)) as worker:
        client = RawClient(worker.address)
        client.hello.positions = [position]
        await client.connect()
        client.send(client.hello)
        await until(lambda: "older copy" in str(worker.health()[1]["store_error"]))
        await client.close()


async def test_a_worker_that_has_not_noticed_who_took_its_stage_takes_no_store_for_a_copy() -> None:
    """The other one has told clients of a later epoch, and they come back here first."""
    journal = TestJournal()
    async with Worker(settings(beat_interval=7.0, heads_interval=PATIENCE), journal=journal) as worker:
        info = journal.store.info
        assert info is not None
        journal.store.epochs[0] += 1
        journal.store.owners[0] = "another"
        client = RawClient(worker.address)
        client.hello.positions = _told(journal.store.epochs[0], 10**6, by=Attestor(info.domain, info.key))
        await client.connect()
        client.send(client.hello)
        await until(lambda: not worker._host.epochs)
        assert (journal.store.outdated, worker.health()[1]["store_error"]) == ("", None)
        await client.close()


def _roll_back(journal: MemoryJournal) -> int:
    """Put a copy without its last row back; return the number of that one."""
    return journal.store.rows[0].pop().seq


async def test_a_worker_under_which_an_older_copy_was_put_back_numbers_nothing_more() -> None:
    """Its connection broke, as when a database is recovered to an earlier time, and it reads the journal again."""
    journal = TestJournal()
    async with Worker(settings(retry_max=0.01), journal=journal) as worker, RawClient(worker.address) as client:
        await client.resolve("a")
        before = _roll_back(journal)
        journal.error = StoreUnreachable("memory", "the server was restarted")
        client.send(Resolve(9, [("s", "b")]))
        await until(lambda: "older copy" in str(worker.health()[1]["store_error"]))
        told = f"stage 0 had row {before} when this worker saw it last, and ends at {before - 1}"
        assert (journal.store.outdated, worker.health()[0]) == (told, False)
        await _look_dead(worker, journal.store)
        assert sorted(journal.store.members) == sorted(["another", worker._host.owner])  # or it is renewed under them
    with pytest.raises(StoreOutdated, match="inorder renew"):
        async with Worker(settings(), journal=TestJournal(journal.store)):
            pass


async def _look_dead(worker: Worker, store: MemoryStore) -> None:
    """Have a worker see that nobody has beaten for long, itself included, and one of another machine."""
    standby = worker._standby
    standby._watch.state = lambda _: "dead"  # type: ignore[method-assign, assignment]
    for member in (standby.member(), Member("another", "b.example:7401")):
        store.members[member.owner] = member
    standby._members = dict(store.members)
    with pytest.raises(StoreOutdated):
        await standby._forget_the_dead()


async def test_a_worker_that_lives_on_while_an_older_copy_is_renewed_stops() -> None:
    """It can say no more that the store is to be renewed: that was done, and what it has read is void."""
    journal = TestJournal()
    worker = Worker(settings(retry_max=0.01), journal=journal)
    async with worker, RawClient(worker.address) as client:
        await client.resolve("a")
        _roll_back(journal)
        journal.error = StoreUnreachable("memory", "the server was restarted")
        client.send(Resolve(9, [("s", "b")]))
        await until(lambda: bool(journal.store.outdated))
        assert journal.store.info is not None
        journal.store.info = dataclasses.replace(journal.store.info, domain=journal.store.info.domain + 1)
        journal.store.outdated = ""
        with pytest.raises(StoreReplaced, match="start the worker again"):
            await worker.wait_stopped()


async def test_a_standby_that_has_read_more_than_there_is_does_not_take_over() -> None:
    store, quick = MemoryStore(), settings(beat_interval=0.02, lease=0.3)
    first, journal = Worker(quick, journal=TestJournal(store)), MemoryJournal(store)
    async with first:
        async with RawClient(first.address) as client:
            await client.resolve("a")
        await until(lambda: kinds(journal)[-1] == "LeaveSession")
        async with Worker(quick, journal=TestJournal(store)) as second:
            await until(lambda: second._standby._follower.rows.get(0) == store.rows[0][-1].seq)
            _roll_back(journal)
            first.stop()
            await first.wait_stopped()
            await until(lambda: bool(store.outdated))
            assert (second.state, store.epochs[0]) == ("standby", 2)
            await until(lambda: not second.health()[0])


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("is_logged", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_row_is_written_behind_a_hole(
    kind: str, stages: int, is_logged: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The store was put back while its connection was gone, and has the same epochs; nothing has read it since."""
    url = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("postgres").database()
    journal, store = SqlJournal(url), Store(url)
    journal.open(stages)
    epochs = [journal.claim(stage, "a") for stage in range(stages)]

    def batches(seq: int) -> list[Batch]:
        return [Batch(stage, epoch, seq, b"") for stage, epoch in enumerate(epochs)]

    journal.append(batches(1))
    journal.append(batches(2))
    store.write(lambda connection: connection.execute(schema.journal.delete().where(schema.journal.c.seq == 2)))
    log = [LogRow(1, 1, 0, [], b"x")] if is_logged else []
    with pytest.raises(StoreOutdated, match=r"row 3 of stage 0 follows row 2 .* ends with another one, 1; stop all"):
        journal.append(batches(3), log)
    assert list(verify(url).logs) == []
    assert [each.last for each in verify(url).stages] == [1] * stages
    journal.close()
    store.close()
