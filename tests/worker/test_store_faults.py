"""What stores do to a worker: answers to commits that are lost, locks, forks, full disks, and stores turned read-only.
Never two numbers for one event, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from tests.worker.helpers import PATIENCE, settings, until
from tests.worker.processes import WorkerProcess, connected
from tests.worker.raw_client import RawClient

from inorder.errors import Fenced, StoreFull, StoreReadOnly, StoreUnreachable
from inorder.protocol.wire import CreateTimestamps, NewEvent, StampedEvent, Timestamps, TopicInfo
from inorder.testing.services import FaultProxy, PostgresServer, wait_until
from inorder_worker.sequencer.commands import AnyCommand, Create
from inorder_worker.service import Worker
from inorder_worker.store import failpoints, sql_connection, sqlite_file
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Busy
from inorder_worker.store.verification import verify

_entries = msgspec.msgpack.Decoder(list[tuple[int, list[AnyCommand]]])


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inorder.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def created(url: str) -> list[int]:
    """Return the counters of all requests in the journal, in the order in which they were numbered."""
    journal = SqlJournal(url)
    journal.open(1)
    rows = list(journal.replay(0, 0))
    journal.close()
    commands = [command for row in rows for _, group in _entries.decode(row.entries) for command in group]
    return [event.counter for command in commands if isinstance(command, Create) for event in command.events]


class Watched(SqlJournal):
    """Tells when an append begins."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.appending = threading.Event()

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        self.appending.set()
        super().append(batches, log)


def ask(client: RawClient, topic: TopicInfo, counter: int) -> None:
    client.send(CreateTimestamps(0, 1, [NewEvent(counter, topic.id)]))


# -- ambiguous commits (B65) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["down", "up"])
async def test_a_connection_cut_around_a_commit(postgres: PostgresServer, direction: str) -> None:
    """Through a proxy: the commit was done and its answer is cut off, or it never arrived. The client sees nothing."""
    direct = postgres.database()
    looking = Store(direct)

    def rows() -> int:
        return looking.run(lambda connection: connection.exec_driver_sql("SELECT count(*) FROM journal").scalar_one())  # type: ignore[no-any-return]

    async with FaultProxy(postgres.port) as proxy:
        url = direct.replace(f":{postgres.port}/", f":{proxy.port}/")
        journal = Watched(url)
        async with Worker(settings(store=url), journal=journal) as worker, RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            await client.create(topic, 1)
            before = rows()
            proxy.stall("down" if direction == "down" else "up")
            journal.appending.clear()
            ask(client, topic, 2)
            if direction == "down":
                await asyncio.to_thread(wait_until, lambda: rows() > before, what="the commit")
            else:
                assert await asyncio.to_thread(journal.appending.wait, PATIENCE)
            proxy.cut()
            await proxy.heal()
            (event,) = (await client.next(Timestamps)).events
            assert (event.counter, event.number) == (2, 2)
            assert [event.number for event in await client.create(topic, 3, 2, 1)] == [3, 2, 1]
    looking.close()
    assert verify(direct).problems == []
    assert created(direct).count(2) == 2  # asked, and asked again at the end: not once more by the worker


async def test_a_commit_that_comes_late_does_not_double_its_repetition(postgres: PostgresServer) -> None:
    """The connection is lost while the server still waits for a lock; both attempts then go on."""
    direct = postgres.database()
    engine = sa.create_engine(direct.replace("postgresql:", "postgresql+psycopg:"))
    async with FaultProxy(postgres.port) as proxy:
        journal = SqlJournal(direct.replace(f":{postgres.port}/", f":{proxy.port}/"), timeout=20)
        await asyncio.to_thread(journal.open, 1)
        epoch = await asyncio.to_thread(journal.claim, 0, "a")
        with engine.connect() as other:
            other.execute(sa.text("SELECT * FROM stages FOR UPDATE"))
            waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            appending = asyncio.create_task(asyncio.to_thread(journal.append, [Batch(0, epoch, 1, b"one")]))

            def wait_for(count: int) -> None:
                wait_until(lambda: other.execute(waiting).scalar() == count, what=f"{count} waiting appends")

            await asyncio.to_thread(wait_for, 1)
            proxy.cut()
            await asyncio.to_thread(wait_for, 2)
            other.rollback()
            await appending
        await asyncio.to_thread(journal.append, [Batch(0, epoch, 2, b"two")])
        rows = await asyncio.to_thread(lambda: [row.entries for row in journal.replay(0, 0)])
        assert rows == [b"one", b"two"]
        journal.close()
    engine.dispose()


