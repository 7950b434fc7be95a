"""Backups: what they hold, what is refused, and that a restore is all or nothing, under a domain id of its own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from tests.worker import second_schema
from tests.worker.helpers import PATIENCE, settings
from tests.worker.raw_client import RawClient

from inorder.errors import (
    BackupError,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreReadOnly,
    StoreReplaced,
    StoreUnreachable,
)
from inorder.testing.services import PostgresServer
from inorder_worker.service import Worker
from inorder_worker.store import backup, records, schema
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.backup import Backup, back_up
from inorder_worker.store.identity import new_owner
from inorder_worker.store.journal import Member
from inorder_worker.store.restoring import renew, restore
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore
from inorder_worker.store.verification import verify

BEAT = 0.02


def sqlite_url(folder: Path, name: str = "store.db") -> str:
    return f"sqlite:///{folder / name}"


async def used(url: str, count: int = 20, **changes: Any) -> int:
    """Let a worker give numbers out of a store; return the domain."""
    async with Worker(settings(store=url, **changes)) as worker, RawClient(worker.address) as client:
        topic, other = await client.resolve("a", "b")
        await client.subscribe("a", "b")
        first, *_ = await client.create(topic, *range(1, count + 1))
        await client.create(other, count + 1)
        await client.confirm(first)
        return client.welcome.domain


async def next_number(url: str, client_id: str = "later", name: str = "a") -> tuple[int, int]:
    """Return the number that the next event gets, and the domain."""
    async with Worker(settings(store=url)) as worker, RawClient(worker.address, client_id) as client:
        (topic,) = await client.resolve(name)
        (event,) = await client.create(topic, 1)
        return event.number, client.welcome.domain


def rows_of(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a store holds but what a restore renews."""
    store = Store(url)

    def read(connection: sa.Connection) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table.name: sorted(tuple(row) for row in connection.execute(sa.select(table)))
            for table in schema.metadata.sorted_tables
            if table.name not in ("meta", "stages", "audit") and table not in schema.FLEETING
        }

    try:
        return store.read(read)
    finally:
        store.close()


async def test_a_store_comes_back(tmp_path: Path) -> None:
    """Numbers go on where the backup was made, under a domain id that nobody has seen."""
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    domain = await used(url)
    header, count = back_up(url, file)
    assert (header.domain, header.stages, header.schema_version) == (domain, 1, schema.SCHEMA_VERSION)
    assert count == sum(map(len, rows_of(url).values())) + 2
    there = sqlite_url(tmp_path, "other.db")
    done = restore(there, file)
    assert (done.rows, done.stages, done.former) == (count, 1, domain)
    assert rows_of(there) == rows_of(url)
    assert verify(there).is_ok
    assert await next_number(there) == (21, done.domain)
    assert done.domain not in (domain, 0)
    assert await next_number(url) == (21, domain)  # the original was not touched


def test_what_the_control_plane_keeps_comes_back(tmp_path: Path, postgres: PostgresServer) -> None:
    """Tokens and the audit log do; who is logged in in a browser does not. Keys that the database gives go on."""
    url, there, file = sqlite_url(tmp_path), postgres.database(), tmp_path / "x.backup"
    SqlJournal(url).open(1)
    store = Store(url)
    token, secret = TokenStore(store).issue("desk", "client", publish=["mqtt:plant/#"], max_unconfirmed=5)
    for number in range(3):
        AuditLog(store).begin("admin", "admin", "rest", "pin", f"topic {number}")
    session = {"hash": "x", "token_id": token.id, "csrf": "y", "created_ms": 1, "expires_ms": 2}
    store.run(lambda connection: connection.execute(schema.browser_sessions.insert(), session))
    store.close()
    back_up(url, file)
    done = restore(there, file, who="me")
    restored = Store(there)
    assert TokenStore(restored).find(secret) == token
    newest, *others = AuditLog(restored).page()
    assert [each.id for each in (newest, *others)] == [4, 3, 2, 1]
    facts = {"file": "x.backup", "made": done.made, "former": done.former}
    assert (newest.who, newest.action, newest.outcome) == ("me", "store.restore", "done")
    assert (newest.target, newest.detail) == (f"domain {done.domain}", facts)
    assert AuditLog(restored).begin("admin", "admin", "rest", "pin", "topic 3") == 5
    sessions = sa.select(sa.func.count()).select_from(schema.browser_sessions)
    assert restored.run(lambda connection: connection.execute(sessions).scalar_one()) == 0
    restored.close()
    assert verify(there).is_ok


