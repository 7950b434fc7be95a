"""The SQL store: what it refuses and how it says so, damage, locks, and lost connections."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from inorder.errors import (
    Fenced,
    InvalidOption,
    StoreCorrupt,
    StoreReadOnly,
    StoreRefused,
    StoreUnreachable,
    StoreVersionMismatch,
)
from inorder.testing.services import PostgresServer, free_port, wait_until
from inorder_worker.store import schema
from inorder_worker.store.journal import Batch
from inorder_worker.store.seals import stage_seal
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.sqlite_mark import mark_of
from inorder_worker.store.sqlite_place import mounted_type
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inorder.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def filled(url: str) -> str:
    """A store of one stage with ten rows, and snapshots after rows 4 and 8 (so rows 5 to 10 are left)."""
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "a")
    for seq in range(1, 11):
        journal.append([Batch(0, epoch, seq, b"row %d" % seq)])
        if seq in (4, 8):
            journal.save_snapshot(0, epoch, seq, b"state %d" % seq)
    journal.close()
    return url


@pytest.fixture
def journal(filled: str) -> Iterator[SqlJournal]:
    journal = SqlJournal(filled, timeout=0.2)
    yield journal
    journal.close()


def execute(path: Path, statement: str, *parameters: Any) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement, parameters)
    connection.close()


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["mysql://h/d", "sqlite://", "sqlite:///:memory:", "nonsense", "postgresql+asyncpg://h/d"]
)
def test_urls_that_cannot_be_a_store(bad: str) -> None:
    with pytest.raises(InvalidOption, match="store"):
        SqlJournal(bad)


def test_whoever_took_a_stage_over_is_named(url: str, path: Path) -> None:
    mine, other = SqlJournal(url), SqlJournal(url)
    mine.open(1)
    epoch = mine.claim(0, "mine")
    other.claim(0, "other/7/x")
    for call in (
        lambda: mine.append([Batch(0, epoch, 1, b"")]),
        lambda: mine.beat([(0, epoch)]),
        lambda: mine.claim(0, "mine", epoch),
    ):
        with pytest.raises(Fenced, match=r"taken over by another worker \(other/7/x\)"):
            call()
    mine.close()
    other.close()


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="no folder"):
        SqlJournal(f"sqlite:///{tmp_path}/nowhere/x.db").open(1)


def test_a_file_that_is_no_database(path: Path, url: str) -> None:
    path.write_bytes(b"hello " * 1000)
    with pytest.raises(StoreCorrupt):
        SqlJournal(url).open(1)
    assert path.read_bytes() == b"hello " * 1000


def test_a_read_only_store(path: Path, filled: str) -> None:
    journal = SqlJournal(f"sqlite:///file:{path}?mode=ro&uri=true")
    journal.open(1)
    with pytest.raises(StoreReadOnly):
        journal.claim(0, "b")
    journal.close()


def test_a_newer_schema_is_left_alone(path: Path, filled: str) -> None:
    execute(path, "UPDATE meta SET schema_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreVersionMismatch, match=f"version 99, this release knows {schema.SCHEMA_VERSION}"):
        SqlJournal(filled).open(1)
    assert path.read_bytes() == before


def test_tables_of_another_application(path: Path, url: str) -> None:
    execute(path, "CREATE TABLE meta (name TEXT)")
    with pytest.raises(StoreVersionMismatch, match="another application"):
        SqlJournal(url).open(1)


def test_a_store_that_is_made_is_told_of_once(path: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Who expected another one there has named the wrong place, or lost it: louder where a mark is left of that one."""
    caplog.set_level("INFO")
    mark_of(path).write_text("a store that was here before")
    for _ in range(2):
        journal = SqlJournal(url)
        journal.open(1)
        journal.close()
    told = [each for each in caplog.records if "event=store_made" in each.getMessage()]
    assert [each.levelname for each in told] == ["WARNING"]


def test_a_row_of_meta_that_goes_under_a_worker_is_named(path: Path, url: str) -> None:
    journal = SqlJournal(url)
    journal.open(1)
    execute(path, "DELETE FROM meta")
    with pytest.raises(StoreUnreachable, match="the table meta has no row"):
        journal.beat([])
    journal.close()


