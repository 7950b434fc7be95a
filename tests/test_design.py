"""docs/DESIGN.md and docs/GLOSSARY.md are true: each rule has code and a scenario, each name that they show exists, and
whatever is cited anywhere (``R<n>``, problems and cases of the papers, headings of DESIGN) is there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.sizes import definitions

PROJECT = Path(__file__).parent.parent
DESIGN = PROJECT / "docs/DESIGN.md"
GLOSSARY = PROJECT / "docs/GLOSSARY.md"

NOT_BUILT = frozenset({22, 23, 25})
"""Rules that have no code yet. This list only gets shorter."""

RULE = re.compile(r"^### R(\d+) (.+?)$\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
CITED = re.compile(r"\bR(\d+)\b|\b(?:test_)?r(\d\d?)[-_](?=[a-z])")
CASE = re.compile(r"\b(?:[Cc]ase(?:\s|#)+([CE]\d+[a-z]?)|(P-\d\d))\b")
HEADING = re.compile(r"\bDESIGN, \"([^\"]+)\"")
ENTRY = re.compile(r"\[[^\]]+\]\(\.\./([^)#]+)\)((?: `[^`]+`)*)")
TEXTS = frozenset({".py", ".pyi", ".md", ".txt", ".toml", ".ts", ".tsx", ".css", ".sql", ""})
SKIPPED = frozenset({"node_modules", "static", "build", "dist", "__pycache__"})


# -- reading -----------------------------------------------------------------------------------------------------------


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


def cites(text: str, rule: int) -> bool:
    return any(int(upper or lower) == rule for upper, lower in CITED.findall(text))


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
    for path, names in code + shown:
        gone = [*missing_names(project, path, names)]
        yield from (f"R{number}: {problem}" for problem in gone)
        if not gone and not cites(f"{Path(path).name}\n{(project / path).read_text()}", number):
            yield f"R{number}: {path} does not cite it"
    for path, names in shown:
        if path == "tests/core/without.py":
            sources = names_in(project / path)
            yield from (
                f"R{number}: {name} is of other rules" for name in names if not cites(sources.get(name, ""), number)
            )


@cache
def texts() -> dict[str, str]:
    """Return all that somebody writes in this repository, by path."""
    found = {}
    for folder, folders, files in os.walk(PROJECT):
        folders[:] = [each for each in folders if each not in SKIPPED and not each.startswith(".")]
        for name in files:
            path = Path(folder) / name
            if path.suffix in TEXTS and not name.startswith(".") and path != Path(__file__):
                found[path.relative_to(PROJECT).as_posix()] = path.read_text(errors="ignore")
    return found


def wrong_citations(
    where: str, text: str, rules: frozenset[int], cases: str, headings: frozenset[str]
) -> Iterator[str]:
    """Say what a text cites that is nowhere. ``cases``: the table of the papers' problems and cases."""
    stem = Path(where).name if where.startswith("tests/scenarios/") else ""
    for upper, lower in CITED.findall(f"{stem}\n{text}"):
        if int(upper or lower) not in rules:
            yield f"{where} cites R{upper or lower}, which is no rule"
    for run, problem in CASE.findall(text):
        if not re.search(rf"\b{run or problem}\b", cases):
            yield f"{where} cites {run or problem}, which DESIGN.md does not have"
    yield from (f"{where} cites {each!r} of DESIGN.md" for each in HEADING.findall(text) if each not in headings)


# -- the tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", sections(DESIGN.read_text()))
def test_a_rule_has_code_and_a_scenario_and_what_it_names_exists(number: int) -> None:
    assert [*problems_of(PROJECT, number, sections(DESIGN.read_text())[number])] == []


def test_every_rule_is_there_once_and_at_a_glance() -> None:
    text = DESIGN.read_text()
    found = [(int(number), title) for number, title, _ in RULE.findall(text)]
    assert [number for number, _ in sorted(found)] == [*range(1, 26)]
    slugs = {number: re.sub(r"[^\w -]", "", f"R{number} {title}".lower()).replace(" ", "-") for number, title in found}
    glance = dict(re.findall(r"^\| \[R(\d+)\]\(#([^)]+)\) \|", text, re.MULTILINE))
    assert glance == {str(number): slugs[number] for number in range(1, 26)}


