"""``verify`` and recovery find any flipped bit; both name what is wrong, and what a newer release wrote."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from inorder.errors import StoreCorrupt, StoreError, StoreUnreachable, StoreVersionMismatch
from inorder.testing.services import PostgresServer
from inorder_worker.store import log_rows, records, schema
from inorder_worker.store.chain import NO_HASH, ROW_FORMAT, row_hash, snapshot_hash
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogRow
from inorder_worker.store.restoring import renew
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.verification import check, verify

ROWS, SNAPSHOTS = 10, (4, 8)


def fill(url: str) -> str:
    """Two stages of ten rows; stage 0 with snapshots after rows 4 and 8, so its rows 5 to 10 are left."""
    journal = SqlJournal(url)
    journal.open(2, [["s:a"], ["s:b"]])
    epochs = [journal.claim(stage, f"owner/{stage}/x", address="host:1") for stage in range(2)]
    for seq in range(1, ROWS + 1):
        logged = [LogRow(7, seq, 1_700_000_000_000 + seq, [8, seq], b"event %d" % seq)] if seq <= 2 else []
        journal.append([Batch(stage, epochs[stage], seq, b"row %d" % seq * 20) for stage in range(2)], logged)
        if seq in SNAPSHOTS:
            journal.save_snapshot(0, epochs[0], seq, b"state %d" % seq * 20)
    journal.beat([(stage, epochs[stage]) for stage in range(2)])
    journal.close()
    store = Store(url)
    for table in schema.RECORDS:
        store.write(lambda connection, t=table: records.add(connection, t, row_for(t)))  # type: ignore[misc]
    store.close()
    return url


def row_for(table: sa.Table) -> dict[str, Any]:
    """Something in each column."""
    examples: dict[type, Any] = {str: "x", int: 4711, bool: True}
    columns = [column for column in table.c if column is not table.autoincrement_column]
    return {column.name: examples[column.type.python_type] for column in columns}


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return fill(f"sqlite:///{tmp_path}/inorder.db")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return fill(postgres.database())


def damaged(value: Any) -> Iterator[Any]:
    """Return the value with one bit flipped, in several places."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value ^ 1 << bit for bit in (0, 1, 10, 30))
        case bytes():
            for place in {0, len(value) // 2, len(value) - 1}:
                for bit in (0, 7):
                    yield value[:place] + bytes([value[place] ^ 1 << bit]) + value[place + 1 :]
        case str():
            for place in {0, len(value) - 1} if value else ():
                yield value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]


def test_a_whole_store(filled: str) -> None:
    report = verify(filled)
    assert report.problems == []
    first, second = report.stages
    assert (first.stage, first.epoch, first.first, first.last, first.snapshots) == (0, 1, 5, 10, [4, 8])
    assert (second.first, second.last, second.snapshots) == (1, 10, [])
    assert report.domain > 0
    assert report.logs == {7: 2}


def test_a_number_missing_in_a_log_is_named(filled: str) -> None:
    """R18: a log is a range of numbers, so a row that is gone leaves a hole."""
    store = Store(filled)
    store.write(lambda connection: log_rows.write(connection, [LogRow(7, 5, 0, [], b"")]))
    store.close()
    (problem,) = verify(filled).problems
    assert (problem.what, problem.seq) == ("event_log", 3)
    assert "numbers 3 to 4 are missing" in problem.detail


def flips(store: Store) -> Iterator[tuple[sa.Table, dict[str, Any], sa.Column[Any], Any]]:
    """Yield all that :func:`damaged` does to the first row of each table, and one thing to each column of the
    others, each time another one. Of tables whose rows have one check for all of these, one thing will do."""
    for table in schema.metadata.sorted_tables:
        rows = store.run(lambda connection, table=table: connection.execute(sa.select(table)).mappings().all())  # type: ignore[misc]
        for at, row in enumerate(rows):
            for column in table.c:
                values = list(damaged(row[column.name]))
                if values and (at or table in schema.RECORDS):
                    values = [values[at % len(values) if at else 0]]
                for value in values:
                    yield table, dict(row), column, value