def test_network_file_systems_are_known() -> None:
    mounts = ["/dev/sda / ext4 rw 0 0", "nas:/x /srv/my\\040data nfs4 rw 0 0"]
    assert mounted_type(mounts, Path("/srv/my data/inorder")) == "nfs4"
    assert mounted_type(mounts, Path("/srv/my")) == "ext4"


# -- durability ------------------------------------------------------------------------------------------------------


def test_sqlite_is_durable_and_readable_meanwhile(path: Path, filled: str) -> None:
    store = Store(filled)
    store.open(1)
    assert store.run(lambda connection: connection.exec_driver_sql("PRAGMA synchronous").scalar()) == 2
    assert store.run(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode").scalar()) == "wal"
    with sqlite3.connect(path) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM journal").fetchone() == (6,)
        store.write(lambda connection: connection.execute(schema.journal.delete()))
        assert reader.execute("SELECT count(*) FROM journal").fetchone() == (6,)
    reader.close()
    store.close()


def test_the_first_worker_says_how_many_stages_there_are(url: str) -> None:
    """Of a store that was made before it, for a token; the domain stays, and later workers change nothing."""
    store, journal = Store(url), SqlJournal(url)
    assert store.make(1, [["s:a"]])
    assert not store.make(9)
    before = store.look()
    assert before is not None
    found = journal.open(3)
    assert (found.stages, found.domain, found.topic_order) == (3, before.domain, ())
    assert [each.stage for each in journal.read_map()] == [0, 1, 2]
    found = journal.open(3, [["s:b"], ["s:c"]])
    assert found.topic_order == (("s:b",), ("s:c",))
    journal.claim(1, "a")
    assert journal.open(2, [["s:d"]]) == found
    assert not store.make(2)
    assert verify(url).problems == []
    journal.close()
    store.close()


def test_a_store_that_is_made_at_the_same_moment_is_made_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a worker and by ``inorder tokens create``: the worker still says how many stages there are."""
    looked = threading.Barrier(2)

    def prepare(self: Store) -> int | None:
        version = prepared(self)
        looked.wait(10)
        return version

    prepared = Store.prepare
    monkeypatch.setattr(Store, "prepare", prepare)
    first, second, journal = Store(url), Store(url), SqlJournal(f"{url}.2")
    other = Store(f"{url}.2")
    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(lambda store: store.make(1), [first, second])) == [False, True]
        making = threads.submit(other.make, 1)
        assert (journal.open(3).stages, making.exception()) == (3, None)
    for each in (first, second, other, journal):
        each.close()


def test_a_store_that_is_made_between_two_looks_lacks_no_table(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers that start together on a new store: one would end, and advise to put a backup back."""
    made = Store(url)

    def names(inspector: sa.Inspector, schema: str | None = None) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sa.Inspector, "get_table_names", look)
            made.make(1)
        return look(inspector, schema)

    look = sa.Inspector.get_table_names
    monkeypatch.setattr(sa.Inspector, "get_table_names", names)
    journal = SqlJournal(url)
    assert journal.open(1).stages == 1
    journal.close()
    made.close()


# -- damage ----------------------------------------------------------------------------------------------------------


def test_the_log_of_a_file_is_written_ahead_and_holds_nothing(path: Path, url: str) -> None:
    """Commits then write over blocks that the file has: the log does not get longer by them."""
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "a")
    log = path.with_name(f"{path.name}-wal")
    ahead = log.stat().st_size
    for seq in range(1, 21):
        journal.append([Batch(0, epoch, seq, b"x" * 5000)])
    assert ahead >= 4_000_000
    assert log.stat().st_size == ahead
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'room'").fetchall() == []
    connection.close()
    assert path.stat().st_size < 1_000_000
    assert [row.seq for row in journal.replay(0, 0)] == list(range(1, 21))
    journal.close()


