"""The job as a cluster runs it: by the real spark-submit, with inorder shipped as a wheel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.analytics.spark import scenarios
from tests.analytics.spark.submitting import SETTINGS, SPARK, environment, job, wheel
from tests.analytics.traces import write

from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces


@pytest.mark.long
def test_the_job_runs_by_spark_submit_from_a_wheel(tmp_path: Path) -> None:
    traces = write(tmp_path / "traces", scenarios.latency().rows)
    # It can only come from the wheel: what the virtual environment has installed for editing comes after it.
    alone = job(tmp_path, tail="sys.stderr.write(f'from {results.__file__}\\n')")
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": "1"}
    command = [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]", "--py-files", str(wheel(tmp_path))]
    command += [str(alone), str(traces), "--out", str(tmp_path / "out"), "--run", "latency"]
    given = environment(tmp_path / "conf", settings, PYSPARK_PYTHON=sys.executable)
    run = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert run.returncode == 0, run.stderr
    # spark-submit puts both outputs of a Python program into one.
    *progress, result, origin = run.stdout.splitlines()
    assert "inorder.zip/inorder_analytics/results.py" in origin
    assert "[6/6] putting the runs together" in progress
    found = json.loads(result)
    expected = measure(Traces(traces))
    assert (found["events"], found["pairs"]["used"]) == (3, 1)
    assert found["latency_ms"] == {"p50": 50.0, "p90": 1010.0, "p99": 1010.0}
    assert found["ordering_degree_delivered"] == expected.ordering_degree_delivered
    assert found["by_window"][0]["start"] == "2025-10-09T08:54:00Z"
