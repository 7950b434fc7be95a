"""Cases from public reports that are about owners and their journals: B62, B64."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.worker.helpers import PATIENCE, TestJournal, settings
from tests.worker.raw_client import RawClient

from inorder.errors import Fenced, StoreUnreachable
from inorder.protocol.pairs import joined
from inorder.protocol.wire import CreateTimestamps, NewEvent, Settle, Timestamps, Welcome
from inorder.testing.services import PostgresServer
from inorder_worker.service import Worker
from inorder_worker.store.chain import EMPTY_TAIL, Row, Tail
from inorder_worker.store.journal import Batch, MemoryStore
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.sql_journal import SqlJournal

# -- B62 -------------------------------------------------------------------------------------------------------------

ROUNDS, STAMPS, TOPICS, CLIENTS, OPEN = 50, 10_000, 12, 3, 60


class DyingJournal(TestJournal):
    """Dies at one of the next appends, before or after it wrote; from then on nothing reaches the store."""

    def __init__(self, store: MemoryStore, appends: int, *, wrote: bool) -> None:
        super().__init__(store)
        self._appends, self._wrote = appends, wrote

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        self._appends -= 1
        if self._appends == 0:
            if self._wrote:
                super().append(batches, log)
            self.claims_fail, self.error = True, StoreUnreachable("memory", "the owner died")
            raise self.error
        super().append(batches, log)


class Asker:
    """A client that asks for timestamps, and asks again for what was not answered."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self._left = name, count
        self._next = 1
        self._open: dict[int, int] = {}
        self.got: dict[int, tuple[int, int]] = {}

    @property
    def is_done(self) -> bool:
        return not (self._left or self._open)

    async def ask(self, address: str) -> None:
        """Ask one worker until it dies, or all is answered."""
        client = RawClient(address, self.name)
        client.hello.asked = [0, self._next - 1]
        await client.connect()
        try:
            client.send(client.hello)
            await client.next(Welcome)
            topics = [each.id for each in await client.resolve(*map(str, range(TOPICS)))]
            self._send(client, list(self._open.items()))
            while not self.is_done:
                self._send(client, self._more(topics))
                self._answered(client, await client.next(Timestamps))
        except (AssertionError, EOFError, ConnectionError):
            pass  # the worker said that its store has failed, or was gone at once
        finally:
            await client.close()

    def _more(self, topics: list[int]) -> list[tuple[int, int]]:
        count = min(OPEN - len(self._open), self._left) if len(self._open) < OPEN // 2 else 0
        new = [(counter, topics[counter % TOPICS]) for counter in range(self._next, self._next + count)]
        self._open.update(new)
        self._next += count
        self._left -= count
        return new

    def _send(self, client: RawClient, requests: list[tuple[int, int]]) -> None:
        if requests:
            client.send(CreateTimestamps(0, min(self._open), [NewEvent(*each) for each in requests]))

    def _answered(self, client: RawClient, frame: Timestamps) -> None:
        if frame.forgotten:
            raise RuntimeError(f"{self.name} was told that {frame.forgotten} are forgotten")
        for event in frame.events:
            place = event.topic, event.number
            if self.got.setdefault(event.counter, place) != place:
                raise RuntimeError(f"{self.name}: {event.counter} was {self.got[event.counter]}, now {place}")
            self._open.pop(event.counter, None)
        if frame.events:
            client.send(Settle(0, 1, joined((each.topic, each.number, each.number) for each in frame.events)))


async def test_b62_owners_that_die_at_random_moments_give_no_number_twice() -> None:
    """Ten thousand stamps over twelve topics, fifty owners after one another: every event has one number, every number
    one event, none is left out; nobody had to start anything again."""
    store, rng = MemoryStore(), random.Random(62)
    askers = [Asker(f"c{number}", STAMPS // CLIENTS) for number in range(CLIENTS)]
    rounds = 0
    while not all(each.is_done for each in askers):
        rounds += 1
        dies = rng.randint(2, 12) if rounds < ROUNDS else 0
        journal = DyingJournal(store, dies, wrote=rng.random() < 0.5)
        options = settings(beat_interval=0.5, take_over=True, max_batch_commands=rng.choice((1, 3, 100)))
        async with Worker(options, journal=journal) as worker, asyncio.timeout(PATIENCE):
            await asyncio.gather(*(each.ask(worker.address) for each in askers))
    assert rounds >= ROUNDS // 2
    numbers: dict[int, list[int]] = defaultdict(list)
    for each in askers:
        for topic, number in each.got.values():
            numbers[topic].append(number)
    assert sum(map(len, numbers.values())) == STAMPS // CLIENTS * CLIENTS
    assert len(numbers) == TOPICS
    for given in numbers.values():
        assert sorted(given) == list(range(1, len(given) + 1))


# -- B64 -------------------------------------------------------------------------------------------------------------


class Reader:
    """Reads a journal while others write it, as a standby does."""

    def __init__(self, url: str) -> None:
        self._journal = SqlJournal(url)
        self._tail: Tail = EMPTY_TAIL
        self._stop = threading.Event()
        self.rows: list[Row] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.read()

    def read(self) -> None:
        for row in self._journal.read_on(0, self._tail):
            self.rows.append(row)
            self._tail = Tail(row.seq, row.hash)

    def stop(self) -> None:
        """Stop, and read the rest."""
        self._stop.set()
        self._thread.join(PATIENCE)
        self.read()
        self._journal.close()


@contextlib.contextmanager
def held(url: str) -> Iterator[Callable[[], None]]:
    """Keep everybody from writing, until the function is called."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql("SELECT * FROM stages FOR UPDATE")
        yield lambda: _roll_back(connection)
    engine.dispose()


def _roll_back(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ROLLBACK")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_b64_a_reader_gets_each_row_once_whoever_commits_first(
    kind: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    """Two owners of one stage, both in the middle of a commit: the reader sees the journal grow by one row after the
    other, whatever became of the first one's. What was not committed left no hole and no row."""
    url = f"sqlite:///{tmp_path / 'b64.db'}" if kind == "sqlite" else postgres.database()
    journals = [SqlJournal(url)]
    journals[0].open(1)
    epoch, seq, expected = journals[0].claim(0, "0/x/1-1/x"), 0, list[bytes]()
    reader = await asyncio.to_thread(Reader, url)
    try:
        for turn in range(1, 9):
            old, new = journals[-1], SqlJournal(url)
            journals.append(new)
            entries = b"old %d" % turn
            with held(url) as let_go:
                appending = asyncio.create_task(asyncio.to_thread(old.append, [Batch(0, epoch, seq + 1, entries)]))
                claiming = asyncio.create_task(asyncio.to_thread(new.claim, 0, f"{turn}/x/1-1/x"))
                await asyncio.sleep(0)
                await asyncio.to_thread(let_go)
                async with asyncio.timeout(PATIENCE):
                    epoch = await claiming
                    try:
                        await appending
                    except Fenced:
                        pass  # the new owner came first: nothing was written
                    else:
                        expected.append(entries)
            seq = len(expected) + 1
            await asyncio.to_thread(new.append, [Batch(0, epoch, seq, b"new %d" % turn)])
            expected.append(b"new %d" % turn)
    finally:
        await asyncio.to_thread(reader.stop)
        for each in journals:
            each.close()
    assert [row.entries for row in reader.rows] == expected
    assert [row.seq for row in reader.rows] == list(range(1, len(expected) + 1))
