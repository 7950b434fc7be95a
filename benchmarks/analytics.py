"""``inorder analyze`` (Spark on this machine) beside DuckDB: the same result of the same files, how fast, in how much
memory, and how the time grows with the rows.

Both start from nothing, as a command does: what starting Spark takes is in its time. Both results must be equal,
and equal to what is true of the traces by their construction, else there is no figure.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.processes import RunFailed
from benchmarks.rows import Row, Say, Spread, paired, spread

SUBSCRIBERS: Final = 9
TOPICS: Final = 20
DISORDER: Final = 0.2
AIM_GROWTH: Final = 1.2
"""The most that a further row may cost at the greatest size, to what one costs at the least: noise is below."""

_SAMPLE_S: Final = 0.25
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Contender:
    """A command that prints the result of an analysis as JSON; ``{traces}`` and ``{out}`` stand for its folders."""

    name: str
    command: tuple[str, ...]

    def words(self, traces: Path, out: Path) -> list[str]:
        """Return the command for these folders."""
        return [sys.executable, *(word.format(traces=traces, out=out) for word in self.command)]


SPARK: Final = Contender("inorder analyze", ("-m", "inorder", "analyze", "{traces}", "--out", "{out}", "--json"))
DUCKDB: Final = Contender("DuckDB", ("-m", "benchmarks.traces_in_duckdb", "{traces}"))


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a contender: from its start to its end, and the most that all of its processes held together."""

    seconds: float
    peak_bytes: int
    result: dict[str, Any]


def measure(
    sizes: Sequence[int], repeats: int, say: Say, *, ours: Contender = SPARK, theirs: Contender = DUCKDB
) -> list[Row]:
    """Measure both with traces of each size (in rows), in turn, forwards and backwards, ``repeats`` times.

    Raises:
        RunFailed: a command failed, or what it says is not what the other says, or is not true.
    """
    ran: dict[tuple[int, str], list[Ran]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="inorder-analytics-") as folder:
        for size in sizes:
            traces = Path(folder) / str(size)
            truth = _generate(traces, size)
            say(f"analytics: about {size:,} rows are made")
            for repeat in range(repeats):
                for each in (ours, theirs) if repeat % 2 == 0 else (theirs, ours):
                    with tempfile.TemporaryDirectory(prefix="out-", dir=folder) as out:
                        done = _run(each.words(traces, Path(out)))
                    say(f"analytics: {each.name}: {done.seconds:.1f} s, {done.peak_bytes >> 20:,} MiB at most")
                    _check(each, done, truth)
                    ran[size, each.name].append(done)
                _compare(ran[size, ours.name][-1], ran[size, theirs.name][-1], ours, theirs)
    return _rows(sizes, ran, ours, theirs)


