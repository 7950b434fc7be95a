"""What a cluster is given: inorder as a zip file, a Python that has no inorder, and Spark's own processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import pyspark

from inorder.testing.services.server import HOST, free_port, wait_until

PROJECT: Final = Path(__file__).parents[3]
SPARK: Final = Path(pyspark.__file__).parent
START_S: Final = 120.0

SETTINGS: Final = {
    # Compiling each query takes longer than running it does, on so few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
}


def wheel(folder: Path) -> Path:
    """What a wheel of inorder has for Python: its packages at the top of a zip file. Spark gives executors no .whl."""
    path = folder / "inorder.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for root in ("plugin/inorder", "analytics/inorder_analytics"):
            for file in sorted((PROJECT / root).rglob("*")):
                if file.suffix in (".py", ".properties"):
                    archive.write(file, file.relative_to((PROJECT / root).parent))
    return path


def job(folder: Path, *, tail: str = "") -> Path:
    """The job alone in a folder, where nothing says where inorder lies."""
    spec = find_spec("inorder_analytics.spark.job")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text()
    end = 'if __name__ == "__main__":\n    sys.exit(main())'
    assert end in text
    path = folder / "job.py"
    path.write_text(text.replace(end, f"code = main()\n{tail}\nsys.exit(code)") if tail else text)
    return path


def python_without_inorder(folder: Path) -> Path:
    """A Python as executors have it: with pyarrow, numpy, fsspec and msgspec, and nothing else that is installed."""
    packages, installed = folder / "packages", SPARK.parent
    packages.mkdir()
    for name in ("pyarrow", "numpy", "numpy.libs", "fsspec", "msgspec"):
        (packages / name).symlink_to(installed / name)
    python = folder / "python"
    # -S: nothing of the virtual environment, which has inorder.
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def environment(conf: Path, settings: Mapping[str, str], **more: str) -> dict[str, str]:
    """An environment in which Spark has these settings, and Python knows nothing but what it is given."""
    conf.mkdir(exist_ok=True)
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "INORDER_", "SPARK_"))}
    # All of Spark listens on this address alone.
    return {**kept, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(SPARK), **more}


@contextlib.contextmanager
def cluster(folder: Path, given: Mapping[str, str]) -> Iterator[str]:
    """Run a standalone master and a worker with two processors, on the loopback address; yield the master's URL."""
    port, page = free_port(), free_port()
    deploy = "org.apache.spark.deploy"
    url = f"spark://{HOST}:{port}"
    master = [f"{deploy}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(page)]
    worker = [f"{deploy}.worker.Worker", "--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "2"]
    worker += ["--memory", "1g", "--work-dir", str(folder / "work"), url]
    with _daemon(master, folder / "master.log", given) as first:
        wait_until(lambda: _state(page, first) is not None, what="Spark's master", timeout=START_S)
        with _daemon(worker, folder / "worker.log", given) as second:
            wait_until(lambda: bool(_workers(page, second)), what="a worker at Spark's master", timeout=START_S)
            yield url


@contextlib.contextmanager
def _daemon(command: list[str], log: Path, given: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), *command],
            env={**given, "SPARK_DAEMON_MEMORY": "256m"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        # A worker ends its executors first.
        process.terminate()
        try:
            process.wait(START_S)
        finally:
            process.kill()
            process.wait()


def _state(page: int, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    assert process.poll() is None, "it ended"
    try:
        with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=START_S) as answer:
            state: dict[str, Any] = msgspec.json.decode(answer.read())
    except OSError:
        return None
    return state


def _workers(page: int, process: subprocess.Popen[bytes]) -> list[Any]:
    state = _state(page, process) or {"workers": []}
    return [each for each in state["workers"] if each["state"] == "ALIVE"]
