"""Wheel and source distribution: what is in them, and that they work in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.programs import EXAMPLES, Program
from tests.test_docs import BLOCKS, RUN_SECONDS

from inorder.testing.services import Mosquitto, RedisServer

PROJECT = Path(__file__).parents[1]
ROOTS = ("plugin", "adapters", "controlplane", "webui", "analytics", "benchmarks")
# What developers measure is in no wheel.
DEVELOPERS = "benchmarks/inorder_bench/costs"
LEFT_OUT = shutil.ignore_patterns("node_modules", "app", "__pycache__", "*.egg-info", ".built")
BUILD = "import sys, inorder_build; print(inorder_build.build_wheel(sys.argv[1]))"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What a wheel is made of."""
    copy = tmp_path / "source"
    for root in ROOTS:
        shutil.copytree(PROJECT / root, copy / root, ignore=LEFT_OUT)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(PROJECT / name, copy)
    return copy


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Make a wheel, with the setuptools that there is."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "scripts")}
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(out)]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def test_the_wheel_has_every_package_with_its_data_and_the_page(source: Path, tmp_path: Path) -> None:
    made = build(source, tmp_path / "out")
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    packages = {each.parent for root in ROOTS for each in (source / root).glob("*/__init__.py")}
    there = {
        each.relative_to(package.parent).as_posix()
        for package in packages
        for each in package.rglob("*")
        if each.is_file() and not each.is_relative_to(source / DEVELOPERS)
    }
    assert names == there
    assert {"inorder_webui/static/index.html", "inorder_analytics/spark/log4j2.properties"} <= names
    assert any(re.fullmatch(r"inorder_webui/static/assets/index-.+\.js", name) for name in names)


def test_without_the_page_there_is_no_wheel(source: Path, tmp_path: Path) -> None:
    shutil.rmtree(source / "webui" / "inorder_webui" / "static")
    made = build(source, tmp_path / "out")
    assert made.returncode != 0
    assert "the web UI is not built" in made.stderr
    assert "make webui" in made.stderr
    assert not (tmp_path / "out").exists()


# -- installed ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has the wheel as ``make dist`` makes it, from the source distribution,
    with what it asks for from the package registry."""
    folder = tmp_path_factory.mktemp("dist")
    made = folder / "made"
    subprocess.run([sys.executable, "-m", "build", "--outdir", made, PROJECT], check=True, capture_output=True)
    (source,) = made.glob("*.tar.gz")
    with tarfile.open(source) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"webui/inorder_webui/static/index.html", "scripts/inorder_build.py", "LICENSE", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith(("tests/", "webui/app/"))]
    (wheel,) = made.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{wheel}[mqtt,redis,controlplane]"], check=True)
    return python


@contextmanager
def up(python: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Run ``inorder up`` of an environment; yield what it says when it is ready."""
    command = [str(python.with_name("inorder")), "up", "--port", "0", "--worker-port", "0", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.long
def test_installed_anew_readmes_lines_the_page_and_the_examples_work(
    installed: Path, tmp_path: Path, mosquitto: Mosquitto, redis_server: RedisServer
) -> None:
    with up(installed, tmp_path) as ready:
        with urlopen(ready["page"]) as answer:
            page = answer.read().decode()
        (script,) = re.findall(r'<script type="module"[^>]* src="/([^"]+)"', page)
        with urlopen(ready["page"] + script) as answer:
            assert len(answer.read()) > 10_000
        for block in (block for block in BLOCKS if block.is_run and block.where.startswith("README.md")):
            code = block.code.replace("mqtt://localhost", mosquitto.url).replace("localhost:7401", ready["address"])
            run = [str(installed), "-W", "error", "-c", code]
            done = subprocess.run(
                run, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, ""), done
            assert "in_order" in done.stdout
        chat = Program(
            EXAMPLES / "paho_chat_inorder.py", "ann", str(mosquitto.port), workers=ready["address"], python=installed
        )
        with chat as ann:
            ann.say("hello")
            ann.until(lambda lines: any(line.endswith("hello") for line in lines), what="her own line")
        watch = EXAMPLES / "redis_ticker_inorder.py", "watch", str(redis_server.port)
        with Program(*watch, workers=ready["address"], python=installed) as one:
            one.until(lambda lines: "watching" in lines, what="the subscription")
