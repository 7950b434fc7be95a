"""Runs seeds from the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.simulation import __doc__ as what
from tests.simulation.minimise import minimise, to_json
from tests.simulation.profiles import PROFILES
from tests.simulation.runner import Case, run_all


def main() -> int:
    """Run; 1 if a run broke a rule."""
    parser = argparse.ArgumentParser(
        "python -m tests.simulation", description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1000, help="how many seeds from there")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="", help="what runs are full of (all in turn)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    began = time.perf_counter()
    failed, counts = run_all(Case.of(options.seed + at, options.profile) for at in range(options.runs))
    report = {
        "runs": options.runs,
        "violations": sum(len(each.violations) for each in failed),
        "first": options.seed,
        "seeds": [each.case.seed for each in failed],
        "exercised": dict(sorted(counts.items())),
        "smallest": to_json(min(map(minimise, failed[:3]), key=lambda each: each.case.length())) if failed else None,
        "seconds": round(time.perf_counter() - began, 1),
    }
    if options.json:
        print(json.dumps(report))  # noqa: T201
    else:
        for result in failed:
            print(f"seed {result.case.seed} ({result.case.profile.name}):", *result.violations[:3], sep="\n  ")  # noqa: T201
        print(*(f"{name}: {value}" for name, value in report.items() if name != "seeds"), sep="\n")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
