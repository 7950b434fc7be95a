"""How much a worker does at once for one connection: questions cost more than they are long, and so do answers."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest
from tests.worker.helpers import TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import (
    CreateTimestamps,
    Failure,
    Frame,
    NewEvent,
    Ping,
    Pong,
    ReadLog,
    Renew,
    Renewed,
    Resolve,
)
from inorder_worker.service import Worker, event_logs, open_commit
from inorder_worker.service.backlog import Backlog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.connection import Connection
from inorder_worker.service.event_logs import EventLogs
from inorder_worker.service.work import Session, Work


async def test_of_questions_in_one_read_so_many_are_taken_and_the_rest_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs as much as its answer, and thousands of them fit into one read."""
    waiting, submit = list[int](), CommitLoop.submit

    def counted(commits: CommitLoop, asked: Work) -> None:
        if isinstance(asked.source, Connection):
            waiting.append(asked.source._requests)
        submit(commits, asked)

    monkeypatch.setattr(CommitLoop, "submit", counted)
    async with Worker(settings(max_requests=10), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        client.send(*(Ping(each) for each in range(100)), *(Renew(each) for each in range(100)))
        assert [(await client.next(Pong)).nonce for _ in range(100)] == [*range(100)]
        assert [(await client.next(Renewed)).request for _ in range(100)] == [*range(100)]
    assert (len(waiting), max(waiting)) == (200, 10)


async def test_between_dear_questions_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_commit, "MOST_AT_ONCE", 1e-9)
    async with Worker(settings(), journal=TestJournal()) as worker, RawClient(worker.address) as client:
        answers = list[list[Frame]]()
        monkeypatch.setattr(Connection, "send", lambda _, frames: answers.append(frames))
        client.send(*(Ping(each) for each in range(9)))
        await until(lambda: len(answers) == 9)
    assert answers == [[Pong(each)] for each in range(9)]


async def test_clients_have_turns_however_much_one_of_them_has_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_commit, "MOST_AT_ONCE", 1e-9)
    journal = TestJournal()
    async with (
        Worker(settings(), journal=journal) as worker,
        RawClient(worker.address, "many") as many,
        RawClient(worker.address, "few") as few,
    ):
        topic, *_ = await many.resolve("a")
        journal.hold()
        many.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: journal.waiting == 1)
        many.send(*(Ping(each) for each in range(100)))
        await until(lambda: worker._host.queued == 99)  # one is in the next commit
        few.send(Ping(1_000), Ping(1_001))
        await until(lambda: worker._host.queued == 101)
        answers = list[Frame]()
        monkeypatch.setattr(Connection, "send", lambda _, frames: answers.extend(frames))
        journal.let_go()
        await until(lambda: len(answers) == 103)
    nonces = [each.nonce for each in answers if isinstance(each, Pong)]
    assert [nonces.index(1_000) < 5, nonces.index(1_001) < 7] == [True, True]
    assert [each for each in nonces if each < 100] == [*range(100)]


async def test_where_too_much_waits_those_are_read_of_whom_nothing_does() -> None:
    journal = TestJournal()
    bounds = settings(max_queue_bytes=10_000, max_batch_commands=1)
    async with (
        Worker(bounds, journal=journal) as worker,
        RawClient(worker.address, "many") as many,
        RawClient(worker.address, "few") as few,
    ):
        journal.hold()
        many.send(*(Resolve(each, [("s", "a")]) for each in range(100)))
        await until(lambda: worker._server.is_pressed)
        reading = {each.name: each._is_reading for each in worker._server._connections}
        assert reading == {"many": False, "few": True}
        before = worker._host.queued
        few.send(*(Ping(each) for each in range(100)))
        await until(lambda: worker._host.queued > before)
        assert worker._host.queued == before + 1
        journal.let_go()
        assert [(await few.next(Pong)).nonce for _ in range(100)] == [*range(100)]


async def test_a_session_begins_and_ends_among_what_its_client_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind a hello must not be run before the session is there, nor its end after a new beginning."""
    names, submit = list[str](), CommitLoop.submit

    def noted(commits: CommitLoop, asked: Work) -> None:
        names.append(asked.name)
        submit(commits, asked)

    async with Worker(settings(), journal=TestJournal()) as worker:
        monkeypatch.setattr(CommitLoop, "submit", noted)
        async with RawClient(worker.address, "one") as client:
            await client.ping()
        await until(lambda: len(names) == 3)
    assert names == ["one"] * 3


def _asked_for(name: str) -> Work:
    return Work(None, 1, lambda: None, of=name)


def test_what_was_held_back_is_run_before_what_came_later_and_in_its_order() -> None:
    backlog, works = Backlog(Mock(), 100), [_asked_for(name) for name in "aabab"]
    backlog.put(works[3])
    backlog.put(works[4])
    backlog.put_back(works[:3])
    assert (len(backlog), backlog.bytes) == (5, 5)
    taken = [backlog.take() for _ in range(5)]
    for name in "ab":
        assert [id(each) for each in taken if each.name == name] == [id(each) for each in works if each.name == name]
    assert (len(backlog), backlog.bytes, bool(backlog)) == (0, 0, False)
    backlog.put(works[0])
    assert [id(each) for each in backlog.take_all()] == [id(works[0])]


def test_questions_to_logs_are_dropped_of_whoever_has_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_logs, "MAX_QUEUED", 10)
    logs = EventLogs(Mock(), Mock())
    for name, count in (("many", 20), ("few", 2), ("other", 9), ("many", 1)):
        for request in range(count):
            logs.ask((name, 1), ReadLog(request, 0, 1, [1, 1]))
    taken: list[tuple[Session, ReadLog]] = [logs._questions.take() for _ in range(len(logs._questions))]
    asked = [(session[0], frame.request) for session, frame in taken]
    assert asked[:3] == [("many", 0), ("few", 0), ("other", 0)]
    assert asked[3:6] == [("many", 1), ("few", 1), ("other", 1)]
    assert sorted(asked) == sorted(
        [("few", each) for each in range(2)] + [(name, each) for name in ("many", "other") for each in range(4)]
    )


class Unread(asyncio.Transport):
    """A transport whose other end does not read."""

    written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def get_write_buffer_size(self) -> int:
        return self.written

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


async def test_of_answers_that_a_client_does_not_take_no_more_are_made() -> None:
    """Ten megabytes for one that leaves 100 kB unread, and has stopped to read."""
    async with Worker(settings(max_write_bytes=100_000), journal=TestJournal()) as worker:
        connection, transport = Connection(worker._server), Unread()
        connection.connection_made(transport)
        connection.send([Failure("x", "y" * 60_000)] * 200)
    assert transport.written < 200_000