def test_any_flipped_bit_is_found_and_named(filled: str) -> None:
    """In every column of every row of every table, see :func:`flips`. Flipped back, all is well again. (Of what keeps
    nothing there is nothing to check.)"""
    store, reader = Store(filled), Store(filled, is_read_only=True)  # one each: opening takes longer than a look
    tried = set()
    cases = list(flips(store))
    if not store.is_sqlite:  # the same checks over another database: one bit of each column will do
        cases = list({(case[0].name, case[2].name): case for case in cases}.values())
    for table, row, column, value in cases:
        where = sa.and_(*(one == row[one.name] for one in table.c))
        flipped = {column.name: value}
        moved = sa.and_(*(one == {**row, **flipped}[one.name] for one in table.c))
        try:
            store.run(lambda connection, w=where, f=flipped, t=table: connection.execute(t.update().where(w), f))  # type: ignore[misc]
        except StoreError:  # its key is another row's: the database itself refuses
            continue
        case = (table.name, column.name, row.get("stage"), row.get("seq"), value)
        try:
            is_unreadable = table is schema.alembic_version
            found = verify(filled) if is_unreadable else reader.read(lambda connection: check(reader, connection))
            problems = found.problems
            assert problems, case
            named = [(problem.what, problem.stage, problem.seq) for problem in problems]
            if table in (schema.journal, schema.snapshots) and column.name not in ("stage", "seq"):
                assert named == [(table.name, row["stage"], row["seq"])], (case, problems)
            elif table is schema.event_log and column.name not in ("topic", "number"):
                assert named == [("event_log", None, row["number"])], (case, problems)
            elif table in schema.RECORDS:
                assert named == [(table.name, {**row, **flipped}.get("stage"), None)], (case, problems)
            elif table is schema.stages and column.name != "stage":
                assert ("stages", row["stage"], None) in named, (case, problems)
            elif table is schema.meta and column.name != "schema_version":
                assert ("meta", None, None) in named, (case, problems)
        except StoreVersionMismatch:
            assert column.name in ("schema_version", "version_num"), case
        finally:
            store.run(lambda connection, w=moved, r=row, t=table: connection.execute(t.update().where(w), r))  # type: ignore[misc]
        tried.add((table.name, column.name))
    store.close()
    reader.close()
    lasting = [table for table in schema.metadata.sorted_tables if table not in schema.FLEETING]
    tried.add(("meta", "outdated"))  # empty while all is well, so there is no bit to flip
    assert tried == {(table.name, column.name) for table in lasting for column in table.c}
    assert verify(filled).problems == []


def execute(url: str, *statements: str) -> None:
    store = Store(url)
    for statement in statements:
        store.run(lambda connection, text=statement: connection.execute(sa.text(text)))  # type: ignore[misc]
    store.close()


@pytest.mark.parametrize(
    ("statement", "what", "stage", "seq", "words"),
    [
        ("DELETE FROM journal WHERE stage = 1 AND seq = 7", "journal", 1, 7, "row 7 is missing"),
        ("DELETE FROM journal WHERE stage = 1 AND seq < 4", "journal", 1, 1, "row 1 is missing"),
        ("DELETE FROM journal WHERE stage = 0 AND seq < 7", "journal", 0, 5, "row 5 is missing"),
        ("DELETE FROM journal WHERE stage = 0 AND seq > 6", "journal", 0, 7, "rows 7 to 8 are missing"),
        ("DELETE FROM journal WHERE stage = 0", "journal", 0, 1, "rows 1 to 8 are missing"),
        ("DELETE FROM snapshots WHERE seq = 4", "journal", 0, 1, "row 1 is missing"),
        ("DELETE FROM stages WHERE stage = 1", "stages", None, None, "meta says 2"),
        ("DELETE FROM alembic_version", "file", None, None, "alembic_version says"),
        (
            "DELETE FROM meta",
            "file",
            None,
            None,
            "meta has 0 rows instead of the one that says what the store is; somebody",
        ),
        (
            "DROP TABLE meta",
            "file",
            None,
            None,
            "there is no table meta, and there are alembic_version, analytics_runs",
        ),
        ("ALTER TABLE journal RENAME TO others", "file", None, None, "there is no table journal; were its tables"),
        ("DROP TABLE workers", "file", None, None, "there is no table workers"),
        ("ALTER TABLE browser_sessions DROP COLUMN csrf", "file", None, None, "browser_sessions has no column csrf"),
    ],
)
def test_what_is_missing_is_named(
    filled: str, statement: str, what: str, stage: int | None, seq: int | None, words: str
) -> None:
    execute(filled, statement)
    found = [problem for problem in verify(filled).problems if words in problem.detail]
    assert [(problem.what, problem.stage, problem.seq) for problem in found] == [(what, stage, seq)]


