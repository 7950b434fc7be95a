"""Small files into full ones: nothing is lost, nothing is removed too soon."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.analytics.traces import Trace, write

from inorder.errors import InvalidOption
from inorder_analytics import compacting
from inorder_analytics.compacting import CompactionFailed, compact
from inorder_analytics.reading import Traces

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
    monkeypatch.setattr(compacting, "_write", lambda file, table: real(file, table.slice(1)))
    with pytest.raises(CompactionFailed, match="22 of 23 rows"):
        compact(Traces(small), tmp_path / "out", remove=True)
    assert len(list(small.iterdir())) == 5
    monkeypatch.setattr(compacting, "_write", real)
    (small / "bad.parquet").write_bytes(b"PAR1")
    done = compact(Traces(small), tmp_path / "again", remove=True)
    assert (done.removed, [each.file for each in done.damaged]) == (True, [str(small / "bad.parquet")])
    assert [path.name for path in small.iterdir()] == ["bad.parquet"]
    assert Traces(tmp_path / "again").table().num_rows == 23


def test_an_interrupted_write_leaves_nothing_that_readers_see(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(file: object, table: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(compacting, "_write", stop)
    with pytest.raises(OSError, match="disk full"):
        compact(Traces(small), tmp_path / "out", remove=True)
    assert list((tmp_path / "out").iterdir()) == []
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
