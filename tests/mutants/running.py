"""Runs tests in processes that are forked when all is imported and collected: a mistake costs its tests alone."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.mutants.making import Mutant
from tests.mutants.planting import Planter

MOST_SECONDS = 15.0
"""How long the tests that come by a line may take together; who comes by a line most often does so in many."""
HANGS, WAITS = 3, 60
"""Seconds at work, and in all, beyond three times those of a test after which one that hangs has noticed, too."""
Runs = dict[str, tuple[float, dict[str, set[int]]]]
"""By test, how long it worked and which lines of which module it came by."""


def in_child(call: Callable[[], object], seconds: int) -> Any:
    """Return what a call returns in a process of its own, without a word; ``None`` where it took too long or died."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(seconds)
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            answer = pickle.dumps(call())
        except BaseException as error:
            answer = pickle.dumps(error)
        with os.fdopen(writing, "wb") as out:
            out.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answered:
        data = answered.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


class Laboratory:
    """A pytest plugin: hands what was collected to an experiment, instead of running it."""

    def __init__(self, experiment: Callable[[Laboratory], None]) -> None:
        self._experiment = experiment
        self._items: dict[str, pytest.Item] = {}
        self._failed = ""
        self._runs: Runs = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("not all tests can be collected")
        self._items = {item.nodeid: item for item in session.items}
        self._experiment(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def collected(self, places: Iterable[str]) -> list[str]:
        """Return the tests of files, folders or ids, place by place."""
        found = [test for place in places for test in self._items if test.startswith(place)]
        return list(dict.fromkeys(found))

    def look(self, tests: list[str], paths: list[Path], *, closely: bool) -> None:
        """Find out which tests come by which lines of modules; where not ``closely``, all lines of what is called
        count. Raises SystemExit if one fails without a mistake."""
        answer = in_child(partial(self._look, tests, {str(each) for each in paths}, closely), 3600)
        if not isinstance(answer, tuple):
            raise SystemExit(f"the tests cannot be run: {answer}")
        runs, failed = answer
        if failed:
            raise SystemExit(f"without any mistake fails {failed}")
        self._runs |= runs

    def _look(self, tests: list[str], paths: set[str], closely: bool) -> tuple[Runs, str]:
        runs: Runs = {}
        for test in tests:
            lines: dict[str, set[int]] = {path: set() for path in paths}
            began = time.process_time()
            sys.settrace(partial(_on_call, lines) if closely else partial(_on_first_call, lines, set()))
            try:
                self._run([test])
            finally:
                sys.settrace(None)
            runs[test] = time.process_time() - began, {path: found for path, found in lines.items() if found}
        return runs, self._failed

    def near(self, path: Path, lines: tuple[int, int], among: list[str]) -> list[str]:
        """Return the tests that come by lines of a module: those of files named after it first, then the quickest."""
        wanted = set(range(lines[0], lines[1] + 1))
        found = [test for test in among if wanted & self._runs[test][1].get(str(path), set())]
        return sorted(found, key=lambda test: (f"test_{path.stem}" not in test, self._runs[test][0]))

    def affordable(self, tests: list[str]) -> list[str]:
        """Return the first of some tests, as far as ``MOST_SECONDS`` go."""
        ends = accumulate(self._runs[test][0] for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end <= MOST_SECONDS]

    def notices(self, mutant: Mutant, planter: Planter, tests: list[str]) -> str:
        """Return the test that fails with a mistake, "" if none does. Raises ValueError if it cannot be planted."""
        limit = WAITS + int(3 * sum(self._runs[each][0] for each in tests))
        answer = in_child(partial(self._planted, mutant, planter, tests), limit)
        if isinstance(answer, BaseException):
            raise answer
        return "hangs" if answer is None else str(answer)

    def _planted(self, mutant: Mutant, planter: Planter, tests: list[str]) -> str:
        planter.plant(mutant.source)
        return self._run(tests)

    def _run(self, tests: list[str]) -> str:
        for test in tests:
            item = self._items[test]
            if test in self._runs:
                signal.setitimer(signal.ITIMER_VIRTUAL, HANGS + 3 * self._runs[test][0])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self._failed:
                break
        return self._failed


def _on_call(lines: dict[str, set[int]], frame: FrameType, event: str, _: object) -> Any:
    here = lines.get(frame.f_code.co_filename)
    if here is None:
        return None

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        here.add(frame.f_lineno)
        return on_line

    return on_line


def _on_first_call(lines: dict[str, set[int]], seen: set[int], frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if id(code) not in seen:  # its hash is that of its content, and slow
        seen.add(id(code))
        if (here := lines.get(code.co_filename)) is not None:
            here.update(line for *_, line in code.co_lines() if line is not None)
