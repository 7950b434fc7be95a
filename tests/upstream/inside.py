"""Inside the process of the tests: swaps the import, runs pytest, writes down what became of each test.

``python -m upstream.inside MODULE PASS swapped|unswapped RESULTS ARGUMENT...`` in the folder of the tests. This module
goes by another name than elsewhere, since ``tests`` is the library's own package there.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from .suite import Pass, Suite


class Recorder:
    """A plugin of pytest: takes out what is not applicable and writes a line of JSON for each thing that is known."""

    def __init__(self, path: Path, chosen: Pass) -> None:
        self._file = open(path, "w", buffering=1, encoding="utf-8")  # noqa: SIM115 (lives as long as the process)
        self._not_applicable = dict(chosen.not_applicable)

    def write(self, **line: Any) -> None:
        """Write one line."""
        self._file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Say what there is, and leave out what is not applicable."""
        used = set[str]()
        kept, left_out = [], []
        for item in items:
            pattern = next((each for each in self._not_applicable if matches(item.nodeid, each)), None)
            if pattern is None:
                kept.append(item)
                self.write(test=item.nodeid, outcome="collected")
            else:
                used.add(pattern)
                left_out.append(item)
                self.write(test=item.nodeid, outcome="not applicable", reason=self._not_applicable[pattern])
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
        for each in self._not_applicable:
            if each not in used:
                self.write(stale=each)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be read is a failure of all that is in it."""
        if report.failed:
            self.write(test=report.nodeid, outcome="failed", reason=_last_line(report.longreprtext))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One part of a test ended."""
        if report.failed:
            where = "" if report.when == "call" else f"{report.when}: "
            self.write(test=report.nodeid, outcome="failed", reason=where + _last_line(report.longreprtext))
        elif report.skipped:
            expected = getattr(report, "wasxfail", None)
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.write(
                test=report.nodeid,
                outcome="not applicable",
                reason=f"upstream: {reason.removeprefix('Skipped: ') if expected is None else expected or 'xfail'}",
            )
        elif report.when == "call":
            self.write(test=report.nodeid, outcome="passed")


def matches(node: str, pattern: str) -> bool:
    """A node id matches a pattern; brackets, of parameters, stand for themselves."""
    return fnmatchcase(node, pattern.replace("[", "[[]"))


def _last_line(text: str) -> str:
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return (errors or text.splitlines() or [""])[0][:200]


def main() -> int:
    """Run one pass."""
    # what was started in the background ignores it, and so would the programs that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, number, how, results, *arguments = sys.argv[1:]
    suite: Suite = importlib.import_module(module).SUITE
    if how == "swapped":
        suite.swap()
    here = str(Path(__file__).parents[1])
    sys.path[:] = [each for each in sys.path if each != here]
    return pytest.main(arguments, plugins=[Recorder(Path(results), suite.passes[int(number)])])


if __name__ == "__main__":
    raise SystemExit(main())
