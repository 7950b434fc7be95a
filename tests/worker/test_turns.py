"""How much a worker does at once for one connection: questions cost more than they are long, and so do answers."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from contextlib import AsyncExitStack
from unittest.mock import Mock

import pytest
from tests.worker.helpers import TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.wire import (
    AskHeads,
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
    Timestamps,
    Topics,
)
from inorder_worker.service import Worker, event_logs, open_commit, server, slow
from inorder_worker.service.backlog import Backlog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.connection import Connection
from inorder_worker.service.event_logs import EventLogs
from inorder_worker.service.gate import Pass
from inorder_worker.service.router import EVENTS_AT_ONCE
from inorder_worker.service.turns import Shares, Turns
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
        worker._host.commits.clock = itertools.count().__next__  # each request takes a second
        topic, *_ = await many.resolve("a")
        journal.hold()
        many.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: journal.waiting == 1)
        many.send(*(Ping(each) for each in range(100)))
        await until(lambda: worker._host.queued == 99)  # one is in the next commit
        few.send(AskHeads(), Ping(1_000), Ping(1_001))
        await until(lambda: worker._host.queued == 102)
        answers = list[Frame]()
        monkeypatch.setattr(Connection, "send", lambda _, frames: answers.extend(frames))
        journal.let_go()
        await until(lambda: len(answers) == 103)
    nonces = [each.nonce for each in answers if isinstance(each, Pong)]
    assert [nonces.index(1_000) < 5, nonces.index(1_001) < 7] == [True, True]
    assert [each for each in nonces if each < 100] == [*range(100)]


async def test_a_frame_of_many_events_has_turns_between_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event may cost milliseconds, and a frame has hundreds; what its client asks behind it still comes behind."""
    journal, counters = TestJournal(), [*range(2, 2 + 5 * EVENTS_AT_ONCE)]
    async with (
        Worker(settings(), journal=journal) as worker,
        RawClient(worker.address, "many") as many,
        RawClient(worker.address, "few") as few,
    ):
        (topic,) = await many.resolve("a")
        worker._host.commits.clock = itertools.count().__next__  # each turn takes a second
        journal.hold()
        many.send(CreateTimestamps(0, 1, [NewEvent(1, topic.id)]))
        await until(lambda: journal.waiting == 1)
        many.send(CreateTimestamps(0, 2, [NewEvent(each, topic.id) for each in counters]), AskHeads(), Ping(1))
        connection = next(each for each in worker._server._connections if each.name == "many")
        await until(lambda: connection._requests == 4)
        few.send(AskHeads(), Ping(2), Ping(3))
        await until(lambda: sum(each._requests for each in worker._server._connections) == 7)
        answers = list[Frame]()
        monkeypatch.setattr(Connection, "send", lambda _, frames: answers.extend(frames))
        journal.let_go()
        await until(lambda: not any(each._requests for each in worker._server._connections))
        assert [each._request_bytes for each in worker._server._connections] == [0, 0]
    kinds = [each.nonce if isinstance(each, Pong) else type(each) for each in answers]
    assert [kinds.index(2) < 4, kinds.index(3) < 6, kinds.index(1)] == [True, True, len(kinds) - 1]
    made = [event for each in answers if isinstance(each, Timestamps) for event in each.events]
    assert [(event.counter, event.number) for event in made] == [(each, each) for each in (1, *counters)]


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


async def test_where_too_much_waits_large_frames_are_read_later() -> None:
    """Else each connection could bring one more, of ``max_frame_bytes``, beyond ``max_queue_bytes``."""
    journal, large = TestJournal(), [("s", f"{each:0200}") for each in range(1_000)]
    async with (
        Worker(settings(max_queue_bytes=10_000, max_batch_commands=1), journal=journal) as worker,
        RawClient(worker.address, "many") as many,
        RawClient(worker.address, "large") as other,
    ):
        journal.hold()
        many.send(*(Resolve(each, [("s", "a")]) for each in range(100)))
        await until(lambda: worker._server.is_pressed)
        before = worker._host.queued_bytes
        other.send(Resolve(1, large))
        connection = next(each for each in worker._server._connections if each.name == "large")
        await until(lambda: not connection._is_reading)
        assert (worker._host.queued_bytes, connection._requests) == (before, 0)
        journal.let_go()
        assert len((await other.next(Topics)).topics) == len(large)


