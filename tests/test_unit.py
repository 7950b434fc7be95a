"""``make unit`` needs no server: what the Makefile lists for it asks for none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.sizes import definitions

PROJECT = Path(__file__).parent.parent
SERVERS = frozenset({"mosquitto", "redis_server", "postgres", "bridged", "site"})
"""Fixtures that start one; ``site`` is a broker and a worker in the test's own process."""
PROGRAMS = "inorder.testing.services"


def listed(project: Path) -> list[Path]:
    """Return the modules of tests that ``make unit`` runs."""
    value = re.search(r"^UNIT := ((?:.*\\\n)*.*)$", (project / "Makefile").read_text(), re.MULTILINE)
    assert value, "the Makefile has no UNIT"
    paths = [project / each for each in value[1].replace("\\", " ").split()]
    assert all(path.exists() for path in paths), paths
    return [test for path in paths for test in (sorted(path.glob("**/*.py")) if path.is_dir() else [path])]


def servers_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(), str(path))
    for name, node in definitions(tree):
        if not isinstance(node, ast.ClassDef):
            asked = {each.arg for each in node.args.args + node.args.kwonlyargs} & SERVERS
            yield from (f"{path.name}: {name} asks for {each}" for each in sorted(asked))
    if any(isinstance(node, ast.ImportFrom) and node.module == PROGRAMS for node in ast.walk(tree)):
        yield f"{path.name} imports {PROGRAMS}"


def test_what_is_made_by_chance_may_take_as_long_as_it_takes() -> None:
    """Tests run on machines that are busy, and line by line where mistakes are planted."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_no_server_is_asked_for() -> None:
    paths = listed(PROJECT)
    assert len(paths) > 30
    assert [server for path in paths for server in servers_of(path)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def test_x(tmp_path): ...", []),
        ("def test_x(mosquitto): ...", ["test_a.py: test_x asks for mosquitto"]),
        ("class TestX:\n  async def test_x(self, *, site): ...", ["test_a.py: TestX.test_x asks for site"]),
        ("from inorder.testing.services import Mosquitto", ["test_a.py imports inorder.testing.services"]),
    ],
)
def test_a_server_is_found(tmp_path: Path, source: str, expected: list[str]) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "Makefile").write_text("JOBS := 2\nUNIT := tests \\\n\ttests/test_a.py\nBIN := x\n")
    (tmp_path / "tests/test_a.py").write_text(source)
    assert [server for path in listed(tmp_path)[:1] for server in servers_of(path)] == expected