def test_what_is_cited_anywhere_exists() -> None:
    text = DESIGN.read_text()
    rules, headings = frozenset(sections(text)), frozenset(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    cases = text.partition("## Where the published algorithm fails")[2]
    assert [
        problem
        for where, each in sorted(texts().items())
        for problem in wrong_citations(where, each, rules, cases, headings)
    ] == []


def test_nothing_cites_a_rule_that_is_not_built() -> None:
    """Whoever builds one takes it from the list."""
    code = {where: text for where, text in texts().items() if where.startswith(("plugin", "adapters", "tests"))}
    assert [where for where, text in code.items() for rule in NOT_BUILT if cites(text, rule)] == []


def test_the_words_of_the_glossary_exist() -> None:
    rows = re.findall(r"^\| .*(?!\n\|---)$", GLOSSARY.read_text(), re.MULTILINE)
    assert len(rows) > 60
    found = [entry for line in rows for entry in ENTRY.findall(line)]
    assert [line for line in rows if not ENTRY.search(line)] == [], "a word without its module"
    assert [
        problem for path, names in found for problem in missing_names(PROJECT, path, re.findall("`([^`]+)`", names))
    ] == []


# -- planted -----------------------------------------------------------------------------------------------------------

GOOD = """
*Source:* none.

- **Code:** [core/a](../core/a.py) `A.f` `LIMIT`
- **Shown by:** [r04_x](../tests/scenarios/r04_x.txt); [explorer](../explorer.py) `r4-x`; [tests](../explorer.py)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    files = {
        "core/a.py": '"""R4."""\nLIMIT = 1\nclass A:\n  def f(self):\n    ...\n',
        "explorer.py": 'CONFIGS = {"r4-x": 1}\n',
        "tests/scenarios/r04_x.txt": "# what it shows\n",
        "core/b.py": '"""R40, and R14."""\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("*Source:* none.", "", ["R4 has no source"]),
        ("- **Code:**", "Code:", ["R4 has no code"]),
        ("[core/a](../core/a.py) `A.f` `LIMIT`", "", ["R4 has no code"]),
        ("[r04_x](../tests/scenarios/r04_x.txt); ", "", ["R4 has no scenario"]),
        ("`A.f`", "`A.g`", ["R4: core/a.py has no A.g"]),
        ("`LIMIT`", "`MOST`", ["R4: core/a.py has no MOST"]),
        ("`r4-x`", "`r4-y`", ["R4: explorer.py has no r4-y"]),
        ("r04_x.txt", "r04_y.txt", ["R4: tests/scenarios/r04_y.txt is gone"]),
        ("core/a.py) `A.f` `LIMIT`", "core/b.py)", ["R4: core/b.py does not cite it"]),
        ("*Source:*", "**Not built.**\n\n*Source:*", ["R4 is shown as not built, and not on the list"]),
    ],
)
def test_a_section_that_is_not_true_is_found(planted: Path, old: str, new: str, expected: list[str]) -> None:
    assert [*problems_of(planted, 4, GOOD.replace(old, new))] == expected


@pytest.mark.parametrize("body", [GOOD, GOOD.replace("*Source:*", "**Not built.**\n\n*Source:*"), "*Source:* none."])
def test_a_rule_that_is_not_built_says_so_and_has_nothing_else(planted: Path, body: str) -> None:
    number = min(NOT_BUILT)
    assert [*problems_of(planted, number, body)] == [
        f"R{number} is on the list of rules that are not built, and not shown as one"
    ]
    assert [*problems_of(planted, number, "**Not built.** Until it is ...")] == []


@pytest.mark.parametrize(
    ("where", "text", "expected"),
    [
        ("a.py", '# R4, R1-R3, test_r2_x, case C7a, P-10, DESIGN, "Vocabulary"', []),
        ("a.py", "# R26", ["a.py cites R26, which is no rule"]),
        ("a.py", "def test_r31_x(): ...", ["a.py cites R31, which is no rule"]),
        ("a.py", '"r0-x": Config', ["a.py cites R0, which is no rule"]),
        ("tests/scenarios/r27_x.txt", "", ["tests/scenarios/r27_x.txt cites R27, which is no rule"]),
        ("a.py", "# case C99", ["a.py cites C99, which DESIGN.md does not have"]),
        ("a.py", "# P-98", ["a.py cites P-98, which DESIGN.md does not have"]),
        ("a.py", '# DESIGN, "Verses"', ["a.py cites 'Verses' of DESIGN.md"]),
    ],
)
def test_a_citation_of_what_does_not_exist_is_found(where: str, text: str, expected: list[str]) -> None:
    rules, headings = frozenset(range(1, 26)), frozenset({"Vocabulary"})
    assert [*wrong_citations(where, text, rules, "| P-10 | ... | C7a |", headings)] == expected
