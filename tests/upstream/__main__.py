"""Runs upstream libraries' own tests against the drop-in clients: ``python -m tests.upstream [SUITE...]``.

Fetches the source distributions (pip download), swaps the import, prints what passed, failed and is not applicable,
with the reason. Exit code 1 where less than 95 % of what is applicable passes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from inorder.testing.services import WorkerServer

from .fetch import fetched
from .suite import Pass, Suite

PROJECT = Path(__file__).parents[2]
ROOTS = ("plugin", "adapters", "controlplane", "webui", "analytics")
SHARE = 0.95
SUITES = Path(__file__).parent / "suites"


@dataclass
class Outcome:
    """What became of the tests of one pass, by node id; with the reason, where there is one."""

    passed: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    not_applicable: dict[str, str] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)

    @property
    def applicable(self) -> int:
        """How many tests count."""
        return len(self.passed) + len(self.failed)


def run_pass(module: str, suite: Suite, number: int, folder: Path, *, swap: bool = True) -> Outcome:
    """Run one pass of a suite, which inside the process of the tests is ``module``; the tests are in ``folder``."""
    chosen = suite.passes[number]
    with ExitStack() as stack:
        services = stack.enter_context(chosen.services())
        workers = stack.enter_context(WorkerServer()).url if chosen.is_ordered and swap else ""
        results = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "results"
        paths = [str(PROJECT / "tests"), *(str(PROJECT / root) for root in ROOTS)]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(paths), "INORDER_CLIENT__WORKERS": workers,
            **services.environment,
        }  # fmt: skip
        command = [sys.executable, "-m", "upstream.inside", module, str(number), "swapped" if swap else "unswapped"]
        command += [str(results), "-q", "--no-header", "-p", "no:cacheprovider"]
        command += [*chosen.arguments, *services.arguments, *chosen.tests]
        with open(folder.parent / f"{folder.name}-{number}.log", "wb") as log:
            reason = _run(command, folder, environment, log.fileno(), chosen)
        return read(results, reason)


def _run(command: list[str], folder: Path, environment: dict[str, str], log: int, chosen: Pass) -> str:
    """Run the tests; return what to say of those that have no result."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        return f"the process ended before it (exit code {process.wait(chosen.timeout)})"
    except subprocess.TimeoutExpired:
        return f"did not end within {chosen.timeout:g} s, of all tests"
    finally:
        process.kill()
        process.wait()


def read(results: Path, reason: str) -> Outcome:
    """Return the outcome that the process wrote down; a test without a result has failed for ``reason``."""
    outcome = Outcome()
    found: dict[str, tuple[str, str]] = {}
    rank = ["collected", "passed", "not applicable", "failed"]
    for line in results.read_text().splitlines() if results.exists() else ():
        told = json.loads(line)
        if "stale" in told:
            outcome.stale.append(told["stale"])
        elif rank.index(told["outcome"]) >= rank.index(found.get(told["test"], ("collected", ""))[0]):
            found[told["test"]] = told["outcome"], told.get("reason", "")
    for test, (what, why) in found.items():
        if what == "collected":
            what, why = "failed", reason
        {"passed": outcome.passed, "failed": outcome.failed}.get(what, outcome.not_applicable)[test] = why
    if not found:
        outcome.failed["(no test was found)"] = reason
    return outcome


def report(name: str, chosen: Pass, outcome: Outcome) -> None:
    """Print the outcome of one pass."""
    print(f"\n{name}: {chosen.name} ({'a worker orders' if chosen.is_ordered else 'no workers'})")
    print(
        f"  {len(outcome.passed)} passed, {len(outcome.failed)} failed, {len(outcome.not_applicable)} not applicable;"
        f" {share(outcome):.1%} of {outcome.applicable}"
    )
    for test, why in outcome.failed.items():
        print(f"  failed          {test}\n                  {why}")
    reasons: dict[str, list[str]] = {}
    for test, why in outcome.not_applicable.items():
        reasons.setdefault(why, []).append(test)
    for why, tests in reasons.items():
        for test in tests:
            print(f"  not applicable  {test}")
        print(f"                  {why}")
    for each in outcome.stale:
        print(f"  {each} is said to be not applicable, but is no test")


def share(*outcomes: Outcome) -> float:
    """Return which part of the applicable tests passed."""
    return sum(len(each.passed) for each in outcomes) / max(1, sum(each.applicable for each in outcomes))


def suite_names() -> list[str]:
    """Return the suites there are."""
    return sorted(each.stem for each in SUITES.glob("*.py"))


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="tests/upstream/run", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(suite_names())}; by default all")
    parser.add_argument("--unswapped", action="store_true", help="the library itself, to see what fails with it, too")
    given = parser.parse_args()
    if unknown := [each for each in given.suites if each not in suite_names()]:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(suite_names())}")
    is_good = True
    for name in given.suites or suite_names():
        suite: Suite = importlib.import_module(f".suites.{name}", __package__).SUITE
        outcomes = []
        for number, chosen in enumerate(suite.passes):
            folder = fetched(suite)
            outcomes.append(run_pass(f"upstream.suites.{name}", suite, number, folder, swap=not given.unswapped))
            report(name, chosen, outcomes[-1])
        print(f"\n{name}: {share(*outcomes):.1%} of {sum(each.applicable for each in outcomes)} applicable tests pass")
        is_good &= share(*outcomes) >= SHARE and not any(each.stale for each in outcomes)
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