@pytest.mark.parametrize(
    ("table", "column"),
    [("meta", "stages"), ("meta", "schema_version"), ("stages", "epoch"), ("journal", "epoch"), ("journal", "entries"),
     ("snapshots", "state")],
)  # fmt: skip
def test_what_is_of_another_type_is_named(tmp_path: Path, table: str, column: str) -> None:
    """In an SQLite file each row says the types of its fields: one flipped bit may hit that."""
    url = fill(f"sqlite:///{tmp_path}/inorder.db")
    execute(url, f"UPDATE {table} SET {column} = 'words' WHERE rowid = (SELECT min(rowid) FROM {table})")
    problem, *_ = verify(url).problems
    assert re.search(rf"({table.rstrip('s')}|row of stage 0).* is damaged", problem.detail)
    if table == "stages":
        renew(url, beat_interval=0.001)
        assert verify(url).is_ok


def test_all_problems_are_listed_and_only_those(filled: str) -> None:
    """The rows behind a damaged one are not blamed."""
    execute(
        filled,
        "UPDATE journal SET epoch = 9 WHERE stage = 1 AND seq IN (2, 5)",
        "UPDATE snapshots SET seq = 3 WHERE seq = 4",
    )
    named = [(problem.what, problem.stage, problem.seq) for problem in verify(filled).problems]
    assert named == [("snapshots", 0, 3), ("journal", 0, 4), ("journal", 1, 2), ("journal", 1, 5)]


def test_an_epoch_that_the_stage_never_had(filled: str) -> None:
    """Every hash fits, but the stage's row is an old one."""
    journal = SqlJournal(filled)
    journal.open(2)
    old = Store(filled)
    before = old.run(lambda connection: connection.execute(sa.select(schema.stages)).mappings().all())
    epoch = journal.claim(1, "b")
    journal.append([Batch(1, epoch, 11, b"x")])
    journal.close()
    old.run(
        lambda connection: connection.execute(schema.stages.update().where(schema.stages.c.stage == 1), dict(before[1]))
    )
    old.close()
    (problem,) = verify(filled).problems
    assert (problem.what, problem.stage) == ("stages", 1)
    assert "has epoch 1, its journal is of epoch 2" in problem.detail


# -- formats ---------------------------------------------------------------------------------------------------------


def write_newer(url: str) -> None:
    """A row and a snapshot as a later release would write them: whole, and of a format that nobody knows yet."""
    store = Store(url)

    def write(connection: sa.Connection) -> None:
        last = connection.execute(
            sa.select(schema.journal).where(schema.journal.c.stage == 1, schema.journal.c.seq == ROWS)
        ).one()
        digest = row_hash(1, ROWS + 1, 1, last.hash, b"new", ROW_FORMAT + 1)
        row = {"stage": 1, "seq": ROWS + 1, "epoch": 1, "prev_hash": last.hash, "hash": digest, "entries": b"new"}
        connection.execute(schema.journal.insert(), {**row, "format": ROW_FORMAT + 1})
        state_hash = snapshot_hash(1, ROWS + 1, digest, b"new", 7)
        snapshot = {"stage": 1, "seq": ROWS + 1, "hash": digest, "state_hash": state_hash, "state": b"new"}
        connection.execute(schema.snapshots.insert(), {**snapshot, "format": 7})

    store.write(write)
    store.close()


