"""The tool that plants mistakes: which ones it makes of a module, how it plants them, and what it knows of them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
from tests.mutants.making import mutants_of
from tests.mutants.planting import Planter
from tests.mutants.records import EQUIVALENT, Results, Score, equivalents, total
from tests.mutants.running import in_child

SOURCE = '''
"""A module."""
LIMIT = 5


def highest(numbers: list[int], known: dict[int, int]) -> int:
    """Return something."""
    best = 0
    known[1] = 2
    for each in numbers:
        if each > best and each not in known:
            best = max(best, each)
            known.pop(each)
            continue
        assert each
    return best - 1 if numbers else 0
'''


def test_what_may_be_wrong_in_a_function() -> None:
    found = list(mutants_of(SOURCE))
    assert [(each.lines[0] - 1, each.what) for each in found] == [
        (7, "best = 0  ->  pass"),
        (7, "0  ->  (1)"),
        (8, "known[1] = 2  ->  pass"),
        (8, "1  ->  (2)"),
        (8, "2  ->  (3)"),
        (10, "each > best and each not in known  ->  (each > best or each not in known)"),
        (10, "each > best  ->  (each >= best)"),
        (10, "each not in known  ->  (each in known)"),
        (11, "best = max(best, each)  ->  pass"),
        (11, "best = max(best, each) known.pop(each)  ->  known.pop(each) best = max(best, each)"),
        (11, "max(best, each)  ->  (min(best, each))"),
        (12, "known.pop(each)  ->  pass"),
        (13, "continue  ->  pass"),
        (15, "best - 1 if numbers else 0  ->  (0 if numbers else best - 1)"),
        (15, "best - 1  ->  (best + 1)"),
        (15, "1  ->  (2)  (2)"),
        (15, "0  ->  (1)  (2)"),
    ]
    assert len({each.source for each in found}) == len({each.name for each in found}) == len(found)
    assert {each.function for each in found} == {"highest"}
    for each in found:
        ast.parse(each.source)
        changed = [a for a, b in zip(SOURCE.splitlines(), each.source.splitlines(), strict=True) if a != b]
        assert len(changed) <= 2, "nothing else"


PLANTED = """
class Base:
    def __init__(self) -> None:
        self.at = 1

class Counter(Base):
    def __init__(self) -> None:
        super().__init__()
        self.step = 2

    @property
    def next(self) -> int:
        return self.at + self.step

first = Counter.__init__
"""


def test_a_mistake_is_planted_in_what_is_imported_already(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(PLANTED)
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    planter, mutants = Planter(path), {each.name: each for each in mutants_of(PLANTED)}
    counter = module.Counter()
    assert counter.next == 3
    planter.plant(mutants["Counter.next: self.at + self.step  ->  (self.at - self.step)"].source)
    assert counter.next == -1
    planter.plant(mutants["Counter.__init__: 2  ->  (3)"].source)
    module.first(counter)
    assert (counter.step, counter.next) == (3, 4), "one mistake at a time"
    with pytest.raises(ValueError, match="free vars"):
        planter.plant(mutants["Counter.__init__: super().__init__()  ->  pass"].source)


def test_what_became_of_a_mistake_is_known_until_its_module_changes(tmp_path: Path) -> None:
    path, (one, two, *_) = tmp_path / "made" / "results", mutants_of(SOURCE)
    (longer, *_) = mutants_of(SOURCE + "LEAST = 1\n")
    Results(path).add("a.py", one, "", 0.1)
    results = Results(path)
    assert [results.of("a.py", each) for each in (one, two, longer)] == ["", None, None]
    results.add("a.py", one, "tests/test_a.py::test_b", 0.1)
    assert Results(path).of("a.py", one) == "tests/test_a.py::test_b"
    assert total([Score(3, 1, ["x"])]) == "3 of 4 mistakes were noticed (75.0 %), 1 more change nothing"


def test_mistakes_that_change_nothing_stand_with_a_reason() -> None:
    assert equivalents("# why\na.py\n    f: 1  ->  (2)\n        for\n\nb.py\n    g: x  ->  pass\n        so\n") == {
        "a.py": {"f: 1  ->  (2)"},
        "b.py": {"g: x  ->  pass"},
    }
    lines = EQUIVALENT.read_text().splitlines()
    assert all(Path(__file__).parents[1].joinpath(each).exists() for each in equivalents(EQUIVALENT.read_text()))
    indents = [len(each) - len(each.lstrip()) for each in lines if each and not each.startswith("#")]
    assert [two for one, two in zip(indents, [*indents[1:], 0], strict=True) if one == 4] == [8] * indents.count(4)


def test_a_child_answers_or_is_ended() -> None:
    assert in_child(lambda: [1], 60) == [1]
    assert isinstance(in_child(lambda: 1 // 0, 60), ZeroDivisionError)
