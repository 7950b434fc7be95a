"""Event logs stay within their bounds however fast they grow, and nobody looks at their rows for that (R18)."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.core.cluster import Cluster
from tests.worker.helpers import TestJournal, disk_full, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.names import exact
from inorder.protocol.wire import (
    CreateTimestamps,
    LoggedEvents,
    LogRule,
    NewEvent,
    ReadLog,
    Settle,
    Timestamps,
    TopicInfo,
)
from inorder_worker.sequencer.commands import LogTrim, Reorder, SetLogRule, TrimLog
from inorder_worker.service import Worker, host, log_bounds, log_sizes
from inorder_worker.service.log_bounds import TRIM_BYTES, excess
from inorder_worker.service.log_sizes import Cut, LogSize, LogSizes
from inorder_worker.service.work import Work
from inorder_worker.store.log_rows import LogReader, LogRow, LogTotals, Oldest
from inorder_worker.store.memory_log import MemoryLogReader, Rows

NEVER = 3_600.0


class _CountingReader(MemoryLogReader):
    """Counts the rows that are looked at for the bounds."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.counts, self.looks = 0, 0
        self.oldest_rows = 0

    def totals(self, topics: Sequence[int]) -> list[LogTotals]:
        found = super().totals(topics)
        self.counts += sum(each.events for each in found)
        self.looks += 1
        return found

    def oldest(self, topic: int, first: int, count: int) -> list[Oldest]:
        found = super().oldest(topic, first, count)
        self.oldest_rows += len(found)
        return found


class _Journal(TestJournal):
    """Has one reader, which counts, and notes how long the log of topic 1 was after each append."""

    longest = 0
    is_lost = False
    """The answer to the next commit is lost."""

    def log_reader(self) -> LogReader:
        self.reader = _CountingReader(self.store.log)
        return self.reader

    def append(self, batches: Any, log: Any = ()) -> None:
        super().append(batches, log)
        if self.is_lost:
            self.is_lost = False
            raise disk_full()
        self.longest = max(self.longest, len(self.store.log.get(1, ())))

    def numbers(self, topic: int) -> list[int]:
        return list(self.store.log.get(topic, ()))


def _request(topic: TopicInfo, counters: range, size: int, worker: Worker) -> CreateTimestamps:
    stage = worker._host.stages[topic.stage]
    events = [NewEvent(counter, topic.id, content=bytes(size)) for counter in counters]
    return CreateTimestamps(topic.stage, 1, events, stage.order_epoch)


async def _publish(worker: Worker, client: RawClient, topic: TopicInfo, counters: range, size: int = 1) -> None:
    """Publish so many events, and confirm them."""
    client.send(_request(topic, counters, size, worker))
    stamped = await client.stamped(*counters)
    client.send(Settle(topic.stage, counters[0], [topic.id, stamped[0].number, stamped[-1].number]))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sizes, "DUE_ROWS", 10)
    monkeypatch.setattr(log_sizes, "DUE_BYTES", 1_000)
    monkeypatch.setattr(log_bounds, "TRIM_ROWS", 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("bounds", "size", "kept"), [("log_max_count", 1, 50), ("log_max_bytes", 200, 25)])
