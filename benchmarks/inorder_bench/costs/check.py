"""``python -m inorder_bench.costs.check [NAME ...] [--update]``: has a hot path become dearer than it was?

Counted are instructions, by valgrind: whatever else the machine does, they are the same, to a fraction of a per cent.
An event's share is what twice as many events cost more, so that neither the interpreter's start nor the set-up is in
it. They depend on the version of Python and of msgspec, so the baseline names both; another pair needs its own.
"""

from __future__ import annotations

import argparse
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import msgspec

from inorder_bench.costs.hot_paths import FRAME, HOT_PATHS
from inorder_bench.costs.valgrind import instructions, look

BASELINE = Path(__file__).parent / "baseline.json"
EVENTS = 8 * FRAME
TOLERANCE = 0.05
"""What an event may cost more, as a share: less than any mistake worth finding, more than a new build of libc makes."""

Costs = dict[str, int]
"""Instructions for each event, by hot path."""


def measure(name: str) -> int:
    """Return the instructions that one more event costs on a hot path."""
    return round((_count(name, 2 * EVENTS) - _count(name, EVENTS)) / EVENTS)


def _count(name: str, events: int) -> int:
    return instructions("inorder_bench.costs.hot_paths", name, str(events))


def compare(costs: Costs, baseline: Costs, tolerance: float = TOLERANCE) -> list[str]:
    """Return what is wrong, a line each: paths that became dearer, and those that the baseline does not know."""
    wrong = []
    for name, cost in costs.items():
        before = baseline.get(name)
        if before is None:
            wrong.append(f"{name}: {cost:,} instructions an event, not in the baseline")
        elif cost > before * (1 + tolerance):
            wrong.append(f"{name}: {cost:,} instructions an event instead of {before:,}, {cost / before - 1:+.1%}")
    return wrong


def interpreter() -> str:
    """Return what the counts depend on."""
    major, minor, _ = platform.python_version_tuple()
    return f"{platform.machine()}, Python {major}.{minor}, msgspec {version('msgspec')}"


def main() -> None:
    """Compare with the baseline, or make this one the baseline."""
    parser = argparse.ArgumentParser(prog="python -m inorder_bench.costs.check", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(HOT_PATHS)}; default: all")
    parser.add_argument("--update", action="store_true", help="take what is counted as the baseline")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in HOT_PATHS]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(HOT_PATHS)}")
    look()
    names = options.names or list(HOT_PATHS)
    baselines = msgspec.json.decode(BASELINE.read_bytes(), type=dict[str, Costs]) if BASELINE.exists() else {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        costs = dict(zip(names, pool.map(measure, names), strict=True))
    known = baselines.get(interpreter(), {})
    for name, cost in costs.items():
        change = f"{cost / known[name] - 1:+.1%}" if name in known else "new"
        print(f"{name:14} {cost:>8,} instructions an event  {change}")
    if options.update:
        baselines[interpreter()] = (known if options.names else {}) | costs
        BASELINE.write_bytes(msgspec.json.format(msgspec.json.encode(baselines, order="sorted"), indent=2) + b"\n")
        return
    if not known:
        raise SystemExit(f"no baseline for {interpreter()}; with --update this run becomes it")
    if wrong := compare(costs, known):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
