"""Files of traces: whole or not there, bounded in rows and memory, and nothing lost without a word (B75)."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from tests.client.helpers import PATIENCE, until
from tests.traces.helpers import Row, files_in, part, rows_in

from inorder import Traces
from inorder.errors import InvalidOption, MissingExtra
from inorder.traces.arrow import TABLE
from inorder.traces.making import PART_ROWS, File
from inorder.traces.recorder import Recorder
from inorder.traces.row_buffers import NOTHING
from inorder.traces.schema import NAMES

TOPIC = ("space", "topic", 7)
INCARNATION = -(2**63)


class Clock:
    """An event loop's clock and the time of day, which stand still unless they are moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.epoch_ns = 1_700_000_000_000_000_000

    def time(self) -> float:
        return self.now

    def wall_ns(self) -> int:
        return self.epoch_ns + round((self.now - 100.0) * 1e9)


def recorder(traces: Traces, client_id: str = "client", clock: Clock | None = None) -> Recorder:
    """Return a recorder that is open."""
    clock = clock or Clock()
    made = Recorder(traces, client_id, clock.time, clock.wall_ns)
    made.prepare(INCARNATION)
    made.opened(INCARNATION, 5, "strict")
    return made


def notified(to: Recorder, number: int) -> None:
    """Record one notification, by its number."""
    to.notified(TOPIC, "in_order", 0, (number, number, 0, 0, 3), [7, number - 1], 99.5)


def numbers(rows: list[Row]) -> list[int]:
    """Return the numbers of notifications."""
    return sorted(row["number"] for row in rows if row["kind"] == "notified")


async def test_a_file_has_all_columns_in_their_types(tmp_path: Path) -> None:
    """Also those that no row has anything in: explicit schema, so that all files can be read alike (B77)."""
    made = recorder(Traces(tmp_path))
    await made.close(PATIENCE)
    (file,) = files_in(tmp_path)
    schema = pq.read_schema(file)
    assert tuple(schema.names) == NAMES
    for field in TABLE:
        expected = "string" if str(field.type).startswith("dictionary") else str(field.type).replace("item", "element")
        assert str(schema.field(field.name).type) == expected, field.name


async def test_times_and_numbers_are_exact(tmp_path: Path) -> None:
    """Microseconds of the event loop's clock on the time of day; numbers up to the highest that there may be."""
    most = 2**63 - 1
    made = recorder(Traces(tmp_path))
    made.notified(TOPIC, "late", 0, (most, most, most, most, most), [most, most], 99.999999)
    made.published(TOPIC, "abandoned", "total", (most, most, 0, 0, 0, 0, 0), [], (98.0, 98.5, 99.25, 100.0))
    await made.close(PATIENCE)
    rows = rows_in(tmp_path)
    (seen,) = (row for row in rows if row["kind"] == "notified")
    assert part(seen, "number", "arrival_index", "waited_topic_id", "waited_number", "payload_size") == (most,) * 5
    assert seen["dependencies"] == [most, most]
    assert seen["incarnation"] == INCARNATION
    assert [seen[name].isoformat() for name in ("arrived_at", "delivered_at")] == [
        "2023-11-14T22:13:19.999999+00:00", "2023-11-14T22:13:20+00:00",
    ]  # fmt: skip
    assert seen["waited_us"] == 1
    (sent,) = (row for row in rows if row["kind"] == "published")
    assert [sent[name].timestamp() for name in ("published_at", "stamped_at", "accepted_at", "recorded_at")] == [
        1_699_999_998.0, 1_699_999_998.5, 1_699_999_999.25, 1_700_000_000.0,
    ]  # fmt: skip
    assert part(sent, "outcome", "counter", "entries", "stamp_bytes") == ("abandoned", most, 1, 0)


async def test_a_dropped_arrival_is_no_notification(tmp_path: Path) -> None:
    made = recorder(Traces(tmp_path))
    notified(made, 1)
    made.notified(TOPIC, "duplicate", 0, (1, 2, 0, 0, 3), [7, 0], 99.5)
    made.gap(TOPIC, 2, 4, "lost")
    notified(made, 5)
    await made.close(PATIENCE)
    rows = [row for row in rows_in(tmp_path) if row["kind"] in ("notified", "gap")]
    rows.sort(key=lambda row: (row["delivery_index"] or 99, row["number"]))
    assert [part(row, "kind", "number", "last_number", "delivery_index", "verdict", "detail") for row in rows] == [
        ("notified", 1, None, 1, "in_order", None),
        ("gap", 2, 4, 2, None, "lost"),
        ("notified", 5, None, 3, "in_order", None),
        ("notified", 1, None, None, "duplicate", None),
    ]
    assert rows[-1]["delivered_at"] is rows[-1]["waited_us"] is None


