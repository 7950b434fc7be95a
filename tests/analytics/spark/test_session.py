"""What has to be there before Spark starts, and who must never load it. No Spark is started here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from tests.analytics.traces import Trace, write

from inorder.errors import MissingExtra
from inorder_analytics.spark import java, session
from inorder_analytics.spark.java import JavaNeeded, check_java
from inorder_analytics.spark.session import WrongPython, open_session


def program(folder: Path, name: str, says: str, code: int = 0) -> Path:
    """Make a program that says something on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_missing_java_is_an_error_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNeeded) as caught:
        check_java()
    assert caught.value.found is None
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and there is none on the PATH; install it with: "
        "sudo apt-get install openjdk-17-jre-headless"
    )


def test_the_newest_java_that_the_system_offers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = tmp_path / "apt-cache"
    offered.write_text('#!/bin/sh\n[ "$2" = openjdk-21-jre-headless ] && echo "Package: $2"\nexit 0\n')
    offered.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert java.install_line() == "sudo apt-get install openjdk-21-jre-headless"


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\njava version "18.0.2"', 18),
    ],
)
def test_a_java_that_does_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, version: int) -> None:
    program(tmp_path / "bin", "java", says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == version


@pytest.mark.parametrize(
    ("says", "code", "found", "reason"),
    [
        ('java version "1.8.0_392"', 0, 8, "is Java 8"),
        ('openjdk version "11.0.21" 2023-10-17', 0, 11, "is Java 11"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", 1, None, "does not run"),
    ],
)
def test_a_java_that_does_not_do_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, found: int | None, reason: str
) -> None:
    path = program(tmp_path / "bin", "java", says, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java, "install_line", lambda: "apt-get install java")
    with pytest.raises(JavaNeeded) as caught:
        check_java()
    assert caught.value.found == found
    assert f"{path} {reason}; install it with: " in str(caught.value)


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNeeded, match=f"there is none in JAVA_HOME, {tmp_path}; "):
        check_java()


@pytest.mark.parametrize(
    ("says", "code", "reason"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", 1, "it cannot do the work (ModuleNotFoundError: "),
        ("", 0, "it is Python 3.9, not "),
        (None, 0, "it does not run ("),
    ],
)
def test_a_wrong_python_for_tasks_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, code: int, reason: str
) -> None:
    """B82."""
    python = tmp_path / "python"
    if says is not None:
        python.write_text(f'#!/bin/sh\necho "{says}" >&2\necho 3.9\nexit {code}\n')
        python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.setattr(session, "check_java", lambda: 17)
    with pytest.raises(WrongPython) as caught:
        open_session("local[1]")
    assert f"PYSPARK_PYTHON is {python}, and {reason}" in str(caught.value)
    assert f"such as {sys.executable}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.io.IOException: Invalid UID\n\tat org.apache.hadoop.security.X(X.java:1)\nCaused by: java.lang.Y",
            "java.io.IOException: Invalid UID",
        ),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "Java ended at once"),
        ("no master", "no master"),
        ("", "it does not say why"),
    ],
)
def test_why_spark_did_not_start_is_one_line_of_javas(text: str, reason: str) -> None:
    assert session.reason_of(text).startswith(reason)


def test_a_user_without_a_name_has_a_home_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def options() -> str:
        return session._properties(False, True, None)["spark.driver.extraJavaOptions"]

    assert "user.home" not in options()
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f'"-Duser.home={tmp_path}"' in options()
    for home in ("/nowhere", "", "relative"):
        monkeypatch.setenv("HOME", home)
        assert f'"-Duser.home={tempfile.gettempdir()}"' in options()
    monkeypatch.delenv("HOME")
    assert f'"-Duser.home={tempfile.gettempdir()}"' in options()


@pytest.mark.long
def test_spark_runs_for_a_user_without_a_name_and_without_a_home(tmp_path: Path) -> None:
    """As containers have it that are run under any number; here a namespace in which nobody has that number."""
    traces = write(tmp_path / "traces", Trace().streams(s="a1 a2 a3", t="a1 a2 a3").rows)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "JAVA_HOME")}
    nobody = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
    command = [*nobody, sys.executable, "-m", "inorder", "analyze", str(traces), "--master", "local[1]", "--json"]
    run = subprocess.run(command, env=kept, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["events"] == 3
    assert "Exception" not in run.stderr


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'inorder\[analytics\]'"):
        open_session()


def test_the_command_says_how_to_install_java(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-m", "inorder", "analyze", str(tmp_path / "traces")]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr == (
        "error: Spark needs Java 17 or newer, and there is none on the PATH; install it with: "
        "sudo apt-get install openjdk-17-jre-headless\n"
    )


def test_clients_workers_and_control_planes_never_load_spark() -> None:
    """Every module of theirs, and the command line that starts them, in one process."""
    code = """
        import importlib, pkgutil, sys
        import inorder, inorder_controlplane
        import inorder.client, inorder_worker.service, inorder.traces, inorder_cli.app
        for package in (inorder.client, inorder_worker.service, inorder.traces, inorder_cli, inorder_controlplane):
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                if ".migrations." not in module.name:
                    importlib.import_module(module.name)
        heavy = ("pyspark", "py4j", "inorder_analytics.spark")
        print(sorted(name for name in sys.modules if name.startswith(heavy)), len(sys.modules) > 300)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[] True"
