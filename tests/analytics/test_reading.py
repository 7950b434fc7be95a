"""Trace files as they come: damaged, older, newer, written by others (cases B75, B77, B79)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inorder.errors import InvalidOption
from inorder.traces.schema import NAMES
from inorder_analytics import reading
from inorder_analytics.columns import arrow_schema
from inorder_analytics.compacting import compact
from inorder_analytics.looking import Filter, Following
from inorder_analytics.pages import NotAHeader, unpacked_sizes
from inorder_analytics.plain.measuring import measure
from inorder_analytics.reading import Traces, rows, survey
from inorder_analytics.results import decode, encode

TOPICS = [
    "01",
    "1",
    "007",
    "",
    "a/b",
    "a=b",
    "%2F",
    "..",
    "\N{SNOWMAN}\N{PARTY POPPER}",
    "1e3",
    "2024-01-01",
    "null",
    " 1 ",
]


def write(path: Path, *given: dict[str, Any]) -> Path:
    """Write rows as a recorder would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{"schema_version": 1, **each} for each in given], arrow_schema()), path)
    return path


def numbers(traces: Traces) -> list[int | None]:
    return [row.number for _, table in traces.tables() for row in rows(table)]


# -- B75 ---------------------------------------------------------------------------------------------------------------


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="nowhere"):
        survey(tmp_path / "nowhere")
    with pytest.raises(InvalidOption, match="nosuch"):
        survey("nosuch://bucket/traces")


