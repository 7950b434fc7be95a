"""An SQLite store's files under a process that has them open: removed, moved, replaced, and linked."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worker.helpers import settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import StoreCorrupt, StoreFull, StoreMoved, StoreReplaced
from inorder.protocol.wire import CreateTimestamps, NewEvent
from inorder_worker.service import Worker
from inorder_worker.service.following import recover
from inorder_worker.store import sqlite_file
from inorder_worker.store.journal import Batch, Member
from inorder_worker.store.restoring import renew
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.sqlite_place import cannot_open
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify

KINDS = {"log": ("-wal",), "index": ("-shm",), "both": ("-wal", "-shm")}
REMOVING = """
import os, sys
from pathlib import Path
from inorder.errors import StoreMoved
from inorder_worker.store.journal import Batch
from inorder_worker.store.sql_journal import SqlJournal
journals = []
for name, *endings in (each.split(",") for each in sys.argv[2:]):
    path = Path(sys.argv[1]) / name
    journal = SqlJournal(f"sqlite:///{path}")
    journal.open(1)
    epoch, seq, answered = journal.claim(0, "a"), 1, 0
    journals.append(journal)
    try:
        while seq < 20_000:
            journal.append([Batch(0, epoch, seq, b"row")])
            answered, seq = seq, seq + 1
            if seq == 50:
                for ending in endings:
                    Path(f"{path}{ending}").unlink()
    except StoreMoved as error:
        print(name, answered, error, sep="|")
sys.stdout.flush()
os._exit(0)
"""


def appended(path: Path, rows: int = 3) -> tuple[SqlJournal, Callable[[], None]]:
    """Return a journal that has its file open, and what appends one more row."""
    journal = SqlJournal(f"sqlite:///{path}", timeout=0.2)
    journal.open(1)
    epoch, seq = journal.claim(0, "a"), 0

    def append() -> None:
        nonlocal seq
        journal.append([Batch(0, epoch, seq + 1, b"x" * 3000)])
        seq += 1

    for _ in range(rows):
        append()
    return journal, append


def test_who_is_gone_is_not_forgotten_while_the_store_is_locked(tmp_path: Path) -> None:
    """A worker that stands still may have the lock, and whoever is to end it must not wait for it."""
    path = tmp_path / "a.db"
    journal, _ = appended(path)
    journal.beat([], Member("gone", "h:1"))
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    assert not journal.forget_members(["gone"], are_silent=True)
    lock.execute("ROLLBACK")
    lock.close()
    assert journal.forget_members(["gone"], are_silent=True)
    assert journal.read_members() == []
    journal.close()


@pytest.mark.parametrize("damage", ["pins = '{'", "pins = x'00'", "pins = '[\"a\"]'", "rows = '[]'", "rows = x'00'"])
def test_a_damaged_row_of_a_worker_stops_no_other_one(tmp_path: Path, damage: str) -> None:
    """It is a hint without a seal, and nobody writes it anew whose worker is gone."""
    path = tmp_path / "a.db"
    journal, _ = appended(path)
    journal.beat([], Member("gone", "h:1", 0, (0,), {0: 5}))
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute(f"UPDATE workers SET {damage}")
    shell.close()
    (member,) = journal.read_members()
    assert (member.owner, member.address, member.beat) == ("gone", "h:1", 1)
    assert (member.pins, member.rows) in [((), {0: 5}), ((0,), {})]
    assert journal.forget_members(["gone"])
    journal.close()


def test_what_was_answered_outlives_a_log_that_was_removed(tmp_path: Path) -> None:
    """The process ends without closing anything, as by SIGKILL: no number that it gave is given again."""
    cases = [",".join((name, *endings)) for name, endings in KINDS.items()]
    done = subprocess.run(
        [sys.executable, "-c", REMOVING, str(tmp_path), *cases], capture_output=True, text=True, check=True
    )
    told = [line.split("|") for line in done.stdout.splitlines()]
    assert [name for name, *_ in told] == list(KINDS)
    for name, answered, error in told:
        report = verify(f"sqlite:///{tmp_path / name}")
        assert report.problems == []
        assert report.stages[0].last >= int(answered) >= 49
        assert "removed or replaced while it was open" in error
        assert f"what it had is in {name} now" in error
        assert int(answered) == 49 or name == "index", "no answer after the log was gone"


def test_nobody_in_the_process_opens_half_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    path.with_name("inorder.db-wal").unlink()
    other = Store(f"sqlite:///{path}")
    with pytest.raises(StoreMoved, match=r"inorder\.db-wal was removed"):
        append()
    for _ in range(2):
        with pytest.raises(StoreMoved, match="start them again"):
            other.look()
    journal.close()
    other.close()
    again, _ = appended(path, rows=0)
    assert [row.seq for row in again.replay(0, 0)][:3] == [1, 2, 3]
    again.close()


def test_a_file_that_was_moved_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    path.rename(tmp_path / "elsewhere.db")
    for _ in range(2):
        with pytest.raises(StoreMoved, match=r"no file is there.* makes a new store, which has nothing"):
            append()
    assert not path.exists()
    (tmp_path / "elsewhere.db").rename(path)
    assert journal.claim(0, "a") == 2
    found = [row.seq for row in journal.replay(0, 0)]
    assert found in ([1, 2, 3], [1, 2, 3, 4]), "the last one was not answered, and may be there"
    journal.close()


def test_a_copy_in_the_place_of_the_file_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    shutil.copy(path, tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", path)
    with pytest.raises(StoreMoved, match="another file is there"):
        append()
    journal._store.drop()
    with pytest.raises(StoreMoved, match="another file is there"):
        journal.read_map()
    journal.close()


@pytest.mark.parametrize("is_refilled", [False, True])
def test_a_file_that_was_emptied_is_another_one(tmp_path: Path, is_refilled: bool) -> None:
    """Device, inode and links are what they were; commits into its log would count, and be gone with it."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    journal._store.look()
    copy = path.read_bytes()
    os.truncate(path, 0)
    with pytest.raises(StoreMoved, match=r"inorder\.db was emptied while it was open \(0 bytes are left\)"):
        append()
    path.write_bytes(copy if is_refilled else b"")
    with pytest.raises(StoreMoved, match=r"was emptied while it was open"):
        journal.read_map()
    journal.close()