async def test_files_have_as_many_rows_as_they_may(tmp_path: Path) -> None:
    made = recorder(Traces(tmp_path, rows_per_file=100))
    for number in range(1, 250):
        notified(made, number)
    await made.close(PATIENCE)
    assert [pq.read_metadata(file).num_rows for file in files_in(tmp_path)] == [100, 100, 50]
    assert numbers(rows_in(tmp_path)) == list(range(1, 250))


async def test_lanes_are_used_again(tmp_path: Path) -> None:
    """Many more rows than a buffer holds, with flushes in between: each once, with its own dependencies."""
    made = recorder(Traces(tmp_path, max_buffered_rows=100_000))
    for number in range(1, 60_001):
        notified(made, number)
        if number % 7_000 == 0:
            made.flush()
            await asyncio.sleep(0.05)
    await made.close(PATIENCE)
    rows = [row for row in rows_in(tmp_path) if row["kind"] != "opened"]
    assert {row["kind"] for row in rows} == {"notified"}
    assert numbers(rows) == list(range(1, 60_001))
    assert all(row["dependencies"] == [7, row["number"] - 1] for row in rows)


ODD = ["..", ".", "a/b", "_x", "é", "", "%2F", "x" * 128, "\U0001f600" * 128, "con\\aux:*?"]


@pytest.mark.parametrize("name", ODD)
async def test_odd_names_are_files_that_readers_see(tmp_path: Path, name: str) -> None:
    """Runs and clients may be called anything; the names in the rows are exact, those of files are safe (B79)."""
    made = recorder(Traces(tmp_path, run=name), client_id=name)
    await made.close(PATIENCE)
    (file,) = files_in(tmp_path)
    assert file.parent.parent == tmp_path
    assert not file.parent.name.startswith((".", "_"))
    assert [part(row, "run", "client") for row in rows_in(tmp_path)] == [(name, name)]


def test_odd_names_are_told_apart() -> None:
    from inorder.traces.options import safe_name

    assert len({safe_name(name) for name in ODD}) == len(ODD)
    assert safe_name("plant-7_a.b~c") == "plant-7_a.b~c"


async def test_a_file_system_of_fsspec(tmp_path: Path) -> None:
    """Here the one in memory; what is not whole yet has a name that readers pass over, and none is left."""
    made = recorder(Traces(f"memory://{tmp_path.name}", run="r"))
    notified(made, 1)
    await made.close(PATIENCE)
    files = fsspec.filesystem("memory")
    (found,) = files.find(f"/{tmp_path.name}")
    assert found.startswith(f"/{tmp_path.name}/r/client-")
    with files.open(found) as file:
        assert pq.read_table(file).column("kind").to_pylist() == ["notified", "opened"]


async def test_a_url_of_files_is_a_folder(tmp_path: Path) -> None:
    made = recorder(Traces(f"file://{tmp_path}/deep/er"))
    await made.close(PATIENCE)
    assert len(files_in(tmp_path / "deep" / "er" / "default")) == 1


async def test_rows_become_a_part_of_the_file_long_before_it_is_due(tmp_path: Path) -> None:
    """So that what waits takes little memory; each part has rows of one kind, or few of several."""
    made = recorder(Traces(tmp_path, flush_interval=3600))
    count = 2 * PART_ROWS + 5
    for number in range(1, count + 1):
        notified(made, number)
    made.flush(close_file=False)
    writer = made._writer
    assert writer is not None
    await until(lambda: writer._open is not None and writer._open.rows == count + 1, "all rows in the open file")
    assert writer._open is not None
    assert sum(len(each) for batches in writer._open._loose.values() for each in batches) < 10
    assert files_in(tmp_path) == []
    await made.close(PATIENCE)
    (file,) = files_in(tmp_path)
    found = pq.read_metadata(file)
    assert [found.row_group(at).num_rows for at in range(found.num_row_groups)] == [PART_ROWS, PART_ROWS, 6]
    assert numbers(rows_in(tmp_path)) == list(range(1, count + 1))


