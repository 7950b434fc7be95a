"""Small files into full ones: nothing is lost, nothing is removed too soon."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from tests.analytics.traces import Trace, write

from inorder.errors import InvalidOption
from inorder_analytics import compacting
from inorder_analytics.compacting import CompactionFailed, compact
from inorder_analytics.reading import Place, Traces

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    trace = Trace().streams(s1=" ".join(f"a{number}" for number in range(1, 24)))
    return write(tmp_path / "small", trace.rows, per_file=5)


def test_full_files_with_a_manifest(small: Path, tmp_path: Path) -> None:
    before = Traces(small).table()
    done = compact(Traces(small), tmp_path / "out", rows_per_file=10, now=NOW)
    assert [(each.file.name, each.rows) for each in Traces(tmp_path / "out").survey().files] == [
        ("compacted-20260102T030405000000Z-000001.parquet", 10),
        ("compacted-20260102T030405000000Z-000002.parquet", 10),
        ("compacted-20260102T030405000000Z-000003.parquet", 3),
    ]
    assert Traces(tmp_path / "out").table() == before
    assert all(each.is_exact for each in Traces(tmp_path / "out").survey().files)
    told = json.loads((tmp_path / "out" / "_compacted-20260102T030405000000Z.json").read_text())
    assert [each["file"] for each in told["sources"]] == [str(small / f"{at:06}.parquet") for at in range(0, 23, 5)]
    assert (told["rows"], told["files"]) == (23, done.files)
    assert len(list(small.iterdir())) == 5


def test_originals_are_removed_only_when_the_new_ones_can_be_read(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compacting._write
    monkeypatch.setattr(compacting, "_write", lambda table, file: real(table.slice(1), file))
    with pytest.raises(CompactionFailed, match="22 of 23 rows"):
        compact(Traces(small), tmp_path / "out", remove=True)
    assert len(list(small.iterdir())) == 5
    monkeypatch.setattr(compacting, "_write", real)
    (small / "bad.parquet").write_bytes(b"PAR1")
    done = compact(Traces(small), tmp_path / "again", remove=True)
    assert (done.removed, [each.file for each in done.damaged]) == (5, [str(small / "bad.parquet")])
    assert [path.name for path in small.iterdir()] == ["bad.parquet"]
    assert Traces(tmp_path / "again").table().num_rows == 23


def test_an_interrupted_write_leaves_nothing_that_readers_see(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(table: object, file: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(compacting, "_write", stop)
    with pytest.raises(OSError, match="disk full"):
        compact(Traces(small), tmp_path / "out", remove=True)
    assert not (tmp_path / "out").exists()
    assert len(list(small.iterdir())) == 5


@pytest.mark.parametrize("out", ["small", "small/in", "."])
def test_the_place_must_be_apart(small: Path, tmp_path: Path, out: str) -> None:
    with pytest.raises(InvalidOption, match="apart"):
        compact(Traces(small), tmp_path / out)


def test_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    done = compact(Traces(tmp_path / "small"), tmp_path / "out", remove=True)
    assert (done.files, done.removed) == ([], False)
    assert not (tmp_path / "out").exists()


# -- killed, and done again --------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is no more: nothing is changed behind this."""


class Death:
    """Kills a compaction at its nth change of a folder, as the interpreter tells of each before it is made."""

    def __init__(self) -> None:
        self.folder, self.left, self.seen = "", 0, 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, given: tuple[object, ...]) -> None:
        if not self.folder or not isinstance(given[0] if given else None, (str, Path)):
            return
        writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        changes = writes or event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir")
        if changes and str(given[0]).startswith(self.folder) and not str(given[0]).endswith(".compacting"):
            self.seen += 1
            if self.seen > self.left:
                raise Killed(event, given[0])

    def at(self, change: int, folder: Path, work: Callable[[], object]) -> bool:
        """Do some work; return whether it was killed."""
        self.left, self.seen, self.folder = change, 0, str(folder)
        try:
            work()
        except Killed:
            return True
        finally:
            self.folder = ""
        return False


DEATH = Death()


def seen_by_others(*folders: Path) -> list[int]:
    """Return the numbers that a reader sees who knows nothing of manifests, or of copies."""
    files = [path for folder in folders for path in sorted(folder.glob("[!._]*.parquet"))]
    return [number for path in files for number in pq.read_table(path).column("number").to_pylist()]


