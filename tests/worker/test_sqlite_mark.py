"""What stays of an SQLite store whose files were written over: a mark, so that nobody goes on from an older state."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from tests.worker.helpers import settings, until
from tests.worker.test_sqlite_file import appended, put_over

from inorder import private
from inorder.errors import StoreMoved, StoreOutdated
from inorder_worker.service import Worker
from inorder_worker.store import sqlite_file, sqlite_mark
from inorder_worker.store.overview import overview
from inorder_worker.store.restoring import renew
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify

KINDS = [("",), ("-wal",), ("-shm",), ("", "-wal", "-shm")]


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the files, and raise the count, each time."""
    monkeypatch.setattr(sqlite_file, "LOOK_INTERVAL", -1.0)
    monkeypatch.setattr(sqlite_file, "COUNT_INTERVAL", -1.0)


def overwritten(path: Path, kinds: tuple[str, ...] = ("", "-wal", "-shm")) -> SqlJournal:
    """Return a journal with rows 1 to 5 whose files were put back to what they were at row 4, as ``cp`` does."""
    journal, append = appended(path)
    journal._store.run(lambda connection: connection.exec_driver_sql("VACUUM"))
    assert journal._store._take_up()
    append()
    copies = copied(path, kinds)
    append()
    journal.read_map()
    if kinds == ("",):
        assert journal._store._take_up()
        journal.read_map()
    for kind, copy in copies.items():
        put_over(Path(f"{path}{kind}"), copy)
    with pytest.raises(StoreMoved, match="another copy was put over"):
        journal.read_map()
    return journal


def copied(path: Path, kinds: tuple[str, ...]) -> dict[str, bytes]:
    return {kind: Path(f"{path}{kind}").read_bytes() for kind in kinds}


def marks(path: Path) -> list[str]:
    return [each.name for each in path.parent.iterdir() if each.name.endswith(".outdated")]


