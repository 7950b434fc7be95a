"""Plants mistakes from the command line, and runs the tests that could notice."""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest
from tests.mutants import __doc__ as what
from tests.mutants.making import Mutant, mutants_of

PROJECT = Path(__file__).parents[2]
TESTS = ("tests/core", "tests/scenarios")
MOST_TESTS = 400
"""Tests that run for one mistake; who comes by a line most often does so in many."""
HANGS = 60
"""Seconds beyond those of the tests after which one that hangs has noticed, too."""
Runs = dict[str, tuple[float, set[int]]]
"""By test, how long it took and which lines of the module it came by."""


class _Lines:
    """Notes which lines of a file each test comes by."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.runs: Runs = {}
        self.failed = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        lines, path = set[int](), self._path

        def on_line(frame: FrameType, event: str, _: object) -> Any:
            lines.add(frame.f_lineno)
            return on_line

        def on_call(frame: FrameType, event: str, _: object) -> Any:
            return on_line if frame.f_code.co_filename == path else None

        began = time.perf_counter()
        sys.settrace(on_call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            if lines:
                self.runs[item.nodeid] = time.perf_counter() - began, lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


class _Planted(importlib.abc.MetaPathFinder):
    """Gives a module another source than its file has."""

    def __init__(self, name: str, path: str, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        source, where = self._source, self._path

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(source, where, "exec", dont_inherit=True)

        return importlib.util.spec_from_file_location(name, where, loader=Loader(name, where))


def in_child(call: Callable[[], object], seconds: int) -> Any:
    """Return what a call returns in a process of its own, without a word; ``None`` where it took too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(seconds)
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        answer = call()
        with os.fdopen(writing, "wb") as out:
            pickle.dump(answer, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answered:
        data = answered.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def run_tests(tests: list[str], plugin: object | None = None) -> int:
    quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*quiet, *tests], plugins=[] if plugin is None else [plugin]))


def look(path: str, tests: list[str]) -> tuple[Runs, list[str], str]:
    """Return which tests come by which lines of a module, what they imported that is not ours, and what failed."""
    lines = _Lines(path)
    run_tests(tests, lines)
    theirs = [
        name for name, module in sys.modules.items()
        if "site-packages" in (getattr(module, "__file__", None) or "") and "pytest" not in name
    ]  # fmt: skip
    return lines.runs, theirs, lines.failed


def plant(mutant: Mutant, module: str, path: str, tests: list[str]) -> int:
    """Return the exit code of the tests with a mistake in a module."""
    sys.meta_path.insert(0, _Planted(module, path, mutant.source))
    return run_tests(tests)


def main() -> int:
    """Run; 1 if there is nothing to run."""
    parser = argparse.ArgumentParser(
        "python -m tests.mutants", description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", help="files, like plugin/inorder_worker/sequencer/bases.py")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="what could notice (%(default)s)")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth mistake")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    options = parser.parse_args()
    os.chdir(PROJECT)
    until = time.monotonic() + options.seconds
    noticed = planted = 0
    for file in options.modules:
        found = of_module(file, options.tests, options.every, until)
        noticed, planted = noticed + found[0], planted + found[1]
    print(f"{noticed} of {planted} mistakes were noticed")  # noqa: T201
    return 0 if planted else 1


def of_module(file: str, tests: list[str], every: int, until: float) -> tuple[int, int]:
    """Return how many mistakes were noticed of how many; print the others."""
    path = PROJECT / file
    module = ".".join(path.relative_to(PROJECT).with_suffix("").parts[1:])
    runs, theirs, failed = in_child(partial(look, str(path), tests), 3600) or ({}, [], "the run, which took too long")
    if failed:
        raise SystemExit(f"without any mistake fails {failed}")
    for name in theirs:
        try:
            importlib.import_module(name)  # once for all children
        except ImportError:
            continue
    noticed = planted = 0
    for mutant in list(mutants_of(path.read_text()))[::every]:
        if time.monotonic() > until:
            break
        first, last = mutant.lines
        chosen = sorted((time_, test) for test, (time_, lines) in runs.items() if lines & set(range(first, last + 1)))
        chosen = chosen[:MOST_TESTS]
        limit = int(HANGS + sum(each for each, _ in chosen))
        ids = [test for _, test in chosen]
        code = in_child(partial(plant, mutant, module, str(path), ids), limit) if ids else 0
        planted += 1
        noticed += code != 0
        if not code:
            reached = "" if ids else " (no test comes by)"
            print(f"{file}:{first}: {mutant.what}{reached}", flush=True)  # noqa: T201
    return noticed, planted


if __name__ == "__main__":
    sys.exit(main())
