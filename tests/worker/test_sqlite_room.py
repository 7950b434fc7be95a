"""The room that an SQLite store's log needs, and what fills it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.worker.test_sqlite_file import appended

from inorder.errors import StoreFull
from inorder_worker.sequencer.commands import LogTrim
from inorder_worker.store import sqlite_file
from inorder_worker.store.journal import Batch
from inorder_worker.store.log_rows import LogRow
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.verification import verify


def until_refused(append: Callable[[], None]) -> None:
    for _ in range(1000):
        append()


def test_what_is_deleted_is_not_written(tmp_path: Path) -> None:
    """Debian's SQLite zeroes it: on a small disk event logs that are cut would fill the log, and be cut no more."""
    path = tmp_path / "inorder.db"
    journal = SqlJournal(f"sqlite:///{path}")
    journal.open(1)
    epoch = journal.claim(0, "a")
    journal.append([Batch(0, epoch, 1, b"x")], [LogRow(7, at, 1, [], b"x" * 60_000) for at in range(1, 41)])
    journal._store.run(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one())
    journal.append([Batch(0, epoch, 2, b"x")], [LogTrim(7, 39)])
    assert (tmp_path / "inorder.db-wal").stat().st_size < 500_000 < 40 * 60_000
    assert verify(f"sqlite:///{path}").logs == {7: 1}
    journal.close()


def test_many_small_rows_need_room_for_their_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is of another topic, so it may have a page of the index for itself."""
    rows, free = [LogRow(topic, 1, 1, [], b"x") for topic in range(200)], 1_000_000
    journal, append = appended(tmp_path / "inorder.db")
    monkeypatch.setattr("os.statvfs", lambda folder: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(StoreFull, match=r"and [23]\d{6} more; 1000000 are"):
        journal.append([Batch(0, 1, 4, b"x")], rows)
    append()
    free = 10_000_000
    journal.append([Batch(0, 1, 5, b"x")], rows)
    journal.close()


def test_the_log_never_fills_what_it_needs_to_be_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While a reader holds it up it grows, which is said; numbers end while all of it still fits into the file."""
    path, free = tmp_path / "inorder.db", 1_000_000
    monkeypatch.setattr(sqlite_file, "LONG_LOG", 200_000)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    monkeypatch.setattr("os.statvfs", lambda folder: SimpleNamespace(f_bavail=free, f_frsize=1))
    journal, append = appended(path)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM journal").fetchone()
    with pytest.raises(StoreFull, match=r"-wal has \d+ bytes, and as many must be free .* perhaps a reader"):
        until_refused(append)
    room = journal.room()
    assert room is not None
    assert free - sqlite_file.SPARE - 100_000 < room.log < free - sqlite_file.SPARE // 2
    assert room.free == free
    assert [each.getMessage().count("event=store_log_grows") for each in caplog.records].count(1) in (2, 3)
    with pytest.raises(StoreFull):
        append()
    reader.close()
    append()
    assert (tmp_path / "inorder.db-wal").stat().st_size < 100_000
    journal.close()
