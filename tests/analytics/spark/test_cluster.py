"""A real cluster, Spark's own master and worker as processes: the result is that of one machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.analytics.spark import scenarios
from tests.analytics.spark.submitting import (
    SETTINGS,
    SPARK,
    cluster,
    environment,
    job,
    python_without_inorder,
    wheel,
)
from tests.analytics.traces import write

from inorder_analytics.results import to_plain
from inorder_analytics.spark.job import Job, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ON_CLUSTER = {**SETTINGS, "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("cluster") / "traces", scenarios.everything(), per_file=150)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, traces: Path) -> dict[str, Any]:
    """The result on this machine alone."""
    return _comparable(to_plain(run(Job(str(traces), str(traces.with_name("local"))), session=spark)))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("master")
    with cluster(folder, environment(folder / "conf", {})) as url:
        yield url


def test_the_command_has_the_same_result_on_a_cluster(
    master: str, traces: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Executors run a Python that has inorder installed: this one."""
    given = environment(
        tmp_path / "conf",
        {**ON_CLUSTER, "spark.executorEnv.PYTHONPATH": ":".join(filter(None, sys.path))},
        PYTHONPATH=":".join(filter(None, sys.path)),
        PYSPARK_PYTHON=sys.executable,
    )
    command = [sys.executable, "-m", "inorder", "analyze", str(traces), "--master", master, "--json"]
    printed = _printed([*command, "--out", str(tmp_path / "out")], given, tmp_path)
    assert _comparable(msgspec.json.decode(printed)) == expected
    assert (tmp_path / "out" / "result.json").is_file()


def test_spark_submit_ships_inorder_to_a_cluster_as_a_zip_file(
    master: str, traces: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Executors run a Python that has pyarrow, numpy, fsspec and msgspec alone."""
    python = python_without_inorder(tmp_path)
    given = environment(tmp_path / "conf", ON_CLUSTER, PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=sys.executable)
    missing = subprocess.run([python, "-c", "import inorder"], env=given, capture_output=True, text=True, check=False)
    assert "No module named 'inorder'" in missing.stderr
    command = [str(SPARK / "bin" / "spark-submit"), "--master", master, "--py-files", str(wheel(tmp_path))]
    printed = _printed([*command, str(job(tmp_path)), str(traces), "--out", str(tmp_path / "out")], given, tmp_path)
    assert _comparable(msgspec.json.decode(printed.splitlines()[-1])) == expected


def _printed(command: list[str], given: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def _comparable(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "made_at"}
