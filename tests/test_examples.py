"""The examples: what they differ in is an import line, and docs/MIGRATING.md shows just that. They are run by the tests
of the drop-in clients."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.programs import AFTER, EXAMPLES, PROJECT, Program, difference, names

TYPED = PROJECT / "tests" / "typed"
IMPORT = re.compile(r"[+-] (import|from) [\w.]+( import [\w, .]+)?( as \w+)?$")


def problems(name: str, folder: Path) -> list[str]:
    """Say what is wrong with an example."""
    for each in (f"{name}.py", f"{name}{AFTER}.py"):
        if not (folder / each).exists():
            return [f"there is no {each}"]
    lines = difference(name, folder)
    found = [f"{line} is no import" for line in lines if not IMPORT.match(line)]
    if not any(line.startswith("+ ") and "inorder" in line for line in lines):
        found.append("nothing is imported from inorder")
    return found


@pytest.mark.parametrize("name", names())
def test_only_imports_differ(name: str) -> None:
    assert problems(name, EXAMPLES) == []


@pytest.mark.parametrize("name", names(TYPED))
def test_only_imports_of_typed_programs_differ(name: str) -> None:
    """mypy reads them with all else (``make check``): a typed program before is a typed program after."""
    assert problems(name, TYPED) == []
    files = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    assert {"tests", "examples"} <= set(files)


@pytest.mark.parametrize("name", names())
def test_the_guide_shows_the_difference(name: str) -> None:
    shown = re.findall(
        r"^```diff\n(.*?)^```$", (PROJECT / "docs" / "MIGRATING.md").read_text(), re.MULTILINE | re.DOTALL
    )
    wanted = [line[0] + line[2:] for line in difference(name)]
    changed = [[line for line in block.splitlines() if line[:1] in ("+", "-")] for block in shown]
    assert wanted in changed, f"no diff block of docs/MIGRATING.md changes just {wanted}"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("import redis\nx = 1\n", "import inorder.redis as redis\nx = 1\n", []),
        (
            "import redis\nx = 1\n",
            "import inorder.redis as redis\nx = 2\n",
            ["- x = 1 is no import", "+ x = 2 is no import"],
        ),
        ("import redis\n", "import valkey as redis\n", ["nothing is imported from inorder"]),
        ("import redis\n", None, ["there is no chat_inorder.py"]),
    ],
)
def test_another_difference_is_found(tmp_path: Path, before: str, after: str | None, found: list[str]) -> None:
    (tmp_path / "chat.py").write_text(before)
    if after is not None:
        (tmp_path / f"chat{AFTER}.py").write_text(after)
    assert names(tmp_path) == ["chat"]
    assert problems("chat", tmp_path) == found


def test_programs_can_be_talked_to(tmp_path: Path) -> None:
    script = tmp_path / "echo.py"
    script.write_text(
        "import os\nprint(os.environ.get('INORDER_CLIENT__WORKERS'))\nwhile line := input():\n print(line)\n"
    )
    with Program(script, workers="here:1") as program:
        program.say("one")
        program.until(lambda lines: lines == ["here:1", "one"], what="the echo")
        program.say("")
        assert program.end() == 0
    with Program(script) as program:
        program.say("")
        with pytest.raises(AssertionError, match=r"it ended without two; it has printed \['None'\]"):
            program.until(lambda lines: "two" in lines, what="two")
