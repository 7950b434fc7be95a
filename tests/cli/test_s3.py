"""Traces in a store of S3's protocol, from the recording to each command that reads or writes them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.cli.conftest import Cli
from tests.client.helpers import PATIENCE, Site, new_site, published, take_events, times, until
from tests.s3 import SECRET, S3Server
from tests.traces.helpers import Row, recording

from inorder import Traces
from inorder_analytics import reading

QUIET = {"report_interval": 0.0}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket of this test's own."""
    name = "".join(each if each.isalnum() else "-" for each in tmp_path.name.lower())
    server.make_bucket(name)
    server.reach(monkeypatch)
    return f"s3://{name}"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with new_site(tmp_path) as made:
        yield made


def names(url: str) -> list[str]:
    """Return the objects below a URL, by name."""
    files, root = fsspec.core.url_to_fs(url)
    files.invalidate_cache()
    return [each.removeprefix(f"{root}/") for each in files.find(root)] if files.exists(root) else []


def rows_at(url: str) -> list[Row]:
    """Return all rows below a URL."""
    found: list[Row] = reading.Traces(url).table().to_pylist()
    return found


async def record(site: Site, url: str, run: str = "r") -> None:
    """Two subscribers and a publisher record sixty events; however slow the store is, all is there at the end."""
    traces = Traces(url, run=run, close_timeout=60.0)
    async with recording(site, "one", traces) as one, recording(site, "two", traces) as two:
        for each in (one, two):
            await each.subscribe("a", "b")
        async with recording(site, "pub", traces) as pub:
            for topic in "ab":
                await published(pub, topic, 30)
            for each in (one, two):
                await take_events(each, 60)


async def test_recorded_and_read(site: Site, bucket: str, tmp_path: Path, cli: Cli) -> None:
    """Each object is whole under its own name: no other was ever there, and none is left of the look at the start."""
    url = f"{bucket}/traces"
    await record(site, url, run="night/1 %2F é")
    assert len(names(url)) == 3
    assert all(each.startswith("night%2F1%20%252F%20%C3%A9/") for each in names(url))
    assert {row["run"] for row in rows_at(url)} == {"night/1 %2F é"}

    shown = cli("traces", "audit", url, "--json")
    assert (shown.code, shown.json["ok"], shown.json["events"], shown.json["notifications"]) == (0, True, 60, 120)
    assert len(rows_at(url)) == shown.json["rows"]
    assert cli("traces", "stats", url, "--json").json["rows"] == shown.json["rows"]
    lines = cli(
        "traces", "show", url, "--client", "one", "--topic", "memory:a", "--number", 7, "--json"
    ).out.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [7]
    assert f"{bucket}/".removeprefix("s3://") not in cli("traces", "tail", url).err

    report = tmp_path / "report.html"
    assert cli("report", url, "--out", report).code == 0
    assert report.stat().st_size > 1000


async def test_compacted(site: Site, bucket: str, cli: Cli) -> None:
    """Between stores either way; sources that are to be removed go only from the store that they are in."""
    url, full = f"{bucket}/traces", f"{bucket}/full"
    await record(site, url)
    rows = len(rows_at(url))
    shown = cli("traces", "compact", url, "--out", full, "--remove")
    assert shown.code == 0, shown
    assert len(rows_at(full)) == rows
    assert len(names(url)) == 3, "the last file of each client, which may grow"
    audited = cli("traces", "audit", full, "--json").json
    assert (audited["ok"], audited["files"]["read"], audited["events"]) == (True, 1, 60)


@pytest.mark.long
async def test_analysed_with_spark(site: Site, bucket: str, tmp_path: Path) -> None:
    """Spark itself never opens s3://: files are read as everywhere else, so it needs no library of Hadoop's."""
    await record(site, f"{bucket}/traces")
    # in a process of its own: the Python tasks of a session that runs already know nothing of this store
    command = [sys.executable, "-m", "inorder", "analyze", f"{bucket}/traces", "--out", str(tmp_path / "out"), "--json"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["events"], shown["subscribers"], shown["tno_violations_delivered"]) == (60, 2, 0)


