"""Stores of older schemas: brought up to date at the first start, to exactly the tables of a new store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.worker import second_schema
from tests.worker.helpers import settings
from tests.worker.raw_client import RawClient

from inorder.errors import Fenced, StoreVersionMismatch
from inorder.testing.services import PostgresServer
from inorder_worker.service import Worker
from inorder_worker.store import schema, upgrading
from inorder_worker.store.journal import Batch
from inorder_worker.store.seals import stage_seal
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.store_info import StoreInfo
from inorder_worker.store.verification import verify

ORDER = (("s:top",), ("s:low",))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inorder.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


def make_first(url: str) -> StoreInfo:
    """Make a store of the first schema, whose worker has gone on without a word."""
    journal = SqlJournal(url)
    info = journal.open(2, ORDER)
    for stage in range(2):
        epoch = journal.claim(stage, "old")
        for seq in (1, 2, 3):
            journal.append([Batch(stage, epoch, seq, b"row %d" % seq)])
        journal.save_snapshot(stage, epoch, 2, b"state")
    journal.close()
    return info


def shape(url: str) -> dict[str, Any]:
    """Return what the database says about its tables, without the order of columns."""
    store = Store(url)

    def read(connection: sa.Connection) -> dict[str, Any]:
        inspector = sa.inspect(connection)
        return {
            table: (
                {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns(table)},
                inspector.get_pk_constraint(table)["constrained_columns"],
                inspector.get_indexes(table),
                inspector.get_unique_constraints(table),
                inspector.get_foreign_keys(table),
            )
            for table in inspector.get_table_names()
        }

    try:
        return store.run(read)
    finally:
        store.close()


def other(url: str) -> str:
    return url.replace("inorder.db", "other.db")


@pytest.fixture
def fresh(empty: str, request: pytest.FixtureRequest) -> str:
    """A second, new store of this release."""
    url = other(empty) if empty.startswith("sqlite") else request.getfixturevalue("postgres").database()
    journal = SqlJournal(url)
    journal.open(2)
    journal.close()
    return url


# -- the migrations are the schema -----------------------------------------------------------------------------------


def test_all_migrations_give_the_schema(empty: str, fresh: str) -> None:
    store = Store(empty)
    store.write(upgrading.migrate)
    store.close()
    assert shape(empty) == shape(fresh)


def test_alembic_itself_sees_no_difference(empty: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    store = Store(empty)
    store.write(upgrading.migrate)

    def differences(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, schema.metadata))

    found = store.run(differences)
    store.close()
    # Comments are for readers of the code, and in no database.
    assert [each for each in found if "comment" not in str(each)] == []


def test_the_newest_migration_is_the_schemas_version() -> None:
    files = sorted((upgrading.FOLDER / "versions").glob("v*.py"))
    revisions = [re.match(r"v(\d{4})_", path.name) for path in files]
    assert [found and int(found[1]) for found in revisions] == list(range(1, schema.SCHEMA_VERSION + 1))


def test_the_migrations_are_in_the_wheel() -> None:
    """The build takes the folders that are packages, and only those."""
    folder = upgrading.FOLDER / "versions"
    while folder.name != "plugin":
        assert (folder / "__init__.py").is_file(), folder
        folder = folder.parent


# -- old stores ------------------------------------------------------------------------------------------------------


def test_an_old_store_is_brought_up_to_date(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, before = make_first(empty), shape(empty)
    second_schema.plant(monkeypatch, tmp_path)
    with pytest.raises(StoreVersionMismatch, match="version 1; a worker of this release brings it up to date"):
        verify(empty)
    journal = SqlJournal(empty)
    assert journal.open(5) == made
    assert made.topic_order == ORDER
    after = shape(empty)
    assert after.pop(second_schema.TABLE)
    assert after == before
    report = verify(empty)
    assert report.problems == []
    assert [(each.first, each.last, each.snapshots) for each in report.stages] == [(1, 3, [2]), (1, 3, [2])]
    epoch = journal.claim(0, "new")
    journal.append([Batch(0, epoch, 4, b"behind older rows")])
    journal.close()
    assert verify(empty).problems == []
    again = SqlJournal(empty)
    assert again.open(5) == made
    again.close()


async def test_an_old_store_keeps_its_numbers(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored before is read as it was meant: same events, same numbers, and on from there."""
    async with Worker(settings(store=empty, stages=2)) as worker, RawClient(worker.address, "writer", 7) as client:
        top, low = await client.resolve("top", "low")
        before = [await client.create(low, 7), await client.create(top, 8)]
    second_schema.plant(monkeypatch, tmp_path)
    async with Worker(settings(store=empty, stages=2)) as worker, RawClient(worker.address, "writer", 7) as client:
        assert await client.resolve("top", "low") == [top, low]
        assert [await client.create(low, 7), await client.create(top, 8)] == before
        (event,) = await client.create(low, 9)
        assert event.number == before[0][0].number + 1
    assert verify(empty).problems == []


