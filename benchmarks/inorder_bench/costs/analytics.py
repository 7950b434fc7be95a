"""``inorder analyze`` (Spark on this machine) beside DuckDB: the same result of the same files, how fast, in how much
memory, and how the time grows with the rows.

Both start from nothing, as a command does: what starting Spark takes is in its time. Both results must be equal,
and equal to what is true of the traces by their construction, else there is no figure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
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

from inorder_bench.processes import RunFailed
from inorder_bench.rows import Row, Say, paired, spread

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
DUCKDB: Final = Contender("DuckDB", ("-m", "inorder_bench.costs.traces_in_duckdb", "{traces}"))


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a contender: from its start to its end, and of all of its processes together the processor time and
    the most that they held."""

    seconds: float
    cpu_seconds: float
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
                    say(f"analytics: {each.name}: {_words(done)}")
                    _check(each, done, truth)
                    ran[size, each.name].append(done)
                _compare(ran[size, ours.name][-1], ran[size, theirs.name][-1], ours, theirs)
    return _rows(sizes, ran, ours, theirs)


def _words(done: Ran) -> str:
    return f"{done.seconds:.1f} s ({done.cpu_seconds:.1f} s of processors), {done.peak_bytes >> 20:,} MiB at most"


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
        with _watched(process.pid) as used:
            printed, _ = process.communicate()
        seconds = time.perf_counter() - began
        if process.returncode:
            errors.seek(0)
            raise RunFailed(f"{' '.join(command)} failed: {errors.read().decode(errors='replace')[-2000:]}")
    return Ran(seconds, used.cpu_seconds, used.peak_bytes, msgspec.json.decode(printed))


# -- memory and processor time -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Used:
    """What a process and all below it used up to the last look; nothing where there is no /proc."""

    cpu_seconds: float = 0.0
    peak_bytes: int = 0


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[_Used]:
    used = _Used()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_SAMPLE_S):
            tree = list(_tree(pid))
            used.peak_bytes = max(used.peak_bytes, sum(map(_held, tree)))
            used.cpu_seconds = max(used.cpu_seconds, sum(map(_worked, tree)))

    thread = threading.Thread(target=watch, name="used")
    thread.start()
    try:
        yield used
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


def _worked(pid: int) -> float:
    """Return a process's seconds of processor time, with those of its children that are gone."""
    with contextlib.suppress(OSError):
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


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
    rows: list[Row] = []
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
                        "cpu seconds": median(done.cpu_seconds for done in own),
                        "peak MiB": max(done.peak_bytes for done in own) / (1 << 20),
                    },
                )
            )
    grown = [_growth(sizes, ran, each, AIM_GROWTH if each is ours else None) for each in (ours, theirs)]
    return rows + [row for row in grown if row is not None]


def _growth(
    sizes: Sequence[int], ran: dict[tuple[int, str], list[Ran]], contender: Contender, aim: float | None
) -> Row | None:
    """Return what a million further rows cost between the two greatest sizes, to that between the two least.

    Starting takes the same time at all sizes and is in none of the two. Needs three sizes.
    """
    if len(sizes) < 3:
        return None
    ordered = sorted(sizes)
    runs = [ran[size, contender.name] for size in ordered]
    steps = [_further([[done.seconds for done in each] for each in runs], ordered, at) for at in (0, -1)]
    worked = [spread(_further([[done.cpu_seconds for done in each] for each in runs], ordered, at)) for at in (0, -1)]
    ratio = paired(steps[1], steps[0])
    return Row(
        workload=f"growth from {ordered[0]:,} to {ordered[-1]:,} rows",
        name=contender.name,
        unit="s for a further million rows",
        value=spread(steps[1]),
        ratio=ratio,
        yardstick=f"of that at {ordered[0]:,}",
        aim=f"<= {aim}" if aim is not None else "",
        reached=ratio.median <= aim if aim is not None else None,
        more={
            "cpu s for a further million": worked[1].median,
            f"cpu s of that at {ordered[0]:,}": worked[0].median,
        },
    )


def _further(seconds: list[list[float]], sizes: Sequence[int], at: int) -> list[float]:
    """Return what a million further rows cost in each repeat, at a step between two sizes that follow each other."""
    (less, more), (before, size) = list(itertools.pairwise(seconds))[at], list(itertools.pairwise(sizes))[at]
    return [(much - little) / (size - before) * 1e6 for little, much in zip(less, more, strict=True)]
