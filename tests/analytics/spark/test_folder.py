"""The folder of an analysis: new, damaged, drifted and vanished files, and what is computed again."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.analytics.spark import scenarios
from tests.analytics.traces import write

from inorder.errors import InvalidOption, UsageError
from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces
from inorder_analytics.results import Result, to_plain
from inorder_analytics.spark.job import Job, run
from inorder_analytics.spark.store import Busy, Store
from inorder_analytics.spark.tables import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE: dict[str, Any] = {"max_pairs": 2, "seed": 5}


def test_the_folder_grows_with_the_traces_and_equals_a_full_computation(spark: SparkSession, tmp_path: Path) -> None:
    """B75, B77: what is damaged is listed and left out, what drifted is read as ever."""
    traces, out = tmp_path / "traces", tmp_path / "out"
    for seed in (21, 22):
        write(traces / f"run {seed}", scenarios.randomly(seed).rows, per_file=40)
    write(traces / "copies", scenarios.randomly(22).rows, per_file=1000)  # the same run once more
    (traces / "zero.parquet").touch()
    whole = (traces / "run 21" / "000000.parquet").read_bytes()
    (traces / "short.parquet").write_bytes(whole[: len(whole) // 2])
    (traces / ".open.parquet.tmp").write_bytes(whole[:100])
    job = Job(str(traces), str(out), **SAMPLE)

    first = _analysed(spark, job)
    assert [Path(each.file).name for each in first.files.damaged] == ["short.parquet", "zero.parquet"]
    before = _manifest(out)
    assert before["facts"] == {"random 21": 1, "random 22": 1}

    # A file of an old run, a new run by an older and by a stranger writer, and one damaged behind a whole footer.
    late = scenarios.randomly(23).rows
    write(traces / "new", [{**row, "run": "random 21"} for row in late], per_file=1000)
    _drifted(write(traces / "drift", scenarios.randomly(24).rows, per_file=60))
    page = bytearray(whole)
    page[4 : len(page) // 3] = bytes(len(page) // 3 - 4)
    (traces / "page.parquet").write_bytes(page)
    second = _analysed(spark, job)
    assert [Path(each.file).name for each in second.files.damaged] == ["page.parquet", "short.parquet", "zero.parquet"]
    after = _manifest(out)
    assert after["facts"] == {"random 21": 2, "random 22": 1, "random 24": 2}
    assert before["sources"].items() <= after["sources"].items()  # what was read is not read again

    # Two files were joined to one (new name, same rows), and a run is gone.
    for file in (*(traces / "run 22").iterdir(), *(traces / "copies").iterdir()):
        file.unlink()
    joined = sorted((traces / "run 21").iterdir())[:2]
    pq.write_table(pa.concat_tables([pq.read_table(file) for file in joined]), traces / "joined.parquet")
    for file in joined:
        file.unlink()
    third = _analysed(spark, job)
    assert _manifest(out)["facts"] == {"random 21": 3, "random 24": 2}
    assert _same(run(Job(str(traces), str(tmp_path / "full"), **SAMPLE), session=spark)) == _same(third)

    # Nothing is new: nothing is computed, one run can be asked for, and only what counts lies in the folder.
    again = run(Job(str(traces), str(out), run="random 24", **SAMPLE), session=spark)
    assert [each.run for each in again.by_run] == ["random 24"]
    assert again.events == next(each.events for each in third.by_run if each.run == "random 24")
    assert _manifest(out)["facts"] == {"random 21": 3, "random 24": 2}
    assert {each.name for each in (out / "facts").iterdir()} == {"g000002", "g000003"}
    assert {each.name for each in (out / "rows").iterdir()} == set(_manifest(out)["parts"])
    with pytest.raises(UsageError, match=r"no row is of the run 'x'; runs are: 'random 21', 'random 24'$"):
        run(Job(str(traces), str(out), run="x", **SAMPLE), session=spark)
    with pytest.raises(UsageError, match=r"has an analysis of .*; name another folder, or say --full$"):
        run(Job(str(tmp_path / "traces" / "new"), str(out), **SAMPLE), session=spark)


def test_nothing_gives_an_empty_result_with_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    result = run(Job(str(tmp_path / "traces"), str(tmp_path / "out")), session=spark)
    expected = measure(Traces(tmp_path / "traces"))
    assert _same(result) == _same(expected)
    for name, columns in SCHEMAS.items():
        assert pq.read_schema(tmp_path / "out" / "results" / f"{name}.parquet").names == list(columns)


@pytest.mark.parametrize("out", ["traces", "traces/out", "."])
def test_a_folder_of_traces_cannot_be_the_folder_of_the_analysis(tmp_path: Path, out: str) -> None:
    (tmp_path / "traces").mkdir()
    with pytest.raises(InvalidOption, match="a folder apart from the traces"):
        run(Job(str(tmp_path / "traces"), str(tmp_path / out)))


def test_what_cannot_be_analysed_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="a file or folder that exists"):
        run(Job(str(tmp_path / "nowhere"), str(tmp_path / "out")))
    with pytest.raises(InvalidOption, match="each executor"):
        run(Job(str(tmp_path), "s3://bucket/out"))
    with pytest.raises(InvalidOption, match="--window"):
        Job(str(tmp_path), window_s=0)
    with pytest.raises(InvalidOption, match="--max-pairs"):
        Job(str(tmp_path), max_pairs=-1)
    assert list(tmp_path.iterdir()) == []


def test_two_analyses_do_not_share_a_folder(tmp_path: Path) -> None:
    with Store(tmp_path / "out", "/traces"), pytest.raises(Busy), Store(tmp_path / "out", "/traces"):
        pass
    with Store(tmp_path / "out", "/traces"):
        pass  # free again


def _analysed(spark: SparkSession, job: Job) -> Result:
    """Analyse, and hold the result against plain Python over the same files."""
    result = run(job, session=spark)
    assert _same(result) == _same(measure(Traces(job.path), **SAMPLE))
    return result


def _drifted(folder: Path) -> None:
    """The first file lacks columns, the second is of a stranger, the third has a column that nobody knows."""
    first, second, third = sorted(folder.iterdir())[:3]
    pq.write_table(pq.read_table(first).drop_columns(["repaired", "count"]), first)
    table = pq.read_table(second)
    types = {"number": pa.int32(), "topic_id": pa.uint64(), "incarnation": pa.string(), "client": pa.large_string()}
    schema = pa.schema([pa.field(field.name.upper(), types.get(field.name, field.type)) for field in table.schema])
    lower = pa.schema([pa.field(field.name, types.get(field.name, field.type)) for field in table.schema])
    pq.write_table(table.cast(lower).rename_columns(schema.names), second)
    table = pq.read_table(third)
    pq.write_table(table.append_column("lag", pa.array(["?"] * table.num_rows)), third)


def _manifest(out: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    return manifest


def _same(result: Result) -> dict[str, Any]:
    """What two results of the same files have in common; numbers as far as rounding leaves them."""
    plain = to_plain(result)
    del plain["made_at"]
    rounded: dict[str, Any] = _rounded(plain)
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    with contextlib.suppress(TypeError):
        return float(f"{value:.9g}") if not isinstance(value, str | bool) else value
    return value