def test_an_append_that_waited_for_a_claim_is_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins while the new owner's transaction is open, and goes on when that is committed."""
    url = f"sqlite:///{tmp_path}/inorder.db"
    old, new = SqlJournal(url), SqlJournal(url)
    old.open(1)
    new.open(1)
    epoch = old.claim(0, "old")
    is_waiting, attempt = threading.Event(), old._store._attempt

    def attempted(work: Callable[[sa.Connection], object], size: int | None = None) -> object:
        try:
            return attempt(work, size)
        except Busy:
            is_waiting.set()
            raise

    with ThreadPoolExecutor(1) as thread, monkeypatch.context() as patch:
        patch.setattr(old._store, "_attempt", attempted)
        appending: list[Future[None]] = []
        claiming = threading.get_ident()

        def inside(point: str) -> None:
            if point == "commit.before" and threading.get_ident() == claiming and not appending:
                appending.append(thread.submit(old.append, [Batch(0, epoch, 1, b"late")]))
                assert is_waiting.wait(PATIENCE)

        patch.setattr(sql_connection, "reach", inside)
        assert new.claim(0, "new") == epoch + 1
        with pytest.raises(Fenced, match=r"another worker \(new\)"):
            appending[0].result(PATIENCE)
    new.append([Batch(0, epoch + 1, 1, b"one")])
    assert [row.entries for row in new.replay(0, 0)] == [b"one"]
    old.close()
    new.close()


def test_an_error_after_the_commit(store: str) -> None:
    """Resolved by reading stage, number and hash again."""
    journal = SqlJournal(store)
    journal.open(2)
    epochs = [journal.claim(stage, "a") for stage in range(2)]
    failpoints.arm("commit.after=error")
    journal.append([Batch(stage, epochs[stage], 1, b"one") for stage in range(2)])
    assert failpoints._armed == {}
    journal.append([Batch(0, epochs[0], 2, b"two")])
    assert [row.entries for row in journal.replay(0, 0)] == [b"one", b"two"]
    assert [row.entries for row in journal.replay(1, 0)] == [b"one"]
    journal.close()


def test_an_error_before_the_commit(tmp_path: Path) -> None:
    """Nothing was written, the caller is told, and the number can be used."""
    journal = SqlJournal(f"sqlite:///{tmp_path}/inorder.db")
    journal.open(1)
    epoch = journal.claim(0, "a")
    failpoints.arm("commit.before=error")
    with pytest.raises(StoreUnreachable, match=r"commit\.before"):
        journal.append([Batch(0, epoch, 1, b"lost")])
    assert list(journal.replay(0, 0)) == []
    journal.append([Batch(0, epoch, 1, b"one")])
    assert [row.entries for row in journal.replay(0, 0)] == [b"one"]
    journal.close()


@pytest.mark.parametrize("point", ["commit.after", "snapshot.after", "compaction.before", "compaction.after"])
def test_a_snapshot_that_was_interrupted_is_saved_again(store: str, point: str) -> None:
    """And rows are forgotten only when newer snapshots are durable."""
    journal = SqlJournal(store)
    journal.open(1)
    epoch = journal.claim(0, "a")
    for seq in range(1, 7):
        journal.append([Batch(0, epoch, seq, b"x")])
        if seq in (2, 4):
            journal.save_snapshot(0, epoch, seq, b"state %d" % seq)
    failpoints.arm(f"{point}=error")
    with pytest.raises(StoreUnreachable):
        journal.save_snapshot(0, epoch, 6, b"state 6")
    assert verify(store).problems == []
    (report,) = verify(store).stages
    assert report.first == (5 if point == "compaction.after" else 3)
    journal.save_snapshot(0, epoch, 6, b"state 6")
    (report,) = verify(store).stages
    assert (report.first, report.last, report.snapshots) == (5, 6, [4, 6])
    journal.close()


def test_nothing_is_forgotten_for_a_snapshot_that_is_damaged(store: str) -> None:
    """The one before it, and the rows after that, are what is left to recover from."""
    journal = SqlJournal(store)
    journal.open(1)
    epoch = journal.claim(0, "a")
    for seq in range(1, 7):
        journal.append([Batch(0, epoch, seq, b"x")])
    journal.save_snapshot(0, epoch, 2, b"two")
    journal.save_snapshot(0, epoch, 4, b"four")
    damage = Store(store)
    damage.run(lambda connection: connection.exec_driver_sql("UPDATE snapshots SET format = 9 WHERE seq = 4"))
    with pytest.raises(Exception, match="snapshot of stage 0 at row 4 is damaged"):
        journal.save_snapshot(0, epoch, 6, b"six")
    damage.close()
    assert [row.seq for row in journal.replay(0, 2)] == [3, 4, 5, 6]
    journal.close()