async def test_what_arrow_fails_at_is_counted_as_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A file that cannot be made takes its rows with it, and the next one says how many."""
    made = recorder(Traces(tmp_path))
    finish = File.finish

    def fail(file: File) -> None:
        monkeypatch.setattr(File, "finish", finish)
        raise MemoryError("no memory")

    monkeypatch.setattr(File, "finish", fail)
    for number in range(1, 101):
        notified(made, number)
    made.flush()
    writer = made._writer
    assert writer is not None
    await until(lambda: made._handed == writer.done, "an end of these rows")
    notified(made, 101)
    await made.close(PATIENCE)
    rows = rows_in(tmp_path)
    assert numbers(rows) == [101]
    assert [(row["incarnation"], row["count"]) for row in rows if row["kind"] == "dropped"] == [(INCARNATION, 101)]
    assert "event=traces_not_made rows=101" in caplog.text


async def test_a_file_that_is_small_grows(tmp_path: Path) -> None:
    """A client that records a little, for long, makes few files: each flush has what is there on the disk, in the file
    that was there before. It grows up to a bound, and a new one begins where it is gone (it was merged, or removed)."""
    made = recorder(Traces(tmp_path, rows_per_file=40))
    writer = made._writer
    assert writer is not None

    async def flushed(*numbers: int) -> None:
        for number in numbers:
            notified(made, number)
        made.flush()
        await until(lambda: made._handed == writer.done, "these rows on the disk")

    for number in range(1, 31):
        await flushed(number)
        assert numbers(rows_in(tmp_path)) == list(range(1, number + 1))
    assert len(files_in(tmp_path)) == 1
    await flushed(*range(31, 51))
    assert [pq.read_metadata(each).num_rows for each in files_in(tmp_path)] == [31, 20]
    files_in(tmp_path)[-1].unlink()
    await flushed(51)
    await flushed(52)
    await made.close(PATIENCE)
    assert [each.name[-11:-8] for each in files_in(tmp_path)] == ["001", "003"]
    assert numbers(rows_in(tmp_path)) == [*range(1, 31), 51, 52]


# -- a disk that fails -------------------------------------------------------------------------------------------------


class Disk:
    """Lets writing fail, as a full disk does, until it is told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from inorder.traces.folder import LocalFolder

        self.is_full = False
        self.tries = 0
        write = LocalFolder.write

        def fail(folder: LocalFolder, name: str, fill: Any) -> None:
            self.tries += 1
            if self.is_full:
                raise OSError(28, "No space left on device")
            write(folder, name, fill)

        monkeypatch.setattr(LocalFolder, "write", fail)
        monkeypatch.setattr("inorder.traces.writer.RETRY_SECONDS", 0.01)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_a_full_disk_costs_only_what_does_not_fit(tmp_path: Path, disk: Disk, caplog: Any) -> None:
    """Rows wait up to the bound; what is more is dropped, counted, and the count recorded. It is said once."""
    caplog.set_level(logging.INFO)
    made = recorder(Traces(tmp_path, max_buffered_rows=1000))
    disk.is_full = True
    for number in range(1, 10_001):
        notified(made, number)
    made.flush()
    tried = disk.tries
    await until(lambda: disk.tries > tried + 2, "further tries")
    writer = made._writer
    assert writer is not None
    assert made._handed - writer.done <= 1000
    disk.is_full = False
    await until(lambda: made._handed == writer.done, "the disk's return")
    notified(made, 10_001)
    await made.close(PATIENCE)
    rows = rows_in(tmp_path)
    kept = numbers(rows)
    lost = [row["count"] for row in rows if row["kind"] == "dropped"]
    assert kept[0] == 1
    assert kept[-1] == 10_001
    assert 500 <= len(kept) <= 1001
    assert sum(lost) + len(kept) == 10_001
    said = [each.getMessage().partition(" folder=")[0] for each in caplog.records if each.name == "inorder.traces"]
    assert said == ["event=traces_not_written", "event=traces_written_again"]