async def test_a_session_begins_and_ends_among_what_its_client_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind a hello must not be run before the session is there, nor its end after a new beginning."""
    names, submit = list[str](), CommitLoop.submit

    def noted(commits: CommitLoop, asked: Work) -> None:
        names.append(asked.name)
        submit(commits, asked)

    async with Worker(settings(), journal=TestJournal()) as worker:
        monkeypatch.setattr(CommitLoop, "submit", noted)
        async with RawClient(worker.address, "one") as client:
            await client.resolve("a")
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


def _taken(logs: EventLogs) -> list[tuple[str, int]]:
    """Take all questions that wait; return (client, request) of each."""
    taken: list[tuple[Session, str, ReadLog]] = [logs._questions.take() for _ in range(len(logs._questions))]
    return [(session[0], frame.request) for session, _, frame in taken]


def test_questions_to_logs_are_dropped_of_whoever_has_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_logs, "MAX_QUEUED", 10)
    logs = EventLogs(Mock(), Mock())
    for name, count in (("many", 20), ("few", 2), ("other", 9), ("many", 1)):
        for request in range(count):
            logs.ask((name, 1), ReadLog(request, 0, 1, [1, 1]))
    asked = _taken(logs)
    assert asked[:3] == [("many", 0), ("few", 0), ("other", 0)]
    assert asked[3:6] == [("many", 1), ("few", 1), ("other", 1)]
    assert sorted(asked) == sorted(
        [("few", each) for each in range(2)] + [(name, each) for name in ("many", "other") for each in range(4)]
    )


def test_questions_to_logs_of_many_clients_are_those_of_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_logs, "MAX_QUEUED", 10)
    logs = EventLogs(Mock(), Mock())
    for each in range(20):
        logs.ask((f"many-{each}", 1), ReadLog(each, 0, 1, [1, 1]), "many")
    for request in range(3):
        logs.ask(("few", 1), ReadLog(request, 0, 1, [1, 1]), "few")
    asked = _taken(logs)
    assert [name.partition("-")[0] for name, _ in asked] == ["many", "few"] * 3 + ["many"] * 4
    assert [request for name, request in asked if name == "few"] == [0, 1, 2]


DEAR, CHEAP = 0.17, 0.001
"""Seconds that a request takes."""


@pytest.mark.parametrize(("owner", "each"), [("", 2), ("of both dear ones", 1)])
async def test_what_a_client_has_done_costs_it_turns(owner: str, each: int) -> None:
    """Who asks for dear things gets no more of the stage than who asks for cheap ones, by however many client ids."""
    order, spent = list[str](), 0.0

    def asked(name: str, seconds: float, owner: str = "") -> Work:
        def run() -> None:
            nonlocal spent
            spent += seconds
            order.append(name)

        return Work(None, 0, run, of=name, of_owner=owner)

    async with Worker(settings(), journal=TestJournal()) as worker:
        commits = worker._host.commits
        commits.clock = lambda: spent
        commits.is_holding = True
        for name in ("dear", "also dear"):
            for _ in range(20):
                commits.submit(asked(name, DEAR, owner))
        for _ in range(300):
            commits.submit(asked("cheap", CHEAP))
        commits.is_holding = False
        commits.go_on()
        await until(lambda: len(order) == 340)
    assert order.index("cheap") <= 2
    until_cheap_is_done = order[: len(order) - order[::-1].index("cheap")]
    assert Counter(until_cheap_is_done) == {"dear": each, "also dear": each, "cheap": 300}
    assert order[-30:].count("dear") == 15


def test_a_client_is_owned_by_whoever_has_its_token() -> None:
    connection = Connection(Mock(settings=settings()))
    assert Work(connection, 1, lambda: None).owner == ""
    token = Mock()
    token.name = "desks"
    connection.passed = Pass("desks", token)
    assert Work(connection, 1, lambda: None).owner == "desks"


def test_a_client_that_comes_waits_for_no_more_than_one_dear_request_of_each_other() -> None:
    turns = Turns[str]()
    for name in ("a", "b", "c"):
        for _ in range(50):
            turns.put(name, name)
    for _ in range(30):
        turns.charge(turns.take(), DEAR)
    turns.put("new", "new")
    assert "new" in [turns.take() for _ in range(4)]


def test_clients_of_one_owner_share_its_turns() -> None:
    """Whoever has a token may come by any number of client ids."""
    turns = Turns[tuple[str, str]]()
    for each in range(100):
        turns.put(f"many-{each}", ("many", f"many-{each}"), "many")
    for owner in ("one", ""):
        for _ in range(10):
            turns.put(owner or "none", (owner, owner or "none"), owner)
    taken = list[tuple[str, str]]()
    while turns:
        owner, name = turns.take()
        turns.charge(name, DEAR, owner)
        taken.append((owner, name))
    assert Counter(owner for owner, _ in taken[:30]) == {"many": 10, "one": 10, "": 10}
    assert len({name for _, name in taken}) == 102


def test_within_an_owner_dear_clients_get_no_more_than_their_share() -> None:
    turns = Turns[str]()
    for name, count in (("dear", 10), ("cheap", 100)):
        for _ in range(count):
            turns.put(name, name, "owner")
    order = list[str]()
    while turns:
        order.append(turns.take())
        turns.charge(order[-1], 1.0 if order[-1] == "dear" else 0.1, "owner")
    assert Counter(order[:44]) == {"dear": 4, "cheap": 40}


def test_what_is_remembered_of_costs_is_bounded_and_forgotten_when_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inorder_worker.service.turns.REMEMBERED", 10)
    shares = Shares[str]()
    shares.join("always")
    for each in range(100):
        shares.charge(f"{each}", 1.0)
    assert len(shares._paid) == 10
    assert shares.first() == "always"
    shares.pass_on(waits=False)
    shares.charge("nobody else waits", 1.0)
    assert not shares._paid


def test_turns_keep_all_items_and_the_order_of_each_name_whatever_happens() -> None:
    rng = random.Random(3)
    for _ in range(50):
        turns, expected = Turns[tuple[str, int]](), dict[str, list[int]]()
        for at in range(200):
            name = rng.choice("abcdef")
            owner = rng.choice(("", "x", "y"))
            queue = expected.setdefault(name, [])
            match rng.randrange(6):
                case 0 | 1 | 2:
                    turns.put(name, (name, at), owner)
                    queue.append(at)
                case 3:
                    turns.put_first(name, (name, at), owner)
                    queue.insert(0, at)
                case 4 if turns:
                    taken, number = turns.take()
                    assert expected[taken].pop(0) == number
                    turns.charge(taken, rng.random(), owner)
                case _:
                    before = len(turns)
                    if turns.make_room(name, owner):
                        kept = {each: [at for _, at in queue] for each, queue in turns._queues.items()}
                        gone = [each for each, known in expected.items() if known != kept.get(each, [])]
                        assert (len(gone), len(turns)) == (1, before - 1)
                        assert expected[gone[0]][:-1] == kept.get(gone[0], [])
                        expected[gone[0]].pop()
            assert len(turns) == sum(map(len, expected.values()))
        while turns:
            taken, number = turns.take()
            assert expected[taken].pop(0) == number
        assert [*turns._queues, *turns._owned, *turns._whose, *turns._shares] == []


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


class Cut(Unread):
    """A transport whose other end does not read, until it is cut."""

    def abort(self) -> None:
        self.written = 0


async def test_what_all_clients_leave_unread_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaves less than what is a single one's end, and for as long as it likes."""
    monkeypatch.setattr(slow, "ALL_CLIENTS", 1.5)
    async with Worker(settings(max_write_bytes=100_000, heads_interval=0.01), journal=TestJournal()) as worker:
        connections = list[Connection]()
        for _ in range(2):
            connections.append(Connection(worker._server))
            connections[-1].connection_made(Cut())
            connections[-1].send([Failure("x", "y" * 80_000)])
        await until(lambda: worker._server.slow.thrown_out > 0)
        assert worker._server.slow.thrown_out == 1
        for each in connections:
            each.connection_lost(None)


