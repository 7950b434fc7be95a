"""The chart of growth: a panel for each kind, of its last run, with every figure in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from inorder_bench.costs.growth_chart import HEIGHT, WIDTH, Run, draw, last_runs
from inorder_bench.rows import Row, Spread

SVG = "{http://www.w3.org/2000/svg}"


def _row(kind: str, size: int, cost: float, **more: float) -> Row:
    value = Spread(cost, cost * 0.9, cost * 1.1)
    return Row(workload=f"growth: {kind}", name=f"{size:,}", unit="us/event", value=value, more=more)


def _points(svg: str) -> list[list[tuple[float, float]]]:
    """Return where each panel's points are, from the left and from the top."""
    panels = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return [[(float(at.attrib["cx"]), float(at.attrib["cy"])) for at in each.iter(f"{SVG}circle")] for each in panels]


def test_sizes_are_on_a_logarithmic_scale_and_costs_on_one_from_zero() -> None:
    sizes = [(1, 2.0), (100, 4.0), (1_000, 8.0), (10_000, 2.0)]
    (panel,) = _points(draw({"topics": [_row("topics", *each) for each in sizes]}))
    assert [x for x, _ in panel] == [0, WIDTH / 2, WIDTH * 3 / 4, WIDTH]
    up = [HEIGHT - y for _, y in panel]
    assert all(cost == pytest.approx(up[0] * share, abs=0.2) for cost, share in zip(up, (1, 2, 4, 1), strict=True))
    assert 0 < max(up) < HEIGHT


def test_nothing_is_a_size_too_and_stands_before_the_others() -> None:
    sizes = [0, 1_000, 100_000, 10_000_000]
    (panel,) = _points(draw({"waiting": [_row("waiting", each, 1.0) for each in sizes]}))
    assert [x for x, _ in panel] == [pytest.approx(WIDTH * at / 3, abs=0.1) for at in range(4)]


def test_every_figure_is_in_it_for_those_who_do_not_see_it_too() -> None:
    svg = draw({"a & b": [_row("", 1, 0.5, entries=0), _row("", 1_000, 31.4, entries=99.2)], "c": [_row("", 3, 1.0)]})
    root = ElementTree.fromstring(svg)
    first, second = ({text.text for text in each.iter(f"{SVG}text")} for each in root.iter(f"{SVG}g"))
    assert first >= {"a & b (us/event)", "1", "1,000", "0.50", "31", "entries", "0.0", "99"}
    assert "entries" not in second
    description = root.findtext(f"{SVG}desc") or ""
    assert "a & b: 1: 0.50 us/event, 1,000: 31 us/event. c: 3: 1.0 us/event" in description
    assert "prefers-color-scheme:dark" in svg


def test_the_last_run_of_each_kind_counts() -> None:
    old, new, other = _row("topics", 1, 1.0), _row("topics", 1, 2.0), _row("stages", 1, 3.0)
    runs = [Run([old, other]), Run([new]), Run([msgspec.structs.replace(old, workload="traces")]), Run()]
    assert last_runs(runs) == {"topics": [new], "stages": [other]}


def test_the_command_draws_a_history(tmp_path: Path) -> None:
    run = Run([_row("topics", 1, 1.0), _row("topics", 10, 2.0)])
    history, chart = tmp_path / "runs.jsonl", tmp_path / "growth.svg"
    command = [sys.executable, "-m", "inorder_bench.costs.growth_chart", str(history), str(chart)]
    history.write_bytes(msgspec.json.encode(Run()) + b"\n")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, chart.exists()) == (2, False)
    assert "there is no growth in it" in refused.stderr
    history.write_bytes(msgspec.json.encode(run) + b"\n")
    subprocess.run(command, check=True)
    assert chart.read_text() == draw(last_runs([run]))