def test_a_disk_that_is_nearly_full_keeps_its_room(path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10_000_000
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    journal = SqlJournal(url)
    journal.open(1)
    assert path.with_name(f"{path.name}-wal").stat().st_size < 1_000_000
    journal.close()


@pytest.mark.parametrize("column", ["entries", "hash", "prev_hash"])
def test_a_damaged_row_is_named(path: Path, journal: SqlJournal, column: str) -> None:
    execute(path, f"UPDATE journal SET {column} = x'00' WHERE seq = 9")
    journal.open(1)
    with pytest.raises(StoreCorrupt, match="stage 0: row 9 is damaged"):
        list(journal.replay(0, 8))


def test_a_missing_row_is_named(path: Path, journal: SqlJournal) -> None:
    execute(path, "DELETE FROM journal WHERE seq = 7")
    journal.open(1)
    with pytest.raises(StoreCorrupt, match="stage 0: row 7 is missing"):
        list(journal.replay(0, 4))


def test_a_damaged_snapshot_is_passed_over(path: Path, journal: SqlJournal) -> None:
    execute(path, "UPDATE snapshots SET state = x'00' WHERE seq = 8")
    journal.open(1)
    found = journal.load_snapshot(0)
    assert found is not None
    assert (found.seq, found.state) == (4, b"state 4")
    assert [row.seq for row in journal.replay(0, 4)] == [5, 6, 7, 8, 9, 10]


def test_no_snapshot_left(path: Path, journal: SqlJournal) -> None:
    execute(path, "UPDATE snapshots SET state = x'00'")
    journal.open(1)
    with pytest.raises(StoreCorrupt, match=r"snapshots of stage 0 at rows \[8, 4\]"):
        journal.load_snapshot(0)


def test_a_snapshot_of_another_row(path: Path, journal: SqlJournal) -> None:
    execute(path, "UPDATE snapshots SET hash = zeroblob(32) WHERE seq = 8")
    journal.open(1)
    with pytest.raises(StoreCorrupt, match="row 8"):
        list(journal.replay(0, 8))


# -- locks -----------------------------------------------------------------------------------------------------------


def test_a_lock_is_waited_for(path: Path, journal: SqlJournal) -> None:
    """Also longer than SQLite's own waiting: "database is locked" is never an answer."""
    journal = SqlJournal(journal.url, timeout=20)
    journal.open(1)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.6, lambda: holder.execute("ROLLBACK"))
    release.start()
    assert journal.claim(0, "b") == 2
    release.join()
    holder.close()
    journal.close()


def test_a_lock_for_ever_is_an_error_in_words(path: Path, journal: SqlJournal) -> None:
    journal.open(1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnreachable, match="another process has kept it locked"):
        journal.claim(0, "b")
    holder.execute("ROLLBACK")
    assert journal.claim(0, "b") == 2
    holder.close()


def test_two_workers_make_one_store(url: str) -> None:
    found: list[object] = []

    def make() -> None:
        journal = SqlJournal(url)
        found.append(journal.open(2))
        journal.close()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(str, found))) == 1


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