async def test_what_all_clients_leave_unfinished_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sends less than a frame, to which there is an end for each, and says nothing more; before its hello, too."""
    monkeypatch.setattr(server, "ALL_CLIENTS", 2.5)
    part = (60_000).to_bytes(4, "big") + b"x" * 50_000
    async with (
        Worker(settings(max_frame_bytes=2**16), journal=TestJournal()) as worker,
        RawClient(worker.address, "whole") as whole,
        AsyncExitStack() as stack,
    ):
        unfinished = worker._server.unfinished
        known = [await stack.enter_async_context(RawClient(worker.address, f"known{each}")) for each in range(2)]
        strangers = [RawClient(worker.address) for _ in range(2)]
        for each in strangers:
            await each.connect()
            stack.push_async_callback(each.close)
        for each in (known[0], strangers[0], known[1]):
            each.writer.write(part)
        await until(lambda: unfinished._total == 3 * len(part))
        strangers[1].writer.write(part)
        assert "unfinished" in (await strangers[1].failure()).message
        await whole.ping()
        await known[0].close()
        await until(lambda: unfinished._total == 2 * len(part))


def test_of_those_who_leave_too_much_unread_the_worst_owner_is_cut() -> None:
    left = {"a": ("", 50), "b": ("many", 30), "c": ("many", 40), "d": ("", 0)}
    clients = [Mock(owner=owner, size=size, peer=name) for name, (owner, size) in left.items()]
    for each in clients:
        each.name = each.peer
    assert [slow.beyond({each: each.size for each in clients}, most) for most in (120, 119, 79, 30)] == [
        [], [clients[2]], [clients[2], clients[0]], [clients[2], clients[0]],
    ]  # fmt: skip


async def test_of_answers_that_a_client_does_not_take_no_more_are_made() -> None:
    """Ten megabytes for one that leaves 100 kB unread, and has stopped to read."""
    async with Worker(settings(max_write_bytes=100_000), journal=TestJournal()) as worker:
        connection, transport = Connection(worker._server), Unread()
        connection.connection_made(transport)
        connection.send([Failure("x", "y" * 60_000)] * 200)
    assert transport.written < 200_000
