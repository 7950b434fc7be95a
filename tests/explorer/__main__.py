"""Explore a configuration.

python -m tests.explorer --config r2-belt [--max-states 1000000] [--without belt] [--json]
python -m tests.explorer --random 100 [--seed 1] [--max-states 5000]
"""

from __future__ import annotations

import argparse
import json
import sys

import pytest
from tests.core.without import RULES
from tests.explorer.configs import CONFIGS, random_config
from tests.explorer.search import explore


def main() -> int:
    """Explore from the command line; the exit code is 1 if something is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.explorer", description="Explore a configuration.")
    parser.add_argument("--config", choices=[*CONFIGS, "all"], default="all", help="which one (default: all)")
    parser.add_argument("--random", type=int, metavar="N", help="explore N configurations made by chance instead")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first of them (default: 1)")
    parser.add_argument("--max-states", type=int, default=1_000_000, help="stop after as many (default: 1,000,000)")
    parser.add_argument("--without", choices=RULES, help="remove a rule of the core first")
    parser.add_argument("--every-move", action="store_true", help="leave out nothing (no partial-order reduction)")
    parser.add_argument("--json", action="store_true", help="one JSON object a configuration")
    options = parser.parse_args()
    broken = False
    with pytest.MonkeyPatch.context() as patch:
        if options.without:
            RULES[options.without](patch)
        configs = {name: each for name, each in CONFIGS.items() if options.config in (name, "all")}
        if options.random is not None:
            configs = {
                f"seed {seed}": random_config(seed) for seed in range(options.seed, options.seed + options.random)
            }
        for name, config in configs.items():
            found = explore(config, options.max_states, reduced=not options.every_move)
            broken = broken or bool(found.violations)
            text = json.dumps({"config": name, **found.facts()}) if options.json else f"{name}: {found}"
            print(text, flush=True)  # noqa: T201
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