def test_a_renewal_is_in_the_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the transaction that makes it: where it cannot be recorded, nothing is renewed."""
    url = sqlite_url(tmp_path)
    SqlJournal(url).open(1)
    with monkeypatch.context() as refusing:
        refusing.setattr(records, "add", Mock(side_effect=StoreReadOnly(url, "no")))
        with pytest.raises(StoreReadOnly):
            renew(url, who="me")
    done = renew(url, who="me")
    store = Store(url)
    (entry,) = AuditLog(store).page()
    found = store.look()
    assert found is not None
    assert found.domain == done.domain
    assert (entry.who, entry.action, entry.target, entry.detail, entry.outcome) == (
        "me", "store.renew", f"domain {done.domain}", {"former": done.former}, "done"
    )  # fmt: skip
    store.close()


async def test_it_is_made_while_workers_run(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with Worker(settings(store=url, snapshot_rows=3)) as worker, RawClient(worker.address) as client:
        topic, *_ = await client.resolve("a")
        for number in range(1, 12):
            await client.create(topic, number)
            if number % 4 == 0:
                back_up(url, tmp_path / f"{number}.backup")
    for number in (4, 8):
        there = sqlite_url(tmp_path, f"{number}.db")
        restore(there, tmp_path / f"{number}.backup")
        assert (await next_number(there))[0] == number + 1


async def test_between_sqlite_and_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    url, there, back = sqlite_url(tmp_path), postgres.database(), sqlite_url(tmp_path, "back.db")
    await used(url, stages=2, snapshot_rows=2)
    back_up(url, tmp_path / "1.backup")
    restore(there, tmp_path / "1.backup")
    assert rows_of(there) == rows_of(url)
    back_up(there, tmp_path / "2.backup")
    restore(back, tmp_path / "2.backup")
    assert rows_of(back) == rows_of(url)
    async with Worker(settings(store=there, stages=2)) as worker, RawClient(worker.address, "x") as client:
        (topic,) = await client.resolve("a")
        assert [event.number for event in await client.create(topic, 1)] == [21]
    with pytest.raises(StoreInUse, match="--force"):
        restore(there, tmp_path / "1.backup")
    restore(there, tmp_path / "1.backup", force=True)
    assert rows_of(there) == rows_of(url)


# -- workers that were there before ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_journal_that_was_opened_before_a_restore_claims_nothing(
    tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    url = sqlite_url(tmp_path) if kind == "sqlite" else postgres.database()
    journal = SqlJournal(url)
    domain = journal.open(1).domain
    back_up(url, tmp_path / "x.backup")
    assert [each.stage for each in journal.read_map()] == [0]
    done = restore(url, tmp_path / "x.backup", force=True)
    for call in (lambda: journal.claim(0, "old/1/x"), journal.read_map):
        with pytest.raises(StoreReplaced) as caught:
            call()
        assert (caught.value.before, caught.value.domain) == (domain, done.domain)
    journal.close()
    again = SqlJournal(url)
    again.open(1)
    assert again.claim(0, "new/1/x") > 0
    again.close()


async def test_a_standby_that_lived_through_a_restore_stops(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine stood still while the store was put back, so nobody saw that it lives. What it has read is void."""
    for name in ("_watch", "_require_unchanged", "_State.check"):
        monkeypatch.setattr(f"inorder_worker.store.restoring.{name}", lambda *_, **__: None)
    url = postgres.database()
    owner = SqlJournal(url)
    owner.open(1)
    epoch = owner.claim(0, "killed/elsewhere/1-1/x")
    watched = asyncio.create_task(_beating(owner, epoch))
    async with Worker(settings(store=url, lease=60.0, beat_interval=0.5)) as standby:
        assert standby.state == "standby"
        watched.cancel()
        await asyncio.wait([watched])
        await asyncio.to_thread(back_up, url, tmp_path / "x.backup")
        await asyncio.to_thread(restore, url, tmp_path / "x.backup", force=True, beat_interval=BEAT)
        with pytest.raises(StoreReplaced, match="start the worker again"):
            async with asyncio.timeout(PATIENCE):
                await standby.wait_stopped()
    owner.close()


