"""The log of an SQLite store, and its index, under a process that has them open: written over in their place."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.worker.test_sqlite_file import appended, put_over

from inorder.errors import StoreMoved
from inorder_worker.store import sqlite_file
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify


@pytest.mark.parametrize("kinds", [("-wal",), ("-wal", "-shm"), ("", "-wal"), ("", "-wal", "-shm")], ids="+".join)
@pytest.mark.parametrize("by", ["commit", "look"])
def test_an_older_copy_put_over_the_log_answers_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...], by: str
) -> None:
    """SQLite would find no fault until a page is read from it; whoever opens the store next takes it for the log."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    assert journal._store._take_up()
    append()
    copies = {kind: Path(f"{path}{kind}").read_bytes() for kind in kinds}
    append()
    look(journal, monkeypatch)
    for kind, copy in copies.items():
        put_over(Path(f"{path}{kind}"), copy)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "LOOK_INTERVAL", 1e9 if by == "commit" else -1.0)
        with pytest.raises(StoreMoved, match=r"another copy was put over inorder\.db-wal while"):
            (append if by == "commit" else journal.read_map)()
    for call in (append, journal.read_map, lambda: journal.claim(0, "b")):
        with pytest.raises(StoreMoved, match=r"another copy was put over inorder\.db-wal while .*; .*renew.*backup"):
            call()
    other = Store(f"sqlite:///{path}")
    with pytest.raises(StoreMoved, match="another copy"):
        other.look()
    other.close()
    journal.close()
    report = verify(f"sqlite:///{path}")
    assert [each.detail.partition("; ")[0] for each in report.problems] == [
        "it is an older copy of itself: another copy was put over inorder.db-wal while it was open"
    ]
    assert [each.last for each in report.stages] == [3]


def look(journal: SqlJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read something, and look at the files before it."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "LOOK_INTERVAL", -1.0)
        journal.read_map()


def test_an_older_index_put_over_ours_leaves_the_log_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that the log ends earlier. Whoever opens it after a crash makes another one, from the whole log."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    copy = Path(f"{path}-shm").read_bytes()
    append()
    look(journal, monkeypatch)
    put_over(Path(f"{path}-shm"), copy)
    log = Path(f"{path}-wal").read_bytes()
    with pytest.raises(StoreMoved, match=r"another copy was put over inorder\.db-shm while"):
        look(journal, monkeypatch)
    assert Path(f"{path}-wal").read_bytes() == log
    journal.close()


def test_a_log_that_others_have_begun_anew_is_not_taken_for_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup, a standby or a shell may take the log up at any moment, and write the first frames of the next one."""
    monkeypatch.setattr(sqlite_file, "LOOK_INTERVAL", -1.0)
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    other = sqlite3.connect(path, isolation_level=None)
    for kind in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
        for work in (append, journal.read_map):
            other.execute(f"PRAGMA wal_checkpoint({kind})")
            other.executescript("CREATE TABLE other (x); DROP TABLE other")
            work()
    other.close()
    for pages in (1, 1000):
        journal._store.run(lambda connection, pages=pages: connection.exec_driver_sql(  # type: ignore[misc]
            f"PRAGMA wal_autocheckpoint={pages}"
        ))  # fmt: skip
        for _ in range(20):
            append()
    journal.close()