async def test_what_is_whole_but_of_another_encoding_is_not_called_damaged(empty: str) -> None:
    journal = SqlJournal(empty)
    journal.open(2)
    epoch = journal.claim(0, "a")
    journal.append([Batch(0, epoch, 1, b"\x01")])
    journal.close()
    with pytest.raises(StoreVersionMismatch, match="stage 0: row or snapshot 1 is whole, but not of this release's"):
        await Worker(settings(store=empty, stages=2)).__aenter__()


def test_a_worker_of_the_older_release_is_fenced(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It still runs when the store is upgraded under it: what it wrote would be misread."""
    make_first(empty)
    second_schema.plant(monkeypatch, tmp_path)
    journal = SqlJournal(empty)
    journal.open(2)
    store = Store(empty)
    beat = "UPDATE stages SET beat = beat + 1 WHERE stage = 0 AND epoch = 1"
    assert store.run(lambda connection: connection.exec_driver_sql(beat).rowcount) == 0
    store.close()
    with pytest.raises(Fenced):
        journal.claim(0, "old", 1)
    journal.close()


async def test_a_worker_that_lives_through_an_upgrade_stops(fresh: str) -> None:
    """A newer release fenced it: it must not come back as a standby that writes what that one would misread."""
    store = Store(fresh)

    def upgrade(connection: sa.Connection) -> None:
        connection.execute(schema.meta.update().values(schema_version=schema.SCHEMA_VERSION + 1))
        for row in connection.execute(sa.select(schema.stages)).mappings().all():
            values = {**row, "epoch": row["epoch"] + 1, "owner": ""}
            here = schema.stages.c.stage == row["stage"]
            connection.execute(schema.stages.update().where(here), {**values, "seal": stage_seal(values)})

    async with Worker(settings(store=fresh, stages=2, beat_interval=0.05, lease=0.2)) as worker:
        store.write(upgrade)
        with pytest.raises(StoreVersionMismatch, match="a newer one has brought it up to date"):
            await worker.wait_stopped()
    store.close()


def test_many_workers_upgrade_one_store(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_first(empty)
    second_schema.plant(monkeypatch, tmp_path)
    found: list[object] = []
    barrier = threading.Barrier(4)

    def start() -> None:
        journal = SqlJournal(empty, timeout=30)
        barrier.wait()
        try:
            found.append(journal.open(2))
        except BaseException as error:
            found.append(error)
        journal.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(str, found))) == 1, found
    assert verify(empty).problems == []
    assert [each.epoch for each in verify(empty).stages] == [2, 2]  # raised once, not by each


def test_an_upgrade_that_fails_changes_nothing(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_first(empty)
    second_schema.plant(monkeypatch, tmp_path)
    before = shape(empty)
    journal = SqlJournal(empty)
    with monkeypatch.context() as patch:
        patch.setattr("inorder_worker.store.store.meta_seal", lambda row: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            journal.open(2)
    assert shape(empty) == before
    assert journal.open(2).stages == 2
    assert second_schema.TABLE in shape(empty)
    journal.close()


def test_a_newer_store_is_refused_and_left_alone(empty: str, fresh: str) -> None:
    store, newer = Store(fresh), schema.SCHEMA_VERSION + 1
    text = f"UPDATE alembic_version SET version_num = '{schema.revision(newer)}'"
    store.run(lambda connection: connection.exec_driver_sql(f"UPDATE meta SET schema_version = {newer}"))
    store.run(lambda connection: connection.exec_driver_sql(text))
    store.close()
    for look in (lambda: SqlJournal(fresh).open(2), lambda: verify(fresh)):
        with pytest.raises(StoreVersionMismatch, match=f"version {newer}, this release knows {schema.SCHEMA_VERSION}"):
            look()


def test_alembic_is_imported_only_for_an_upgrade(tmp_path: Path) -> None:
    """A start costs nothing for it; and where it is missing, the extra is named."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    make_first(f"sqlite:///{old}")
    code = f"""
import sys
sys.modules["alembic"] = None
from inorder.errors import MissingExtra
from inorder_worker.store import schema
from inorder_worker.store.sql_journal import SqlJournal
journal = SqlJournal("sqlite:///{new}")
journal.open(1)
journal.close()
schema.SCHEMA_VERSION += 1
try:
    SqlJournal("sqlite:///{old}").open(2)
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert "upgrading the store needs an optional part: pip install 'inorder[worker]'" in done.stdout