# -- locks (B67) -----------------------------------------------------------------------------------------------------

WRITER = """
import sys
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.sql_journal import SqlJournal
url, stage, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
journal = SqlJournal(url, timeout=60)
journal.open(4)
epoch = journal.claim(stage, f"writer/{stage}")
for seq in range(1, rows + 1):
    journal.append([Batch(stage, epoch, seq, b"row" * 100)])
    if seq % 20 == 0:
        journal.save_snapshot(stage, epoch, seq, b"state" * 2000)
        journal.beat([(stage, epoch)])
journal.close()
"""


def test_four_writing_processes_and_readers_on_one_file(tmp_path: Path) -> None:
    """Zero errors; the readers are not kept waiting and always see a whole store."""
    url = f"sqlite:///{tmp_path}/inorder.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(stage), "100"], stderr=subprocess.PIPE, text=True)
        for stage in range(4)
    ]
    wait_until(lambda: verify_or_none(url), what="the store")
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert verify(url, timeout=0.1).problems == []
        reads += 1
    for writer in writers:
        _, errors = writer.communicate()
        assert (writer.returncode, errors) == (0, "")
    assert reads > 3
    assert [each.last for each in verify(url).stages] == [100] * 4


def verify_or_none(url: str) -> bool:
    with contextlib.suppress(StoreUnreachable):
        return len(verify(url).stages) == 4
    return False


async def test_a_lock_never_reaches_a_client(tmp_path: Path) -> None:
    """Another process holds the write lock, again and again, longer than SQLite itself waits."""
    path = tmp_path / "inorder.db"
    async with Worker(settings(store=f"sqlite:///{path}")) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for counter in range(1, 4):
            holder.execute("BEGIN IMMEDIATE")
            release = threading.Timer(0.4, holder.execute, ["ROLLBACK"])
            release.start()
            (event,) = await client.create(topic, counter)
            release.join()
            assert event.number == counter
        holder.close()
        assert client.skipped == [] or all("Failure" not in repr(frame) for frame in client.skipped)


# -- threads and forks (B68) -----------------------------------------------------------------------------------------

FORK = """
import os, sys
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.sql_journal import SqlJournal
journal = SqlJournal(sys.argv[1], timeout=20)
journal.open(2)
epoch = journal.claim(0, "parent")
journal.append([Batch(0, epoch, 1, b"parent")])
me = lambda: journal._store.run(lambda c: c.exec_driver_sql(sys.argv[2]).scalar())
before = me()
child = os.fork()
if not child:
    mine = journal.claim(1, "child")
    journal.append([Batch(1, mine, 1, b"child")])
    assert sys.argv[2] == "SELECT 1" or me() != before
    if sys.argv[3] == "closes":
        journal.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert me() == before, "the child ended its parent's connection"
journal.append([Batch(0, epoch, 2, b"parent")])
journal.close()
print("done")
"""


@pytest.mark.parametrize("ending", ["closes", "exits"])
def test_a_forked_process_uses_a_connection_of_its_own(store: str, ending: str) -> None:
    """And leaves the one that it inherited alone, also at its end."""
    identity = "SELECT 1" if store.startswith("sqlite") else "SELECT pg_backend_pid()"
    done = subprocess.run(
        [sys.executable, "-c", FORK, store, identity, ending], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert [each.last for each in verify(store).stages] == [2, 1]


def test_other_threads_may_use_a_journal(store: str) -> None:
    journal = SqlJournal(store)
    journal.open(4)
    failures: list[BaseException] = []

    def work(stage: int) -> None:
        try:
            epoch = journal.claim(stage, f"thread {stage}")
            for seq in range(1, 11):
                journal.append([Batch(stage, epoch, seq, b"x")])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(stage,)) for stage in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert failures == []
    assert [each.last for each in verify(store).stages] == [10] * 4


# -- full disks ------------------------------------------------------------------------------------------------------


