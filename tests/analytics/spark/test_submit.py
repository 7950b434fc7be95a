"""The job as a cluster runs it: by the real spark-submit, with inorder shipped as a wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest
from tests.analytics.spark import scenarios
from tests.analytics.traces import write

from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces

PROJECT = Path(__file__).parents[3]


def wheel(folder: Path) -> Path:
    """What a wheel of inorder has for Python: its packages at the top of a zip file. Spark gives executors no .whl."""
    path = folder / "inorder.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for root in ("plugin/inorder", "analytics/inorder_analytics"):
            for file in sorted((PROJECT / root).rglob("*")):
                if file.suffix in (".py", ".properties"):
                    archive.write(file, file.relative_to((PROJECT / root).parent))
    return path


@pytest.mark.long
def test_the_job_runs_by_spark_submit_from_a_wheel(tmp_path: Path) -> None:
    spec = find_spec("inorder_analytics.spark.job")
    assert spec is not None
    assert spec.origin is not None
    traces = write(tmp_path / "traces", scenarios.latency().rows)
    # The job stands alone in a folder, and nothing says where inorder lies: it can only come from the wheel.
    job = tmp_path / "job.py"
    job.write_bytes(Path(spec.origin).read_bytes() + b"\nsys.stderr.write(f'from {results.__file__}\\n')\n")
    job.write_text(job.read_text().replace('if __name__ == "__main__":\n    sys.exit(main())', "code = main()"))
    # No user, no variable: what the virtual environment has installed for editing comes after the wheel.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "INORDER_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ["--master", "local[1]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    settings += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=1"]
    settings += ["--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"]
    settings += ["--conf", "spark.sql.adaptive.enabled=false", "--driver-java-options", "-XX:TieredStopAtLevel=1"]
    settings += ["--py-files", str(wheel(tmp_path))]
    command = [str(submit), *settings, str(job), str(traces), "--out", str(tmp_path / "out"), "--run", "latency"]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
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
