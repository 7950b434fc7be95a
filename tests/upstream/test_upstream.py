"""What runs the upstream libraries' tests: which outcome counts as what. The suites are run by hand (``run``)."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from tests.upstream.__main__ import Outcome, report, run_pass, share
from tests.upstream.fetch import unpack
from tests.upstream.suite import Suite

SUITE = """
import os
import sys
from contextlib import contextmanager
from {package}.suite import Pass, Services, Suite

def swap():
    sys.modules["colour"] = type(sys)("colour")
    sys.modules["colour"].NAME = "ours"

@contextmanager
def services():
    path = os.pathsep.join([*PATHS, *sys.path])
    yield Services({{"PYTHONPATH": path, "COLOUR": "red"}}, ("-o", "xfail_strict=false"))

AWAY = {{"tests/test_it.py::test_bytes[*": "the stamp is seen", "tests/test_it.py::test_gone": "not there"}}
SUITE = Suite("colour", ("tests",), swap, (
    Pass("ordered", ("tests",), False, AWAY, services),
    Pass("one", ("tests/test_it.py::test_ends",), False, {{}}, services),
))
"""
TESTS = """
import os
import colour, pytest

def test_swapped(): assert colour.NAME == "ours" and os.environ["COLOUR"] == "red"
def test_no_workers(): assert os.environ["INORDER_CLIENT__WORKERS"] == ""
def test_wrong(): assert colour.NAME == "theirs", "not theirs"
@pytest.mark.parametrize("size", [1, 2])
def test_bytes(size): raise AssertionError
@pytest.mark.skip("no cluster")
def test_cluster(): pass
@pytest.mark.xfail(reason="known there")
def test_known(): raise AssertionError
@pytest.fixture
def broken(): yield; raise ValueError("at the end")
def test_fixture(broken): pass
"""
ENDS = "def test_ends():\n    import os; os._exit(3)\n"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    head = f"PATHS = {[str(tmp_path), str(Path(__file__).parents[1])]!r}\n"
    (tmp_path / "sample_suite.py").write_text(head + SUITE.format(package="upstream"))
    made: dict[str, Suite] = {}
    exec(head + SUITE.format(package="tests.upstream"), made)
    return made["SUITE"]


def sources(folder: Path, text: str) -> Path:
    """A source distribution, as a registry has it: everything in a folder of its name, the library too."""
    archive = folder / "colour-1.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, body in {"tests/__init__.py": "", "tests/test_it.py": text, "colour.py": "NAME = 'theirs'"}.items():
            info = tarfile.TarInfo(f"colour-1/{name}")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body.encode()))
    return archive


def test_outcomes_are_counted(suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "unpacked"
    unpack(sources(tmp_path, TESTS), suite.keep, folder)
    assert not (folder / "colour.py").exists()  # the installed library is tested
    outcome = run_pass("sample_suite", suite, 0, folder)
    at = "tests/test_it.py::"
    assert set(outcome.passed) == {at + "test_swapped", at + "test_no_workers"}
    assert outcome.failed == {
        at + "test_wrong": "AssertionError: not theirs",
        at + "test_fixture": "teardown: ValueError: at the end",
    }
    assert outcome.not_applicable == {
        at + "test_bytes[1]": "the stamp is seen",
        at + "test_bytes[2]": "the stamp is seen",
        at + "test_cluster": "upstream: no cluster",
        at + "test_known": "upstream: known there",
    }
    assert outcome.stale == [at + "test_gone"]
    assert share(outcome) == 0.5
    report("colour", suite.passes[0], outcome)
    shown = capsys.readouterr().out
    for part in ("2 passed, 2 failed, 4 not applicable; 50.0% of 4", "test_gone is said", "not theirs", "no cluster"):
        assert part in shown


def test_a_process_that_ends_early_has_failed_its_tests(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    unpack(sources(tmp_path, ENDS), suite.keep, folder)
    outcome = run_pass("sample_suite", suite, 1, folder)
    assert outcome.failed == {"tests/test_it.py::test_ends": "the process ended before it (exit code 3)"}


def test_no_tests_are_a_failure(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    unpack(sources(tmp_path, "import nowhere"), suite.keep, folder)
    outcome = run_pass("sample_suite", suite, 0, folder)
    assert [why for why in outcome.failed.values() if "nowhere" in why]
    assert share(outcome) == 0
    assert share(Outcome()) == 0


def test_a_distribution_without_the_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no other"):
        unpack(sources(tmp_path, TESTS), ("tests", "other"), tmp_path / "unpacked")
    assert [each.name for each in tmp_path.iterdir()] == ["colour-1.tar.gz"]
