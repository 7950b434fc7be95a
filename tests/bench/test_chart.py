"""The chart is made of a history: the last run of each workload, a bar for each ratio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from inorder_bench.chart import LABELS, WIDTH, Measured, RatioRow, Run, draw, last_runs

SVG = "{http://www.w3.org/2000/svg}"


def run_of(workload: str, *ratios: float | None, p50_ms: float | None = None) -> Measured:
    rows = [
        RatioRow(ratio, (ratio or 0.0, ratio or 0.0), f"ours / <{at}>", p50_ms=p50_ms)
        for at, ratio in enumerate(ratios)
    ]
    return Measured(workload, "a & b", rows)


def bars(svg: str) -> list[tuple[str, float]]:
    root = ElementTree.fromstring(svg)
    return [
        (each.attrib["class"], float(each.attrib["width"]))
        for each in root.iter(f"{SVG}rect")
        if each.attrib["class"] != "paper"
    ]


def test_a_bar_for_each_ratio_from_one_on() -> None:
    svg = draw([run_of("W1", 2.0, None, 0.5, 1.0, 0.001)])
    (more, up), (less, down), (_, none), (lowest, whole) = bars(svg)
    assert (more, less, lowest) == ("better", "worse", "worse")
    assert abs(up - down) < 0.2
    assert none == 0
    assert up < whole <= WIDTH
    assert "ours / &lt;0&gt;: 2.00" in svg
    assert "W1: a &amp; b" in svg
    assert all(
        float(each.attrib["x"]) > LABELS
        for each in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if "x" in each.attrib
    )


def test_of_latencies_less_is_better() -> None:
    svg = draw([run_of("W2", 2.0, 0.5, p50_ms=1.0)])
    assert [kind for kind, _ in bars(svg)] == ["worse", "better"]
    assert "W2: a &amp; b (less is better)" in svg
    assert "less is better" not in draw([run_of("W1", 2.0)])


def _draws(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inorder_bench.chart", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_last_run_of_each_workload_counts(tmp_path: Path) -> None:
    runs = [Run([run_of("W2", 1.0), run_of("W1", 2.0)]), Run([run_of("W1", 3.0)]), Run()]
    assert last_runs(runs) == [run_of("W1", 3.0), run_of("W2", 1.0)]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in runs))
    assert _draws(tmp_path / "runs.jsonl", tmp_path / "chart.svg").returncode == 0
    assert (tmp_path / "chart.svg").read_text() == draw(last_runs(runs))


NOTHING = b'{"workloads": [{"workload": "W1", "title": "", "rows": [{"ratio": null}]}]}\n'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", "there is no ratio in it"),
        (NOTHING, "there is no ratio in it"),
        (NOTHING + b'{"workloads": [{"work', "line 2"),
        (b"\xff\xff", "line 1"),
        (b'{"workloads": [{"workload": 7}]}', "line 1"),
    ],
)
def test_a_history_that_is_missing_or_damaged_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    history = tmp_path / "runs.jsonl"
    if content is not None:
        history.write_bytes(content)
    ended = _draws(history, tmp_path / "chart.svg")
    assert ended.returncode == 2
    *_, said = ended.stderr.splitlines()
    assert f"invalid HISTORY '{history}': allowed is " in said
    assert why in said
    assert not (tmp_path / "chart.svg").exists()


def test_a_chart_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(msgspec.json.encode(Run([run_of("W1", 2.0)])))
    ended = _draws(tmp_path / "runs.jsonl", tmp_path / "no" / "chart.svg")
    assert ended.returncode == 2
    assert f"invalid SVG '{tmp_path}/no/chart.svg'" in ended.stderr
    assert _draws(tmp_path / "runs.jsonl").returncode == 2