def put_over(path: Path, copy: bytes) -> None:
    """Write into the file as it is, as ``cp`` does: device, inode and links stay, and SQLite's log beside it."""
    with path.open("r+b") as file:
        file.write(copy)
        file.truncate()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every write raise the count in the file."""
    monkeypatch.setattr(sqlite_file, "COUNT_INTERVAL", -1.0)


@pytest.mark.usefixtures("counts")
def test_an_older_copy_put_over_the_file_answers_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite has what it needs in its memory and its log, and would number on until it reads a page of the copy."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    journal._store.run(lambda connection: connection.exec_driver_sql("VACUUM"))
    assert journal._store._take_up()
    copy = path.read_bytes()
    append()
    put_over(path, copy)
    append()  # it was the state from which the log goes on: nothing is lost
    assert journal._store._take_up()
    append()
    put_over(path, copy)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "COUNT_INTERVAL", 1e9)
        patch.setattr(sqlite_file, "LOOK_INTERVAL", 1e9)
        with pytest.raises(StoreMoved, match="another copy"):
            append()  # by the look after the commit alone
    for call in (append, journal.read_map, lambda: journal.claim(0, "b")):
        with pytest.raises(StoreMoved, match=r"another copy was put over inorder\.db while .*; .*renew.*backup"):
            call()
    other = Store(f"sqlite:///{path}")
    with pytest.raises(StoreMoved, match="another copy"):
        other.look()
    other.close()
    journal.close()


@pytest.mark.usefixtures("counts")
def test_a_newer_copy_put_over_the_file_is_found_by_the_next_write(tmp_path: Path) -> None:
    """The file is never ahead of what a transaction sees."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    put_over(path, file_of_count(tmp_path / "other.db", 1000))
    with pytest.raises(StoreMoved, match="another copy"):
        append()
    journal.close()


