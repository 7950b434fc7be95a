"""Reads ARCHITECTURE.md, docs/DESIGN.md and docs/GLOSSARY.md: what is not true, and who cites it in vain."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sizes import definitions

PROJECT = Path(__file__).parent.parent
DESIGN = PROJECT / "docs/DESIGN.md"
GLOSSARY = PROJECT / "docs/GLOSSARY.md"
ARCHITECTURE = PROJECT / "ARCHITECTURE.md"
CASES = PROJECT / "tests/CASES.md"

NOT_BUILT = frozenset({25})
"""Rules that have no code yet. This list only gets shorter."""

RULE = re.compile(r"^### R(\d+) (.+?)$\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
CITED = re.compile(r"\bR(\d+)\b|\b(?:test_)?r(\d\d?)[-_](?=[a-z])")
CASE = re.compile(r"\b(?:[Cc]ase(?:\s|#)+([CE]\d+[a-z]?)|(P-\d\d))\b")
REPORT = re.compile(r"\bB(\d\d)\b|\btest_b(\d\d)_")
HEADING = re.compile(r"\bDESIGN, \"([^\"]+)\"")
ENTRY = re.compile(r"\[[^\]]+\]\((?:\.\./)?([^)#]+)\)((?: `[^`]+`)*)")
TEXTS = frozenset({".py", ".pyi", ".md", ".txt", ".toml", ".ts", ".tsx", ".css", ".sql", ""})
SKIPPED = frozenset({"node_modules", "static", "build", "dist", "__pycache__"})


def sections(text: str) -> dict[int, str]:
    """Return the rules by number, each with the text below its heading."""
    return {int(number): body for number, _, body in RULE.findall(text)}


def entries(body: str, label: str) -> list[tuple[str, list[str]]]:
    """Return the files of a section's ``Code`` or ``Shown by`` line, with the names that stand behind each."""
    lines = re.findall(rf"^- \*\*{label}:\*\* (.*)$", body, re.MULTILINE)
    return [(path, re.findall("`([^`]+)`", names)) for line in lines for path, names in ENTRY.findall(line)]


@cache
def names_in(path: Path) -> dict[str, str]:
    """Return a module's classes, functions and attributes, with the source of the first two, and its texts."""
    source = path.read_text()
    tree = ast.parse(source, str(path))
    lines = source.splitlines()
    found = {
        node.value: "" for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    found |= dict.fromkeys(assigned(tree.body), "")
    for name, node in definitions(tree):
        found[name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.ClassDef):
            found |= {f"{name}.{each}": "" for each in assigned(node.body)}
    return found


def assigned(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
            if isinstance(target, ast.Name):
                yield target.id


def missing_names(project: Path, path: str, names: list[str]) -> Iterator[str]:
    if not (project / path).is_file():
        yield f"{path} is gone"
    elif path.endswith(".py"):
        yield from (f"{path} has no {name}" for name in names if name not in names_in(project / path))


def cited(text: str) -> set[int]:
    return {int(upper or lower) for upper, lower in CITED.findall(text)}


def problems_of(project: Path, number: int, body: str) -> Iterator[str]:
    """Say what a rule's section lacks, or names in vain."""
    code, shown = entries(body, "Code"), entries(body, "Shown by")
    if number in NOT_BUILT:
        if "**Not built.**" not in body or code or shown:
            yield f"R{number} is on the list of rules that are not built, and not shown as one"
        return
    if "**Not built.**" in body:
        yield f"R{number} is shown as not built, and not on the list"
    if not code:
        yield f"R{number} has no code"
    if not any(path.startswith("tests/scenarios/") for path, _ in shown):
        yield f"R{number} has no scenario"
    if not re.search(r"^\*Source:\*", body, re.MULTILINE):
        yield f"R{number} has no source"
    if not re.search(r"^\*Run\b", body, re.MULTILINE):
        yield f"R{number} has no run that breaks without it"
    for path, names in code + shown:
        gone = [*missing_names(project, path, names)]
        yield from (f"R{number}: {problem}" for problem in gone)
        if not gone and number not in cited(f"{Path(path).name}\n{(project / path).read_text()}"):
            yield f"R{number}: {path} does not cite it"
    for path, names in shown:
        if path == "tests/core/without.py":
            sources = names_in(project / path)
            yield from (
                f"R{number}: {name} is of other rules" for name in names if number not in cited(sources.get(name, ""))
            )


@cache
def texts() -> dict[str, str]:
    """Return all that somebody writes in this repository, by path."""
    found = {}
    for folder, folders, files in os.walk(PROJECT):
        folders[:] = [each for each in folders if each not in SKIPPED and not each.startswith(".")]
        for name in files:
            path = Path(folder) / name
            if path.suffix in TEXTS and not name.startswith(".") and path.name != "test_design.py":
                found[path.relative_to(PROJECT).as_posix()] = path.read_text(errors="ignore")
    return found


def wrong_citations(
    where: str, text: str, rules: frozenset[int], cases: str, headings: frozenset[str], reports: frozenset[str]
) -> Iterator[str]:
    """Say what a text cites that is nowhere. ``cases``: the table of the papers' problems and cases. ``reports``: those
    from public reports."""
    stem = Path(where).name if where.startswith("tests/scenarios/") else ""
    for rule in sorted(cited(f"{stem}\n{text}") - rules):
        yield f"{where} cites R{rule}, which is no rule"
    for run, problem in CASE.findall(text):
        if not re.search(rf"\b{run or problem}\b", cases):
            yield f"{where} cites {run or problem}, which DESIGN.md does not have"
    if where.endswith(".py"):
        numbers = {f"B{upper or lower}" for upper, lower in REPORT.findall(text)}
        yield from (f"{where} cites {each}, which CASES.md does not have" for each in sorted(numbers - reports))
    yield from (f"{where} cites {each!r} of DESIGN.md" for each in HEADING.findall(text) if each not in headings)
