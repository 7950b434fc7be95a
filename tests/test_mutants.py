"""The tool that plants mistakes: which ones it makes of a module."""

from __future__ import annotations

import ast

from tests.mutants.making import mutants_of

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
        (7, "best = 0 known[1] = 2  ->  known[1] = 2 best = 0"),
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
        (15, "1  ->  (2)"),
        (15, "0  ->  (1)"),
    ]
    assert len({each.source for each in found}) == len(found)
    for each in found:
        ast.parse(each.source)
        changed = [a for a, b in zip(SOURCE.splitlines(), each.source.splitlines(), strict=True) if a != b]
        assert len(changed) <= 2, "nothing else"
