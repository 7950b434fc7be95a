"""Plants mistakes from the command line, and runs the tests that could notice."""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from tests.mutants import __doc__ as what
from tests.mutants.making import Mutant, mutants_of
from tests.mutants.planting import Planter
from tests.mutants.records import EQUIVALENT, Results, Score, equivalents, total
from tests.mutants.running import Laboratory

PROJECT = Path(__file__).parents[2]
TESTS = ("tests/core", "tests/scenarios")
DEEP = (
    *(f"tests/simulation/test_simulation.py::test_random_runs_keep_every_promise[{at}]" for at in range(1, 301, 50)),
    "tests/explorer/test_explorer.py::test_every_interleaving_keeps_every_promise",
    "tests/explorer/test_explorer.py::test_leaving_out_moves_leaves_out_no_outcome",
)
"""300 seeds, and all interleavings of the smaller systems: seconds each, so for what no quicker test noticed."""
QUIET = ("-q", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.mutants", description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", help="files or folders, like plugin/inorder_worker/sequencer/bases.py")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="what could notice (%(default)s)")
    parser.add_argument("--deep", action="store_true", help="then 300 seeds of the simulation, and the short explorer")
    parser.add_argument(
        "--sample",
        type=int,
        default=sys.maxsize,
        help="only so many mistakes a module, by chance; a larger sample has the smaller one",
    )
    parser.add_argument("--seed", type=int, default=1, help="of that chance (%(default)s)")
    parser.add_argument("--results", type=Path, default=PROJECT / "build/mutants.jsonl", help="(%(default)s)")
    parser.add_argument("--again", choices=("all", "survivors"), help="try those again whose results are there")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    return parser.parse_args()


def main() -> int:
    """Run; 1 if something survived, or there is nothing to run."""
    options = parsed()
    os.chdir(PROJECT)
    paths = [PROJECT / each for each in options.modules]
    files = [file for path in paths for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    trial = Trial(options, files)
    deep = DEEP if options.deep else ()
    pytest.main([*QUIET, *options.tests, *deep], plugins=[Laboratory(trial.run)])
    for file, score in trial.scores.items():
        print(f"{file}: {score}", *score.survivors, sep="\n    ")  # noqa: T201
    print(total(trial.scores.values()))  # noqa: T201
    return int(not trial.scores or any(each.survivors for each in trial.scores.values()))


class Trial:
    """The mistakes of some modules, and what became of them."""

    def __init__(self, options: argparse.Namespace, paths: list[Path]) -> None:
        self._options = options
        self._paths = paths
        self._results = Results(options.results)
        self._until = time.monotonic() + options.seconds
        self._has_looked = False
        self._quick: list[str] = []
        self._deep: list[str] = []
        self.scores: dict[str, Score] = {}

    def run(self, laboratory: Laboratory) -> None:
        """Try all that there are no results of."""
        planters = {path: Planter(path) for path in self._paths}  # before the freeze, which hides what there is
        gc.freeze()  # else each child's first collection copies all of the memory
        self._quick = laboratory.collected(self._options.tests)
        self._deep = [each for each in laboratory.collected(DEEP) if each not in self._quick]
        nothing = equivalents(EQUIVALENT.read_text())
        for path, planter in planters.items():
            file = str(path.relative_to(PROJECT))
            mutants = list(mutants_of(planter.source))
            for name in nothing.get(file, set()).difference(each.name for each in mutants):
                print(f"{EQUIVALENT.name}: {file} has this no more: {name}")  # noqa: T201
            mutants.sort(key=partial(_by_chance, self._options.seed, file))
            for mutant in sorted(mutants[: self._options.sample], key=lambda each: each.lines):
                if time.monotonic() < self._until:
                    self._judge(laboratory, planter, path, mutant, mutant.name in nothing.get(file, ()))

    def _judge(self, laboratory: Laboratory, planter: Planter, path: Path, mutant: Mutant, is_nothing: bool) -> None:
        file = str(path.relative_to(PROJECT))
        score = self.scores.setdefault(file, Score())
        if is_nothing:
            score.equivalent += 1
            return
        by = self._results.of(file, mutant)
        if by is None or self._options.again == "all" or (self._options.again and not by):
            began = time.monotonic()
            try:
                by = self._notices(laboratory, planter, path, mutant)
            except ValueError:
                return  # it cannot be planted
            self._results.add(file, mutant, by, time.monotonic() - began)
        if by:
            score.noticed += 1
            return
        score.survivors.append(f"{file}:{mutant.lines[0]}: {mutant.name}")
        print(score.survivors[-1], flush=True)  # noqa: T201

    def _notices(self, laboratory: Laboratory, planter: Planter, path: Path, mutant: Mutant) -> str:
        if not self._has_looked:
            self._has_looked = True
            laboratory.look(self._quick, self._paths, closely=True)
            laboratory.look(self._deep, self._paths, closely=False)
        near = laboratory.near(path, mutant.lines, self._quick)
        by = laboratory.notices(mutant, planter, laboratory.affordable(near)) if near else ""
        for test in laboratory.near(path, mutant.lines, self._deep):
            by = by or laboratory.notices(mutant, planter, [test])
        return by


def _by_chance(seed: int, file: str, mutant: Mutant) -> bytes:
    """Return a place that stays as it is when the module, or what mistakes are, changes elsewhere."""
    return hashlib.sha256(f"{seed} {file} {mutant.name}".encode()).digest()


if __name__ == "__main__":
    sys.exit(main())
