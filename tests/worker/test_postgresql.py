"""PostgreSQL behind a pooler, and one that stands still."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from tests.worker.helpers import PATIENCE, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption, StoreFull, StoreOutdated, StoreRefused, StoreUnreachable
from inorder.protocol.wire import CreateTimestamps, NewEvent
from inorder.testing.services import FaultProxy, PgBouncer, PostgresServer, wait_until
from inorder_worker.service import Worker
from inorder_worker.service.following import Follower
from inorder_worker.store import appending, postgresql
from inorder_worker.store.backup import back_up
from inorder_worker.store.journal import Batch, Member
from inorder_worker.store.postgresql import PatientConnection, Primary
from inorder_worker.store.restoring import renew
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import translate
from inorder_worker.store.verification import verify

LEAKED = ("synchronous_commit", "lock_timeout", "idle_in_transaction_session_timeout", "default_transaction_isolation")
COUNT = "SELECT count(*) FROM pg_prepared_statements"
NOTING = """
CREATE TABLE seen (setting TEXT);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout');
    RETURN NEW;
END $$;
CREATE TRIGGER noting AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER noting AFTER UPDATE ON stages FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER noting AFTER INSERT OR UPDATE OR DELETE ON workers FOR EACH ROW EXECUTE FUNCTION note();
"""


@pytest.fixture
def pooled(postgres: PostgresServer) -> Iterator[tuple[str, str]]:
    """A database whose commits do not wait for the disk unless they are told to: its URL, and that through a pooler."""
    direct = postgres.database()
    with PgBouncer(postgres) as pooler:
        with psycopg.connect(direct, autocommit=True) as connection:
            name = direct.rpartition("/")[2]
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        yield direct, pooler.through(direct)


def test_a_pooler_that_mixes_sessions_changes_nothing(pooled: tuple[str, str], tmp_path: Path) -> None:
    """Every row waits for the disk, nothing is set in sessions of others, and no prepared statements collide."""
    direct, url = pooled
    journal = SqlJournal(url)
    journal.open(2)
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute(NOTING)
    epochs = [journal.claim(stage, "a") for stage in range(2)]
    others = [SqlJournal(url) for _ in range(3)]
    done = threading.Event()

    def follow(other: SqlJournal) -> int:
        follower, looks = Follower(other, 2, None), 0
        while not done.is_set():
            follower.read_store()
            looks += 1
        follower.close()
        return looks

    with ThreadPoolExecutor(len(others)) as threads:
        looking = [threads.submit(follow, other) for other in others]
        for seq in range(1, 41):
            journal.append([Batch(stage, epochs[stage], seq, b"x") for stage in range(2)])
            journal.beat(list(enumerate(epochs)), Member("a", "here:1"))
            if seq in (20, 30):
                journal.save_snapshot(0, epochs[0], seq, b"state")
        done.set()
        assert all(each.result() > 5 for each in looking)
    assert verify(url).problems == []
    back_up(url, tmp_path / "backup")
    reader = Store(url)
    assert reader.read(lambda each: each.exec_driver_sql(f"SHOW {LEAKED[2]}").scalar_one()) == "1h"
    reader.close()
    with psycopg.connect(direct) as stopped:
        stopped.execute("SELECT 1 FROM workers FOR UPDATE")  # as in the middle of its beat
        assert not journal.forget_members(["a"], are_silent=True)
    assert journal.forget_members(["a"], are_silent=True)
    journal.close()
    with psycopg.connect(direct, autocommit=True) as mine, psycopg.connect(url, autocommit=True) as foreign:
        assert mine.execute("SELECT DISTINCT setting FROM seen").fetchall() == [("on 10s",)]
        assert mine.execute("SELECT count(*) > 160 FROM seen").fetchone() == (True,)
        for setting in LEAKED:
            default = mine.execute(f"SHOW {setting}").fetchone()
            assert [foreign.execute(f"SHOW {setting}").fetchone() for _ in range(3)] == [default] * 3, setting


@pytest.mark.parametrize(("query", "prepared"), [("", True), ("?prepare_threshold=0", False)])
def test_what_is_prepared(postgres: PostgresServer, query: str, prepared: bool) -> None:
    """On a server itself, unless the URL says otherwise."""
    store = Store(postgres.database() + query)
    for _ in range(10):
        count = store.run(lambda connection: connection.exec_driver_sql(COUNT).scalar())
    assert bool(count) is prepared
    store.close()


def test_a_connection_that_is_not_answered_is_let_go_when_its_store_is_closed() -> None:
    """A worker that is told to stop does not wait until the time for connecting is over."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as thread:
        store = Store(f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d", timeout=PATIENCE / 2)
        looking = thread.submit(store.look)
        with silent.accept()[0]:
            store.interrupt()
            with pytest.raises(StoreUnreachable, match="it is being closed"):
                looking.result(PATIENCE)
        store.close()


def test_a_statement_that_is_not_answered_is_let_go_when_its_store_is_closed(postgres: PostgresServer) -> None:
    url, begun = postgres.database(), threading.Event()
    store = Store(url)

    def sleep(connection: sa.Connection) -> None:
        begun.set()
        connection.exec_driver_sql("SELECT pg_sleep(600)")

    with ThreadPoolExecutor(1) as thread:
        sleeping = thread.submit(store.run, sleep)
        assert begun.wait(PATIENCE)
        store.interrupt()
        with pytest.raises(StoreUnreachable, match="it is being closed"):
            sleeping.result(PATIENCE)
        store.close()


@pytest.mark.parametrize("url", ["postgresql://u@h/d?prepare_threshold=never", "postgresql://u@a:1,b:2/d"])
def test_urls_that_say_nothing_clear(url: str) -> None:
    with pytest.raises(InvalidOption, match="store"):
        Store(url)


async def test_a_server_that_stands_still_is_left_for_the_next_host(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay open and answer the system's probes: only we can end the wait."""
    monkeypatch.setattr(postgresql, "SPARE", 0.0)
    name = postgres.database().rpartition("/")[2]
    async with FaultProxy(postgres.port) as proxy:
        hosts = f"host=127.0.0.1:{proxy.port}&host=127.0.0.1:{postgres.port}"
        own = settings(store=f"postgresql://postgres@/{name}?{hosts}", store_timeout=0.5)
        async with Worker(own) as worker:
            async with RawClient(worker.address) as client:
                topic, *_ = await client.resolve("a")
                before = await client.create(topic, 1)
                proxy.stall()
                client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
                failure = await client.failure()
                assert (failure.code, "has not answered for 0.5 s" in failure.message) == ("store", True)
                assert not worker.health()[0]
            await until(lambda: worker.health()[0])
            async with RawClient(worker.address) as client:
                assert (await client.create(topic, 1, 2))[:1] == before


def test_a_connection_that_was_cut_while_it_was_idle_is_made_anew(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's restart, a pooler, a firewall: whoever asks next must not be told that the store is away."""
    monkeypatch.setattr("inorder_worker.store.sql_connection.IDLE", -1.0)
    url = postgres.database()
    idle, other = Store(url), Store(url)
    mine = sa.text("SELECT pg_backend_pid()")
    for call in (idle.run, idle.read, idle.write):
        process = idle.run(lambda connection: connection.execute(mine).scalar_one())
        end = sa.text("SELECT pg_terminate_backend(:process, 60000)").bindparams(process=process)
        assert other.run(lambda connection, end=end: connection.execute(end).scalar_one())  # type: ignore[misc]
        assert call(lambda connection: connection.execute(mine).scalar_one()) != process
    idle.close()
    other.close()


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_an_ended_wait_for_a_synchronous_standby_makes_nothing_durable(postgres: PostgresServer, end: str) -> None:
    """The server commits on itself alone, and says that all is well, or shows the row to whoever looks for it."""
    url = postgres.database()
    journal = SqlJournal(url)
    journal.open(1)
    epoch, seq = journal.claim(0, "a"), 0
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid != ALL (%s)"
    with psycopg.connect(url, autocommit=True) as admin, ThreadPoolExecutor(1) as thread:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        admin.execute("SELECT pg_reload_conf()")
        ended: list[int] = []
        appends: list[Future[None]] = []

        def is_waited_for(first: bool) -> bool:
            """Tell whether a session waits for the standby that was not ended."""
            found = [pid for (pid,) in admin.execute(waiting, [ended])]
            ended.extend(found if first else [])
            return bool(found)

        try:
            while not ended:  # the server takes note of its settings some time
                seq += 1
                appends.append(thread.submit(journal.append, [Batch(0, epoch, seq, b"x")]))
                wait_until(lambda: appends[-1].done() or is_waited_for(True), what="the wait for the standby")
            admin.execute(f"SELECT {end}(%s)", ended)
            wait_until(lambda: appends[-1].done() or is_waited_for(False), what="another wait")
            assert not appends[-1].done()
        finally:
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")
        appends[-1].result(PATIENCE)
    assert [row.seq for row in journal.replay(0, 0)] == [*range(1, seq + 1)]
    journal.close()


def test_a_server_that_fails_at_once_is_not_asked_without_a_pause(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where an administrator's ``statement_timeout`` ends each wait for a lock: each attempt makes connections."""
    journal, now, attempts = SqlJournal(postgres.database(), timeout=10), [0.0], [0.0]
    journal.open(1)
    epoch = journal.claim(0, "a")

    def fail(*_: object) -> None:
        now[0] += 0.01
        attempts.append(now[0])
        raise StoreUnreachable(journal.url, "canceling statement due to statement timeout")

    monkeypatch.setattr(journal._appender, "_insert", fail)
    monkeypatch.setattr(
        appending, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.append(now.pop() + s))
    )
    monkeypatch.setattr(appending, "pause", lambda first, most, failures: min(most, first * 2**failures))
    with pytest.raises(StoreUnreachable, match="statement timeout"):
        journal.append([Batch(0, epoch, 1, b"x")])
    assert 10 < len(attempts) < 40
    assert caplog.text.count("event=append_repeated") == 1, "a standby may take over before the time is over"
    assert attempts[2] - attempts[1] < 0.05, "the first one is made at once: the connection was cut"
    journal.close()


def test_a_server_without_room_is_not_asked_again(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby would take over meanwhile, fail as well, and nobody would say why nothing is numbered."""
    journal, attempts = SqlJournal(postgres.database(), timeout=1), []
    journal.open(1)
    epoch = journal.claim(0, "a")

    def fail(*_: object) -> None:
        attempts.append(1)
        raise translate(psycopg.errors.DiskFull("could not extend file"), journal.url)

    monkeypatch.setattr(journal._appender, "_insert", fail)
    with pytest.raises(StoreFull, match="could not extend file"):
        journal.append([Batch(0, epoch, 1, b"x")])
    assert len(attempts) == 1
    journal.close()


@pytest.fixture
def doors(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[int, int | None]]]:
    """A store's URL with two hosts, which are ports of one server, and the timeline of each: 0 for a replica, ``None``
    for one that is away. The first one is behind on it."""
    name = postgres.database().rpartition("/")[2]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = (silent.getsockname()[1], postgres.port)
        timelines: dict[int, int | None] = {ports[0]: 1, ports[1]: 2}
        connect = PatientConnection.connect.__func__  # type: ignore[attr-defined]

        def through(cls: type[PatientConnection], *arguments: Any, **options: Any) -> PatientConnection:
            port = int(options["port"].partition(",")[0])
            if timelines[port] is None:
                raise psycopg.OperationalError("connection refused")
            options.update(host="127.0.0.1", port=postgres.port)
            made: PatientConnection = connect(cls, *arguments, **options)
            made.door = port  # type: ignore[attr-defined]
            return made

        def answer(connection: Any, question: str) -> Any:
            row = asked(connection, question)
            if question == postgresql._ASK and row is not None:
                timeline = timelines[connection.door]
                return row[0], f"{row[1]} of {connection.door}", f"{timeline:08X}" if timeline else None
            return row

        asked = postgresql._answer
        monkeypatch.setattr(PatientConnection, "connect", classmethod(through))
        monkeypatch.setattr(postgresql, "_answer", answer)
        yield f"postgresql://postgres@/{name}?host=127.0.0.1:{ports[0]}&host=127.0.0.1:{ports[1]}", timelines


def door(store: Store) -> int:
    """Return the port that the store's connection was made to."""

    def look(connection: sa.Connection) -> int:
        driver: Any = connection.connection.driver_connection
        found: int = driver.door
        return found

    return store.run(look)


def test_of_several_primaries_the_one_that_was_promoted_last_is_used(
    doors: tuple[str, dict[int, int | None]], caplog: pytest.LogCaptureFixture
) -> None:
    """A former primary that is back is the first host of the URL, and takes writes."""
    url, timelines = doors
    first, second = timelines
    cases = [(1, 2, second), (3, 2, first), (2, 2, first), (0, 1, second), (None, 1, second)]
    for at_first, at_second, wanted in cases:
        timelines.update({first: at_first, second: at_second})
        for _ in range(2):
            store = Store(url)
            assert door(store) == wanted
            store.close()
    told = [each.getMessage() for each in caplog.records if "two_primaries" in each.getMessage()]
    assert len(told) == 3, "once each"
    assert [re.findall(r"timeline \d", each) for each in told] == [
        ["timeline 1", "timeline 2"], ["timeline 3", "timeline 2"], ["timeline 2", "timeline 2"]
    ]  # fmt: skip
    timelines.update({first: None, second: None})
    with pytest.raises(StoreUnreachable, match="connection refused; connection refused"):
        Store(url).look()


def test_replicas_alone_are_read_as_the_driver_chooses(doors: tuple[str, dict[int, int | None]]) -> None:
    url, timelines = doors
    first, _ = timelines
    timelines.update(dict.fromkeys(timelines, 0))
    store = Store(url)
    assert door(store) == first
    store.close()


def test_a_primary_that_was_replaced_is_an_older_copy(doors: tuple[str, dict[int, int | None]]) -> None:
    """Also for a worker that is started on it when the others have found that out, and knows of no other one."""
    url, timelines = doors
    first, second = timelines
    journal = SqlJournal(url)
    journal.open(1)
    timelines[second] = None
    journal._store.drop()
    for call in (journal.read_map, lambda: journal.claim(0, "a")):
        with pytest.raises(StoreOutdated, match=r"timeline 1, and was replaced: .* timeline 2; .*inorder renew"):
            call()
    another = SqlJournal(url)
    assert "was replaced" in another.open(1).outdated
    another.close()
    timelines[second] = 2
    with pytest.raises(StoreOutdated, match="was replaced"):
        journal.read_map()  # its server is back, and is the same one as the first here
    assert door(journal._store) == second
    renew(url, beat_interval=0.02)
    timelines.update({first: 3, second: None})
    journal._store.drop()
    assert door(journal._store) == first, "promoted again"
    journal.close()


async def test_a_worker_waits_for_the_primary_that_it_had(
    postgres: PostgresServer, doors: tuple[str, dict[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on without a restart, with the numbers that it gave."""
    url, timelines = doors
    _, second = timelines
    monkeypatch.setattr(Store, "mark_outdated", lambda *_: None)  # it is the same database here
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    async with Worker(settings(store=url, beat_interval=0.02, lease=0.2)) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            before = await client.create(topic, 1)
        timelines[second] = None
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(end, [re.findall(r"/(\w+)\?", url)[0]])
        await until(lambda: "was replaced: this process" in str(worker.health()[1]["store_error"]))
        assert not worker.health()[0]
        timelines[second] = 2
        await until(lambda: worker.health()[0])
        async with RawClient(worker.address) as client:
            assert (await client.create(topic, 1, 2))[:1] == before


def test_a_silent_host_does_not_keep_the_others_waiting(postgres: PostgresServer) -> None:
    name = postgres.database().rpartition("/")[2]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"host=127.0.0.1:{silent.getsockname()[1]}&host=127.0.0.1:{postgres.port}"
        store = Store(f"postgresql://postgres@/{name}?{hosts}", timeout=10 * PATIENCE)
        with ThreadPoolExecutor(1) as thread:
            looking = thread.submit(store.look)
            try:
                assert looking.result(PATIENCE) is None
            finally:
                store.interrupt()
        store.close()


def test_any_role_may_ask_which_primary_a_server_is(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """And one server that a URL names twice is one primary."""
    name = postgres.database().rpartition("/")[2]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE plain_{name} LOGIN")
    port = f"host=127.0.0.1:{postgres.port}"
    store = Store(f"postgresql://plain_{name}@/{name}?{port}&{port}")
    found = store.run(lambda connection: connection.connection.driver_connection.primary)  # type: ignore[union-attr]
    assert isinstance(found, Primary)
    assert (found.timeline, bool(found.system)) == (1, True)
    assert "two_primaries" not in caplog.text
    store.close()


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ({"host": "a", "port": 1}, [{"host": "a", "port": 1}]),
        ({"host": "a,b", "port": "1,"}, [{"host": "a", "port": "1"}, {"host": "b", "port": ""}]),
        ({"host": "a,b", "port": "1", "x": 1, "target_session_attrs": "read-write"},
         [{"host": "a", "port": "1", "x": 1}, {"host": "b", "port": "1", "x": 1}]),
        ({"host": "a,b", "target_session_attrs": "standby"}, [{"host": "a,b", "target_session_attrs": "standby"}]),
        ({"dbname": "d"}, [{"dbname": "d"}]),
    ],
)  # fmt: skip
def test_each_host_of_a_url_has_its_options(given: dict[str, Any], hosts: list[dict[str, Any]]) -> None:
    found = postgresql.options_of_hosts(given)
    assert [{name: str(value) for name, value in each.items()} for each in found] == [
        {name: str(value) for name, value in each.items()} for each in hosts
    ]


def test_what_a_server_refuses_is_not_asked_again(postgres: PostgresServer) -> None:
    """An operator renamed a column under a worker: no retry mends that, and silence would not say what it is."""
    url = postgres.database()
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "a")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ALTER TABLE journal RENAME COLUMN entries TO others")
        with pytest.raises(StoreRefused, match="entries"):
            journal.append([Batch(0, epoch, 1, b"x")])
        admin.execute("ALTER TABLE journal RENAME COLUMN others TO entries")
    journal.append([Batch(0, epoch, 1, b"x")])
    journal.close()
    for error in (psycopg.errors.DuplicatePreparedStatement, psycopg.errors.QueryCanceled, psycopg.OperationalError):
        assert type(translate(error("once more"), url)) is StoreUnreachable
    assert "prepare_threshold" in str(translate(psycopg.errors.DuplicatePreparedStatement("there is one"), url))
