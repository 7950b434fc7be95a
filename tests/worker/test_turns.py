"""How much a worker does at once for one connection: questions cost more than they are long, and so do answers."""

from __future__ import annotations

import asyncio

import pytest
from tests.worker.helpers import TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import Failure, Frame, Ping, Pong, Renew, Renewed
from inorder_worker.service import Worker, open_commit
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.connection import Connection
from inorder_worker.service.work import Work


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