def killed_and_done_again(folder: Path, change: int, *, is_merged: bool) -> bool:
    """Return whether a compaction was killed at this change of a folder; in any case the next one leaves all well.
    ``is_merged``: by an earlier compaction, which has removed nothing."""
    rows, every = Trace().streams(s1=" ".join(f"a{number}" for number in range(1, 24))).rows, list(range(1, 24))
    small, out = write(folder / "small", rows, per_file=12), folder / "out"
    before = Traces(small).table()

    def merge() -> None:
        compact(Traces(small), out, rows_per_file=15, remove=True)

    if is_merged:
        compact(Traces(small), out, rows_per_file=15)
    was_killed = DEATH.at(change, folder, merge)
    assert sorted(row["number"] for row in Traces(folder).table().to_pylist()) == every
    DEATH.at(2, folder, merge)  # the next one is killed, too
    merge()
    assert Traces(out).table() == before
    assert seen_by_others(out) == every
    assert list(small.iterdir()) == []
    names = {each.name for each in out.iterdir() if not each.name.startswith("compacted-")}
    assert all(name == ".compacting" or name.endswith(".json") for name in names)
    assert {each.stat().st_mode & 0o177 for each in out.iterdir()} == {0}
    return was_killed


@pytest.mark.parametrize(("is_merged", "points"), [(False, 13), (True, 3)])  # there are more of these, at least
def test_killed_at_any_point_and_done_again_it_is_as_if_done_once(tmp_path: Path, is_merged: bool, points: int) -> None:
    changes = 0
    while killed_and_done_again(tmp_path / f"{changes}", changes, is_merged=is_merged):
        changes += 1
    assert changes > points


def test_done_again_it_merges_what_is_new(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compact(Traces(small), out)
    more = Trace().streams(s2="a1 a2 a3").rows
    write(small / "more", more)
    done = compact(Traces(small), out)
    assert (done.rows, done.passed, done.removed) == (3, 5, 0)
    assert compact(Traces(small), out, remove=True).removed == 6
    assert Traces(small).files == []
    assert len(seen_by_others(out)) == Traces(out).table().num_rows == 26


def test_what_was_merged_counts_only_while_it_is_there(small: Path, tmp_path: Path) -> None:
    compact(Traces(small), tmp_path / "out")
    (full,) = (tmp_path / "out").glob("compacted-*")
    full.unlink()
    assert compact(Traces(small), tmp_path / "out", remove=True).rows == 23
    assert len(seen_by_others(tmp_path / "out")) == 23


def test_copies_are_merged_into_one(small: Path, tmp_path: Path) -> None:
    """As whoever copies folders leaves them: the same rows in two of them."""
    for name in ("one", "two"):
        compact(Traces(small), tmp_path / "several" / name)
    done = compact(Traces(tmp_path / "several"), tmp_path / "out", remove=True)
    assert done.rows == len(seen_by_others(tmp_path / "out")) == 23


def test_a_file_that_a_client_replaces_meanwhile_stays(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Trace().streams(s1=" ".join(f"a{number}" for number in range(1, 29))).rows
    take_away = compacting._Compaction._take_away

    def replaced(compaction: Any, source: compacting.MergedFile) -> bool:
        if source.file.endswith("000020.parquet"):  # behind the look whether it is what was merged
            (larger,) = write(tmp_path / "larger", rows[20:]).iterdir()
            os.replace(larger, source.file)
        return take_away(compaction, source)

    monkeypatch.setattr(compacting._Compaction, "_take_away", replaced)
    done = compact(Traces(small), tmp_path / "out", remove=True)
    assert done.removed == 4
    assert [each.name for each in small.iterdir()] == ["000020.parquet"]
    assert sorted({*seen_by_others(small), *seen_by_others(tmp_path / "out")}) == list(range(1, 29))


def test_in_a_store_of_objects_the_last_file_of_each_client_stays_for_an_hour(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://{tmp_path.name}"
    files = fsspec.filesystem("memory")
    for client in ("one", "two"):
        for at, path in enumerate(sorted(small.iterdir())[:3]):
            files.pipe_file(f"/{tmp_path.name}/in/{client}-0-{at:06}.parquet", path.read_bytes())
    done = compact(Traces(f"{url}/in"), f"{url}/out", remove=True)
    assert (done.rows, done.removed) == (15, 4)
    left = [each.name for each in Traces(f"{url}/in").files]
    assert left == ["one-0-000002.parquet", "two-0-000002.parquet"]
    again = compact(Traces(f"{url}/in"), f"{url}/out", remove=True)
    assert (again.rows, again.passed, again.removed) == (0, 2, 0)
    monkeypatch.setattr(compacting, "SETTLED", timedelta(0))  # an hour later
    assert compact(Traces(f"{url}/in"), f"{url}/out", remove=True).removed == 2


def test_one_at_a_time(small: Path, tmp_path: Path) -> None:
    with compacting._alone(Place(tmp_path / "out")), pytest.raises(CompactionFailed, match="another"):
        compact(Traces(small), tmp_path / "out")