def test_postgresql_that_is_not_there() -> None:
    journal = SqlJournal(f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x", timeout=0.5)
    with pytest.raises(StoreUnreachable) as caught:
        journal.open(1)
    assert "hunter2" not in str(caught.value)
    assert caught.value.url.startswith("postgresql://me:***@127.0.0.1")


def test_postgresql_waits_for_the_disk_even_if_told_not_to(postgres: PostgresServer) -> None:
    store = Store(postgres.database() + "?options=-csynchronous_commit%3Doff")
    assert store.write(lambda connection: connection.exec_driver_sql("SHOW synchronous_commit").scalar()) == "on"
    store.close()


def test_postgresql_read_only(postgres: PostgresServer) -> None:
    journal = SqlJournal(postgres.database() + "?options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(StoreReadOnly):
        journal.open(1)
    journal.close()


class Breaking:
    """Cuts the connection of a journal around the next append: before it arrives, or after it is committed."""

    def __init__(self, journal: SqlJournal, when: str) -> None:
        self.when: str | None = when
        engine = journal._store._engine
        sa.event.listen(engine, "before_cursor_execute", self._before)
        sa.event.listen(engine, "after_cursor_execute", self._after)

    def _before(self, connection: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        self._cut("before", connection, statement)

    def _after(self, connection: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        self._cut("after", connection, statement)

    def _cut(self, when: str, connection: sa.Connection, statement: str) -> None:
        if self.when == when and "INSERT INTO journal" in statement:
            self.when = None
            connection.connection.dbapi_connection.close()  # type: ignore[union-attr]
            raise sa.exc.OperationalError(statement, None, Exception("connection lost"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_ambiguous_commit_is_resolved(postgres: PostgresServer, when: str) -> None:
    """The connection is lost around a commit: the row is there exactly once, and the journal goes on."""
    journal = SqlJournal(postgres.database())
    journal.open(1)
    epoch = journal.claim(0, "a")
    breaking = Breaking(journal, when)
    journal.append([Batch(0, epoch, 1, b"one")])
    assert breaking.when is None
    journal.append([Batch(0, epoch, 2, b"two")])
    assert [row.entries for row in journal.replay(0, 0)] == [b"one", b"two"]
    journal.close()


def test_an_append_waits_for_a_take_over_under_way(postgres: PostgresServer) -> None:
    """The fence under READ COMMITTED: an append that began before the new epoch was committed still loses."""
    url = postgres.database()
    journal = SqlJournal(url)
    journal.open(2)
    epochs = [journal.claim(stage, "a") for stage in range(2)]
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    outcome: list[object] = []

    def append() -> None:
        try:
            journal.append([Batch(stage, epochs[stage], 1, b"late") for stage in range(2)])
            outcome.append("written")
        except Fenced:
            outcome.append("fenced")

    with engine.connect() as successor:
        row = successor.execute(sa.select(schema.stages).where(schema.stages.c.stage == 1)).mappings().one()
        taken = {**row, "epoch": 7}
        successor.execute(
            schema.stages.update().where(schema.stages.c.stage == 1), {**taken, "seal": stage_seal(taken)}
        )
        thread = threading.Thread(target=append)
        thread.start()
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        wait_until(lambda: bool(successor.execute(waiting).scalar()), what="the append to wait for the stage's row")
        successor.commit()
        thread.join()
    engine.dispose()
    assert outcome == ["fenced"]
    assert list(journal.replay(0, 0)) == list(journal.replay(1, 0)) == []
    journal.close()


def test_postgresql_restarted() -> None:
    """Whoever was connected when the server restarted goes on with its next call."""
    with PostgresServer() as server:
        journal = SqlJournal(server.database(), timeout=20)
        journal.open(1)
        epoch = journal.claim(0, "a")
        journal.append([Batch(0, epoch, 1, b"one")])
        server.kill()
        server.start()
        journal.append([Batch(0, epoch, 2, b"two")])
        assert [row.entries for row in journal.replay(0, 0)] == [b"one", b"two"]
        journal.close()


@pytest.mark.parametrize(
    ("done", "undone", "said"),
    [
        ("ALTER TABLE journal RENAME entries TO others", "ALTER TABLE journal RENAME others TO entries", "entries"),
        ("ALTER TABLE snapshots RENAME TO others", "ALTER TABLE others RENAME TO snapshots", "snapshots"),
        ("CREATE TRIGGER t AFTER INSERT ON journal BEGIN SELECT RAISE(ABORT, 'a rule'); END", "DROP TRIGGER t", "rule"),
    ],
    ids=["column", "table", "trigger"],
)  # fmt: skip
def test_what_an_operator_has_changed_in_a_file_is_no_damage(
    url: str, path: Path, done: str, undone: str, said: str
) -> None:
    """To put a backup back would lose numbers, and to name another store would not help."""
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "a")
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute(done)
    with pytest.raises(StoreRefused, match=said):
        journal.append([Batch(0, epoch, 1, b"x")])
    shell.execute(undone)
    shell.close()
    journal.append([Batch(0, epoch, 1, b"x")])
    journal.close()