async def test_a_log_that_grows_fast_is_trimmed_before_anybody_looks_at_all_logs(
    bounds: str, size: int, kept: int
) -> None:
    """Slice after slice, as soon as it is longer than it may be."""
    journal = _Journal()
    given = settings(log_topics=["s:a"], log_trim_interval=NEVER, **{bounds: kept * size})
    async with Worker(given, journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        for first in range(1, 401, 20):
            await _publish(worker, client, topic, range(first, first + 20), size)
        await until(lambda: len(journal.numbers(1)) < kept + 10)
        numbers = journal.numbers(1)
        assert numbers == list(range(401 - len(numbers), 401))
        assert len(numbers) >= kept
        await _publish(worker, client, topic, range(401, 601), size)
        await until(lambda: len(journal.numbers(1)) < kept + 10)
    assert journal.longest > kept + 10, "200 at once are more than one slice"
    reader = journal.reader
    assert reader.looks == 1
    assert reader.counts <= 20, "what was there at the first look"
    assert reader.oldest_rows < 600 * 2


async def test_rows_are_counted_once_and_not_at_each_look() -> None:
    """Also those that another process has left."""
    journal = _Journal()
    given = settings(log_topics=["s:a"], log_trim_interval=0.001, log_max_count=1_000)
    async with Worker(given, journal=journal) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        await _publish(worker, client, topic, range(1, 101))
    again = _Journal(journal.store)
    async with Worker(given, journal=again) as worker, RawClient(worker.address, "other") as client:
        bounds = worker._host.logs._bounds
        looks, look = 0, bounds._look

        async def counted(*, of_all: bool) -> None:
            nonlocal looks
            looks += 1
            await look(of_all=of_all)

        bounds._look = counted  # type: ignore[method-assign]
        await until(lambda: looks > 20)
        await _publish(worker, client, topic, range(1, 51))
        seen = looks
        await until(lambda: looks > seen + 20)
        assert bounds._sizes.get(1) == _counted(again, 1)
    assert (again.reader.counts, again.reader.oldest_rows) == (100, 0)


def _counted(journal: _Journal, topic: int) -> LogSize:
    """Return what the store has."""
    (found,) = MemoryLogReader(journal.store.log).totals([topic])
    return LogSize(found.events, found.size, found.oldest_ms, found.last)


@pytest.mark.usefixtures("small")
async def test_what_is_known_of_logs_is_what_the_store_has() -> None:
    """Whatever happens: rules come and go, topics move, the store fails and the stages are read again."""
    journal, rng = _Journal(), random.Random(5)
    given = settings(
        stages=2, topic_order=[["s:a"], ["s:b", "s:c"]], log_topics=["s:a", "s:b"], log_trim_interval=NEVER,
        log_max_count=30,
    )  # fmt: skip
    async with Worker(given, journal=journal) as worker:
        commits, count, lost = worker._host.commits, 0, 0

        def do(stage: int, command: Any) -> None:
            commits.submit(Work(None, 0, lambda: commits.step(stage, command)))

        for round_ in range(40):
            await until(lambda: worker.status()["ready"] is True)
            match rng.randrange(8):
                case 0:
                    rule = LogRule("s", exact("c"), max_count=5)
                    do(1, SetLogRule("", 0, 0, rule, round_ % 2 == 0))
                case 1:
                    stages, epoch = rng.choice(([[1], [2, 3]], [[2], [1, 3]])), worker._host.hosted[1].stage.order_epoch
                    do(1, Reorder("", 0, 0, epoch + 1, stages))
                    await until(lambda: all(each.order_epoch > epoch for each in worker._host.stages.values()))  # noqa: B023
                case 2:
                    epoch = worker._host.epochs[1]
                    async with RawClient(worker.address, f"p{round_}") as client:
                        topics = await client.resolve("a", "b")
                        journal.is_lost = True
                        client.send(*(_request(each, range(1, 6), 1, worker) for each in topics))
                        await until(lambda: worker._host.epochs.get(1, 0) > epoch)  # noqa: B023
                    lost += 1
                case _:
                    async with RawClient(worker.address, f"p{round_}") as client:
                        (topic,) = await client.resolve(rng.choice("abc"))
                        await _publish(worker, client, topic, range(1, rng.randrange(2, 40)))
                        count += 1
                        await client.ping()
        await until(lambda: worker.status()["ready"] is True)
        bounds = worker._host.logs._bounds
        await bounds._look(of_all=True)
        await until(lambda: not any(bounds._sizes.get(each).cut for each in bounds._sizes))  # type: ignore[union-attr]
        async with worker._host.commits.quiet():
            await bounds._look(of_all=False)
            known = {each: bounds._sizes.get(each) for each in bounds._sizes}
            logs = [topic for topic, rows in journal.store.log.items() if rows]
            assert known.keys() == set(logs)
            for of, its in known.items():
                stored = _counted(journal, of)
                assert its is not None
                assert (its.events, its.size, its.last) == (stored.events, stored.size, stored.last)
        assert count > 15 < 15 + lost


async def test_logs_are_counted_that_come_to_a_stage_which_is_here() -> None:
    """R14: their rows were written by another worker."""
    found = (3, [7, 8])
    log = SimpleNamespace(since=lambda since: found if since < found[0] else (found[0], []))
    stage = SimpleNamespace(log=log)
    context = Mock(stages={0: SimpleNamespace(stage=stage)})
    bounds = log_bounds.LogBounds(context, Mock(), Mock())
    sizes = bounds._sizes
    bounds._find_logs()
    sizes.counted(sizes.uncounted(9), [LogTotals(7, 1, 1, 1_001, 1), LogTotals(8, 1, 1, 1_001, 1)])
    bounds._find_logs()
    assert (list(sizes), sizes.uncounted(9)) == ([7, 8], {})
    found = (4, [9])
    bounds._find_logs()
    assert (list(sizes), list(sizes.uncounted(9))) == ([7, 8], [9])
    found = (4, [9, 7, 8])
    context.stages[0] = SimpleNamespace(stage=stage)
    bounds._find_logs()
    assert (list(sizes), list(sizes.uncounted(9))) == ([], [9, 7, 8])


def _row(number: int, size: int = 1) -> LogRow:
    return LogRow(7, number, 1_000 + number, [], bytes(size))


async def test_rows_that_a_trim_under_way_takes_do_not_count_twice() -> None:
    """Nor does a trim that the stage refuses stand in the way of the next one."""
    journal = _Journal()
    given = settings(log_topics=["s:a"], log_trim_interval=NEVER, log_max_count=5)
    async with Worker(given, journal=journal) as worker, RawClient(worker.address) as client:
        bounds = worker._host.logs._bounds
        topic, *_ = await client.resolve("a")
        await _publish(worker, client, topic, range(1, 12))
        await client.ping()
        await bounds._look(of_all=True)
        size = bounds._sizes.get(1)
        assert size is not None
        await until(lambda: size.cut is None)
        assert journal.numbers(1) == list(range(7, 12))
        await _publish(worker, client, topic, range(12, 18))
        await client.ping()
        journal.hold()
        await bounds._look(of_all=True)
        await until(lambda: journal.waiting == 1)
        for _ in range(3):
            await bounds._look(of_all=True)
        journal.let_go()
        await until(lambda: size.cut is None)
        assert journal.numbers(1) == list(range(13, 18))
        size.cut = cut = Cut(3, 1, 1, 1)
        bounds._submit(TrimLog(1, 3, []), lambda: size.end(cut))
        await until(lambda: size.cut is None)
        assert journal.numbers(1) == list(range(13, 18))


async def test_a_store_that_refuses_event_logs_alone_is_not_called_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else goes well, so the stages are claimed and read again each time, until the next event for a log comes."""
    caplog.set_level("INFO")

    def told(what: str) -> int:
        return sum(f"event={what}" in each.getMessage() for each in caplog.records)

    file = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as shell:
        async with Worker(settings(store=f"sqlite:///{file}", log_topics=["s:a"], beat_interval=0.01)) as worker:
            async with RawClient(worker.address) as client:
                topic, *_ = await client.resolve("a")
            shell.execute("ALTER TABLE event_log RENAME TO others")
            for _ in range(3):
                async with RawClient(worker.address) as client:
                    failures = worker._host.metrics.failures
                    client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id, content=b"x")]))
                    await until(lambda: worker._host.metrics.failures > failures)  # noqa: B023
                await until(lambda: worker._host.is_ready)
                is_ready, facts = worker.health()
                assert (is_ready, facts["status"]) == (False, "store failed")
                assert "no such table: event_log" in str(facts["store_error"])
            assert (told("store_failed"), told("recovered")) == (1, 0)
            with monkeypatch.context() as later:
                later.setattr(host, "DOUBTED", 0.0)
                assert worker.health()[0], "nothing was published there since"
            shell.execute("ALTER TABLE others RENAME TO event_log")
            async with RawClient(worker.address) as client:
                client.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id, content=b"x")]))
                assert (await client.next(Timestamps)).events[0].number == 1
            await until(lambda: worker.health()[0])
            assert (told("store_failed"), told("recovered")) == (1, 1)


_DAMAGE = [
    "deps = x'c1'", "deps = x'91a161'", "deps = x'9105'", "deps = 'text'", "deps = NULL",
    "stored_ms = 'text'", "size = 'text'",
]  # fmt: skip


@pytest.mark.parametrize("damage", _DAMAGE)
async def test_a_damaged_row_goes_when_its_time_comes(tmp_path: Path, damage: str) -> None:
    """It neither stops the worker, and each one that is started or takes over, nor keeps all rows behind it."""
    file = tmp_path / "store.db"
    given = settings(store=f"sqlite:///{file}", log_topics=["s:a"], log_trim_interval=0.01, log_max_count=5)
    with sqlite3.connect(file, isolation_level=None) as shell:
        async with Worker(given) as worker, RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            await _publish(worker, client, topic, range(1, 5))
            shell.execute(f"UPDATE event_log SET {damage} WHERE number = 2")
            client.send(ReadLog(7, topic.stage, topic.id, [1, 4]))
            answer = await client.next(LoggedEvents)
            assert [each.number for each in answer.events] == [1, 3, 4]
            await _publish(worker, client, topic, range(5, 12))
            numbers = "SELECT number FROM event_log ORDER BY number"
            await until(lambda: shell.execute(numbers).fetchall() == [(number,) for number in range(7, 12)])
            assert worker.health()[0]
    shell.close()


def test_rows_that_are_written_while_a_log_is_counted_count_once() -> None:
    sizes = LogSizes()
    sizes.recount([7])
    asked = sizes.uncounted(9)
    sizes.wrote([_row(4, 10), _row(5, 20)])
    assert sizes.get(7) is None
    sizes.counted(asked, [LogTotals(7, 3, 100, 1_002, 4)])  # the count has seen 4, and not 5
    assert sizes.get(7) == LogSize(4, 120, 1_002, 5, new_events=1, new_size=20)
    assert sizes.uncounted(9) == {}


def test_a_log_without_a_row_is_counted_when_its_first_one_comes() -> None:
    sizes = LogSizes()
    sizes.recount([7])
    sizes.counted(sizes.uncounted(9), [])
    assert (list(sizes), sizes.get(7)) == ([], None)
    sizes.wrote([_row(4)])
    sizes.wrote([_row(5)])
    assert sizes.get(7) == LogSize(2, 2, 1_004, 5, new_events=2, new_size=2)


def test_a_log_that_ends_while_it_is_counted_is_counted_again() -> None:
    sizes = LogSizes()
    sizes.recount([7])
    asked = sizes.uncounted(9)
    sizes.wrote([LogTrim(7, 4), _row(5)])
    sizes.counted(asked, [LogTotals(7, 4, 4, 1_001, 4)])
    assert sizes.get(7) is None
    again = sizes.uncounted(9)
    assert list(again) == [7]
    sizes.counted(again, [LogTotals(7, 1, 1, 1_005, 5)])
    assert sizes.get(7) == LogSize(1, 1, 1_005, 5)


def test_a_trim_takes_away_what_it_was_to_take() -> None:
    sizes = LogSizes()
    sizes.wrote(map(_row, range(1, 6)))
    size = sizes.get(7)
    assert size is not None
    size.cut = Cut(3, 3, 3, 1_004)
    sizes.wrote([LogTrim(7, 3), _row(6)])
    assert (size, sizes.due) == (LogSize(3, 3, 1_004, 6, 6, 6), {7})
    sizes.wrote([LogTrim(7, 4)])  # another one: who knows what that took
    assert (sizes.get(7), list(sizes.uncounted(9))) == (None, [7])


def test_what_is_over_goes_the_oldest_first_and_no_more_than_a_slice() -> None:
    rows = [Oldest(number, number, TRIM_BYTES // 4, [9, number]) for number in range(1, 11)]
    log, rule = LogSize(10, 10 * TRIM_BYTES // 4, 1, 10), LogRule("s", exact("a"), max_count=2)
    assert excess(rule, log, rows, 3, 50) == (Cut(3, 3, 3 * TRIM_BYTES // 4, 4), {9: 3})
    assert excess(rule, log, rows, 10, 50) == (Cut(4, 4, TRIM_BYTES, 5), {9: 4})
    assert excess(LogRule("s", exact("a"), max_count=8), log, rows, 10, 50)[0] == Cut(2, 2, TRIM_BYTES // 2, 3)
    assert excess(LogRule("s", exact("a"), max_age_ms=49), log, rows, 10, 50) == (None, {})
    assert excess(LogRule("s", exact("a"), max_age_ms=48), log, rows[:1], 10, 50)[0] == Cut(1, 1, TRIM_BYTES // 4, 50)
    riding = [Oldest(1, 1, 1, None), *rows[1:]]
    assert excess(rule, log, riding, 10, 50) == (None, {})
    large = [Oldest(1, 1, 2 * TRIM_BYTES, [])]
    assert excess(rule, LogSize(3, 1, 1, 3), large, 10, 50)[0] == Cut(1, 1, 2 * TRIM_BYTES, 50)


def test_what_may_be_confirmed_yet_stays_and_what_is_before_it_goes() -> None:
    """R16: a log is not held up by what is published at this moment."""
    cluster = Cluster({"a": 0})
    cluster.open("p")
    cluster.rule("a")
    numbers = [cluster.stamp("p", "a", content=b"x").number for _ in range(5)]
    assert numbers == [1, 2, 3, 4, 5]
    cluster.settle("p", "a", confirmed=[1, 2, 3, 5])
    log = cluster.stages[0].log
    assert (log.settled(1, 9), log.settled(1, 2), log.settled(2, 9)) == (
        range(1, 4), range(1, 3), range(0),
    )  # fmt: skip