def test_generated(bucket: str, cli: Cli) -> None:
    assert cli("traces", "generate", f"{bucket}/made", "--events", 300).code == 0
    audited = cli("traces", "audit", f"{bucket}/made", "--json")
    assert (audited.code, audited.json["events"]) == (0, 300)


# -- stores that are not there -----------------------------------------------------------------------------------------


def test_no_such_bucket(bucket: str, cli: Cli, tmp_path: Path) -> None:
    """To read from, to record into, to compact into."""
    gone = "s3://no-such-bucket/traces"
    cli("traces", "audit", gone).assert_refused(2, gone, "a file or folder that exists")
    cli("traces", "generate", gone, "--events", 300).assert_refused(2, gone, "bucket does not exist")
    made = tmp_path / "made"
    assert cli("traces", "generate", made, "--events", 300).code == 0
    shown = cli("traces", "compact", made, "--out", gone, "--remove")
    assert shown.code == 1, shown
    assert "no-such-bucket" in shown.err
    assert "this is a bug" not in shown.err
    assert len(list(made.rglob("*.parquet"))) > 0, "nothing is removed"


@pytest.mark.parametrize("command", [("traces", "audit"), ("traces", "stats"), ("analyze",), ("report",)])
def test_a_store_that_does_not_answer(
    bucket: str, cli: Cli, unused_port: int, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """It is said which, and no secret is."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused_port}")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    shown = cli(*command, f"{bucket}/traces")
    shown.assert_refused(2, f"{bucket}/traces", "a place that can be read", f"127.0.0.1:{unused_port}")
    assert SECRET not in shown.err


async def test_a_client_is_told_at_once(site: Site, bucket: str, unused_port: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused_port}")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    client = recording(site, "one", f"{bucket}/traces")
    with pytest.raises(Exception, match="a place that can be written; this one cannot: Could not connect"):
        await client.__aenter__()


def test_without_its_library(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    cli("traces", "audit", "s3://bucket/traces").assert_refused(2, "s3://bucket/traces", "nstall s3fs")


# -- stores that go away while a client records ------------------------------------------------------------------------


async def test_a_store_that_goes_away(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cli: Cli
) -> None:
    """Publishing goes on as if nothing was; what does not fit is dropped and counted, and the count is recorded when
    the store is back. What had been written is not written again."""
    caplog.set_level(logging.INFO)
    with S3Server() as server:
        server.make_bucket("bucket")
        server.reach(monkeypatch)
        url = "s3://bucket/traces"
        traces = Traces(url, flush_interval=0.05, max_buffered_rows=1000, close_timeout=PATIENCE)
        async with recording(site, "pub", traces, times=times(**QUIET)) as pub:
            await published(pub, "a", 50)
            await asyncio.to_thread(wait_for_rows, url, 51)  # and the opening
            server.kill()
            await published(pub, "a", 3000, first=50)
            assert pub.stats().connected
            await until(lambda: "event=traces_not_written" in caplog.text, "the word of it")
            await asyncio.to_thread(server.start)
            server.make_bucket("bucket")
        rows = rows_at(url)
        audited = cli("traces", "audit", url, "--json").json
    kept = sorted(row["counter"] for row in rows if row["kind"] == "published")
    dropped = sum(row["count"] for row in rows if row["kind"] == "dropped")
    assert dropped > 0
    assert len(kept) + dropped == 3000
    assert len(set(kept)) == len(kept)
    assert kept[0] == 51, "what waited longest is there"
    assert [each for each in caplog.text.split() if each.startswith("event=traces")] == [
        "event=traces_not_written", "event=traces_written_again",
    ]  # fmt: skip
    assert SECRET not in caplog.text
    assert (audited["violations"], audited["dropped_rows"]) == ([], dropped)


def wait_for_rows(url: str, count: int) -> None:
    while not names(url) or len(rows_at(url)) < count:
        pass


async def test_a_store_that_hangs_does_not_hold_up_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers nothing, and closing the client ends all the same; what is lost is said."""
    with S3Server() as server:
        server.make_bucket("bucket")
        server.reach(monkeypatch)
        async with recording(site, "pub", Traces("s3://bucket/traces", close_timeout=0.2), times=times(**QUIET)) as pub:
            os.kill(server.pid, signal.SIGSTOP)
            await published(pub, "a", 50)
        server.kill()
        assert "event=traces_lost" in caplog.text