def test_an_empty_folder_has_no_rows_and_the_right_columns(tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    assert traces.table().schema == arrow_schema()
    assert traces.table().num_rows == 0
    assert traces.survey().files == []


def test_damaged_files_are_listed_and_the_good_ones_read(tmp_path: Path) -> None:
    good = write(tmp_path / "r" / "b-good.parquet", {"number": 1}, {"number": 2})
    whole = good.read_bytes()
    (tmp_path / "a-empty.parquet").touch()
    (tmp_path / "r" / "c-truncated.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "d-text.parquet").write_text("number\n1\n")
    page = bytearray(whole)
    page[4:60] = b"\xff" * 56
    (tmp_path / "e-page.parquet").write_bytes(page)
    write(tmp_path / "r" / ".open.parquet.tmp", {"number": 3})
    write(tmp_path / "r" / "_other.parquet", {"number": 4})
    write(tmp_path / ".hidden" / "f.parquet", {"number": 5})
    (tmp_path / "README.txt").write_text("no trace")
    traces = Traces(tmp_path)
    assert numbers(traces) == [1, 2]
    assert [Path(each.file).name for each in traces.damaged] == [
        "a-empty.parquet", "d-text.parquet", "e-page.parquet", "c-truncated.parquet"
    ]  # fmt: skip
    assert "zero bytes" in traces.damaged[0].reason
    assert all(each.reason for each in traces.damaged)


def test_a_survey_reads_the_footers_only(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", {"number": 1})
    write(tmp_path / "a.parquet", {"number": 1}, {"number": 2})
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    found = survey(tmp_path)
    assert [(each.file.name, each.rows, each.is_exact) for each in found.files] == [
        ("a.parquet", 2, True),
        ("b.parquet", 1, True),
    ]
    assert found.rows == 3
    assert found.bytes == sum((tmp_path / name).stat().st_size for name in ("a.parquet", "b.parquet"))
    assert [each.file for each in found.damaged] == [str(tmp_path / "c.parquet")]


@pytest.mark.parametrize(
    ("name", "column", "reason"),
    [
        ("number", pa.nulls(2_000_000, pa.int64()), "values in"),
        ("dependencies", pa.array([[0] * 2_000_000]), "values in"),
        ("topic", pa.DictionaryArray.from_arrays(pa.array([0] * 100_000), ["x" * 10_000]), "bytes of text"),
    ],
)
def test_a_small_file_that_would_fill_the_memory_is_damaged(
    tmp_path: Path, name: str, column: pa.Array, reason: str
) -> None:
    pq.write_table(pa.table({name: column}), tmp_path / "bomb.parquet", compression="zstd")
    write(tmp_path / "good.parquet", {"number": 7})
    traces = Traces(tmp_path)
    assert traces.table().column("number").to_pylist() == [7]
    assert [Path(each.file).name for each in traces.damaged] == ["bomb.parquet"]
    assert reason in traces.damaged[0].reason


def test_a_file_with_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be of any length, and need no place on the disk."""
    write(tmp_path / "good.parquet", {"number": 7})
    monkeypatch.setattr(reading, "MOST_BYTES", (tmp_path / "good.parquet").stat().st_size)
    hole = tmp_path / "hole.parquet"
    hole.touch()
    os.truncate(hole, reading.MOST_BYTES + 1)
    traces = Traces(tmp_path)
    assert numbers(traces) == [7]
    reason = f"it has {reading.MOST_BYTES + 1} bytes; {reading.MOST_BYTES} are allowed"
    assert [each.reason for each in (*traces.damaged, *traces.survey().damaged)] == [reason, reason]


def test_what_cannot_be_opened_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "gone.parquet").symlink_to(tmp_path / "nothing")
    write(tmp_path / "here.parquet", {"number": 1})
    traces = Traces(tmp_path)
    assert numbers(traces) == [1]


def test_text_that_is_not_utf8_is_damage(tmp_path: Path) -> None:
    table = pa.table({"topic": pa.array([b"\xff\xfe"], pa.binary()), "number": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    traces = Traces(tmp_path)
    assert numbers(traces) == []
    assert len(traces.damaged) == 1


def test_one_file_alone_and_urls(tmp_path: Path) -> None:
    path = write(tmp_path / "x::y z#1.parquet", {"number": 7})
    assert numbers(Traces(path)) == [7]
    assert numbers(Traces(path.parent.as_uri())) == [7]
    with fsspec.open("memory://traces-of-a-test/run/a.parquet", "wb") as file:
        file.write(path.read_bytes())
    with fsspec.open("memory://traces-of-a-test/bad.parquet", "wb") as file:
        file.write(b"PAR1PAR1")
    traces = Traces("memory://traces-of-a-test")
    assert numbers(traces) == [7]
    assert [each.file for each in traces.damaged] == ["memory:///traces-of-a-test/bad.parquet"]
    assert [each.file.file for each in traces.survey().files] == ["memory:///traces-of-a-test/run/a.parquet"]


def test_what_is_followed_shows_a_row_once_though_its_file_grows_or_is_merged(tmp_path: Path) -> None:
    every = [{"client": "c", "kind": "notified", "delivery_index": at} for at in range(1, 5)]
    write(tmp_path / "a.parquet", *every[:2])
    following = Following(Traces(tmp_path), Filter())
    assert [row["delivery_index"] for row in following.begin(1)] == [2]
    write(tmp_path / "a.parquet", *every[:3])
    assert [row["delivery_index"] for row in following.look()] == [3]
    (tmp_path / "a.parquet").unlink()
    write(tmp_path / "full.parquet", *every)
    assert [row["delivery_index"] for row in following.look()] == [4]


# -- B77 ---------------------------------------------------------------------------------------------------------------


def drifted(tmp_path: Path, **columns: pa.Array) -> Traces:
    pq.write_table(pa.table(columns), tmp_path / "drifted.parquet")
    return Traces(tmp_path)


EXACT = {
    "narrow": pa.array([1, 2], pa.int32()),
    "unsigned": pa.array([1, 2], pa.uint64()),
    "text": pa.array(["1", "2"]),
    "large text": pa.array(["1", "2"], pa.large_string()),
    "dictionary": pa.array(["1", "2"]).dictionary_encode(),
    "real": pa.array([1.0, 2.0]),
}
WRONG = {
    "too large": pa.array([1, 2**63], pa.uint64()),
    "no plain number": pa.array(["1", "007"]),
    "a word": pa.array(["1", "one"]),
    "a fraction": pa.array([1.0, 2.5]),
    "a date": pa.array([1, 2], pa.date32()),
    "a truth": pa.array([True, False]),
}


@pytest.mark.parametrize("given", EXACT.values(), ids=EXACT.keys())
def test_numbers_of_another_type_are_read_where_they_are_exact(tmp_path: Path, given: pa.Array) -> None:
    traces = drifted(tmp_path, number=given)
    assert numbers(traces) == [1, 2]
    assert traces.damaged == []
    (found,) = traces.survey().files
    assert not found.is_exact


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG.keys())
def test_numbers_that_are_not_exact_are_damage(tmp_path: Path, given: pa.Array) -> None:
    traces = drifted(tmp_path, number=given)
    assert numbers(traces) == []
    assert "number" in traces.damaged[0].reason
    assert "drifted" in traces.damaged[0].file


def test_a_topic_that_is_a_number_is_text(tmp_path: Path) -> None:
    (row,) = rows(drifted(tmp_path, topic=pa.array([42], pa.int32())).table())
    assert row.topic == "42"


def test_names_in_another_case_missing_and_unknown_columns(tmp_path: Path) -> None:
    traces = drifted(tmp_path, Number=pa.array([5], pa.int32()), lag=pa.array([9]), RUN=pa.array(["r"]))
    (row,) = rows(traces.table())
    assert (row.number, row.run) == (5, "r")
    assert {name for name in NAMES if getattr(row, name) is not None} == {"number", "run"}


def test_the_exact_name_counts_and_two_alike_are_damage(tmp_path: Path) -> None:
    assert numbers(drifted(tmp_path, Number=pa.array([5]), number=pa.array([6]))) == [6]
    traces = drifted(tmp_path, Number=pa.array([5]), NUMBER=pa.array([6]))
    assert numbers(traces) == []
    assert "Number, NUMBER" in traces.damaged[0].reason
    assert traces.survey().files == []


def test_all_versions_in_one_folder(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", {"number": 2, "schema_version": 1})
    pq.write_table(pa.table({"schema_version": [0], "number": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    new = pa.table({"schema_version": [7], "number": [3], "colour": ["red"]})
    pq.write_table(new, tmp_path / "c.parquet")
    traces = Traces(tmp_path)
    assert numbers(traces) == [1, 2, 3]
    assert traces.table().schema == arrow_schema()
    found = traces.survey()
    assert [(each.schema_version, each.is_newer) for each in found.files] == [(0, False), (1, False), (7, True)]
    assert found.notes == ["1 of 3 files have rows of a newer release; columns that are new are not read"]


def test_instants_are_the_same_whatever_zone_and_unit_they_were_written_in(tmp_path: Path) -> None:
    when = datetime(2026, 3, 29, 1, 30, 0, 123000, tzinfo=UTC)
    for at, kind in enumerate((pa.timestamp("us", "UTC"), pa.timestamp("ms", "America/New_York"), pa.timestamp("ns"))):
        given = pa.array([when]).cast(kind)
        pq.write_table(pa.table({"published_at": given}), tmp_path / f"{at}.parquet")
    traces = Traces(tmp_path)
    assert traces.table(["published_at"]).column(0).to_pylist() == [when] * 3
    assert {row.published_at for row in rows(traces.table())} == {round(when.timestamp() * 1_000_000)}
    assert traces.damaged == []


def test_what_is_below_a_microsecond_is_left_out_of_a_time(tmp_path: Path) -> None:
    """As files have it that were written elsewhere, pandas among others; nothing else of them is lost."""
    given = [1_700_000_000_123_456_789, 1_700_000_000_123_456_000, None]
    traces = drifted(tmp_path, number=pa.array([1, 2, 3]), recorded_at=pa.array(given, pa.timestamp("ns", "UTC")))
    assert [row.recorded_at for row in rows(traces.table())] == [1_700_000_000_123_456, 1_700_000_000_123_456, None]
    assert traces.damaged == []


def test_a_time_that_microseconds_do_not_reach_is_damage(tmp_path: Path) -> None:
    traces = drifted(tmp_path, recorded_at=pa.array([2**62], pa.timestamp("ms")))
    assert numbers(traces) == []
    assert "recorded_at" in traces.damaged[0].reason


def test_dependencies_are_lists_of_any_kind(tmp_path: Path) -> None:
    traces = drifted(tmp_path, dependencies=pa.array([[1, 2], None], pa.large_list(pa.int32())))
    assert [row.dependencies for row in rows(traces.table())] == [[1, 2], None]
    traces = drifted(tmp_path, dependencies=pa.array(["1,2"]))
    assert "dependencies" in traces.survey().damaged[0].reason


# -- B79 ---------------------------------------------------------------------------------------------------------------


def test_topics_come_back_exact_and_apart(tmp_path: Path) -> None:
    for at, topic in enumerate(TOPICS):
        write(tmp_path / f"topic={at}" / f"{at:02}.parquet", {"topic": topic, "run": topic, "client": topic})
    found = [(row.topic, row.run, row.client) for row in rows(Traces(tmp_path).table())]
    assert sorted(found) == sorted((topic, topic, topic) for topic in TOPICS)


# -- files that were made to harm --------------------------------------------------------------------------------------


def test_a_small_file_of_large_pages_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One long text in each column: a hundred KB that take gigabytes of whoever reads them."""
    table = pa.Table.from_pylist([{"client": "a" * 40_000_000}], arrow_schema())
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", compression_level=19, use_dictionary=False)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it was unpacked"))
    traces = Traces(tmp_path)
    assert numbers(traces) == []
    assert "1000 a byte are allowed" in traces.damaged[0].reason


def test_pages_say_what_they_become(tmp_path: Path) -> None:
    """Of both kinds of pages, with and without statistics and dictionaries; and of no file more than it has."""
    rows_of = [{"client": f"c{each % 7}", "number": each, "dependencies": [each] * 3} for each in range(5_000)]
    table = pa.Table.from_pylist(rows_of, arrow_schema())
    for version in ("1.0", "2.0"):
        for has_dictionary in (True, False):
            path = tmp_path / "a.parquet"
            pq.write_table(table, path, use_dictionary=has_dictionary, data_page_version=version, data_page_size=1_000)
            content, footer = memoryview(path.read_bytes()), pq.read_metadata(path)
            columns = [footer.row_group(0).column(at) for at in range(footer.num_columns)]
            told = sum(each.total_uncompressed_size for each in columns)
            found = list(unpacked_sizes(content, footer))
            assert len(found) > len(columns)
            assert told * 0.8 < sum(found) <= told, "its headers count in what the footer tells"
            for cut in (content[:10], content[: len(content) // 2]):
                with pytest.raises(NotAHeader):
                    list(unpacked_sizes(cut, footer))


@pytest.mark.parametrize(
    "header",
    [b"\x15", b"\x15\x00\x00", b"\xff" * 40, b"\x1c" * 40, b"\x19\xf3" + b"\xff" * 9 + b"\x01" + b"\0" * 9,
     b"\x19\x9c" + b"\x19\x9c" * 20, b"\x18\xff\xff\xff\xff\x0f", b"\x15\x01\x15\x01\x15\x01\x00"],
)  # fmt: skip
def test_what_is_no_header_of_a_page_ends_at_once(header: bytes) -> None:
    class Column:
        data_page_offset, has_dictionary_page = 0, False
        total_compressed_size = len(header)

    class Footer:
        num_row_groups = num_columns = 1

        def row_group(self, at: int) -> Any:
            return self

        def column(self, at: int) -> Any:
            return Column

    with pytest.raises(NotAHeader):
        list(unpacked_sizes(memoryview(header), Footer()))


@pytest.mark.parametrize(
    ("name", "value"),
    [("stage", 2**62), ("stage", -1), ("top_stage", -(2**62)), ("recorded_at", 2**62), ("published_at", -(2**54)),
     ("payload_size", 2**62), ("count", 2**62), ("offset_us", -(2**62))],
)  # fmt: skip
def test_a_file_with_a_value_that_no_client_records_is_damaged(tmp_path: Path, name: str, value: int) -> None:
    """Else one row would end every audit, or fill the memory of whoever lists all stages up to its own."""
    table = pa.Table.from_pylist([{"client": "c", "number": 1}], arrow_schema())
    at = table.column_names.index(name)
    column = pa.array([value], pa.int64()).cast(table.schema.field(name).type)
    pq.write_table(table.set_column(at, table.schema.field(name), column), tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", {"number": 2, name: 0})
    traces = Traces(tmp_path)
    assert numbers(traces) == [2]
    assert f"column {name!r} has the value {value}" in traces.damaged[0].reason


def test_a_file_whose_name_is_no_text_ends_nothing(tmp_path: Path) -> None:
    """No manifest, and no result, could name it: one such file kept every later compaction from its end."""
    whole = write(tmp_path / "traces" / "a.parquet", {"number": 1})
    os.link(whole, os.fsencode(whole.parent) + b"/\xff.parquet")
    traces = Traces(whole.parent)
    assert numbers(traces) == [1]
    assert [Path(each.file).name for each in traces.damaged] == ["\\udcff.parquet"]
    assert compact(Traces(whole.parent), tmp_path / "full").rows == 1
    assert decode(encode(measure(Traces(whole.parent)))).files.read == 1