async def create_until_refused(worker: WorkerProcess, answered: dict[int, StampedEvent]) -> str:
    """Ask for one number after the other; return what the worker says when it gives none any more."""
    async with connected(worker) as client:
        topic, *_ = await client.resolve("a" * 5000)
        while True:
            counter = len(answered) + 1
            ask(client, topic, counter)
            frame = await client.read()
            while not isinstance(frame, Timestamps):
                if (message := getattr(frame, "message", None)) is not None:
                    assert getattr(frame, "code", None) == "store"
                    return str(message)
                frame = await client.read()
            answered.update((event.counter, event) for event in frame.events)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("making a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_stops_new_numbers_and_is_left_without_a_restart(small_disk: Path) -> None:
    """Really full: the clients are told so, and when there is room again all goes on where it stood."""
    answered: dict[int, StampedEvent] = {}
    with WorkerProcess(f"sqlite:///{small_disk}/inorder.db", retry_max=0.1, beat_interval=0) as worker:
        async with connected(worker) as client:
            await client.resolve("a" * 5000)
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(filler, filler.stat().st_size - sqlite_file.SPARE - 400_000)  # for a few more numbers
        message = await create_until_refused(worker, answered)
        assert "no room left" in message
        assert worker.is_running
        filler.unlink()
        async with connected(worker) as client:
            topic, *_ = await client.resolve("a" * 5000)
            again = await client.create(topic, *range(1, len(answered) + 6))
            assert {event.counter: event for event in again}.items() >= answered.items()
            assert [event.number for event in again] == list(range(1, len(answered) + 6))
        assert worker.end(signal.SIGTERM) == 0
    assert "event=store_failed" in worker.log
    assert verify(f"sqlite:///{small_disk}/inorder.db").problems == []


async def test_a_store_that_may_not_grow(tmp_path: Path) -> None:
    """The same without root: SQLite itself says that the disk is full, on every connection, until the limit goes."""
    url = f"sqlite:///{tmp_path}/inorder.db"
    journal = SqlJournal(url)
    pages = [1_000_000]

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages[0]}")

    sa.event.listen(journal._store._engine, "connect", limit)
    async with Worker(settings(store=url, retry_max=0.05), journal=journal) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            before = await client.create(topic, 1, 2, 3)
            pages[0] = 1  # what there is, and no page more
            journal._store.drop()
            client.send_create(topic, *(NewEvent(counter, topic.id) for counter in range(4, 3000)))
            failure = await client.failure()
            assert (failure.code, "no room left" in failure.message) == ("store", True)
        pages[0] = 1_000_000
        await until(lambda: bool(worker.status()["ready"]))
        async with RawClient(worker.address) as client:
            assert await client.create(topic, 1, 2, 3) == before
            (event,) = await client.create(topic, 4)
            assert event.number == 4


# -- stores that cannot be written -----------------------------------------------------------------------------------


async def test_a_worker_does_not_start_on_a_read_only_store(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal = SqlJournal(f"sqlite:///{path}")
    journal.open(1)
    journal.close()
    with pytest.raises(StoreReadOnly):
        await Worker(settings(store=f"sqlite:///file:{path}?mode=ro&uri=true")).__aenter__()


async def test_a_store_that_turns_read_only_and_back(postgres: PostgresServer) -> None:
    """As a server that was demoted, and the one that took its place."""
    url = postgres.database()
    name = url.rpartition("/")[2]
    admin = Store(postgres.url)

    def switch(setting: str) -> None:
        admin.run(lambda connection: connection.exec_driver_sql(f"ALTER DATABASE {name} {setting}"))
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        admin.run(lambda connection: connection.exec_driver_sql(end))

    async with Worker(settings(store=url, store_timeout=5.0)) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            before = await client.create(topic, 1, 2)
            await asyncio.to_thread(switch, "SET default_transaction_read_only = on")
            ask(client, topic, 3)
            failure = await client.failure()
            assert (failure.code, "read-only" in failure.message) == ("store", True)
        await asyncio.to_thread(switch, "RESET default_transaction_read_only")
        await until(lambda: bool(worker.status()["ready"]))
        async with RawClient(worker.address) as client:
            assert await client.create(topic, 1, 2) == before
            (event,) = await client.create(topic, 3)
            assert event.number == 3
    admin.close()
    assert verify(url).problems == []


def test_a_full_store_is_an_error_of_its_own() -> None:
    error = StoreFull("sqlite:///x.db", "database or disk is full")
    assert isinstance(error, StoreUnreachable)
    assert str(error) == "store sqlite:///x.db: no room left (database or disk is full); what is kept already is safe"