def test_a_newer_format_is_named_and_not_misread(filled: str) -> None:
    write_newer(filled)
    snapshot, row = verify(filled).problems
    assert (snapshot.what, snapshot.stage, snapshot.seq, snapshot.is_newer) == ("snapshots", 1, 11, True)
    assert (row.what, row.stage, row.seq, row.is_newer) == ("journal", 1, 11, True)
    assert f"has format {ROW_FORMAT + 1}, this release knows {ROW_FORMAT}" in row.detail
    journal = SqlJournal(filled)
    journal.open(2)
    with pytest.raises(StoreVersionMismatch, match="snapshot of stage 1 at row 11 has format 7"):
        journal.load_snapshot(1)
    with pytest.raises(StoreVersionMismatch, match="journal of stage 1: row 11 has format"):
        list(journal.replay(1, 0))
    journal.close()


def test_the_format_is_part_of_the_hash() -> None:
    hashes = {row_hash(0, 1, 1, NO_HASH, b"x", form) for form in range(5)}
    assert len(hashes) == 5


# -- recovery uses the same checks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE stages SET beat = beat + 1 WHERE stage = 1", "row of stage 1 is damaged"),
        ("UPDATE journal SET format = 0 WHERE stage = 1 AND seq = 3", "stage 1: row 3 is damaged"),
    ],
)
def test_a_recovery_stops_at_what_verify_would_name(filled: str, statement: str, words: str) -> None:
    execute(filled, statement)
    (problem,) = verify(filled).problems
    assert words in problem.detail
    journal = SqlJournal(filled)
    journal.open(2)
    with pytest.raises(StoreCorrupt) as caught:
        take_stage(journal)
    assert problem.detail in str(caught.value)
    journal.close()


def take_stage(journal: SqlJournal) -> None:
    journal.claim(1, "b")
    list(journal.replay(1, 0))


def test_a_damaged_meta_is_not_opened(filled: str) -> None:
    execute(filled, "UPDATE meta SET domain = domain + 1")
    journal = SqlJournal(filled)
    with pytest.raises(StoreCorrupt, match="meta is damaged"):
        journal.open(2)
    journal.close()


# -- beside a worker -------------------------------------------------------------------------------------------------


def test_nothing_is_changed_and_nobody_waits(tmp_path: Path) -> None:
    """Also where the file cannot be written, and while another process is in the middle of a transaction."""
    path = tmp_path / "inorder.db"
    url = fill(f"sqlite:///{path}")
    before = path.read_bytes()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM journal")
    assert verify(url, timeout=0.2).problems == []
    writer.execute("ROLLBACK")
    writer.close()
    assert path.read_bytes() == before
    with pytest.raises(StoreUnreachable):
        verify(f"sqlite:///{tmp_path}/nothing.db")
    assert not (tmp_path / "nothing.db").exists()


def test_beside_a_worker_that_goes_on(filled: str) -> None:
    """Each walk sees one moment: rows, snapshots and compaction of that moment fit together."""
    journal = SqlJournal(filled, timeout=20)
    journal.open(2)
    epoch = journal.claim(0, "b")
    verified, failures = threading.Event(), []

    def work() -> None:
        try:
            for seq in range(ROWS + 1, ROWS + 400):
                journal.append([Batch(0, epoch, seq, b"more")])
                if seq % 3 == 0:
                    journal.save_snapshot(0, epoch, seq, b"state")
                if verified.is_set():
                    break
            journal.close()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(20):
        assert verify(filled).problems == []
    verified.set()
    thread.join()
    assert failures == []


def test_a_damaged_file(tmp_path: Path) -> None:
    """Below the rows: a page that is no page any more."""
    path = tmp_path / "inorder.db"
    url = fill(f"sqlite:///{path}")
    data = bytearray(path.read_bytes())
    data[2 * 4096 : 2 * 4096 + 200] = bytes(200)
    path.write_bytes(data)
    problems = verify(url).problems
    assert problems
    assert problems[0].what == "file"


def test_a_primary_key_that_was_dropped_is_missed(postgres: PostgresServer) -> None:
    """An append whose answer was lost is done again: only the key keeps its rows from being there twice."""
    url = fill(postgres.database())
    execute(url, "ALTER TABLE journal DROP CONSTRAINT journal_pkey")
    (problem,) = verify(url).problems
    assert problem.detail == "the table journal has lost its primary key; add it again"


def test_an_empty_database_is_no_store(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnreachable, match="no store yet"):
        verify(postgres.database())
