"""Runs chaos from the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys

from tests.chaos import __doc__ as what
from tests.chaos.plan import KINDS
from tests.chaos.planted import BUGS
from tests.chaos.report import to_json, to_text
from tests.chaos.run import Result, run
from tests.chaos.site import Options


def main() -> int:
    """Run; 1 if a run broke a rule, or did not come to its end."""
    defaults = Options()
    parser = argparse.ArgumentParser(
        "python -m tests.chaos", description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="how long faults come (%(default)g)")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="of the plan (%(default)d)")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default=defaults.store)
    parser.add_argument("--writers", type=int, default=defaults.writers)
    parser.add_argument("--readers", type=int, default=defaults.readers)
    parser.add_argument("--durables", type=int, default=defaults.durables, help="durable subscribers (%(default)d)")
    parser.add_argument("--pause", type=float, default=defaults.pause, help="s between two faults (%(default)g)")
    parser.add_argument("--pace", type=float, default=defaults.pace, help="s between two publishes (%(default)g)")
    parser.add_argument("--patience", type=float, default=defaults.patience, help="s for all to converge (%(default)g)")
    parser.add_argument(
        "--only", action="append", choices=sorted(KINDS), default=[], help="a kind of fault; again for more"
    )
    parser.add_argument("--log", action="store_true", help="topics have event logs: nothing may be lost")
    parser.add_argument("--planted", choices=BUGS, default="", metavar="BUG", help=f"one of {', '.join(BUGS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = vars(parser.parse_args())
    as_json, given["only"] = given.pop("json"), frozenset(given["only"])
    logging.basicConfig(level=logging.ERROR)
    report = to_json(asyncio.run(_run_until_signal(Options(**given))))
    print(json.dumps(report) if as_json else to_text(report))  # noqa: T201
    return 1 if report["violations"] or report["stuck"] else 0


async def _run_until_signal(options: Options) -> Result:
    """Run; end what was started when we are told to end."""
    task = asyncio.ensure_future(run(options))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


if __name__ == "__main__":
    sys.exit(main())
