"""One process of a run: ``python -m inorder_bench.role JOB``.

It connects and says so, waits for a line, does its part and prints what it measured, each as one line of JSON. When
whoever started it is gone, so is it.
"""

from __future__ import annotations

import cProfile
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from inorder_bench.job import Answer, Job

Ready = Callable[[], None]


def _ready() -> None:
    """Say that everything is connected, and wait for the start."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Run the job given as the only argument."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    job = msgspec.json.decode(sys.argv[1], type=Job)
    work: Callable[[Job, Ready], Answer] = getattr(importlib.import_module(job.client), job.role)
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
