"""What messages, hints and help texts tell to type must be there: commands, and options of the command at hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from inorder_cli.app import app

PACKAGES = (
    "plugin/inorder",
    "plugin/inorder_worker",
    "plugin/inorder_cli",
    "adapters/inorder_adapters",
    "controlplane/inorder_controlplane",
    "analytics",
)
PROJECT = Path(__file__).parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
NAMED = re.compile(r"(?:inorder|\b(?:with|of|see|is|by):? (?:\*\*|\[cyan\])?inorder) ((?:[a-z]+ ?)+)")
NOT_OURS = ("testing/services/", "report/style.py")
"""Modules whose texts are for other programs."""


def commands() -> dict[str, tuple[set[str], str]]:
    """Return by its words each command's options, and the module that has it; groups with neither."""
    found: dict[str, tuple[set[str], str]] = {}

    def add(command: Any, words: tuple[str, ...]) -> None:
        options = {each for option in command.params for each in (*option.opts, *option.secondary_opts)}
        inner = getattr(command, "commands", {})
        module = "" if inner else command.callback.__module__
        found[" ".join(words)] = ({*options, "--help"}, module)
        for name, each in inner.items():
            add(each, (*words, name))

    add(get_command(app), ())
    return found


COMMANDS = commands()


def texts(code: str) -> Iterator[str]:
    """Return the texts of a module; what is put into one when it is made is an ellipsis."""
    tree = ast.parse(code)
    parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "..." for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def wrong(text: str, module: str) -> list[str]:
    """Return what a text of a module names that is not there."""
    named = [words for match in NAMED.finditer(text) if (words := match[1].split())[0] in COMMANDS]
    found = []
    options: set[str] = set()
    for words in named:
        is_group = COMMANDS[words[0]][1] == ""
        name = " ".join(words[:2]) if is_group and len(words) > 1 else words[0]
        if name not in COMMANDS:
            found.append(f"inorder {name}")
        else:
            options |= COMMANDS[name][0]
    here = [its for its, home in COMMANDS.values() if home == module]
    options |= set().union(*here or [its for its, _ in COMMANDS.values()])
    return found + [each for each in OPTION.findall(text) if each not in options]


@pytest.mark.parametrize("package", PACKAGES)
def test_what_messages_tell_to_type_is_there(package: str) -> None:
    root = PROJECT / package
    broken = {}
    for path in sorted(root.rglob("*.py")):
        if any(each in path.as_posix() for each in NOT_OURS):
            continue
        module = ".".join([root.name, *path.relative_to(root).with_suffix("").parts])
        said = [each for text in texts(path.read_text()) for each in wrong(text, module)]
        if said:
            broken[str(path.relative_to(PROJECT))] = said
    assert broken == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name another with --broker", ["--broker"]),
        ("inorder sub and inorder pub take another with --broker", []),
        ("see inorder gaps frobnicate", ["inorder gaps frobnicate"]),
        ("name the store with --store", []),
    ],
)
def test_what_is_not_there_is_found(text: str, found: list[str]) -> None:
    assert wrong(text, "inorder_cli.up") == found