def _generate(traces: Path, size: int) -> dict[str, Any]:
    shape = {"events": max(1, size // (1 + SUBSCRIBERS)), "subscribers": SUBSCRIBERS, "topics": TOPICS}
    options = [f"--{name}={value}" for name, value in {**shape, "disorder": DISORDER, "seed": 1}.items()]
    command = [sys.executable, "-m", "inorder", "traces", "generate", str(traces), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    truth: dict[str, Any] = msgspec.json.decode((traces / "_truth.json").read_bytes())
    return truth


def _run(command: list[str]) -> Ran:
    began = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        with _watched(process.pid) as peak:
            printed, _ = process.communicate()
        seconds = time.perf_counter() - began
        if process.returncode:
            errors.seek(0)
            raise RunFailed(f"{' '.join(command)} failed: {errors.read().decode(errors='replace')[-2000:]}")
    return Ran(seconds, peak[0], msgspec.json.decode(printed))


# -- memory ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """Yield one number: the most bytes that a process and all below it held at any look so far; 0 without /proc."""
    peak = [0]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_SAMPLE_S):
            peak[0] = max(peak[0], sum(map(_held, _tree(pid))))

    thread = threading.Thread(target=watch, name="memory")
    thread.start()
    try:
        yield peak
    finally:
        is_over.set()
        thread.join()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield from _tree(int(child))


def _held(pid: int) -> int:
    """Return a process's proportional set size: its own pages, and its share of those that it has with others."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


# -- what must be equal ------------------------------------------------------------------------------------------------


def _check(contender: Contender, done: Ran, truth: dict[str, Any]) -> None:
    """Raise RunFailed where a result has another value than the traces were made with."""
    names = [name for name in truth if name in done.result and name not in ("files", "popularity")]
    # Clocks are corrected to within this.
    error = done.result["clock_error_ms"]["max"] or 0.0
    wrong = [
        f"{name} is {done.result[name]}, not {truth[name]}"
        for name in names
        if not _alike(done.result[name], truth[name], error if name == "latency_ms" else 0.0)
    ]
    if wrong:
        raise RunFailed(f"{contender.name}: {'; '.join(wrong)}")


def _alike(one: Any, two: Any, error: float = 0.0) -> bool:
    """Equal; of floating numbers the last digits depend on the order in which they are summed."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_alike(each, two[key], error) for key, each in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) <= error + 1e-9 * max(1.0, abs(two))
    return bool(one == two)


def _compare(one: Ran, two: Ran, ours: Contender, theirs: Contender) -> None:
    names = (one.result.keys() | two.result.keys()) - {"made_at", "path"}
    differing = sorted(name for name in names if not _alike(one.result.get(name), two.result.get(name)))
    if differing:
        raise RunFailed(f"{ours.name} and {theirs.name} differ in {', '.join(differing)}")


# -- rows of the table -------------------------------------------------------------------------------------------------


def _rows(sizes: Sequence[int], ran: dict[tuple[int, str], list[Ran]], ours: Contender, theirs: Contender) -> list[Row]:
    rows = []
    for size in sizes:
        rates = {
            each.name: [done.result["rows"] / done.seconds for done in ran[size, each.name]] for each in (ours, theirs)
        }
        for each in (ours, theirs):
            own = ran[size, each.name]
            rows.append(
                Row(
                    workload=f"analysis of {size:,} rows",
                    name=each.name,
                    unit="rows/s",
                    value=spread(rates[each.name]),
                    ratio=paired(rates[ours.name], rates[theirs.name]) if each is ours else None,
                    yardstick=f"of {theirs.name}" if each is ours else "",
                    more={
                        "seconds": median(done.seconds for done in own),
                        "peak MiB": max(done.peak_bytes for done in own) / (1 << 20),
                    },
                )
            )
    rows += [_growth(sizes, ran, each, AIM_GROWTH if each is ours else None) for each in (ours, theirs)]
    return [row for row in rows if row is not None]


def _growth(
    sizes: Sequence[int], ran: dict[tuple[int, str], list[Ran]], contender: Contender, aim: float | None
) -> Row | None:
    """Return what a million further rows cost between the two greatest sizes, to that between the two least.

    Starting takes the same time at all sizes and is in none of the two. Needs three sizes.
    """
    if len(sizes) < 3:
        return None
    ordered = sorted(sizes)
    seconds = [[done.seconds for done in ran[size, contender.name]] for size in ordered]
    steps = [
        [(more - less) / (size - before) * 1e6 for less, more in zip(*times, strict=True)]
        for (before, size), times in zip(itertools.pairwise(ordered), itertools.pairwise(seconds), strict=True)
    ]
    ratio = paired(steps[-1], steps[0])
    whole = [median(times) / size for times, size in zip(seconds, ordered, strict=True)]
    return Row(
        workload=f"growth from {ordered[0]:,} to {ordered[-1]:,} rows",
        name=contender.name,
        unit="s for a further million rows",
        value=Spread(median(steps[-1]), min(map(min, steps)), max(map(max, steps))),
        ratio=ratio,
        yardstick=f"of that at {ordered[0]:,}",
        aim=f"<= {aim}" if aim is not None else "",
        reached=ratio.median <= aim if aim is not None else None,
        more={"time per row, greatest to least": whole[-1] / whole[0]},
    )
