"""One process of a run: ``python -m benchmarks.role JOB``.

It connects and says so, waits for a line, does its part and prints what it measured, each as one line of JSON.
"""

from __future__ import annotations

import cProfile
import importlib
import sys
from collections.abc import Callable

import msgspec

from benchmarks.job import Answer, Job

ROLES = {
    "inorder": "benchmarks.clients.ordered",
    "paho threads": "benchmarks.clients.paho_threads",
    "paho direct": "benchmarks.clients.paho_direct",
    "redis-py pipelines": "benchmarks.clients.redis_pipelines",
    "redis-py tasks": "benchmarks.clients.redis_tasks",
}
"""The module of each client; it has the functions ``publish`` and ``receive``."""

Ready = Callable[[], None]


def _ready() -> None:
    """Say that everything is connected, and wait for the start."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main() -> None:
    """Run the job given as the only argument."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    module = importlib.import_module(ROLES[job.client])
    work: Callable[[Job, Ready], Answer] = getattr(module, job.role)
    if job.profile:
        profile = cProfile.Profile()
        answer = profile.runcall(work, job, _ready)
        profile.dump_stats(job.profile)
    else:
        answer = work(job, _ready)
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