def test_another_store_put_over_the_file_is_found_by_its_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its count may be what ours may be, and nothing that a beat has SQLite read need come from it."""
    monkeypatch.setattr(sqlite_file, "COUNT_INTERVAL", 1e9)
    path = tmp_path / "inorder.db"
    journal, _ = appended(path)
    put_over(path, file_of_count(tmp_path / "other.db", 1))
    with pytest.raises(StoreReplaced, match="is another one: its domain is"):
        journal.beat([(0, 1)])
    journal.close()


def file_of_count(path: Path, count: int) -> bytes:
    journal, _ = appended(path, 0)
    set_count(journal, count)
    journal.close()
    return path.read_bytes()


def set_count(journal: SqlJournal, count: int) -> None:
    journal._store.run(lambda connection: connection.exec_driver_sql(f"PRAGMA user_version={count}"))


@pytest.mark.usefixtures("counts")
def test_the_count_goes_round(tmp_path: Path) -> None:
    """Behind 2**31 - 1 it is negative to SQLite, and behind 2**32 - 1 it is 0: all of that is higher than before."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    copies = []
    for count in (2**31 - 2, -2):
        set_count(journal, count)
        for _ in range(4):
            append()
            assert journal._store._take_up()
            copies.append(path.read_bytes())
    append()
    put_over(path, copies[-2])
    with pytest.raises(StoreMoved, match="another copy"):
        append()
    journal.close()


@pytest.mark.parametrize("kept", ["error", "cursor"])
def test_who_connects_again_after_an_error_has_its_locks(tmp_path: Path, kept: str) -> None:
    """A connection lives on in SQLite until its last statement is gone, and the next one shares its locks. Without them
    another process that closes the store would take itself for the last one, and remove the log."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    before, alive = locks_on(path), list[object]()
    connection = journal._store._connection
    assert before
    assert connection is not None
    if kept == "cursor":
        alive.append(connection.connection.cursor().execute("SELECT * FROM journal"))
    connection.exec_driver_sql("PRAGMA max_page_count = 1")  # of this connection alone
    with pytest.raises(StoreFull) as error:
        append()
    alive.append(error)
    append()
    assert locks_on(path) == before
    alive.clear()
    append()
    assert locks_on(path) == before
    journal.close()
    assert not locks_on(path)


def test_who_closes_a_store_leaves_the_locks_of_others(tmp_path: Path) -> None:
    """To close a descriptor of a file takes this process's locks on it off; another process would end its log then."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    before = locks_on(path)
    assert before
    for _ in range(2):
        other = Store(f"sqlite:///{path}")
        other.look()
        other.close()
        append()
        assert locks_on(path) == before
    journal.close()
    assert not locks_on(path)
    assert str(path) not in [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]


def locks_on(path: Path) -> list[str]:
    """Return the locks on a file as the system tells them, without the numbers of the lines. One reading may leave some
    out, while those of other processes come and go."""
    lines = [line for _ in range(9) for line in Path("/proc/locks").read_text().splitlines()]
    return sorted({line.partition(": ")[2] for line in lines if f":{path.stat().st_ino} " in line})


