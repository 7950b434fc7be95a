"""docs/DESIGN.md and docs/GLOSSARY.md are true: each rule has code and a scenario, each name that they show exists, and
whatever is cited anywhere (``R<n>``, problems and cases of the papers, headings of DESIGN) is there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.design import (
    ARCHITECTURE,
    CASES,
    DESIGN,
    ENTRY,
    GLOSSARY,
    NOT_BUILT,
    PROJECT,
    RULE,
    cited,
    missing_names,
    problems_of,
    sections,
    texts,
    wrong_citations,
)

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
    unbuilt = re.findall(r"^\| \[R(\d+)\].* Not built\. \|$", text, re.MULTILINE)
    assert {int(number) for number in unbuilt} == NOT_BUILT


def test_what_is_cited_anywhere_exists() -> None:
    text = DESIGN.read_text()
    rules, headings = frozenset(sections(text)), frozenset(re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    reports = frozenset(re.findall(r"^\| (B\d\d) \|", CASES.read_text(), re.MULTILINE))
    cases = text.partition("## Where the published algorithm fails")[2]
    assert [
        problem
        for where, each in sorted(texts().items())
        for problem in wrong_citations(where, each, rules, cases, headings, reports)
    ] == []


def test_nothing_cites_a_rule_that_is_not_built() -> None:
    """Whoever builds one takes it from the list."""
    code = {where: text for where, text in texts().items() if where.startswith(("plugin", "adapters", "tests"))}
    assert [where for where, text in code.items() if cited(text) & NOT_BUILT] == []


def test_the_words_of_the_glossary_exist() -> None:
    rows = re.findall(r"^\| .*(?!\n\|---)$", GLOSSARY.read_text(), re.MULTILINE)
    assert len(rows) > 60
    found = [entry for line in rows for entry in ENTRY.findall(line)]
    assert [line for line in rows if not ENTRY.search(line)] == [], "a word without its module"
    assert [
        problem for path, names in found for problem in missing_names(PROJECT, path, re.findall("`([^`]+)`", names))
    ] == []


def test_the_places_named_in_the_architecture_exist() -> None:
    modules = {f"{path.parent.name}/{path.stem}" for path in (PROJECT / "plugin").rglob("*.py")}
    rooms = "client|endpoint|protocol|sequencer|service|store|traces"
    assert {*re.findall(rf"`((?:{rooms})/[a-z_]+)", ARCHITECTURE.read_text())} - modules == set()
    found = ENTRY.findall(ARCHITECTURE.read_text().partition("## One event")[2].partition("\n## ")[0])
    assert len(found) > 8
    assert [
        each for path, names in found for each in missing_names(PROJECT, path, re.findall("`([^`]+)`", names))
    ] == []


# -- planted -----------------------------------------------------------------------------------------------------------

GOOD = """
*Run*: x, y.

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
        ("*Run*", "Run", ["R4 has no run that breaks without it"]),
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
        ("a.py", "def test_b98_x(): ... # B12", ["a.py cites B98, which CASES.md does not have"]),
        ("a.py", '# DESIGN, "Verses"', ["a.py cites 'Verses' of DESIGN.md"]),
    ],
)
def test_a_citation_of_what_does_not_exist_is_found(where: str, text: str, expected: list[str]) -> None:
    rules, headings, reports = frozenset(range(1, 26)), frozenset({"Vocabulary"}), frozenset({"B12"})
    assert [*wrong_citations(where, text, rules, "| P-10 | ... | C7a |", headings, reports)] == expected