async def test_rows_that_are_dropped_are_counted_for_the_life_that_they_are_of(tmp_path: Path, disk: Disk) -> None:
    """Else an audit would hold it against a later life that rows of it are missing."""
    made = recorder(Traces(tmp_path, max_buffered_rows=1000))
    disk.is_full = True
    made.flush()
    await until(lambda: disk.tries > 0, "the first try")
    for number in range(1, 901):
        notified(made, number)
    made.opened(7, 6, "strict")
    for number in range(1, 2001):
        notified(made, number)
        made.subscribed(TOPIC, number)
    made.flush()
    disk.is_full = False
    await made.close(PATIENCE)
    rows = rows_in(tmp_path)
    for incarnation, count in ((INCARNATION, 901), (7, 4001)):
        its = [row for row in rows if row["incarnation"] == incarnation]
        dropped = sum(row["count"] for row in its if row["kind"] == "dropped")
        assert dropped + sum(row["kind"] != "dropped" for row in its) == count
        assert (dropped > 0) == (incarnation == 7)


async def test_a_disk_that_stays_full_does_not_hold_up_the_end_for_ever(
    tmp_path: Path, disk: Disk, caplog: Any
) -> None:
    """What could not be written is said, with its number."""
    made = recorder(Traces(tmp_path, close_timeout=0.2))
    disk.is_full = True
    for number in range(1, 101):
        notified(made, number)
    await made.close(0.0)
    await until(lambda: "rows=101" in caplog.text, "the last word")  # and the row of the opening
    assert files_in(tmp_path) == []


async def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    made = recorder(Traces(folder))
    (folder / "default").rmdir()
    folder.rmdir()
    notified(made, 1)
    await made.close(PATIENCE)
    assert numbers(rows_in(folder)) == [1]


async def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidOption, match="a place that can be written"):
        recorder(Traces(tmp_path / "file"))
    with pytest.raises(InvalidOption, match="a place that can be written"):
        recorder(Traces("nosuch://somewhere"))


# -- a process that dies (B75) -----------------------------------------------------------------------------------------

DYING = """
import asyncio, sys
from inorder import Traces
from inorder.traces.recorder import Recorder

async def main():
    loop = asyncio.get_running_loop()
    made = Recorder(Traces(sys.argv[1], rows_per_file=1000), "dying", loop.time)
    made.prepare(1)
    made.opened(1, 5, "strict")
    number = 0
    while True:
        for _ in range(500):
            number += 1
            made.notified(("s", "t", 7), "in_order", 0, (number, number, 0, 0, 3), [7, number], loop.time())
        made.flush()
        await asyncio.sleep(0.001)

asyncio.run(main())
"""


def test_a_process_that_is_killed_leaves_whole_files_only(tmp_path: Path) -> None:
    """Whoever reads meanwhile, or afterwards, finds no file that is not whole."""
    with subprocess.Popen([sys.executable, "-c", DYING, str(tmp_path)]) as process:
        deadline = time.monotonic() + PATIENCE
        while len(files_in(tmp_path)) < 20:
            assert time.monotonic() < deadline
            assert process.poll() is None
            for file in files_in(tmp_path)[-2:]:
                assert pq.read_metadata(file).num_rows > 0
        process.send_signal(signal.SIGKILL)
        process.wait()
    seen = numbers(rows_in(tmp_path))
    assert seen == list(range(1, len(seen) + 1))


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("url", ""), ("url", 7), ("run", "x" * 129), ("run", 3), ("rows_per_file", 0), ("rows_per_file", True),
        ("flush_interval", 0), ("flush_interval", float("nan")), ("max_buffered_rows", 999), ("close_timeout", -1),
    ],
)  # fmt: skip
def test_options_that_are_not_allowed(option: str, value: Any) -> None:
    with pytest.raises(InvalidOption):
        Traces(**{"url": "traces", option: value})


def test_the_run_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INORDER_RUN", raising=False)
    assert Traces("traces").run_id == "default"
    monkeypatch.setenv("INORDER_RUN", "nightly")
    assert Traces("traces").run_id == "nightly"
    assert Traces("traces", run="mine").run_id == "mine"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder.traces.options.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"inorder\[traces\]"):
        Traces("traces")


def test_a_client_that_records_nothing_loads_nothing_for_it() -> None:
    script = (
        "import asyncio, sys, inorder\n"
        "async def main():\n"
        "    async with inorder.Client('memory://m', workers=()) as client:\n"
        "        await client.publish('a', b'', order='none')\n"
        "asyncio.run(main())\n"
        "print(sorted({'pyarrow', 'fsspec', 'numpy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (shown.stdout, shown.stderr) == ("[]\n", "")


def test_nothing_stands_for_null() -> None:
    assert NOTHING < 0, "all numbers of traces are from 0 on"