@pytest.mark.parametrize(("rows", "interval"), [(1, 0.05), (3, 0.05), (3, -1.0)])
def test_a_log_that_was_emptied_answers_nothing_more(
    tmp_path: Path, rows: int, interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device, inode and links are what they were. SQLite writes on behind where it ended, and whoever opens the store
    next reads nothing of that. What had been taken up into the file stays as it is, an older copy."""
    path = tmp_path / "inorder.db"
    journal, append = appended(path)
    assert journal._store._take_up()
    for _ in range(rows):
        append()
    monkeypatch.setattr(sqlite_file, "LOOK_INTERVAL", interval)
    os.truncate(f"{path}-wal", 0)
    for call in (append, append, journal.read_map):
        with pytest.raises(StoreMoved, match=r"inorder\.db-wal was emptied while it was open, and .* lost; .*renew"):
            call()
    journal.close()
    report = verify(f"sqlite:///{path}")
    assert [each.detail.partition("; ")[0] for each in report.problems] == [
        "it is an older copy of itself: inorder.db-wal was emptied while it was open, and what it had is lost"
    ]
    assert [each.last for each in report.stages] == [3]


def test_the_reason_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several connections each finds that log and index are gone; one of them has saved what there was."""
    path = tmp_path / "inorder.db"
    journal, _ = appended(path)
    other, _ = appended(path, rows=0)
    for kind in KINDS["both"]:
        Path(f"{path}{kind}").unlink()
    monkeypatch.setattr(sqlite_file, "LOOK_INTERVAL", -1.0)
    reasons = []
    monkeypatch.setattr(other._store, "_take_up", lambda: False)
    for each in (journal, other, journal, other):
        with pytest.raises(StoreMoved) as found:
            each.read_map()
        reasons.append(found.value.reason)
    assert "what it had is in inorder.db now" in reasons[0]
    assert reasons[1:] == reasons[:-1]
    journal.close()
    other.close()


def test_a_file_of_two_states_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """An older copy that was written over the file while it was open: pages of both, and no renewal mends that."""
    path, url = tmp_path / "a.db", f"sqlite:///{tmp_path / 'a.db'}"
    journal, _ = appended(path, 50)
    journal.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(path.stat().st_size // 4))
    before = Store(url).look()
    with pytest.raises(StoreCorrupt, match=r"malformed; .* put a backup back \(inorder restore\)"):
        recover(SqlJournal(url), 0, 1)
    problem = verify(url).problems[-1]
    assert problem.detail.endswith(StoreCorrupt.HINT)
    with pytest.raises(StoreCorrupt, match="malformed"):
        renew(url)
    assert Store(url).look() == before


def test_a_link_to_a_store(tmp_path: Path) -> None:
    """Log and index are beside the file, not beside the link; and the link must go on naming that file."""
    folder = tmp_path / "disk"
    folder.mkdir()
    link = tmp_path / "inorder.db"
    link.symlink_to(folder / "real.db")
    journal, append = appended(link)
    assert (folder / "real.db-wal").stat().st_size >= 4_000_000, "written ahead"
    (folder / "real.db-wal").unlink()
    with pytest.raises(StoreMoved, match=r"real\.db-wal was removed"):
        append()
    journal.close()
    journal, append = appended(link, rows=0)
    link.unlink()
    link.symlink_to(folder / "other.db")
    with pytest.raises(StoreMoved, match="no file is there"):
        journal.claim(0, "b")
    journal.close()


@pytest.mark.parametrize("ending", ["", "-wal"])
async def test_a_worker_whose_store_was_removed_says_so(tmp_path: Path, ending: str) -> None:
    """Found by its beat, or by a commit: whatever is first. No number is given, and it is not ready."""
    path = tmp_path / "inorder.db"
    async with Worker(settings(store=f"sqlite:///{path}", beat_interval=0.02)) as worker:
        async with RawClient(worker.address) as client:
            topic, *_ = await client.resolve("a")
            await client.create(topic, 1)
            os.unlink(f"{path}{ending}")
            client.send(CreateTimestamps(0, 1, [NewEvent(2, topic.id)]))
            failure = await client.failure()
        assert failure.code == "store"
        assert "removed or replaced while it was open" in failure.message
        is_ready, facts = worker.health()
        assert not is_ready
        assert "removed or replaced" in str(facts["store_error"])


async def test_an_idle_worker_finds_it_by_its_beat(tmp_path: Path) -> None:
    path = tmp_path / "inorder.db"
    async with Worker(settings(store=f"sqlite:///{path}", beat_interval=0.02)) as worker:
        path.rename(tmp_path / "elsewhere.db")
        await until(lambda: "no file is there" in str(worker.health()[1]["store_error"]))
        await until(lambda: not worker.health()[0])  # once it has been silent for a lease
        (tmp_path / "elsewhere.db").rename(path)
        await until(lambda: worker.health()[0])


def test_a_store_on_a_read_only_volume_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite makes files beside one that it reads, unless it is promised that nobody writes."""
    path = tmp_path / "a.db"
    journal, _ = appended(path)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    beside = Store(f"sqlite:///{path}", is_read_only=True)
    assert beside.look() is not None, "with its log"
    beside.close()
    journal.close()
    alone = Store(f"sqlite:///{path}", is_read_only=True)
    assert alone.look() is not None
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]
    alone.close()
    assert verify(f"sqlite:///{path}").problems == []
    path.with_name("a.db-wal").touch()
    error = cannot_open(path, "sqlite:///a.db", is_read_only=True, is_there=True)
    assert "was not closed cleanly (a.db-wal is there)" in str(error)
