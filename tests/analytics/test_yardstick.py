"""The yardstick of the benchmark of analyses computes what an analysis does; the benchmark sees where it does not."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.analytics.spark import scenarios
from tests.analytics.traces import write

from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces
from inorder_analytics.results import to_plain
from inorder_bench.costs import analytics, traces_in_duckdb
from inorder_bench.processes import RunFailed

PLAIN = analytics.Contender(
    "plain Python",
    (
        "-c",
        "import sys; from inorder_analytics.plain import measure; from inorder_analytics.reading import Traces; "
        "from inorder_analytics.results import encode; sys.stdout.buffer.write(encode(measure(Traces('{traces}'))))",
    ),
)
"""The reference that Spark's figures equal (spark/test_figures.py), without the minute that Spark takes to start."""


def test_duckdb_computes_all_as_plain_python_does(tmp_path: Path) -> None:
    """The scenarios that Spark is tested with: repetitions, holes, several incarnations and clocks, missing values."""
    traces = write(tmp_path / "traces", scenarios.everything(), per_file=150)
    expected, found = (to_plain(each) for each in (measure(Traces(traces)), traces_in_duckdb.measure(str(traces))))
    del expected["made_at"], found["made_at"]
    assert _rounded(found) == _rounded(expected)
    sample: dict[str, Any] = {"window_s": 0.7, "max_pairs": 2, "seed": 5}
    again = traces_in_duckdb.measure(str(traces), **sample)
    assert again.by_window == measure(Traces(traces), **sample).by_window
    assert again.pairs == measure(Traces(traces), **sample).pairs


def test_a_small_run_has_rates_memory_and_growth() -> None:
    rows = analytics.measure([1_000, 2_000, 4_000], 1, lambda line: None, ours=PLAIN)
    workloads = [f"analysis of {size} rows" for size in ("1,000", "2,000", "4,000")]
    workloads.append("growth from 1,000 to 4,000 rows")
    assert [(row.workload, row.name) for row in rows] == list(product(workloads, (PLAIN.name, "DuckDB")))
    for row in rows[:-2]:
        assert row.value.median > 0
        assert 10 < row.more["peak MiB"] < 4_000
        assert 0 < row.more["cpu seconds"] < row.more["seconds"] * (os.cpu_count() or 1) + 1
    assert rows[0].ratio is not None
    assert rows[0].ratio.median == pytest.approx(rows[0].value.median / rows[1].value.median)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("worst_pairs=[]", "other and DuckDB differ in worst_pairs"),
        ("subscribers=1", "other: subscribers is 1, not 9"),
    ],
)
def test_what_is_not_equal_or_not_true_is_no_yardstick(change: str, reason: str) -> None:
    code = PLAIN.command[1].replace("encode(", "encode(replace(").replace(")))", f")), {change}))")
    other = analytics.Contender("other", ("-c", f"from msgspec.structs import replace; {code}"))
    with pytest.raises(RunFailed, match=f"^{reason}$"):
        analytics.measure([1_000], 1, lambda line: None, ours=other)


def _rounded(value: Any) -> Any:
    """Sums of floating numbers differ in their last digit."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value
