"""The chart is made of a history: the last run of each workload, a bar for each ratio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from inorder_bench.chart import LABELS, WIDTH, draw, last_runs

SVG = "{http://www.w3.org/2000/svg}"


def run_of(workload: str, *ratios: float | None, figure: str = "events_per_s") -> dict[str, Any]:
    rows = [
        {"name": f"<{at}>", figure: 1.0, "ratio": ratio, "ratio_range": [ratio, ratio], "ratio_of": f"ours / <{at}>"}
        for at, ratio in enumerate(ratios)
    ]
    return {"workload": workload, "title": "a & b", "rows": rows}


def bars(svg: str) -> list[tuple[str, float]]:
    root = ElementTree.fromstring(svg)
    return [
        (each.attrib["class"], float(each.attrib["width"]))
        for each in root.iter(f"{SVG}rect")
        if "class" in each.attrib
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
    svg = draw([run_of("W2", 2.0, 0.5, figure="p50_ms")])
    assert [kind for kind, _ in bars(svg)] == ["worse", "better"]
    assert "W2: a &amp; b (less is better)" in svg
    assert "less is better" not in draw([run_of("W1", 2.0)])


def test_the_last_run_of_each_workload_counts(tmp_path: Path) -> None:
    runs = [[run_of("W2", 1.0), run_of("W1", 2.0)], [run_of("W1", 3.0)]]
    lines = [json.dumps({"workloads": each}) for each in runs]
    assert last_runs(lines) == [run_of("W1", 3.0), run_of("W2", 1.0)]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "inorder_bench.chart", str(tmp_path / "runs.jsonl"), str(tmp_path / "chart.svg")]
    subprocess.run(command, check=True)
    assert (tmp_path / "chart.svg").read_text() == draw(last_runs(lines))
    assert subprocess.run(command[:-1], capture_output=True, check=False).returncode == 1
