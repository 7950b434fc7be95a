"""Files that are nobody else's business: stores and traces, new ones and those that were there."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from inorder import private
from inorder.errors import StoreError
from inorder.traces.folder import LocalFolder
from inorder_worker.store.store import Store


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    """As wide as it may be: nothing is private by chance."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(path: Path) -> Store:
    store = Store(f"sqlite:///{path}")
    store.open(1)
    return store


def modes(folder: Path, name: str) -> set[int]:
    found = sorted(each for each in folder.iterdir() if each.name.startswith(name))
    assert [each.name for each in found] == [name, f"{name}-shm", f"{name}-wal"]
    return {mode(each) for each in found}


def test_a_new_store_and_the_files_beside_it(tmp_path: Path) -> None:
    store = opened(tmp_path / "a.db")
    assert modes(tmp_path, "a.db") == {0o600}
    store.close()


def test_a_store_that_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "data" / "a.db")
    store = opened(tmp_path / "link.db")
    assert modes(tmp_path / "data", "a.db") == {0o600}
    store.close()


def test_a_store_that_others_may_read_is_closed_to_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also what stands beside it after a crash, and while another process has it open."""
    path = tmp_path / "a.db"
    opened(path).close()
    path.chmod(0o644)
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE x (y)")
    assert modes(tmp_path, "a.db") == {0o644}
    caplog.clear()
    store = opened(path)
    assert modes(tmp_path, "a.db") == {0o600}
    assert [each.getMessage().partition(" ")[0] for each in caplog.records] == [
        "event=store_was_readable_by_others"
    ] * 3
    other.execute("INSERT INTO x VALUES (1)")
    other.close()
    store.close()


def test_who_lets_a_group_read_a_store_is_not_contradicted(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    opened(path).close()
    path.chmod(0o640)
    store = opened(path)
    assert modes(tmp_path, "a.db") == {0o640}
    store.close()


def test_what_is_no_store_keeps_its_rights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A URL may name a folder, a device, or somebody else's file by mistake."""
    (tmp_path / "folder").mkdir(0o777)
    os.mkfifo(tmp_path / "device", 0o666)
    (tmp_path / "notes").write_text("no database, but longer than the head of one: " + "." * 100)
    (tmp_path / "notes").chmod(0o644)
    before = {each.name: mode(each) for each in tmp_path.iterdir()}
    for name, words in (("folder", "is a folder"), ("device", "is a device"), ("notes", "not a database")):
        with pytest.raises(StoreError, match=words):
            opened(tmp_path / name)
        with pytest.raises(StoreError, match=words):
            Store(f"sqlite:///{tmp_path / name}", is_read_only=True).look()
    assert {each.name: mode(each) for each in tmp_path.iterdir()} == before
    assert "event=store_was_readable_by_others" not in caplog.text


def test_a_database_that_is_there_is_not_opened_by_us(tmp_path: Path) -> None:
    """Closing any descriptor of it would end the locks that this process has."""
    path = tmp_path / "a.db"
    one = sqlite3.connect(path, isolation_level=None)
    one.execute("CREATE TABLE x (y)")
    one.execute("BEGIN EXCLUSIVE")
    private.make(path)
    private.close_to_others([path])
    held = Path("/proc/locks").read_text()
    one.rollback()
    one.close()
    assert f":{path.stat().st_ino} " in held


@pytest.mark.parametrize(("folder", "file", "below"), [(0o700, 0o600, 0o700), (0o750, 0o640, 0o750)])
def test_traces_are_read_by_whom_their_folder_says(tmp_path: Path, folder: int, file: int, below: int) -> None:
    traces = tmp_path / "traces"
    run = LocalFolder(traces / "run")
    if folder != 0o700:
        traces.mkdir()
        traces.chmod(folder)
    run.check()
    run.write("a.parquet", lambda file: file.write(b"x"))
    run.write("a.parquet", lambda file: file.write(b"y"))
    assert [mode(each) for each in (traces, traces / "run", traces / "run" / "a.parquet")] == [folder, below, file]
    assert (traces / "run" / "a.parquet").read_bytes() == b"y"


def test_traces_that_others_may_read_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = LocalFolder(tmp_path)
    tmp_path.chmod(0o755)
    run.write("new.parquet", lambda file: file.write(b"x"))
    run.check()
    assert caplog.text == ""
    assert mode(tmp_path / "new.parquet") == 0o600
    (tmp_path / "old.parquet").write_bytes(b"x")
    run.check()
    assert "event=traces_readable_by_others" in caplog.text