@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_whoever_opens_an_overwritten_store_next_numbers_nothing(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    path = tmp_path / "inorder.db"
    url = f"sqlite:///{path}"
    overwritten(path, kinds).close()
    mark = sqlite_mark.mark_of(path)
    assert stat.S_IMODE(mark.stat().st_mode) == private.OWNER
    problems = [each.detail for each in verify(url).problems]
    assert len(problems) == 1
    assert "another copy was put over" in problems[0]
    assert "another copy was put over" in overview(url, 0.01).outdated
    again = SqlJournal(url)
    assert "another copy was put over" in again.open(1).outdated
    assert not mark.exists(), "it is in the store now"
    for call in (lambda: again.claim(0, "b"), again.read_map, lambda: again.beat([])):
        with pytest.raises(StoreOutdated, match="another copy was put over"):
            call()
    again.close()
    assert [each.detail for each in verify(url).problems] == problems
    renew(url, beat_interval=0.02)
    assert verify(url).problems == []
    appended(path, 0)[0].close()


async def test_a_worker_does_not_start_on_an_overwritten_store(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    url = f"sqlite:///{path}"
    async with Worker(settings(store=url)):
        copies = copied(path, KINDS[-1])
    async with Worker(settings(store=url, beat_interval=0.02)) as worker:
        for kind, copy in copies.items():
            put_over(Path(f"{path}{kind}"), copy)
        await until(lambda: "was put over" in str(worker.health()[1]["store_error"]))
    for _ in range(2):
        with pytest.raises(StoreOutdated, match=r"another copy was put over .*inorder renew"):
            async with Worker(settings(store=url)):
                pass


@pytest.mark.parametrize("kind", ["", "-wal"])
def test_what_was_emptied_and_what_was_replaced_is_marked_too(tmp_path: Path, kind: str) -> None:
    """As ``mv`` does with another file: whoever opens that next would go on from what it has."""
    emptied, replaced = tmp_path / "emptied.db", tmp_path / "replaced.db"
    for path in (emptied, replaced):
        journal, append = appended(path)
        append()
        copy = tmp_path / "copy"
        shutil.copy(f"{path}{kind}", copy)
        append()
        if path == emptied:
            os.truncate(f"{path}{kind}", 0)
        else:
            os.replace(copy, f"{path}{kind}")
        with pytest.raises(StoreMoved, match="inorder renew" if kind or path == replaced else "was emptied"):
            append()
        assert sqlite_mark.mark_of(path).exists()
        journal.close()


def test_a_file_that_is_back_is_not_marked(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    path.rename(tmp_path / "elsewhere.db")
    shutil.copy(tmp_path / "elsewhere.db", path)
    with pytest.raises(StoreMoved, match="another file is there"):
        append()
    assert marks(path)
    (tmp_path / "elsewhere.db").rename(path)
    append()
    assert not marks(path)
    assert journal.claim(0, "a") == 2
    journal.close()


def test_a_log_that_is_saved_after_all_is_not_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    Path(f"{path}-wal").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(journal._store, "_take_up", lambda: False)
        with pytest.raises(StoreMoved, match=r"not in the file yet; .*renew"):
            append()
    assert marks(path)
    with pytest.raises(StoreMoved, match=r"what it had is in inorder\.db now"):
        append()
    assert not marks(path)
    journal.close()
    assert verify(f"sqlite:///{path}").problems == []


def test_a_mark_is_for_the_store_of_which_it_speaks(tmp_path: Path) -> None:
    """Not for one that was renewed or made anew, in case that the mark could not be removed."""
    path = tmp_path / "inorder.db"
    store = Store(f"sqlite:///{path}")
    domain = store.open(1).domain
    for of, reason in ((domain, "why"), (0, "why"), (domain + 1, "")):
        sqlite_mark.remove(path)
        sqlite_mark.leave(path, of, "why")
        info = store.look()
        assert info is not None
        assert info.outdated == reason
    sqlite_mark.leave(path, domain, "first")  # over one that is for another store
    sqlite_mark.leave(path, domain, "second")
    assert store.mark(domain) == "first"
    sqlite_mark.mark_of(path).write_bytes(b"")  # the disk was full
    assert store.mark(domain) == "inorder.db.outdated is beside it"
    store.close()
    for file in tmp_path.glob("inorder.db*"):
        if not file.name.endswith(".outdated"):
            file.unlink()
    store = Store(f"sqlite:///{path}")
    assert store.open(1).outdated == ""
    assert not marks(path)
    store.close()


def test_a_folder_that_takes_no_mark_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "inorder.db"

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(private, "write_new", refuse)
        journal = overwritten(path)
        with pytest.raises(
            StoreMoved, match=r"nothing will remind of that: .*\.outdated cannot be written, Permission"
        ):
            journal.read_map()
    with pytest.raises(StoreMoved, match="another copy"):
        journal.read_map()  # now there is room
    assert marks(path)
    journal.close()


def test_a_worker_that_has_not_seen_it_heeds_the_mark_of_another(tmp_path: Path) -> None:
    journal, _ = appended(tmp_path / "inorder.db")
    sqlite_mark.leave(tmp_path / "inorder.db", 0, "another process has seen it")
    for call in (lambda: journal.beat([(0, 1)]), journal.read_map, lambda: journal.claim(0, "a")):
        with pytest.raises(StoreOutdated, match="another process has seen it"):
            call()
    journal.close()


def test_a_reader_leaves_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal, _ = appended(path)
    reader = Store(f"sqlite:///{path}", is_read_only=True)
    reader.look()
    shutil.copy(path, tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", path)
    with pytest.raises(StoreMoved):
        reader.look()
    assert not marks(path)
    reader.close()
    journal.close()


@pytest.mark.parametrize("is_reading", [False, True])
def test_a_store_that_is_renewed_beside_an_open_reader_is_the_new_one(tmp_path: Path, is_reading: bool) -> None:
    """As a control plane is one: the log stays, and with it the new domain, which the file itself does not tell yet."""
    path = tmp_path / "inorder.db"
    journal, _ = appended(path)
    assert journal._store._take_up()
    journal.forget_members(["a"])
    journal.release([(0, 1)])
    journal.close()
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN" if is_reading else "SELECT 1")
    reader.execute("SELECT * FROM meta").fetchall()
    domain = renew(f"sqlite:///{path}", beat_interval=0.02).domain
    again = SqlJournal(f"sqlite:///{path}", timeout=0.2)
    assert again.open(1).domain == domain
    assert (again._store.told_domain == domain) is not is_reading
    epoch = again.claim(0, "b")
    again.beat([(0, epoch)])
    reader.close()
    assert again._store._take_up()
    again.beat([(0, epoch)])
    assert again._store.told_domain == domain
    again.close()