async def _beating(journal: SqlJournal, epoch: int) -> None:
    while True:
        await asyncio.to_thread(journal.beat, [(0, epoch)])
        await asyncio.sleep(BEAT)


# -- what is refused -------------------------------------------------------------------------------------------------


async def test_a_store_with_numbers_is_kept_unless_forced(tmp_path: Path) -> None:
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    domain = await used(url)
    back_up(url, file)
    await next_number(url)
    with pytest.raises(StoreInUse, match="holds numbers"):
        restore(url, file)
    assert await next_number(url, "again") == (22, domain)
    done = restore(url, file, force=True)
    assert await next_number(url, "last") == (21, done.domain)


async def test_a_store_that_lost_its_meta_is_not_taken_for_an_empty_place(tmp_path: Path) -> None:
    """Nobody can tell whose numbers it holds, nor who lives on it."""
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    domain = await used(url)
    back_up(url, file)
    await next_number(url)
    with sqlite3.connect(tmp_path / "store.db") as shell:
        shell.execute("ALTER TABLE meta RENAME TO others")
    for force in (False, True):
        with pytest.raises(StoreCorrupt, match=r"there is no table meta, and there are .*journal"):
            restore(url, file, force=force)
    with pytest.raises(StoreCorrupt, match="no table meta"):
        await next_number(url)
    with sqlite3.connect(tmp_path / "store.db") as shell:
        shell.execute("ALTER TABLE others RENAME TO meta")
    assert await next_number(url, "again") == (22, domain)


async def test_a_living_worker_is_never_restored_under(tmp_path: Path, postgres: PostgresServer) -> None:
    """By its process on SQLite, by its beat on PostgreSQL; forced or not."""
    for url in (sqlite_url(tmp_path), postgres.database()):
        file = tmp_path / f"{len(url)}.backup"
        async with Worker(settings(store=url, beat_interval=BEAT)) as worker, RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            back_up(url, file)
            with pytest.raises(StoreInUse, match="test/"):
                await asyncio.to_thread(restore, url, file, force=True)
            assert [event.number for event in await client.create(topic, 1)] == [1]
        restore(url, file, force=True)


async def test_a_living_standby_is_found_too(tmp_path: Path, postgres: PostgresServer) -> None:
    """What it has read would be void: it is to be stopped like the others. One that shows no life is passed over."""
    url = postgres.database()
    journal = SqlJournal(url)
    journal.open(1)
    member = Member("standby/elsewhere/1-1/x", "host:1", 0, (), {})
    journal.beat([], member)
    back_up(url, tmp_path / "x.backup")
    restore(url, tmp_path / "x.backup", force=True, beat_interval=BEAT)
    journal.close()
    journal = SqlJournal(url)
    journal.open(1)

    async def show() -> None:
        while True:
            await asyncio.to_thread(journal.beat, [], member)
            await asyncio.sleep(BEAT)

    showing = asyncio.create_task(show())
    with pytest.raises(StoreInUse, match="standby/elsewhere"):
        await asyncio.to_thread(restore, url, tmp_path / "x.backup", force=True, beat_interval=PATIENCE)
    showing.cancel()
    await asyncio.wait([showing])
    journal.close()


def test_an_owner_that_shows_no_life_is_passed_over_and_fenced(tmp_path: Path, postgres: PostgresServer) -> None:
    """A worker that was killed stands in the store as its owner; one that was only paused writes nothing more."""
    url = postgres.database()
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "dead/1/x")
    journal.beat([(0, epoch)])
    back_up(url, tmp_path / "x.backup")
    restore(url, tmp_path / "x.backup", force=True, beat_interval=BEAT)
    with pytest.raises(StoreError, match="taken over"):
        journal.beat([(0, epoch)])
    successor = SqlJournal(url)
    successor.open(1)
    assert successor.claim(0, "next/1/x") == epoch + 2
    for each in (journal, successor):
        each.close()


