"""The demo: its counting by hand and by brute force, and its runs on real brokers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from inorder.testing.services import wait_until
from inorder_cli.demo.brokers import Layout
from inorder_cli.demo.measure import compare, count_inversions, missing, percentile, repeated
from inorder_cli.demo.outcome import Outcome, half
from inorder_cli.demo.plan import BrokerKind, Channel, Pace, SiteJob, SiteResult


def brute(first: list[int], second: list[int]) -> tuple[int, int]:
    """Count as the definition says, in O(n^2)."""
    common = [event for event in dict.fromkeys(first) if event in second]
    adjacent = sum(second.index(a) > second.index(b) for a, b in pairwise(common))
    return adjacent, sum(second.index(a) > second.index(b) for a, b in combinations(common, 2))


@pytest.mark.parametrize(
    ("first", "second", "adjacent", "pairs"),
    [
        ("", "", 0, 0),
        ("a", "a", 0, 0),
        ("abcd", "abcd", 0, 0),
        ("abcd", "bacd", 1, 1),
        ("abcd", "dcba", 3, 6),
        ("abcd", "cdab", 1, 4),  # one block overtook another: adjacent pairs understate it
        ("abxcd", "abcdy", 0, 0),  # an event that only one saw is no disagreement
        ("abab", "ba", 1, 1),  # of a repeated event the first sight counts
    ],
)
def test_disagreement_of_hand_made_sequences(first: str, second: str, adjacent: int, pairs: int) -> None:
    found = compare(first, second)
    assert (found.adjacent, found.pairs) == (adjacent, pairs)


def test_disagreement_equals_brute_force() -> None:
    chance = random.Random(7)
    for _ in range(300):
        first = chance.sample(range(40), chance.randrange(30))
        second = chance.sample(range(40), chance.randrange(30))
        if chance.random() < 0.5:
            second = sorted(first, key=lambda event: first.index(event) + chance.randrange(6))
        found = compare(first, second)
        assert (found.adjacent, found.pairs) == brute(first, second), (first, second)


def test_pairs_are_symmetric_and_large_input_is_fast() -> None:
    chance = random.Random(1)
    first, second = list(range(100_000)), list(range(100_000))
    chance.shuffle(second)
    assert compare(first, second).pairs == compare(second, first).pairs
    assert count_inversions(range(100_000, 0, -1)) == 100_000 * 99_999 // 2


def test_share_missing_repeated_percentile() -> None:
    assert compare("abcd", "bacd").adjacent_share == pytest.approx(1 / 3)
    assert compare("a", "a").adjacent_share == 0.0
    assert missing("abba", "abc") == 1
    assert repeated("abba") == 2
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


# -- figures of made-up results ---------------------------------------------------------------------------------------


def made_up(first: SiteResult, second: SiteResult) -> Outcome:
    layout = Layout(
        BrokerKind.MEMORY,
        (Channel("a", None, "memory://x"), Channel("b", None, "memory://x")),
        ((Channel("a", None, "memory://x"), Channel("b", None, "memory://x")),) * 2,
    )
    jobs = layout.jobs(2, 10.0)
    without = half(jobs, [SiteResult(sequence=[0, 1, 2, 3]), SiteResult(sequence=[2, 0, 1, 3])])
    return Outcome(BrokerKind.MEMORY, 4, 10.0, without, half(jobs, [first, second]))


def test_the_sentence_and_the_figures_hide_nothing() -> None:
    good = made_up(SiteResult(sequence=[0, 1, 2, 3]), SiteResult(sequence=[0, 1, 2, 3]))
    assert good.is_good
    assert "saw 1 (33%) in opposite order without inorder, and none with it." in good.sentence()
    inverted = made_up(SiteResult(sequence=[0, 1, 2, 3]), SiteResult(sequence=[1, 0, 2, 3]))
    assert not inverted.is_good
    assert inverted.as_dict()["inversions_with"] == 1
    lost = made_up(SiteResult(sequence=[0, 1, 3]), SiteResult(sequence=[0, 1, 2, 3]))
    assert not lost.is_good
    assert "1 notifications went missing with it (0 reported as gaps)" in lost.sentence()
    reported = made_up(SiteResult(sequence=[0, 1, 3], gaps=1), SiteResult(sequence=[0, 1, 2, 3]))
    assert reported.is_good
    assert reported.as_dict()["missing_with"] == reported.as_dict()["gaps"] == 1
    repeated_one = made_up(SiteResult(sequence=[0, 0, 1, 2, 3]), SiteResult(sequence=[0, 1, 2, 3]))
    assert not repeated_one.is_good
    assert repeated_one.as_dict()["duplicates"] == 1


def test_paces_by_the_clock_and_loses_no_event() -> None:
    job = made_up_job(count=100, rate=1000.0)
    pace = Pace(job, time.monotonic() + 0.02)
    assert not pace.due()
    events: list[int] = []
    while not pace.is_done:
        events += pace.due()
    assert events == list(range(100))


def made_up_job(count: int, rate: float) -> SiteJob:
    channel = Channel("a", None, "memory://x")
    return SiteJob(name="east", kind="memory", publishes=channel, subscribes=(channel,), count=count, rate=rate)


# -- runs -------------------------------------------------------------------------------------------------------------

KEYS = {
    *("events", "subscribers", "broker", "late", "duplicates", "gaps", "p50_ms_without", "p50_ms_with"),
    *("inversions_without", "inversions_with", "inverted_pairs_without", "inverted_pairs_with"),
}


def demo(*arguments: str) -> dict[str, Any]:
    """Run the demo as a user does and return its figures."""
    command = [sys.executable, "-m", "inorder", "demo", "--json", *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert shown.returncode == 0, shown
    figures: dict[str, Any] = json.loads(shown.stdout)
    assert set(figures) >= KEYS
    return figures


def assert_ordered(figures: dict[str, Any], events: int) -> None:
    assert figures["events"] == events
    assert figures["subscribers"] == 2
    assert figures["inversions_with"] == figures["inverted_pairs_with"] == 0
    assert figures["late"] == figures["gaps"] == figures["duplicates"] == figures["missing_with"] == 0
    assert figures["problems"] == []


def test_demo_on_memory() -> None:
    figures = demo("--broker", "memory", "--events", "2000", "--seed", "3")
    assert_ordered(figures, 2000)
    assert figures["inversions_without"] > 50


def test_the_run_with_inorder_can_be_recorded(tmp_path: Path) -> None:
    """Of one run; the two subscribers' arrivals differ in order, their notifications do not."""
    figures = demo("--broker", "memory", "--events", "2000", "--seed", "3", "--traces", str(tmp_path))
    assert_ordered(figures, 2000)
    rows = [row for file in sorted(tmp_path.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert len({row["run"] for row in rows}) == 1
    assert {row["client"] for row in rows} == {
        f"demo-{role}-{site}" for role in ("publisher", "subscriber") for site in ("east", "west")
    }
    published = [row for row in rows if row["kind"] == "published"]
    assert {(row["topic"], row["number"]) for row in published if row["outcome"] == "accepted"} == {
        (f"demo/{site}", number) for site in ("east", "west") for number in range(1, 1001)
    }

    def stream(site: str, index: str) -> list[tuple[str, int]]:
        of_site = [row for row in rows if row["client"] == f"demo-subscriber-{site}" and row["kind"] == "notified"]
        return [(row["topic"], row["number"]) for row in sorted(of_site, key=lambda row: row[index])]

    assert stream("east", "arrival_index") != stream("west", "arrival_index")
    assert stream("east", "delivery_index") == stream("west", "delivery_index")


def test_a_place_that_cannot_be_recorded_in_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "inorder", "demo", "--traces", str(tmp_path / "file")]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert "a place that can be written" in shown.stderr


def test_a_run_can_be_looked_at_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "inorder", "demo", "--json", "--serve", "--port", "0"]
    command += ["--broker", "memory", "--events", "40", "--rate", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page, _, token = json.loads(process.stdout.readline())["link"].partition("#token=")
        assert_ordered(json.loads(process.stdout.readline()), 40)
        headers = {"Authorization": f"Bearer {token}"}
        definitions = httpx.get(f"{page}api/v1/definitions", headers=headers)
        topics = {each["name"] for stage in definitions.json()["order"] for each in stage}
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert (topics, process.returncode, err) == ({"demo/east", "demo/west"}, 0, "")


def test_demo_on_mqtt() -> None:
    figures = demo("--events", "4000")
    assert_ordered(figures, 4000)
    assert figures["broker"] == "mqtt"
    assert figures["inversions_without"] > 100


def test_demo_on_redis() -> None:
    figures = demo("--broker", "redis", "--events", "4000")
    assert_ordered(figures, 4000)
    assert figures["inversions_without"] > 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the users under which brokers run can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("half_name", ["without inorder", "with inorder"])
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_demo_is_interrupted_without_leaving_anything(number: int, half_name: str, open_folder: Path) -> None:
    environment = os.environ | {"TMPDIR": str(open_folder)}
    events = {"without inorder": "200000", "with inorder": "6000"}[half_name]
    command = [sys.executable, "-m", "inorder", "demo", "--events", events]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and not line.startswith(half_name):
            pass
        assert line
        wait_until(lambda: len(descendants(process.pid)) >= 4, what="two brokers, two sites")
        children = descendants(process.pid)
        process.send_signal(number)
        _, err = process.communicate(timeout=90)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[signal.Signals(number)]
    assert err == ""
    assert list(open_folder.iterdir()) == []
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def descendants(pid: int) -> list[int]:
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(grandchild for child in found for grandchild in descendants(child))]


def test_a_missing_broker_program_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    script = (
        "import shutil, sys; shutil.which = lambda name, *a, **k: None\n"
        "from inorder_cli.app import run; sys.exit(run(['demo']))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stderr.startswith("error: mosquitto is not installed; install it with: ")
    assert "mosquitto" in shown.stderr.partition("with:")[2]