async def test_damage_of_a_file_is_found_before_anything_is_changed(tmp_path: Path) -> None:
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    domain = await used(url)
    back_up(url, file)
    whole = file.read_bytes()
    for name, data in {
        "cut": whole[:-1],
        "half": whole[: len(whole) // 2],
        "longer": whole + b"x",
        "empty": b"",
        "other": b"SQLite format 3\0" * 100,
        "flipped": bytes(byte ^ (at == len(whole) // 3) for at, byte in enumerate(whole)),
    }.items():
        bad = tmp_path / name
        bad.write_bytes(data)
        with pytest.raises(BackupError, match=str(bad)):
            restore(url, bad, force=True)
    with pytest.raises(BackupError, match="No such file"):
        restore(url, tmp_path / "nowhere", force=True)
    assert (await next_number(url))[1] == domain


async def test_what_a_file_holds_is_checked_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checksum says that the file is what was written, not that what was written was right."""
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    await used(url)
    (tmp_path / "bad.db").write_bytes((tmp_path / "store.db").read_bytes())
    with sqlite3.connect(tmp_path / "bad.db") as connection:
        connection.execute("UPDATE journal SET entries = x'00' WHERE seq = 2")
    connection.close()
    bad = sqlite_url(tmp_path, "bad.db")
    with pytest.raises(StoreCorrupt, match="row 2 is damaged"):
        back_up(bad, file)
    assert [name for name in os.listdir(tmp_path) if "backup" in name] == []
    with monkeypatch.context() as patch:
        patch.setattr("inorder_worker.store.backup.check", lambda *_: verify(url))
        back_up(bad, file)
    before = rows_of(url)
    with pytest.raises(BackupError, match="row 2 is damaged"):
        restore(url, file, force=True)
    assert rows_of(url) == before
    assert verify(url).is_ok


async def test_a_newer_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    await used(url)
    with monkeypatch.context() as patch:
        patch.setattr("inorder_worker.store.backup.FORMAT", 2)
        back_up(url, file)
    with pytest.raises(BackupError, match="newer release \\(format 2, schema"):
        Backup(file)


async def test_where_a_backup_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = sqlite_url(tmp_path)
    with pytest.raises(StoreUnreachable):
        back_up(url, tmp_path / "x.backup")
    await used(url)
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(BackupError, match="there already"):
        back_up(url, taken)
    assert taken.read_text() == "mine"
    with pytest.raises(BackupError, match="No such file"):
        back_up(url, tmp_path / "nowhere" / "x.backup")
    monkeypatch.setattr(backup, "new_owner", lambda _: "ours")
    (tmp_path / ".full.part-ours").symlink_to("/dev/full")
    with pytest.raises(BackupError, match="No space left"):
        back_up(url, tmp_path / "full")
    assert os.listdir(tmp_path).count("full") == 0


async def test_what_a_killed_backup_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """At once where it was one of this machine, else when it was not written to for a while."""
    url = sqlite_url(tmp_path)
    await used(url)
    _, place, own, token = new_owner("").split("/")
    ended = f"{2**22 + 1}-5"  # more than Linux gives
    dead, old, new, alive, other = (
        tmp_path / f".x.part-{name}"
        for name in (
            f".{place}.{ended}.{token}", f".a.{ended}.{token}", f".a.{own}.{token}", f".{place}.{own}.{token}", "mine"
        )
    )  # fmt: skip
    for each in (dead, old, new, alive, other):
        each.write_text("part")
        if each not in (dead, new):
            os.utime(each, (0, 0))
    back_up(url, tmp_path / "x")
    assert not dead.exists()
    assert not old.exists()
    assert all(each.exists() for each in (new, alive, other))
    assert sum(".part-" in name for name in os.listdir(tmp_path)) == 3


async def test_a_restore_that_fails_in_the_middle_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = sqlite_url(tmp_path), tmp_path / "x.backup"
    domain = await used(url)
    back_up(url, file)

    def full(point: str) -> None:
        if point == "commit.before":
            raise StoreFull(url, "planted")

    with monkeypatch.context() as patch:
        patch.setattr("inorder_worker.store.sql_connection.reach", full)
        with pytest.raises(StoreFull):
            restore(url, file, force=True)
    assert await next_number(url) == (21, domain)


async def test_an_older_release_backup_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables are made as they were then, and brought up to date as those of a store are."""
    file, restored = tmp_path / "old.backup", sqlite_url(tmp_path, "restored.db")
    domain = await used(sqlite_url(tmp_path))
    header, _ = back_up(sqlite_url(tmp_path), file)
    second_schema.plant(monkeypatch, tmp_path)
    done = restore(restored, file)
    assert (done.former, done.stages) == (domain, header.stages)
    report = verify(restored)
    assert report.is_ok, report.problems
    store = Store(restored)
    version = store.run(store.read_version)
    store.close()
    assert (header.schema_version, version) == (second_schema.SECOND - 1, second_schema.SECOND)
